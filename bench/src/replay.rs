//! Replay: how fast a log folds back into state.

use model::event::Event;

use crate::raw::now;

/// Packs a log as the store does, then unpacks and folds it; events a second on one core.
pub(crate) fn fold_rate(events: &[Event]) -> anyhow::Result<f64> {
    let rows: Vec<_> = events
        .chunks(200)
        .map(|chunk| (chunk[0].seq, model::event::pack(chunk)))
        .collect();
    let execution = events.first().map(|event| event.execution_id);
    let execution = execution.ok_or_else(|| anyhow::anyhow!("an empty log cannot be folded"))?;
    let begin = now();
    let mut state = None;
    for (seq, packed) in &rows {
        for event in model::event::unpack(execution, *seq, &packed.body)? {
            state = engine::fold(state, &event);
        }
    }
    let elapsed = begin.elapsed().as_secs_f64();
    anyhow::ensure!(
        state.is_some_and(|state| state.is_ended()),
        "the log did not fold to its end"
    );
    Ok(events.len() as f64 / elapsed)
}
