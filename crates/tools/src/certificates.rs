//! The certificate authorities that this machine trusts: read when they are first needed, and kept.
//!
//! A client that is made later needs no file descriptors for them. Authorities that could not all be read for want of
//! descriptors are not kept: connections would fail long after there are descriptors again.

use std::io;
use std::sync::OnceLock;

use reqwest::{Certificate, ClientBuilder};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use crate::exhaustion::find_shortage_in;

type Certificates = Vec<CertificateDer<'static>>;

/// What could be read, and what was wrong with the rest.
struct ReadCertificates {
    certificates: Certificates,
    problems: String,
}

/// The certificates of the machine's authorities; none if it has none. It fails only for want of descriptors or memory.
pub(crate) fn system_certificates() -> io::Result<&'static [CertificateDer<'static>]> {
    static LOADED: OnceLock<Certificates> = OnceLock::new();
    load_once(&LOADED, read_certificates)
}

/// Reads certificates unless they are loaded, and keeps them if they are all that there are.
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
    // Machines have certificates that cannot be parsed, and a client is not made with one of them.
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

/// Lets a client trust the authorities of this machine, and these.
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
    fn certificates_are_read_once_and_kept_only_if_none_is_missing() {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
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
