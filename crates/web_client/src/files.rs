//! The embedded files, and the page that starts the client.

use std::io::Read as _;

use flate2::read::GzDecoder;

/// A file of the client.
#[derive(Debug)]
pub struct File {
    /// Path below the root of the client, such as `assets/index-3f2a.js`.
    path: &'static str,
    /// Its bytes, compressed with gzip.
    gzip: &'static [u8],
}

/// The embedded client.
#[derive(Debug, Clone, Copy)]
pub struct Client(&'static [File]);

/// Returns the embedded client, or why this binary has none.
pub fn client() -> Result<Client, &'static str> {
    FILES.map(Client)
}

static FILES: Result<&[File], &str> = include!(concat!(env!("OUT_DIR"), "/files.rs"));

impl Client {
    /// The file at a path below the root of the client.
    pub fn file(self, path: &str) -> Option<&'static File> {
        self.0.iter().find(|file| file.path == path)
    }

    /// The page that starts the client, for the path of a request below the root.
    ///
    /// The page refers to its files relative to the root. The root is unknown behind a proxy with a path prefix, but the
    /// browser can compute it from the depth of the requested path.
    pub fn page(self, request_path: &str) -> String {
        let index = self.file("index.html").expect("the build script requires index.html");
        let text = String::from_utf8_lossy(&index.bytes()).into_owned();
        let depth = request_path.trim_start_matches('/').matches('/').count();
        let root = if depth == 0 {
            "./".to_owned()
        } else {
            "../".repeat(depth)
        };
        text.replacen("<head>", &format!("<head><base href=\"{root}\">"), 1)
    }
}

impl File {
    /// Its bytes, compressed with gzip.
    pub fn gzip(&self) -> &'static [u8] {
        self.gzip
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let read = GzDecoder::new(self.gzip).read_to_end(&mut bytes);
        read.expect("the build script compressed the file");
        bytes
    }

    /// Its media type.
    pub fn content_type(&self) -> &'static str {
        let extension = self.path.rsplit_once('.').map_or("", |(_, extension)| extension);
        match extension {
            "html" => "text/html; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "svg" => "image/svg+xml",
            "png" => "image/png",
            "woff2" => "font/woff2",
            "json" | "webmanifest" => "application/json",
            "txt" => "text/plain; charset=utf-8",
            _ => "application/octet-stream",
        }
    }

    /// Whether its name contains a hash of its content, so that it never changes.
    pub fn is_immutable(&self) -> bool {
        self.path.starts_with("assets/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &[File] = &[File {
        path: "index.html",
        // `<head></head>`
        gzip: &[
            31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 179, 201, 72, 77, 76, 177, 179, 209, 7, 83, 0, 20, 157, 225, 135, 13, 0,
            0, 0,
        ],
    }];

    #[test]
    fn a_page_refers_to_the_root_at_every_depth() {
        let page = |path| Client(FILES).page(path);
        assert_eq!(page("/"), "<head><base href=\"./\"></head>");
        assert_eq!(page("/runs"), "<head><base href=\"./\"></head>");
        assert_eq!(page("/runs/7"), "<head><base href=\"../\"></head>");
        assert_eq!(page("/runs/7/events"), "<head><base href=\"../../\"></head>");
    }

    #[test]
    fn only_files_with_a_hash_never_change() {
        let file = |path| File { path, gzip: &[] };
        assert!(file("assets/index-3f2a.js").is_immutable());
        assert!(!file("index.html").is_immutable());
        assert_eq!(
            file("assets/index-3f2a.js").content_type(),
            "text/javascript; charset=utf-8"
        );
    }
}
