//! Encodes and decodes snapshots of execution state.

use engine::ExecutionState;
use serde::de::DeserializeOwned;

/// Encodes a state; `None` if it cannot be encoded.
pub(crate) fn encode_snapshot(state: &ExecutionState) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    ciborium::into_writer(state, &mut bytes).ok()?;
    Some(bytes)
}

/// Decodes a snapshot.
pub(crate) fn decode_snapshot<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    // The iteration set of a long loop is one byte string, and the library only reads those that fit into its buffer.
    let mut buffer = vec![0; bytes.len()];
    ciborium::de::from_reader_with_buffer(bytes, &mut buffer).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use roaring::RoaringTreemap;

    use super::*;

    #[test]
    fn the_iterations_of_a_long_loop_are_read_back() {
        let every_third: RoaringTreemap = (0..200_000).filter(|index| index % 3 == 0).collect();
        let mut bytes = Vec::new();
        ciborium::into_writer(&every_third, &mut bytes).unwrap();
        assert!(bytes.len() > 4_096, "{}", bytes.len());
        assert_eq!(decode_snapshot::<RoaringTreemap>(&bytes), Ok(every_third));
    }
}
