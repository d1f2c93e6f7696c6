//! Converts between rows and values. Both databases return the same columns in the same order.

use std::collections::BTreeMap;

use model::command::ClaimId;
use model::event::EventStatus;
use model::id::{CommandId, ExecutionId, LeaseEpoch, Name, PlaybookHash, Seq, StepRunId, WorkerId};
use model::labels::Labels;
use model::raw::RawJson;
use model::status::RunStatus;
use model::time::Time;
use serde::de::DeserializeOwned;
use sha2::Digest as _;

use crate::access::{AccessTokenId, AccessTokenRow, AuditRow, OutboxRow, WorkerClaim};
use crate::commit::{Message, MessageKey};
use crate::error::BoxError;
use crate::execution_filter::FacetRow;
use crate::iteration_reads::IterationRow;
use crate::iterations::IterationBlock;
use crate::monitoring::{ClaimedCommandRow, PendingCommand, StoreSize, WorkerSessionRow};
use crate::rows::{
    CatalogEntry, CatalogVersion, CommandClaim, ExecutionRow, LoopProgress, LoopTask, LostClaim, OpenCommand, OwnerId,
    PendingSignalWait, ResultRow, SessionHolder, StepState, WaitEntry, WorkerSession,
};
use crate::sealed::{CredentialRow, KeychainRow, SealedValue};

/// Converts to the databases' signed integer; sequence numbers and counts stay far below its maximum.
pub(crate) fn to_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The owner as a value of a statement.
pub(crate) fn owner_name(owner: Option<&OwnerId>) -> Option<&str> {
    owner.map(|owner| &*owner.0)
}

/// The labels of each execution, from rows of one label each.
pub(crate) fn group_labels(rows: Vec<(ExecutionId, Name, Name)>) -> BTreeMap<ExecutionId, Labels> {
    let mut labels: BTreeMap<ExecutionId, Labels> = BTreeMap::new();
    for (id, key, value) in rows {
        labels.entry(id).or_default().insert_stored(key, value);
    }
    labels
}

/// The checksum of a snapshot.
pub(crate) fn snapshot_checksum(bytes: &[u8]) -> [u8; 32] {
    sha2::Sha256::digest(bytes).into()
}

/// The columns of a row, by index.
pub(crate) trait Columns {
    /// The error of the database.
    type Error;

    fn flag(&self, column: usize) -> Result<bool, Self::Error>;

    /// A number that the database stores in 32 bits.
    fn count(&self, column: usize) -> Result<u32, Self::Error>;

    fn integer(&self, column: usize) -> Result<i64, Self::Error>;

    fn optional_integer(&self, column: usize) -> Result<Option<i64>, Self::Error>;

    fn unsigned(&self, column: usize) -> Result<u64, Self::Error>;

    fn text(&self, column: usize) -> Result<&str, Self::Error>;

    fn optional_text(&self, column: usize) -> Result<Option<&str>, Self::Error>;

    fn bytes(&self, column: usize) -> Result<Vec<u8>, Self::Error>;

    /// The error for a column with an invalid value.
    fn invalid_column_error(column: usize, error: impl Into<BoxError>) -> Self::Error;

    fn seq(&self, column: usize) -> Result<Seq, Self::Error> {
        self.unsigned(column).map(Seq)
    }

    fn lease_epoch(&self, column: usize) -> Result<LeaseEpoch, Self::Error> {
        Ok(LeaseEpoch(self.count(column)?.into()))
    }

    fn execution_id(&self, column: usize) -> Result<ExecutionId, Self::Error> {
        self.integer(column).map(ExecutionId)
    }

    fn time(&self, column: usize) -> Result<Time, Self::Error> {
        self.integer(column).map(Time)
    }

    fn optional_time(&self, column: usize) -> Result<Option<Time>, Self::Error> {
        Ok(self.optional_integer(column)?.map(Time))
    }

    fn name(&self, column: usize) -> Result<Name, Self::Error> {
        self.text(column).map(Name::from)
    }

    fn optional_name(&self, column: usize) -> Result<Option<Name>, Self::Error> {
        Ok(self.optional_text(column)?.map(Name::from))
    }

    fn string(&self, column: usize) -> Result<String, Self::Error> {
        self.text(column).map(str::to_owned)
    }

    fn json<T: DeserializeOwned>(&self, column: usize) -> Result<T, Self::Error> {
        serde_json::from_str(self.text(column)?).map_err(|error| Self::invalid_column_error(column, error))
    }

    fn optional_json(&self, column: usize) -> Result<Option<RawJson>, Self::Error> {
        let raw = self.optional_text(column)?.map(serde_json::from_str).transpose();
        raw.map_err(|error| Self::invalid_column_error(column, error))
    }

    fn run_status(&self, column: usize) -> Result<RunStatus, Self::Error> {
        let status = self.text(column)?.parse();
        status.map_err(|error: model::status::UnknownStatusError| Self::invalid_column_error(column, error))
    }

    fn event_status(&self, column: usize) -> Result<EventStatus, Self::Error> {
        let quoted = format!("\"{}\"", self.text(column)?);
        serde_json::from_str(&quoted).map_err(|error| Self::invalid_column_error(column, error))
    }

    fn hash(&self, column: usize) -> Result<[u8; 32], Self::Error> {
        let hash = self.bytes(column)?.try_into();
        hash.map_err(|_| Self::invalid_column_error(column, "a stored hash does not have 32 bytes"))
    }
}

/// A value that is read from the first columns of a row, in the order of its implementation.
pub(crate) trait FromColumns: Sized {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error>;
}

impl FromColumns for ExecutionRow {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Self {
            id: row.execution_id(0)?,
            version: row.seq(1)?,
            status: row.run_status(2)?,
            cancelling: row.flag(3)?,
            generation: row.count(4)?,
            name: row.name(5)?,
            path: row.name(6)?,
            playbook_version: row.count(7)?,
            hash: PlaybookHash(row.text(8)?.into()),
            parent: row.optional_integer(9)?.map(ExecutionId),
            owner: row.optional_text(10)?.map(|owner| OwnerId(owner.into())),
            started_at: row.time(11)?,
            finished_at: row.optional_time(12)?,
            current: row.optional_name(13)?,
            error: row.optional_text(14)?.map(str::to_owned),
        })
    }
}

impl FromColumns for FacetRow {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Self {
            id: row.execution_id(0)?,
            status: row.run_status(1)?,
            path: row.name(2)?,
            started_at: row.time(3)?,
            error: row.optional_text(4)?.map(str::to_owned),
        })
    }
}

impl FromColumns for StepState {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Self {
            step: row.name(0)?,
            run: row.count(1)?,
            status: row.event_status(2)?,
            last_result_ref: row.optional_json(3)?,
            aggregate_result_ref: row.optional_json(4)?,
            seq: row.seq(5)?,
        })
    }
}

impl FromColumns for ResultRow {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        let iteration = row.optional_integer(5)?;
        Ok(Self {
            seq: row.seq(0)?,
            run: StepRunId {
                step: row.name(1)?,
                run: row.count(2)?,
            },
            task: row.optional_name(3)?,
            visit: row.count(4)?,
            iteration: iteration.and_then(|index| u64::try_from(index).ok()),
            page: row.optional_integer(6)?,
            attempt: row.count(7)?,
            result_ref: row.json(8)?,
            status: row.event_status(9)?,
            created_at: row.time(10)?,
        })
    }
}

impl FromColumns for CatalogVersion {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Self {
            version: row.count(0)?,
            hash: PlaybookHash(row.text(1)?.into()),
            registered_at: row.time(2)?,
        })
    }
}

impl FromColumns for WaitEntry {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        let iteration = row.optional_integer(5)?;
        Ok(Self {
            wait: PendingSignalWait {
                execution: row.execution_id(0)?,
                seq: row.seq(1)?,
                run: StepRunId {
                    step: row.name(2)?,
                    run: row.count(3)?,
                },
                task: row.optional_name(4)?,
                iteration: iteration.and_then(|index| u64::try_from(index).ok()),
                signal: row.name(6)?,
                since: row.time(7)?,
                deadline: row.optional_time(8)?,
                approval: row.optional_json(9)?,
            },
            path: row.name(10)?,
            playbook_version: row.count(11)?,
            is_next: row.flag(12)?,
        })
    }
}

impl FromColumns for CatalogEntry {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        let entry = Self {
            path: row.name(0)?,
            version: row.count(1)?,
            hash: PlaybookHash(row.text(2)?.into()),
            text: row.text(3)?.into(),
            registered_at: row.time(4)?,
        };
        if !entry.matches_hash() {
            let message = format!("playbook `{}` does not match its hash", entry.path);
            return Err(C::invalid_column_error(3, message));
        }
        Ok(entry)
    }
}

impl FromColumns for CommandId {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Self {
            execution: row.execution_id(0)?,
            seq: row.seq(1)?,
        })
    }
}

impl FromColumns for CommandClaim {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Self {
            command: row.json(0)?,
            lease_epoch: row.lease_epoch(1)?,
        })
    }
}

impl FromColumns for LostClaim {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Self {
            command: CommandId::from_columns(row)?,
            worker: WorkerId(row.text(2)?.into()),
            lease_epoch: row.lease_epoch(3)?,
        })
    }
}

impl FromColumns for WorkerClaim {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Self {
            claim: ClaimId {
                command: CommandId::from_columns(row)?,
                lease_epoch: row.lease_epoch(2)?,
            },
            is_paused: row.flag(3)?,
            is_cancelling: row.flag(4)?,
            claimed_at: row.time(5)?,
        })
    }
}

impl FromColumns for OpenCommand {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Self {
            command: row.json(0)?,
            worker: row.optional_text(1)?.map(|worker| WorkerId(worker.into())),
            lease_epoch: row.lease_epoch(2)?,
            issued_at: row.time(3)?,
        })
    }
}

impl FromColumns for WorkerSession {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Self {
            holder: row.optional_text(0)?.map(|holder| SessionHolder(holder.into())),
            is_alive: row.flag(1)?,
        })
    }
}

impl FromColumns for PendingCommand {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Self {
            command: row.json(0)?,
            kinds: row.json(1)?,
            issued_at: row.time(2)?,
            name: row.name(3)?,
            status: row.run_status(4)?,
            is_cancelling: row.flag(5)?,
            owner: row.optional_text(6)?.map(|owner| OwnerId(owner.into())),
        })
    }
}

impl FromColumns for ClaimedCommandRow {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Self {
            command: row.json(0)?,
            worker: WorkerId(row.text(1)?.into()),
            claimed_at: row.optional_time(2)?,
            expires_at: row.optional_time(3)?,
            name: row.name(4)?,
        })
    }
}

impl FromColumns for WorkerSessionRow {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Self {
            worker: WorkerId(row.text(0)?.into()),
            description: row.optional_text(1)?.map(str::to_owned),
            expires_at: row.time(2)?,
            is_alive: row.flag(3)?,
        })
    }
}

impl FromColumns for StoreSize {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Self {
            bytes: row.unsigned(0)?,
            executions: row.unsigned(1)?,
        })
    }
}

impl FromColumns for Message {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Self {
            key: MessageKey {
                from: row.execution_id(0)?,
                seq: row.seq(1)?,
                n: row.count(2)?,
            },
            to: row.execution_id(3)?,
            body: row.json(4)?,
        })
    }
}

impl FromColumns for LoopProgress {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Self {
            run: StepRunId {
                step: row.name(0)?,
                run: row.count(1)?,
            },
            succeeded: row.unsigned(2)?,
            failed: row.unsigned(3)?,
            retries: row.unsigned(4)?,
        })
    }
}

impl FromColumns for LoopTask {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        let to_seq = |seq: i64| Seq(seq.cast_unsigned());
        Ok(Self {
            run: row.count(0)?,
            succeeded: row.optional_integer(1)?.map(to_seq),
            failed: row.optional_integer(2)?.map(to_seq),
        })
    }
}

impl FromColumns for AccessTokenRow {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Self {
            id: AccessTokenId(row.integer(0)?),
            name: row.string(1)?,
            hash: row.hash(2)?,
            role: row.name(3)?,
            created_at: row.time(4)?,
            expires_at: row.optional_time(5)?,
            last_used_at: row.optional_time(6)?,
            revoked_at: row.optional_time(7)?,
        })
    }
}

impl FromColumns for AuditRow {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Self {
            id: row.unsigned(0)?,
            recorded_at: row.time(1)?,
            entry: row.json(2)?,
            hash: row.hash(3)?,
        })
    }
}

impl FromColumns for OutboxRow {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Self {
            position: row.unsigned(0)?,
            execution: row.execution_id(1)?,
            seq_first: row.seq(2)?,
            seq_last: row.seq(3)?,
        })
    }
}

impl FromColumns for SealedValue {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Self {
            data: row.bytes(0)?,
            data_key: row.bytes(1)?,
            key_id: row.string(2)?,
        })
    }
}

impl FromColumns for CredentialRow {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Self {
            sealed: SealedValue::from_columns(row)?,
            name: row.string(3)?,
            kind: row.string(4)?,
            version: row.count(5)?,
            created_at: row.time(6)?,
            updated_at: row.time(7)?,
            last_used_at: row.optional_time(8)?,
        })
    }
}

impl FromColumns for KeychainRow {
    fn from_columns<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Self {
            sealed: SealedValue::from_columns(row)?,
            scope: row.string(3)?,
            name: row.string(4)?,
            resolved_at: row.time(5)?,
            expires_at: row.optional_time(6)?,
        })
    }
}

impl IterationBlock {
    /// Reads `block, seq, iterations, failed` of a block of this step run.
    pub(crate) fn read<C: Columns>(row: &C, run: &StepRunId) -> Result<Self, C::Error> {
        Ok(Self {
            run: run.clone(),
            block: row.unsigned(0)?,
            seq: row.seq(1)?,
            iterations: row.integer(2)?.cast_unsigned(),
            failed: row.integer(3)?.cast_unsigned(),
        })
    }
}

impl IterationRow {
    /// Reads `block, seq, iterations, failed`.
    pub(crate) fn read<C: Columns>(row: &C) -> Result<Self, C::Error> {
        Ok(Self {
            block: row.unsigned(0)?,
            seq: row.seq(1)?,
            recorded: row.integer(2)?.cast_unsigned(),
            failed: row.integer(3)?.cast_unsigned(),
        })
    }
}
