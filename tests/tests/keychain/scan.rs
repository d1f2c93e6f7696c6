//! Scanner: searches for a secret in every encoding.

use std::fs;
use std::path::Path;

/// A text with some of its letters encoded in another way.
fn escape_text(text: &str, stays: impl Fn(char) -> bool, escape: impl Fn(char) -> String) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if stays(c) {
            out.push(c);
        } else {
            out.push_str(&escape(c));
        }
    }
    out
}

fn percent_escape(c: char) -> String {
    let mut out = String::new();
    for byte in c.to_string().bytes() {
        out.push_str(&format!("%{byte:02X}"));
    }
    out
}

/// The encodings of a secret, each with its name. They are computed here, independent of the code that masks them.
pub(crate) fn secret_forms(secret: &str) -> Vec<(&'static str, Vec<u8>)> {
    let bytes = secret.as_bytes();
    let quoted = serde_json::Value::from(secret).to_string();
    let quoted = &quoted[1..quoted.len() - 1];
    let ascii = escape_text(quoted, |c| c.is_ascii(), |c| format!("\\u{:04x}", u32::from(c)));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
    let all_percent = escape_text(secret, is_plain, percent_escape);
    let in_url = |c: char| c.is_ascii() && !" \"<>#'".contains(c);
    let mut all = vec![
        ("raw", bytes.to_vec()),
        ("url", escape_text(secret, in_url, percent_escape).into_bytes()),
        ("json", quoted.as_bytes().to_vec()),
        ("ascii json", ascii.into_bytes()),
        ("percent", all_percent.clone().into_bytes()),
        ("percent, lower", all_percent.to_ascii_lowercase().into_bytes()),
        ("hex", hex::encode(bytes).into_bytes()),
        ("hex, upper", hex::encode_upper(bytes).into_bytes()),
    ];
    for shift in 0..3 {
        let inner = base64(&[&vec![0; shift], bytes].concat());
        let (from, to) = ((shift * 8).div_ceil(6), (shift + bytes.len()) * 8 / 6);
        all.push(("base64", inner.as_bytes()[from..to].to_vec()));
        let safe = inner.replace('+', "-").replace('/', "_");
        all.push(("base64, url-safe", safe.as_bytes()[from..to].to_vec()));
    }
    all
}

/// Base64 without padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - group.len()));
        for digit in 0..=group.len() {
            let at = bits >> (18 - 6 * digit) & 63;
            out.push(char::from(LETTERS[at as usize]));
        }
    }
    out
}

/// The encodings of a secret that some bytes contain.
pub(crate) fn find_hits(bytes: &[u8], secret: &str) -> Vec<&'static str> {
    let is_in = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    let hits = secret_forms(secret).into_iter().filter(|(_, needle)| is_in(needle));
    hits.map(|(name, _)| name).collect()
}

/// Every file of a directory tree that contains a secret.
pub(crate) fn find_hits_below(folder: &Path, secret: &str) -> Vec<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(find_hits_below(&path, secret));
        } else if let Ok(bytes) = fs::read(&path) {
            let hits = find_hits(&bytes, secret);
            if !hits.is_empty() {
                files.push(format!("{}: {hits:?}", path.display()));
            }
        }
    }
    files
}

#[test]
fn the_scanner_finds_what_is_planted_in_every_form() {
    let secret = super::canary::SECRET;
    let folder = tempfile::tempdir().unwrap();
    for (name, needle) in secret_forms(secret) {
        let planted = [b"before ".as_slice(), &needle, b" after"].concat();
        assert!(find_hits(&planted, secret).contains(&name), "{name}");
        fs::write(folder.path().join("planted"), planted).unwrap();
        assert_eq!(find_hits_below(folder.path(), secret).len(), 1, "{name}");
    }
    for before in ["", "a", "ab", "abc"] {
        let encoded = base64(format!("{before}{secret}z").as_bytes());
        assert!(!find_hits(encoded.as_bytes(), secret).is_empty(), "{before}");
    }
    assert!(find_hits(b"nothing to see", secret).is_empty());
}
