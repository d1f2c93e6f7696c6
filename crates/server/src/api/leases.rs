//! Lease epochs as workers elsewhere see them: the count of the store, sealed for one worker and one command.
//!
//! The log shows counts to everyone who may read it, and counts are easy to guess. A report over HTTP must carry the
//! number that its worker got with the command, which nobody else can make without the key in the store.

use model::id::{CommandId, LeaseEpoch, WorkerId};
use sha2::{Digest, Sha256};
use store::Store;
use tokio::sync::OnceCell;
use wire::Claimed;

use crate::api::access::Principal;
use crate::api::error::ApiError;
use crate::api::state::Api;

/// Where the store keeps the key that its servers share.
const KEY_SETTING: &str = "lease-seal-key";
/// So many bits of the sealed number are the seal. With 16 bits of count before them, it is a whole number that JSON
/// clients with 64-bit floats read exactly.
const SEAL_BITS: u32 = 36;

/// Seals lease epochs with the key of a store.
#[derive(Default)]
pub(crate) struct LeaseSeal {
    key: OnceCell<String>,
}

impl LeaseSeal {
    /// The key: the one in the store, or a fresh one that is stored first.
    pub(super) async fn key(&self, store: &dyn Store) -> Result<&str, store::Error> {
        let key = self.key.get_or_try_init(async || {
            let mut bytes = [0_u8; 32];
            rand::fill(&mut bytes);
            store
                .set_setting_once(KEY_SETTING, &hex::encode(bytes))
                .await
        });
        Ok(key.await?)
    }
}

/// The number that a worker carries in place of a count.
fn seal(key: &str, command: CommandId, worker: &WorkerId, count: LeaseEpoch) -> LeaseEpoch {
    let mut hasher = Sha256::new();
    hasher.update(key);
    hasher.update(command.to_string());
    hasher.update(count.0.to_be_bytes());
    hasher.update(worker.0.as_bytes());
    let digest: [u8; 32] = hasher.finalize().into();
    let head: [u8; 8] = digest[..8].try_into().expect("a digest has 32 bytes");
    let seal = u64::from_be_bytes(head) >> (u64::BITS - SEAL_BITS);
    LeaseEpoch((count.0 << SEAL_BITS) | seal)
}

/// The count in a sealed number, if it was sealed for this worker and command.
fn open(
    key: &str,
    command: CommandId,
    worker: &WorkerId,
    sealed: LeaseEpoch,
) -> Option<LeaseEpoch> {
    let count = LeaseEpoch(sealed.0 >> SEAL_BITS);
    (seal(key, command, worker, count) == sealed).then_some(count)
}

/// What a worker's claim is not, to whoever presents it.
pub(crate) fn fenced(command: CommandId) -> ApiError {
    let detail = format!("the claim on command {command} is not current, or is another worker's");
    ApiError::conflict("FENCED", detail)
        .remedy("send the `worker` and the `lease_epoch` that came with the command")
}

impl Api {
    /// Seals the epochs of commands that go to a worker.
    pub(crate) async fn seal_leases(
        &self,
        principal: &Principal,
        worker: &WorkerId,
        commands: &mut [Claimed],
    ) -> Result<(), ApiError> {
        if commands.is_empty() || *principal == Principal::Server {
            return Ok(());
        }
        let key = self.leases.key(&**self.store()).await?;
        for claimed in commands {
            claimed.lease_epoch = seal(key, claimed.command.id, worker, claimed.lease_epoch);
        }
        Ok(())
    }

    /// The store's own epoch of a claim that a worker presents; none where the claim is not that worker's.
    pub(crate) async fn open_lease(
        &self,
        principal: &Principal,
        worker: &WorkerId,
        held: wire::Held,
    ) -> Result<Option<LeaseEpoch>, ApiError> {
        // Another server has opened it for its worker before it passed the call on.
        if *principal == Principal::Server {
            return Ok(Some(held.lease_epoch));
        }
        let key = self.leases.key(&**self.store()).await?;
        Ok(open(key, held.command, worker, held.lease_epoch))
    }

    /// The same, where a claim that is not the worker's ends the call.
    pub(crate) async fn must_open_lease(
        &self,
        principal: &Principal,
        worker: &WorkerId,
        held: wire::Held,
    ) -> Result<LeaseEpoch, ApiError> {
        let opened = self.open_lease(principal, worker, held).await?;
        opened.ok_or_else(|| fenced(held.command))
    }
}

#[cfg(test)]
mod tests {
    use model::id::{ExecutionId, Seq};

    use super::*;

    #[test]
    fn a_sealed_epoch_opens_for_its_worker_and_command_only() {
        let command = |seq| CommandId {
            execution: ExecutionId(7),
            seq: Seq(seq),
        };
        let (one, two) = (WorkerId("one".into()), WorkerId("two".into()));
        let sealed = seal("key", command(4), &one, LeaseEpoch(3));
        assert!(sealed.0 < 1 << 53, "it fits into a 64-bit float");
        assert_eq!(open("key", command(4), &one, sealed), Some(LeaseEpoch(3)));
        assert_eq!(open("key", command(4), &two, sealed), None);
        assert_eq!(open("key", command(5), &one, sealed), None);
        assert_eq!(open("other", command(4), &one, sealed), None);
        for guess in 0..1_000 {
            assert_eq!(open("key", command(4), &one, LeaseEpoch(guess)), None);
        }
        let newer = seal("key", command(4), &one, LeaseEpoch(4));
        assert!(newer > sealed, "a later claim has a higher number");
    }
}
