//! Identifiers: each id has its own type, so two of them cannot be swapped.
//!
//! 64-bit ids are strings in all JSON output (browsers lose precision above 2^53) and are accepted as integers or
//! strings. Ids inside an execution are derived from the log, so every replay gives the same ones.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An id that does not have the expected form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct InvalidIdError {
    /// The invalid text.
    pub text: String,
    /// The expected form, with its article.
    pub expected: &'static str,
}

macro_rules! wide_id {
    ($(#[$doc:meta])* $name:ident, $expected:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidIdError;
            fn from_str(text: &str) -> Result<Self, InvalidIdError> {
                text.parse()
                    .map(Self)
                    .map_err(|_| InvalidIdError { text: text.to_owned(), expected: $expected })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(WideInteger($expected)).map(Self)
            }
        }
    };
}

wide_id!(
    /// One run of a playbook.
    ExecutionId,
    "an execution id"
);
wide_id!(
    /// One event; unique within the store.
    EventId,
    "an event id"
);

/// Parses a 64-bit integer from a JSON number or a decimal string.
struct WideInteger(&'static str);

impl de::Visitor<'_> for WideInteger {
    type Value = i64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as an integer or a decimal string", self.0)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<i64, E> {
        Ok(value)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<i64, E> {
        i64::try_from(value).map_err(|_| E::invalid_value(de::Unexpected::Unsigned(value), &self))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<i64, E> {
        value
            .parse()
            .map_err(|_| E::invalid_value(de::Unexpected::Str(value), &self))
    }
}

/// The position of an event in its execution's log: from 1, without gaps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// Returns the next position.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A name that users choose: of a step, a task, a pool, a signal. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// The text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Ok(Self(text.as_ref().into()))
    }
}

/// A token: the event that created it and the arc it moves along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TokenId {
    /// The event that created the token.
    pub seq: Seq,
    /// The index among the tokens of that event.
    pub arc: u32,
}

/// The n-th run of a step in its execution; written `step:<name>:run:<n>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepRunId {
    /// The step.
    pub step: Name,
    /// Counts the step's runs from 1.
    pub run: u32,
}

impl fmt::Display for StepRunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step:{}:run:{}", self.step, self.run)
    }
}

impl FromStr for StepRunId {
    type Err = InvalidIdError;
    fn from_str(text: &str) -> Result<Self, InvalidIdError> {
        let invalid = || InvalidIdError {
            text: text.to_owned(),
            expected: "a step run id",
        };
        let name_and_run = text.strip_prefix("step:").ok_or_else(invalid)?;
        // A step's name may contain colons; the run number is last.
        let (step, run) = name_and_run.rsplit_once(":run:").ok_or_else(invalid)?;
        Ok(Self {
            step: step.into(),
            run: run.parse().map_err(|_| invalid())?,
        })
    }
}

/// A command: the execution it belongs to and the event that issued it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId {
    /// The execution.
    pub execution: ExecutionId,
    /// The `command.issued` event.
    pub seq: Seq,
}

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.execution, self.seq)
    }
}

impl FromStr for CommandId {
    type Err = InvalidIdError;
    fn from_str(text: &str) -> Result<Self, InvalidIdError> {
        let invalid = || InvalidIdError {
            text: text.to_owned(),
            expected: "a command id",
        };
        let (execution, seq) = text.split_once('.').ok_or_else(invalid)?;
        Ok(Self {
            execution: execution.parse().map_err(|_| invalid())?,
            seq: Seq(seq.parse().map_err(|_| invalid())?),
        })
    }
}

impl Serialize for CommandId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CommandId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// A worker's session: one lifetime of one worker process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerId(pub Arc<str>);

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of times a command was claimed; a report with an older epoch is rejected.
///
/// Remote workers see a signed form: the count, followed by bits that only a server of the store can compute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseEpoch(pub u64);

/// The sha256 of a playbook's text, in hex; an execution always runs the text with this hash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PlaybookHash(pub Arc<str>);

impl PlaybookHash {
    /// Computes the hash of a text.
    pub fn from_text(text: &str) -> Self {
        use sha2::Digest as _;
        Self(hex::encode(sha2::Sha256::digest(text.as_bytes())).into())
    }
}

impl fmt::Display for PlaybookHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A block of reserved event ids. The caller reserves it; pure code takes ids from it in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdBlock {
    next: i64,
}

impl IdBlock {
    /// Creates a block whose first id is `first`.
    pub fn starting_at(first: EventId) -> Self {
        Self { next: first.0 }
    }

    /// Takes the next event id.
    pub fn next_event_id(&mut self) -> EventId {
        let id = EventId(self.next);
        self.next += 1;
        id
    }
}
