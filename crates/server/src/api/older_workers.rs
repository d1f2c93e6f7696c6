//! Events as older workers read them, so that servers can be upgraded before workers.

use axum::http::HeaderMap;
use model::event::{Event, EventBody};
use model::raw::RawJson;
use sha2::{Digest, Sha256};
use wire::PROTOCOL_HEADER;

/// Version of the worker protocol in which a loop over a range has no items in its `loop.started`.
const RANGES: u32 = 2;

/// Maximum number of items that are written out for an older worker.
const ITEMS_MAX: u64 = 1_000_000;

/// The version of the worker protocol that a client speaks. Clients of version 1 send no header.
pub(crate) fn protocol_version(headers: &HeaderMap) -> u32 {
    let header = headers.get(PROTOCOL_HEADER);
    let version = header.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    version.unwrap_or(1)
}

/// Rewrites events for a client that speaks this version of the worker protocol.
pub(crate) fn rewrite_events(events: &mut [Event], version: u32) {
    if version >= RANGES {
        return;
    }
    for event in events {
        write_items_out(event);
    }
}

/// Replaces the range of a loop by its items.
fn write_items_out(event: &mut Event) {
    let EventBody::LoopStarted(started) = &mut event.body else {
        return;
    };
    let Some(range) = started.range.filter(|range| range.len() <= ITEMS_MAX) else {
        return;
    };
    let items: Vec<i64> = (0..range.len()).filter_map(|index| range.item(index)).collect();
    let items = RawJson::from_serializable(&items);
    started.sha256 = hex::encode(Sha256::digest(items.text()));
    started.collection = Some(items);
    started.range = None;
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_client_without_the_header_uses_version_1() {
        let mut headers = HeaderMap::new();
        assert_eq!(protocol_version(&headers), 1);
        headers.insert(PROTOCOL_HEADER, HeaderValue::from_static("7"));
        assert_eq!(protocol_version(&headers), 7);
        headers.insert(PROTOCOL_HEADER, HeaderValue::from_static("new"));
        assert_eq!(protocol_version(&headers), 1);
    }
}
