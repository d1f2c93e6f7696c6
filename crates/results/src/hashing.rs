//! SHA-256 of a body that arrives in chunks. A large body is hashed on another thread while the rest arrives.

use std::sync::mpsc;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::Error;

/// Smaller bodies are hashed faster than another thread wakes up.
const BESIDE_BYTES_MIN: u64 = 512 * 1024;

/// Number of bytes to send to the thread at once: waking it for every chunk would take as long as hashing it.
const HANDED_BYTES: usize = 256 * 1024;

/// A streaming hash.
pub(crate) enum Hashing {
    Here(Sha256),
    Beside(Beside),
}

/// A hash on another thread. The thread ends when the sender is dropped, even if the hash is not needed any more.
pub(crate) struct Beside {
    gathered: Vec<Bytes>,
    bytes: usize,
    sender: mpsc::Sender<Vec<Bytes>>,
    hash: JoinHandle<Sha256>,
}

impl Hashing {
    /// Starts the hash of a body of about this size.
    pub(crate) fn of(bytes: u64) -> Self {
        if bytes < BESIDE_BYTES_MIN {
            return Self::Here(Sha256::new());
        }
        let (sender, pieces) = mpsc::channel::<Vec<Bytes>>();
        let hash = move || {
            let mut hash = Sha256::new();
            for piece in pieces.into_iter().flatten() {
                hash.update(&piece);
            }
            hash
        };
        Self::Beside(Beside {
            gathered: Vec::new(),
            bytes: 0,
            sender,
            hash: spawn_blocking(hash),
        })
    }

    pub(crate) fn take(&mut self, piece: Bytes) {
        match self {
            Self::Here(hash) => hash.update(&piece),
            Self::Beside(beside) => {
                beside.bytes += piece.len();
                beside.gathered.push(piece);
                if beside.bytes >= HANDED_BYTES {
                    beside.hand_over();
                }
            }
        }
    }

    /// Returns the hash of all chunks, in hex.
    pub(crate) async fn end(self) -> Result<String, Error> {
        let hash = match self {
            Self::Here(hash) => hash,
            Self::Beside(mut beside) => {
                beside.hand_over();
                drop(beside.sender);
                let hash = beside.hash.await;
                hash.map_err(|error| Error::Interrupted(std::io::Error::other(error)))?
            }
        };
        Ok(hex::encode(hash.finalize()))
    }
}

impl Beside {
    fn hand_over(&mut self) {
        self.bytes = 0;
        let gathered = std::mem::take(&mut self.gathered);
        self.sender
            .send(gathered)
            .expect("the thread receives until the sender is dropped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_has_the_same_hash_wherever_it_is_made() {
        let pieces: Vec<Bytes> = (0..40_u8).map(|n| vec![n; 20_000].into()).collect();
        let expected = crate::sha256(&pieces.concat());
        for bytes in [BESIDE_BYTES_MIN - 1, BESIDE_BYTES_MIN] {
            let mut hashing = Hashing::of(bytes);
            for piece in &pieces {
                hashing.take(piece.clone());
            }
            assert_eq!(hashing.end().await.unwrap(), expected);
        }
    }
}
