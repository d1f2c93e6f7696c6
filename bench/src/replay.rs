//! Replay: how fast the engine computes the state from a log.

use model::event::Event;

use crate::raw_limits::now;

/// Packs a log like the store does, then unpacks and replays it; returns events per second on one core.
pub(crate) fn measure_fold_rate(events: &[Event]) -> anyhow::Result<f64> {
    let rows: Vec<_> = events
        .chunks(200)
        .map(|chunk| (chunk[0].seq, model::event::pack(chunk)))
        .collect();
    let execution = events.first().map(|event| event.execution_id);
    let execution = execution.ok_or_else(|| anyhow::anyhow!("cannot replay an empty log"))?;
    let start = now();
    let mut state = None;
    for (seq, packed) in &rows {
        for event in model::event::unpack(execution, *seq, &packed.body)? {
            state = engine::fold(state, &event);
        }
    }
    let elapsed = start.elapsed().as_secs_f64();
    anyhow::ensure!(
        state.is_some_and(|state| state.is_ended()),
        "the replay did not reach the end of the log"
    );
    Ok(events.len() as f64 / elapsed)
}
