//! Memory use of this process.

/// Peak resident memory in MiB; 0 if the system does not report it.
pub(crate) fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line
        .and_then(|line| line.split_whitespace().nth(1))
        .and_then(|text| text.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}
