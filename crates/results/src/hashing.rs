//! The sha256 of what comes in pieces: a large body is hashed on another thread while the rest of it is on its way.

use std::sync::mpsc;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::Error;

/// Less than this is hashed sooner than another thread wakes up.
const BESIDE_BYTES_MIN: u64 = 512 * 1024;

/// A hash that grows with what comes.
pub(crate) enum Hashing {
    Here(Sha256),
    /// The thread ends with the pieces, also where nobody asks for the hash any more.
    Beside(mpsc::Sender<Bytes>, JoinHandle<Sha256>),
}

impl Hashing {
    /// Begins the hash of a body of about this size.
    pub(crate) fn of(bytes: u64) -> Self {
        if bytes < BESIDE_BYTES_MIN {
            return Self::Here(Sha256::new());
        }
        let (sender, pieces) = mpsc::channel::<Bytes>();
        let hash = move || {
            let mut hash = Sha256::new();
            for piece in pieces {
                hash.update(&piece);
            }
            hash
        };
        Self::Beside(sender, spawn_blocking(hash))
    }

    pub(crate) fn take(&mut self, piece: Bytes) {
        match self {
            Self::Here(hash) => hash.update(&piece),
            Self::Beside(sender, _) => sender.send(piece).expect("the thread takes every piece"),
        }
    }

    /// The hash of everything, in hex.
    pub(crate) async fn end(self) -> Result<String, Error> {
        let hash = match self {
            Self::Here(hash) => hash,
            Self::Beside(sender, hash) => {
                drop(sender);
                let hash = hash.await;
                hash.map_err(|error| Error::Interrupted(std::io::Error::other(error)))?
            }
        };
        Ok(hex::encode(hash.finalize()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_has_the_same_hash_wherever_it_is_made() {
        let pieces: Vec<Bytes> = (0..40_u8).map(|n| vec![n; 1_000].into()).collect();
        let expected = crate::sha256(&pieces.concat());
        for bytes in [40_000, BESIDE_BYTES_MIN] {
            let mut hashing = Hashing::of(bytes);
            for piece in &pieces {
                hashing.take(piece.clone());
            }
            assert_eq!(hashing.end().await.unwrap(), expected);
        }
    }
}
