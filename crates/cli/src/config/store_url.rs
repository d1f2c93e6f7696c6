//! Distinguishes store directories from database URLs.

use std::path::Path;

use crate::cli_error::{CliError, Exit};

/// Returns whether a store is a URL. A path that contains `://` has no valid scheme before it.
pub(crate) fn is_store_url(store: &Path) -> bool {
    scheme(store).is_some()
}

fn scheme(store: &Path) -> Option<&str> {
    let (scheme, _) = store.to_str()?.split_once("://")?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c));
    is_scheme.then_some(scheme)
}

/// Checks that a store is a directory or a Postgres URL.
pub(super) fn check_store(store: &Path) -> Result<(), CliError> {
    match scheme(store) {
        None | Some("postgres" | "postgresql") => Ok(()),
        Some(scheme) => {
            let message = format!("invalid `store`: URL scheme `{scheme}` is not supported");
            Err(CliError::new(Exit::Usage, "CONFIG_INVALID", message)
                .help("set `store` to a directory, or to postgres://HOST/DATABASE"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_scheme_and_a_path_has_none() {
        for url in ["postgres://db/noetl", "postgresql://u:p@db", "mysql://db"] {
            assert!(is_store_url(Path::new(url)), "{url}");
        }
        for path in ["kept", "./odd://name", "/a/b://c", ".noetl", "://x"] {
            assert!(!is_store_url(Path::new(path)), "{path}");
        }
        let refused = check_store(Path::new("mysql://u:secret@db")).unwrap_err();
        assert_eq!(refused.code, "CONFIG_INVALID");
        assert!(!refused.message.contains("secret"), "{}", refused.message);
    }
}
