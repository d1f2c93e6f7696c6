//! Identifies events that are sent again.

use model::command::{ClaimId, ReportEnd};
use model::id::EventId;
use sha2::{Digest, Sha256};
use wire::WireEvent;

/// SHA-256 of an event's content, independent of the spelling and order of its fields.
pub(super) fn event_hash(event: &WireEvent) -> [u8; 32] {
    let content = WireEvent {
        event_id: None,
        created_at: None,
        worker_id: None,
        event_type: kind_name(event),
        payload: event.payload.as_ref().map(canonical_json),
        meta: None,
        status: event.status(),
        ..event.clone()
    };
    let text = serde_json::to_vec(&content).expect("an event serializes to JSON");
    Sha256::digest(text).into()
}

fn kind_name(event: &WireEvent) -> String {
    event
        .kind()
        .map_or_else(|_| event.event_type.clone(), |kind| kind.name().to_owned())
}

/// The same JSON with sorted keys.
fn canonical_json(raw: &model::raw::RawJson) -> model::raw::RawJson {
    fn sorted(value: serde_json::Value) -> serde_json::Value {
        match value {
            serde_json::Value::Object(fields) => {
                let mut fields: Vec<(String, serde_json::Value)> = fields.into_iter().collect();
                fields.sort_by(|a, b| a.0.cmp(&b.0));
                let fields = fields.into_iter();
                serde_json::Value::Object(fields.map(|(key, value)| (key, sorted(value))).collect())
            }
            serde_json::Value::Array(items) => serde_json::Value::Array(items.into_iter().map(sorted).collect()),
            scalar => scalar,
        }
    }
    model::raw::RawJson::from_serializable(&sorted(raw.to_value()))
}

/// ID of an event that has none: the same for the same content under the same claim.
pub(super) fn derive_event_id(event: &WireEvent, claim: ClaimId) -> EventId {
    let mut hasher = Sha256::new();
    hasher.update(claim.command.to_string());
    hasher.update(claim.lease_epoch.0.to_be_bytes());
    hasher.update(event_hash(event));
    let digest: [u8; 32] = hasher.finalize().into();
    let head: [u8; 8] = digest[..8].try_into().expect("a digest has 32 bytes");
    // IDs are positive.
    EventId(i64::from_be_bytes(head) & i64::MAX)
}

/// A report that contains a boundary is the last one of its command.
pub(super) fn report_end(events: &[model::event::ReportedEvent]) -> ReportEnd {
    if events.iter().any(|event| event.kind().is_boundary()) {
        ReportEnd::Finished
    } else {
        ReportEnd::Open
    }
}

#[cfg(test)]
mod tests {
    use model::id::{CommandId, ExecutionId, LeaseEpoch, Seq};
    use serde_json::json;

    use super::*;

    fn event(payload: &serde_json::Value) -> WireEvent {
        let text = json!({"execution_id": 1, "step": "a", "name": "call.done", "context": payload});
        serde_json::from_str(&text.to_string()).unwrap()
    }

    #[test]
    fn the_same_content_has_the_same_hash_in_every_notation() {
        let mut other: WireEvent = serde_json::from_str(
            r#"{"execution_id":"1","node_name":"a","event_type":"step.done","payload":{"y":[1],"x":2}}"#,
        )
        .unwrap();
        let first = event(&json!({"x": 2, "y": [1]}));
        assert_eq!(event_hash(&first), event_hash(&other));
        other.status = Some(wire::WireStatus::Success);
        assert_eq!(
            event_hash(&first),
            event_hash(&other),
            "a status that follows from the type may be left out"
        );
        other.step = Some("b".into());
        assert_ne!(event_hash(&first), event_hash(&other));
    }

    #[test]
    fn a_derived_id_depends_on_the_claim_and_the_content() {
        let claim = |seq, epoch| {
            let command = CommandId {
                execution: ExecutionId(1),
                seq: Seq(seq),
            };
            ClaimId {
                command,
                lease_epoch: LeaseEpoch(epoch),
            }
        };
        let first = event(&json!({"x": 1}));
        let id = derive_event_id(&first, claim(4, 1));
        assert_eq!(id, derive_event_id(&first, claim(4, 1)));
        assert_ne!(id, derive_event_id(&first, claim(4, 2)));
        assert_ne!(id, derive_event_id(&first, claim(5, 1)));
        assert_ne!(id, derive_event_id(&event(&json!({"x": 2})), claim(4, 1)));
        assert!(id.0 >= 0);
    }
}
