//! Storage options of a task: result store and compression.

use model::id::Name;
use model::playbook::ResultControl;

/// Where and how to store a body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wish {
    /// Result store.
    pub kind: Kind,
    /// Compression.
    pub compression: Packing,
}

/// A result store, as tasks name it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
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
pub enum Packing {
    /// Compress if that saves space.
    #[default]
    Auto,
    /// Do not compress.
    Plain,
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

impl Wish {
    /// Reads the options of `task.spec.result`. `auto`, `inline` and unknown stores become `Kind::Auto`.
    pub fn of(control: &ResultControl) -> Self {
        let kind = control
            .store
            .as_ref()
            .map(|store| Kind::named(store.as_str()));
        let compression = match control.compression.as_ref().map(Name::as_str) {
            Some("none") => Packing::Plain,
            Some(name) => Codec::named(name).map_or(Packing::Auto, Packing::With),
            None => Packing::Auto,
        };
        Self {
            kind: kind.flatten().unwrap_or_default(),
            compression,
        }
    }
}

impl Kind {
    /// All stores that can be named, with their names in references.
    pub(crate) const NAMED: [(Self, &'static str); 7] = [
        (Self::Disk, "disk"),
        (Self::Postgres, "postgres"),
        (Self::NatsKv, "nats_kv"),
        (Self::NatsObject, "nats_object"),
        (Self::S3, "s3"),
        (Self::Gcs, "gcs"),
        (Self::Pvc, "pvc"),
    ];

    /// Returns the store with this name.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::NAMED.into_iter();
        all.find(|(_, known)| *known == name).map(|(kind, _)| kind)
    }

    /// Name of the store.
    pub fn name(self) -> &'static str {
        let mut all = Self::NAMED.into_iter();
        all.find(|(kind, _)| *kind == self)
            .map_or("auto", |(_, name)| name)
    }
}

impl Codec {
    /// Returns the codec with this name.
    pub fn named(name: &str) -> Option<Self> {
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

    fn wish(store: Option<&str>, compression: Option<&str>) -> Wish {
        Wish::of(&ResultControl {
            store: store.map(Into::into),
            compression: compression.map(Into::into),
            ..ResultControl::default()
        })
    }

    #[test]
    fn a_task_that_says_nothing_leaves_it_to_the_size() {
        assert_eq!(wish(None, None), Wish::default());
        assert_eq!(wish(Some("auto"), Some("auto")), Wish::default());
        assert_eq!(wish(Some("inline"), None).kind, Kind::Auto);
    }

    #[test]
    fn every_store_has_one_name() {
        for (kind, name) in Kind::NAMED {
            assert_eq!(Kind::named(name), Some(kind));
            assert_eq!(kind.name(), name);
            assert_eq!(wish(Some(name), Some("none")).kind, kind);
        }
        let gzip = Packing::With(Codec::Gzip);
        assert_eq!(wish(None, Some("gzip")).compression, gzip);
    }
}
