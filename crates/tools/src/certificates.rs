//! The certificate authorities that this machine trusts: read when they are first needed, and kept.
//!
//! A client that is made later needs no file descriptors for them. Authorities that could not all be read for want of
//! descriptors are not kept: connections would fail long after there are descriptors again.

use std::fmt::Write as _;
use std::io;
use std::sync::OnceLock;

use reqwest::{Certificate, ClientBuilder};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use crate::exhaustion::find_shortage_in;

/// The certificates of the machine's authorities; none if it has none. It fails only for want of descriptors or memory.
pub(crate) fn system_certificates() -> io::Result<&'static [CertificateDer<'static>]> {
    static LOADED: OnceLock<Vec<CertificateDer<'static>>> = OnceLock::new();
    if let Some(certificates) = LOADED.get() {
        return Ok(certificates);
    }
    let read = rustls_native_certs::load_native_certs();
    if !read.errors.is_empty() {
        let mut problems = String::new();
        for error in &read.errors {
            let _ = write!(problems, "{error}; ");
        }
        if let Some(shortage) = find_shortage_in(&problems) {
            return Err(shortage);
        }
        tracing::debug!(%problems, "some certificate authorities of this machine cannot be read");
    }
    // Machines have certificates that cannot be parsed, and a client is not made with one of them.
    let mut parsed = RootCertStore::empty();
    let certificates = read.certs.into_iter();
    let certificates = certificates.filter(|certificate| parsed.add(certificate.clone()).is_ok());
    let certificates: Vec<_> = certificates.collect();
    if certificates.is_empty() {
        return Ok(&[]);
    }
    Ok(LOADED.get_or_init(|| certificates))
}

/// Lets a client trust the authorities of this machine, and these.
pub(crate) fn trust(
    builder: ClientBuilder,
    authorities: &[Certificate],
) -> io::Result<ClientBuilder> {
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
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;

    #[test]
    fn certificates_that_were_read_once_need_no_descriptors() {
        let before = getrlimit(Resource::Nofile);
        let none = Rlimit {
            current: Some(0),
            maximum: before.maximum,
        };
        setrlimit(Resource::Nofile, none).unwrap();
        let missing = system_certificates().map(<[_]>::len);
        setrlimit(Resource::Nofile, before).unwrap();
        assert!(missing.is_err(), "{missing:?}");
        let read = system_certificates().unwrap().len();
        assert!(read > 0, "this machine has certificate authorities");
        setrlimit(Resource::Nofile, none).unwrap();
        let kept = system_certificates().map(<[_]>::len);
        setrlimit(Resource::Nofile, before).unwrap();
        assert_eq!(kept.unwrap(), read);
    }
}
