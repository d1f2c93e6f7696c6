//! Storage options of a task: result store and compression.

use model::id::Name;
use model::playbook::ResultControl;

/// Where and how to store a body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StorageOptions {
    /// Result store.
    pub kind: StoreKind,
    /// Compression.
    pub compression: Compression,
}

/// A result store, as tasks name it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreKind {
    /// Chosen by size.
    #[default]
    Auto,
    /// The cloud bucket behind this process's cache, or the server's own store.
    Disk,
    /// The server's own store, which must be Postgres.
    Postgres,
    /// A NATS key-value bucket.
    NatsKv,
    /// A NATS object bucket.
    NatsObject,
    /// An S3 bucket, or a bucket of a compatible service.
    S3,
    /// A Google Cloud Storage bucket.
    Gcs,
    /// A directory that all processes share.
    Pvc,
}

/// Compression of a body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Compression {
    /// Compress if that saves space.
    #[default]
    Auto,
    /// Do not compress.
    Uncompressed,
    /// Always compress with this codec.
    With(Codec),
}

/// Compression codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Zstandard: fast, with a good ratio.
    Zstd,
    /// Gzip: supported by most programs.
    Gzip,
}

impl StorageOptions {
    /// Reads the options of `task.spec.result`. `auto`, `inline` and unknown stores become `StoreKind::Auto`.
    pub fn from_control(control: &ResultControl) -> Self {
        let kind = control.store.as_ref().map(|store| StoreKind::from_name(store.as_str()));
        let compression = match control.compression.as_ref().map(Name::as_str) {
            Some("none") => Compression::Uncompressed,
            Some(name) => Codec::from_name(name).map_or(Compression::Auto, Compression::With),
            None => Compression::Auto,
        };
        Self {
            kind: kind.flatten().unwrap_or_default(),
            compression,
        }
    }
}

impl StoreKind {
    /// All stores that can be named, with their names in references.
    pub(crate) const NAMES: [(Self, &'static str); 7] = [
        (Self::Disk, "disk"),
        (Self::Postgres, "postgres"),
        (Self::NatsKv, "nats_kv"),
        (Self::NatsObject, "nats_object"),
        (Self::S3, "s3"),
        (Self::Gcs, "gcs"),
        (Self::Pvc, "pvc"),
    ];

    /// Returns the store with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        let mut kinds = Self::NAMES.into_iter();
        kinds.find(|(_, kind_name)| *kind_name == name).map(|(kind, _)| kind)
    }

    /// Name of the store.
    pub fn name(self) -> &'static str {
        let mut kinds = Self::NAMES.into_iter();
        kinds.find(|(kind, _)| *kind == self).map_or("auto", |(_, name)| name)
    }
}

impl Codec {
    /// Returns the codec with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "zstd" => Some(Self::Zstd),
            "gzip" => Some(Self::Gzip),
            _ => None,
        }
    }

    /// Name of the codec.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(store: Option<&str>, compression: Option<&str>) -> StorageOptions {
        StorageOptions::from_control(&ResultControl {
            store: store.map(Into::into),
            compression: compression.map(Into::into),
            ..ResultControl::default()
        })
    }

    #[test]
    fn without_settings_the_size_decides_the_store() {
        assert_eq!(options(None, None), StorageOptions::default());
        assert_eq!(options(Some("auto"), Some("auto")), StorageOptions::default());
        assert_eq!(options(Some("inline"), None).kind, StoreKind::Auto);
    }

    #[test]
    fn every_store_has_one_name() {
        for (kind, name) in StoreKind::NAMES {
            assert_eq!(StoreKind::from_name(name), Some(kind));
            assert_eq!(kind.name(), name);
            assert_eq!(options(Some(name), Some("none")).kind, kind);
        }
        let gzip = Compression::With(Codec::Gzip);
        assert_eq!(options(None, Some("gzip")).compression, gzip);
    }
}
