//! Benchmarks: each figure is measured together with the raw limit of the same operation, in the same run.
//!
//! `cargo xtask bench` prints a table; `-o json` prints one object. The program asserts no figure. `--trial` does
//! a hundredth of the work; `cargo xtask test` runs it to check that every benchmark works.

#![expect(clippy::cast_precision_loss, reason = "figures are rounded anyway")]
#![expect(clippy::print_stdout, reason = "the program prints its figures")]

mod cluster;
mod distributed;
mod figure;
mod followers;
mod memory;
mod raw_limits;
mod replay;
mod results;
mod run_lists;
mod stack;
mod transfer;
mod workloads;

use figure::Scale;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = arguments();
    let json = arguments.windows(2).any(|pair| pair == ["-o", "json"]);
    let selected: Vec<&str> = arguments
        .iter()
        .map(String::as_str)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let selected: Vec<&str> = selected.into_iter().filter(|argument| *argument != "json").collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let has_flag = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let is_trial = has_flag("--trial");
    let scale = if is_trial { Scale::Trial } else { Scale::Full };
    if is_trial && !json {
        println!("trial: a hundredth of the work, to check that every benchmark runs; the figures mean nothing");
    }
    let separate = ["--distributed", "--results", "--transfer"];
    let is_embedded = is_trial || !separate.map(has_flag).contains(&true);
    let mut figures = Vec::new();
    let mut record = |measured: Vec<figure::Figure>| {
        if !json {
            for figure in &measured {
                println!("{figure}");
            }
        }
        figures.extend(measured);
    };
    for workload in workloads::ALL.iter().filter(|_| is_embedded) {
        if selected.is_empty() || selected.iter().any(|argument| workload.name.contains(argument)) {
            record((workload.measure)(&runtime, scale)?);
        }
    }
    if is_trial || has_flag("--distributed") {
        record(runtime.block_on(distributed::measure(&selected, scale))?);
    }
    if is_trial || has_flag("--results") {
        record(runtime.block_on(results::measure(scale))?);
    }
    if is_trial || has_flag("--transfer") {
        record(runtime.block_on(transfer::measure(scale))?);
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&figure::report(&figures))?);
    }
    Ok(())
}

fn arguments() -> Vec<String> {
    std::env::args().skip(1).collect()
}
