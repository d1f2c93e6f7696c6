//! What we measure, each figure beside the raw limit taken in the same run.
//!
//! `cargo xtask bench` prints a table; `-o json` prints one object. Nothing here is asserted: a figure is a figure.

#![expect(clippy::cast_precision_loss, reason = "figures are rounded anyway")]
#![expect(
    clippy::print_stdout,
    reason = "the figures are what this program is for"
)]

mod cluster;
mod distributed;
mod figure;
mod memory;
mod raw;
mod replay;
mod results;
mod stack;
mod transfer;
mod workloads;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = arguments();
    let json = arguments.windows(2).any(|pair| pair == ["-o", "json"]);
    let wanted: Vec<&str> = arguments
        .iter()
        .map(String::as_str)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let wanted: Vec<&str> = wanted.into_iter().filter(|word| *word != "json").collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut figures = Vec::new();
    let asked = |flag: &str| arguments.iter().any(|word| word == flag);
    let is_apart = ["--distributed", "--results", "--transfer"]
        .map(asked)
        .contains(&true);
    if is_apart {
        figures = if asked("--results") {
            runtime.block_on(results::measure())?
        } else if asked("--transfer") {
            runtime.block_on(transfer::measure())?
        } else {
            runtime.block_on(distributed::measure())?
        };
        if !json {
            for figure in &figures {
                println!("{figure}");
            }
        }
    }
    for workload in workloads::ALL.iter().filter(|_| !is_apart) {
        if wanted.is_empty() || wanted.iter().any(|word| workload.name.contains(word)) {
            let measured = (workload.measure)(&runtime)?;
            for figure in &measured {
                if !json {
                    println!("{figure}");
                }
            }
            figures.extend(measured);
        }
    }
    if json {
        println!(
            "{}",
            serde_json::to_string_pretty(&figure::report(&figures))?
        );
    }
    Ok(())
}

fn arguments() -> Vec<String> {
    std::env::args().skip(1).collect()
}
