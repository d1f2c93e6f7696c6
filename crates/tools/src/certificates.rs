//! Certificate authorities of this machine, read on first use and cached.
//!
//! Clients created later need no file descriptors for them. An incomplete list, caused by a lack of descriptors, is not
//! cached: connections would keep failing after descriptors are available again.

use std::io;
use std::sync::OnceLock;

use reqwest::{Certificate, ClientBuilder};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use crate::exhaustion::find_shortage_in;

type Certificates = Vec<CertificateDer<'static>>;

/// Certificates that were read, and errors of the others.
struct ReadCertificates {
    certificates: Certificates,
    problems: String,
}

/// Certificates of this machine's authorities; may be empty. Fails only if descriptors or memory are exhausted.
pub(crate) fn system_certificates() -> io::Result<&'static [CertificateDer<'static>]> {
    static LOADED: OnceLock<Certificates> = OnceLock::new();
    load_once(&LOADED, read_certificates)
}

/// Returns the cached certificates, or reads them and caches a complete list.
fn load_once(
    loaded: &OnceLock<Certificates>,
    read: impl FnOnce() -> ReadCertificates,
) -> io::Result<&[CertificateDer<'static>]> {
    if let Some(certificates) = loaded.get() {
        return Ok(certificates);
    }
    let ReadCertificates { certificates, problems } = read();
    if !problems.is_empty() {
        if let Some(shortage) = find_shortage_in(&problems) {
            return Err(shortage);
        }
        tracing::debug!(%problems, "some certificate authorities of this machine cannot be read");
    }
    // Leave out invalid certificates, because a client cannot be created with one of them.
    let mut parsed = RootCertStore::empty();
    let certificates = certificates.into_iter();
    let certificates = certificates.filter(|certificate| parsed.add(certificate.clone()).is_ok());
    let certificates: Certificates = certificates.collect();
    if certificates.is_empty() {
        return Ok(&[]);
    }
    Ok(loaded.get_or_init(|| certificates))
}

fn read_certificates() -> ReadCertificates {
    let read = rustls_native_certs::load_native_certs();
    let problems = read.errors.iter();
    let problems: Vec<String> = problems.map(ToString::to_string).collect();
    ReadCertificates {
        certificates: read.certs,
        problems: problems.join("; "),
    }
}

/// Makes a client trust this machine's authorities and `authorities`.
pub(crate) fn trust(builder: ClientBuilder, authorities: &[Certificate]) -> io::Result<ClientBuilder> {
    let authorities = authorities.iter().cloned();
    // Apple's systems verify certificates themselves.
    let certificates = if cfg!(target_vendor = "apple") {
        &[]
    } else {
        system_certificates()?
    };
    if certificates.is_empty() {
        return Ok(builder.tls_certs_merge(authorities));
    }
    let certificates = certificates
        .iter()
        .filter_map(|certificate| Certificate::from_der(certificate).ok());
    Ok(builder.tls_certs_only(certificates.chain(authorities)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_read_once_and_cached_only_if_complete() {
        let generated = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let certificate = generated.cert.der().clone();
        let loaded = OnceLock::new();
        let partly = || ReadCertificates {
            certificates: vec![certificate.clone()],
            problems: "cannot read /etc/ssl/certs: Too many open files (os error 24)".to_owned(),
        };
        assert!(load_once(&loaded, partly).is_err());
        assert!(loaded.get().is_none());
        let whole = || ReadCertificates {
            certificates: vec![certificate.clone(), vec![0].into()],
            problems: "/etc/ssl/certs/odd: no certificate".to_owned(),
        };
        assert_eq!(load_once(&loaded, whole).unwrap().len(), 1);
        let again = load_once(&loaded, || panic!("they are not read again"));
        assert_eq!(again.unwrap().len(), 1);
    }
}
