//! Encrypted connections with rustls and ring, verified according to `sslmode`.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::target::{ConnectTarget, TargetError, TlsTrust};

/// Loads the certificate authorities that the machine trusts.
pub type SystemRoots = fn() -> io::Result<Vec<CertificateDer<'static>>>;

/// Creates the TLS connector, which verifies certificates as the target requires.
pub(crate) fn make_tls_connect(
    target: &ConnectTarget,
    system_roots: SystemRoots,
) -> Result<MakeRustlsConnect, TargetError> {
    let unusable = |error: &dyn std::fmt::Display| TargetError::UnusableRoots(error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let authority = match target.trust {
        TlsTrust::Any => None,
        TlsTrust::Authority | TlsTrust::Full => {
            let roots = Arc::new(load_roots(target.roots.as_deref(), system_roots)?);
            let builder = WebPkiServerVerifier::builder_with_provider(roots, provider.clone());
            Some(builder.build().map_err(|error| unusable(&error))?)
        }
    };
    let verifier = CertificateVerifier {
        provider: provider.clone(),
        authority,
        checks_name: target.trust == TlsTrust::Full,
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// The trusted authorities: those of the given file, or of the machine.
fn load_roots(file: Option<&Path>, system_roots: SystemRoots) -> Result<RootCertStore, TargetError> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = file {
        let unreadable = |error: &dyn std::fmt::Display| TargetError::UnreadableRoots {
            file: file.to_owned(),
            problem: error.to_string(),
        };
        let text = std::fs::read(file).map_err(|error| unreadable(&error))?;
        for certificate in CertificateDer::pem_slice_iter(&text) {
            let certificate = certificate.map_err(|error| unreadable(&error))?;
            roots.add(certificate).map_err(|error| unreadable(&error))?;
        }
    } else {
        let certificates = system_roots();
        let certificates = certificates.map_err(|error| TargetError::UnusableRoots(error.to_string()))?;
        roots.add_parsable_certificates(certificates);
    }
    if roots.is_empty() {
        return Err(TargetError::NoRoots);
    }
    Ok(roots)
}

/// Verifies a certificate as configured, and always the handshake signature.
#[derive(Debug)]
struct CertificateVerifier {
    provider: Arc<CryptoProvider>,
    /// Verifies the certificate chain; `None` accepts any certificate.
    authority: Option<Arc<WebPkiServerVerifier>>,
    checks_name: bool,
}

impl CertificateVerifier {
    fn algorithms(&self) -> &WebPkiSupportedAlgorithms {
        &self.provider.signature_verification_algorithms
    }
}

impl ServerCertVerifier for CertificateVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        let Some(authority) = &self.authority else {
            return Ok(ServerCertVerified::assertion());
        };
        match authority.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }))
                if !self.checks_name =>
            {
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, self.algorithms())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, self.algorithms())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms().supported_schemes()
    }
}
