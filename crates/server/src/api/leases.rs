//! Lease epochs as clients see them: the counter of the store, sealed for one worker and one command.
//!
//! Everyone who can read the log sees the counters, and they are easy to guess. A report over HTTP must therefore
//! carry the number that its worker got with the command; without the key in the store, no one else can compute it.

use model::id::{CommandId, LeaseEpoch, WorkerId};
use sha2::{Digest, Sha256};
use wire::ClaimedCommand;

use crate::api::access::Principal;
use crate::api::error::ApiError;
use crate::api::state::ApiState;

/// Setting of the store with the key that all servers share.
pub(crate) const KEY_SETTING: &str = "lease-seal-key";
/// Number of bits of the seal. Together with a counter of at most 16 bits, the sealed number is an integer that JSON
/// clients with 64-bit floats read exactly.
const SEAL_BITS: u32 = 36;

/// The number that a worker gets instead of the counter.
fn seal_epoch(key: &str, command: CommandId, worker: &WorkerId, count: LeaseEpoch) -> LeaseEpoch {
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

/// Returns the counter in a sealed number if it was sealed for this worker and command.
fn open_epoch(key: &str, command: CommandId, worker: &WorkerId, sealed: LeaseEpoch) -> Option<LeaseEpoch> {
    let count = LeaseEpoch(sealed.0 >> SEAL_BITS);
    (seal_epoch(key, command, worker, count) == sealed).then_some(count)
}

/// Error for a claim that has expired or belongs to another worker.
pub(crate) fn fenced_error(command: CommandId) -> ApiError {
    let detail = format!("the lease on command {command} has expired or belongs to another worker");
    ApiError::conflict("FENCED", detail)
        .with_remedy("send the `worker` and the `lease_epoch` that came with the command")
}

impl ApiState {
    /// Seals the epochs of commands for a worker.
    pub(crate) async fn seal_leases(
        &self,
        principal: &Principal,
        worker: &WorkerId,
        commands: &mut [ClaimedCommand],
    ) -> Result<(), ApiError> {
        if commands.is_empty() || *principal == Principal::Server {
            return Ok(());
        }
        let key = self.lease_key.get(&**self.store()).await?;
        for claimed in commands {
            claimed.lease_epoch = seal_epoch(key, claimed.command.id, worker, claimed.lease_epoch);
        }
        Ok(())
    }

    /// Decodes the epoch that a worker sends; `None` if it was not sealed for this worker and command.
    pub(crate) async fn open_lease(
        &self,
        principal: &Principal,
        worker: &WorkerId,
        claim: model::command::ClaimId,
    ) -> Result<Option<LeaseEpoch>, ApiError> {
        // The server that forwarded the call has decoded it already.
        if *principal == Principal::Server {
            return Ok(Some(claim.lease_epoch));
        }
        let key = self.lease_key.get(&**self.store()).await?;
        Ok(open_epoch(key, claim.command, worker, claim.lease_epoch))
    }

    /// Like `open_lease`, but returns an error instead of `None`.
    pub(crate) async fn check_lease(
        &self,
        principal: &Principal,
        worker: &WorkerId,
        claim: model::command::ClaimId,
    ) -> Result<LeaseEpoch, ApiError> {
        let opened = self.open_lease(principal, worker, claim).await?;
        opened.ok_or_else(|| fenced_error(claim.command))
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
        let (first_worker, second_worker) = (WorkerId("one".into()), WorkerId("two".into()));
        let sealed = seal_epoch("key", command(4), &first_worker, LeaseEpoch(3));
        assert!(sealed.0 < 1 << 53, "a sealed epoch fits into a 64-bit float");
        assert_eq!(
            open_epoch("key", command(4), &first_worker, sealed),
            Some(LeaseEpoch(3))
        );
        assert_eq!(open_epoch("key", command(4), &second_worker, sealed), None);
        assert_eq!(open_epoch("key", command(5), &first_worker, sealed), None);
        assert_eq!(open_epoch("other", command(4), &first_worker, sealed), None);
        for guess in 0..1_000 {
            assert_eq!(open_epoch("key", command(4), &first_worker, LeaseEpoch(guess)), None);
        }
        let newer = seal_epoch("key", command(4), &first_worker, LeaseEpoch(4));
        assert!(newer > sealed, "a later claim has a higher number");
    }
}
