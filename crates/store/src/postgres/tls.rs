//! Encrypted connections with rustls and ring, verified according to `sslmode`.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::Error;
use crate::postgres::options::{ConnectTarget, TlsTrust};

/// Creates the TLS connector, which verifies certificates as the target requires.
pub(super) fn make_tls_connect(target: &ConnectTarget) -> Result<MakeRustlsConnect, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let authority = match target.trust {
        TlsTrust::Any => None,
        TlsTrust::Authority | TlsTrust::Full => {
            let roots = Arc::new(load_roots(target)?);
            let built = WebPkiServerVerifier::builder_with_provider(roots, provider.clone());
            let unusable = |error| Error::Address(format!("invalid `sslrootcert`: {error}"));
            Some(built.build().map_err(unusable)?)
        }
    };
    let verifier = CertificateVerifier {
        provider: provider.clone(),
        authority,
        checks_host_name: target.trust == TlsTrust::Full,
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Unavailable(error.into()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// The trusted authorities: those of the given file, or of the machine.
fn load_roots(target: &ConnectTarget) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = &target.root_certificates {
        let unreadable = |error: &dyn std::fmt::Display| {
            Error::Address(format!(
                "cannot read `sslrootcert` {}: {error}",
                file.display()
            ))
        };
        let text = std::fs::read(file).map_err(|error| unreadable(&error))?;
        for certificate in CertificateDer::pem_slice_iter(&text) {
            let certificate = certificate.map_err(|error| unreadable(&error))?;
            roots.add(certificate).map_err(|error| unreadable(&error))?;
        }
    } else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if roots.is_empty() {
        return Err(Error::Address(
            "no certificate authority found; set a file with `sslrootcert=`".to_owned(),
        ));
    }
    Ok(roots)
}

/// Verifies a certificate as configured, and always the handshake signature.
#[derive(Debug)]
struct CertificateVerifier {
    provider: Arc<CryptoProvider>,
    /// Verifies the certificate chain; `None` accepts any certificate.
    authority: Option<Arc<WebPkiServerVerifier>>,
    checks_host_name: bool,
}

impl ServerCertVerifier for CertificateVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        let Some(authority) = &self.authority else {
            return Ok(ServerCertVerified::assertion());
        };
        match authority.verify_server_cert(certificate, between, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(
                NotValidForName | NotValidForNameContext { .. },
            )) if !self.checks_host_name => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let known = &self.provider.signature_verification_algorithms;
        known.supported_schemes()
    }
}
