//! Combines all result stores of a process: stores a body where its task requests it, and reads it where its reference
//! points.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use model::result_ref::ResultRef;
use model::time::Time;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::cache::{Cache, Cached, Tier};
use crate::compress::{self, Packed};
use crate::config::{CloudTier, StoresConfig};
use crate::files::{name, sweep};
use crate::nats::{Connection, KV_BYTES_MAX, Kv, NatsObjects};
use crate::objects::Objects;
use crate::private::make_private_dir;
use crate::space::put_when_free;
use crate::wish::{Codec, Kind, Wish};
use crate::{Bodies, Error, Local, Old, Reading, Source, Stored};

/// The store that every deployment has.
pub enum Home {
    /// The store of this process: the server's directory or database.
    Own(Arc<dyn Bodies>),
    /// The store of a server behind its API; the server also reads stores that this process cannot access.
    Server(Arc<dyn Bodies>),
}

/// All result stores of this process.
pub struct Stores {
    home: Home,
    /// The home store; behind the cache, if the cache belongs to it.
    near_home: Arc<dyn Bodies>,
    /// Store for `disk`.
    disk: Arc<dyn Bodies>,
    named: BTreeMap<Kind, Arc<dyn Bodies>>,
    spills_to: String,
    /// Stores that tasks named although they are not configured; each is logged once.
    missed: Mutex<BTreeSet<Kind>>,
}

impl Home {
    fn bodies(&self) -> &Arc<dyn Bodies> {
        match self {
            Self::Own(bodies) | Self::Server(bodies) => bodies,
        }
    }
}

impl Stores {
    /// Opens the configured stores and the home store. No request is sent yet.
    pub fn open(config: &StoresConfig, home: Home) -> Result<Self, Error> {
        // Bodies are moved from the scratch directory into the cache, so both must be on the same disk.
        let scratch = &match &config.cache {
            Some(cache) => cache.dir.join("new"),
            None => config.scratch.clone(),
        };
        let silence_max = config.silence_max;
        let mut named: BTreeMap<Kind, Arc<dyn Bodies>> = BTreeMap::new();
        let uses_scratch = config.s3.is_some() || config.gcs.is_some() || config.nats.is_some();
        if uses_scratch {
            make_private_dir(scratch).map_err(|error| name(scratch, error))?;
            sweep(scratch);
        }
        let s3 = config.s3.as_ref();
        let s3 = s3.map(|s3| Objects::s3(s3, silence_max, scratch.clone()));
        let gcs = config.gcs.as_ref();
        let gcs = gcs.map(|gcs| Objects::gcs(gcs, silence_max, scratch.clone()));
        let (s3, gcs) = (s3.transpose()?, gcs.transpose()?);
        for (kind, bucket) in [(Kind::S3, &s3), (Kind::Gcs, &gcs)] {
            if let Some(bucket) = bucket {
                named.insert(kind, Arc::new(bucket.clone()));
            }
        }
        if let Some(nats) = &config.nats {
            let connection = Arc::new(Connection::new(nats.clone(), silence_max));
            named.insert(Kind::NatsKv, Arc::new(Kv::new(connection.clone())));
            let objects = NatsObjects::new(connection, scratch.clone());
            named.insert(Kind::NatsObject, Arc::new(objects));
        }
        if let Some(dir) = &config.dir {
            named.insert(Kind::Pvc, Arc::new(Local::shared(dir)?));
        }
        let tier = match config.cloud_tier {
            Some(CloudTier::S3) => Some((Kind::S3, s3.ok_or_else(|| not_configured(Kind::S3))?)),
            Some(CloudTier::Gcs) => {
                Some((Kind::Gcs, gcs.ok_or_else(|| not_configured(Kind::Gcs))?))
            }
            None => None,
        };
        let spill = Spill::new(config, tier, &home)?;
        let near_home = match spill.tier {
            Some(kind) => {
                // Tasks that name the bucket use the same cache.
                named.insert(kind, spill.bodies.clone());
                home.bodies().clone()
            }
            None => spill.bodies.clone(),
        };
        Ok(Self {
            home,
            near_home,
            disk: spill.bodies,
            named,
            spills_to: spill.place,
            missed: Mutex::default(),
        })
    }

    /// Location of bodies whose task names no store, for display.
    pub fn spills_to(&self) -> &str {
        &self.spills_to
    }

    /// Returns the store for a body. If the named store is not configured, returns the default store: the location of
    /// results must not decide whether a playbook runs.
    fn pick(&self, kind: Kind, is_small: bool) -> &Arc<dyn Bodies> {
        match kind {
            Kind::Auto => {
                let kv = self.named.get(&Kind::NatsKv).filter(|_| is_small);
                kv.unwrap_or(&self.disk)
            }
            Kind::Disk => &self.disk,
            Kind::Postgres => self.home.bodies(),
            kind => self.named.get(&kind).unwrap_or_else(|| {
                self.miss(kind);
                self.pick(Kind::Auto, is_small)
            }),
        }
    }

    /// Logs once that a store is not configured.
    fn miss(&self, kind: Kind) {
        let mut missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
        if missed.insert(kind) {
            let (store, remedy) = (kind.name(), remedy(kind));
            tracing::warn!(
                store,
                remedy,
                "store is not configured; using the default store"
            );
        }
    }

    /// Returns the store of a reference.
    fn holder(&self, reference: &ResultRef) -> Result<&dyn Bodies, Error> {
        let kind = match Kind::named(&reference.store) {
            // Old references may have names that are not used any more; they mean the server's own store.
            None | Some(Kind::Auto | Kind::Disk | Kind::Postgres) => return Ok(&*self.near_home),
            Some(kind) => kind,
        };
        match (self.named.get(&kind), &self.home) {
            (Some(store), _) => Ok(&**store),
            (None, Home::Server(server)) => Ok(&**server),
            (None, Home::Own(_)) => Err(not_configured(kind)),
        }
    }
}

/// Store for `disk`.
struct Spill {
    bodies: Arc<dyn Bodies>,
    tier: Option<Kind>,
    place: String,
}

impl Spill {
    fn new(
        config: &StoresConfig,
        tier: Option<(Kind, Objects)>,
        home: &Home,
    ) -> Result<Self, Error> {
        let bucket = tier.as_ref().map(|(_, bucket)| bucket.place());
        let mut place = bucket.unwrap_or_else(|| "the server's own store".to_owned());
        let kind = tier.as_ref().map(|(kind, _)| *kind);
        let bodies: Arc<dyn Bodies> = match (&config.cache, tier) {
            (Some(cache), tier) => {
                place.push_str(&format!(", with a cache in {}", cache.dir.display()));
                let tier = match tier {
                    Some((_, bucket)) => Tier::Bucket(bucket),
                    None => Tier::Store(home.bodies().clone()),
                };
                let cache = Cache::open(cache)?;
                Arc::new(Cached { tier, cache })
            }
            (None, Some((_, bucket))) => Arc::new(bucket),
            (None, None) => home.bodies().clone(),
        };
        Ok(Self {
            bodies,
            tier: kind,
            place,
        })
    }
}

/// A body whose beginning was read.
enum Begun<'a> {
    Whole(Bytes),
    More {
        head: Vec<u8>,
        rest: &'a mut (dyn AsyncRead + Send + Unpin),
    },
}

impl<'a> Begun<'a> {
    async fn read(body: Source<'a>) -> Result<Self, Error> {
        let rest = match body {
            Source::Bytes(bytes) => return Ok(Self::Whole(bytes)),
            Source::Stream(reader) => reader,
        };
        let mut head = Vec::new();
        let mut begin = (&mut *rest).take(KV_BYTES_MAX as u64 + 1);
        let read = begin.read_to_end(&mut head).await;
        read.map_err(Error::Interrupted)?;
        if head.len() > KV_BYTES_MAX {
            return Ok(Self::More { head, rest });
        }
        Ok(Self::Whole(head.into()))
    }

    fn head(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) => bytes,
            Self::More { head, .. } => head,
        }
    }

    fn is_small(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.len() <= KV_BYTES_MAX)
    }
}

/// Stores a body, compressed if a codec is given.
async fn put_packed(
    store: &dyn Bodies,
    codec: Option<Codec>,
    source: Source<'_>,
) -> Result<Stored, Error> {
    match codec {
        Some(codec) => compress::put(store, codec, source).await,
        None => store.put(source).await,
    }
}

/// Returns how to configure a store.
fn remedy(kind: Kind) -> &'static str {
    match kind {
        Kind::S3 => {
            "set NOETL_STORAGE_S3_BUCKET (and _ENDPOINT, _REGION), AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        }
        Kind::Gcs => "set NOETL_STORAGE_GCS_BUCKET and GOOGLE_APPLICATION_CREDENTIALS",
        Kind::NatsKv | Kind::NatsObject => "set NOETL_STORAGE_NATS_URL",
        Kind::Pvc => "set NOETL_STORAGE_DIR to a directory that every process can reach",
        Kind::Postgres => "start the server with --store postgres://…",
        Kind::Auto | Kind::Disk => "it is always configured",
    }
}

fn not_configured(kind: Kind) -> Error {
    Error::NotConfigured {
        store: kind.name().to_owned(),
        remedy: remedy(kind).to_owned(),
    }
}

impl StoresConfig {
    /// Returns how to configure a store; `None` if it is configured. Does not check which kind the server's own store
    /// is.
    pub fn missing(&self, kind: Kind) -> Option<&'static str> {
        let is_there = match kind {
            Kind::S3 => self.s3.is_some(),
            Kind::Gcs => self.gcs.is_some(),
            Kind::NatsKv | Kind::NatsObject => self.nats.is_some(),
            Kind::Pvc => self.dir.is_some(),
            Kind::Auto | Kind::Disk | Kind::Postgres => true,
        };
        (!is_there).then(|| remedy(kind))
    }
}

#[async_trait]
impl Bodies for Stores {
    /// Stores in the server's own store without options, so that the body can be found by its hash alone.
    async fn put(&self, body: Source<'_>) -> Result<Stored, Error> {
        self.home.bodies().put(body).await
    }

    fn missing(&self, kind: Kind) -> Option<&'static str> {
        let is_there = match kind {
            Kind::Auto | Kind::Disk | Kind::Postgres => true,
            kind => self.named.contains_key(&kind),
        };
        (!is_there).then(|| remedy(kind))
    }

    async fn put_as(&self, body: Source<'_>, wish: &Wish) -> Result<Stored, Error> {
        let is_stream = matches!(body, Source::Stream(_));
        let body = Begun::read(body).await?;
        let store = self.pick(wish.kind, body.is_small());
        let codec = compress::choose(wish.compression, body.head()).await;
        let stored = match body {
            // The sender cannot read the stream again, so a short one waits for space too.
            Begun::Whole(bytes) if is_stream => {
                let put = || put_packed(&**store, codec, Source::Bytes(bytes.clone()));
                put_when_free(put).await?
            }
            Begun::Whole(bytes) => put_packed(&**store, codec, Source::Bytes(bytes)).await?,
            Begun::More { head, rest } => {
                let mut chained = std::io::Cursor::new(head).chain(rest);
                put_packed(&**store, codec, Source::Stream(&mut chained)).await?
            }
        };
        if wish.kind == Kind::Postgres && stored.store != Kind::Postgres.name() {
            self.miss(Kind::Postgres);
        }
        Ok(stored)
    }

    async fn get(&self, reference: &ResultRef) -> Result<Bytes, Error> {
        let holder = self.holder(reference)?;
        match Packed::of(reference)? {
            Some(packed) => compress::get(holder, &packed, reference).await,
            None => holder.get(reference).await,
        }
    }

    async fn read(
        &self,
        reference: &ResultRef,
        range: Option<Range<u64>>,
    ) -> Result<Reading, Error> {
        let holder = self.holder(reference)?;
        match Packed::of(reference)? {
            Some(packed) => compress::read(holder, &packed, reference, range).await,
            None => holder.read(reference, range).await,
        }
    }

    async fn delete(&self, reference: &ResultRef) -> Result<(), Error> {
        let holder = self.holder(reference)?;
        match Packed::of(reference) {
            Ok(Some(packed)) => holder.delete(&packed.held).await,
            _ => holder.delete(reference).await,
        }
    }

    /// Lists the server's own store only; lifecycle rules expire the bodies in buckets.
    async fn stored_before(
        &self,
        before: Time,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Old>, Error> {
        let home = self.home.bodies();
        home.stored_before(before, after, limit).await
    }

    async fn delete_stored_before(&self, sha256: &str, before: Time) -> Result<bool, Error> {
        self.home
            .bodies()
            .delete_stored_before(sha256, before)
            .await
    }
}
