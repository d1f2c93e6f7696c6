//! What a task wishes for its body: which store, and how it is compressed.

use model::id::Name;
use model::playbook::ResultControl;

/// Where and how a body is to be stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wish {
    /// The store.
    pub kind: Kind,
    /// The compression.
    pub compression: Packing,
}

/// A store, as tasks name it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Whatever suits its size.
    #[default]
    Auto,
    /// The cloud tier behind this process's cache, or the server's own store.
    Disk,
    /// The server's own store, which must be Postgres.
    Postgres,
    /// A NATS key-value bucket.
    NatsKv,
    /// A NATS object bucket.
    NatsObject,
    /// A bucket of S3, or of something that speaks its language.
    S3,
    /// A bucket of Google Cloud Storage.
    Gcs,
    /// A directory that all processes share.
    Pvc,
}

/// How a body is to be compressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Packing {
    /// As it pays.
    #[default]
    Auto,
    /// Not at all.
    Plain,
    /// With this, whether or not it pays.
    With(Codec),
}

/// A way to compress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Quick, and small enough.
    Zstd,
    /// What every other program can read.
    Gzip,
}

impl Wish {
    /// What `task.spec.result` says. What cannot stay inline goes where `auto` sends it.
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
    /// Every store that can be named, with its name in references.
    pub(crate) const NAMED: [(Self, &'static str); 7] = [
        (Self::Disk, "disk"),
        (Self::Postgres, "postgres"),
        (Self::NatsKv, "nats_kv"),
        (Self::NatsObject, "nats_object"),
        (Self::S3, "s3"),
        (Self::Gcs, "gcs"),
        (Self::Pvc, "pvc"),
    ];

    /// The store of this name.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::NAMED.into_iter();
        all.find(|(_, known)| *known == name).map(|(kind, _)| kind)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        let mut all = Self::NAMED.into_iter();
        all.find(|(kind, _)| *kind == self)
            .map_or("auto", |(_, name)| name)
    }
}

impl Codec {
    /// The way of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "zstd" => Some(Self::Zstd),
            "gzip" => Some(Self::Gzip),
            _ => None,
        }
    }

    /// Its name.
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
