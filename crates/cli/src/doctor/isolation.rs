//! Checks which sandbox levels this machine supports, and whether they satisfy the configured minimum.

use std::path::Path;

use tools::{SandboxLevel, SandboxSupport};

use crate::app::App;
use crate::doctor::Check;
use crate::doctor::programs::program_output;

const KERNEL: &str = "use a newer kernel, or another worker, for `sandbox: strict`";

/// Checks the sandbox features of this machine.
pub(crate) fn check_isolation(app: &App) -> Vec<Check> {
    let support = SandboxSupport::detect();
    let mut checks = vec![check_sandbox_level(app.settings.sandbox, support)];
    checks.push(if support.no_new_privileges {
        Check::ok("no_new_privs", "available")
    } else {
        Check::warn("no_new_privs", "not supported by this system", KERNEL)
    });
    checks.push(match support.landlock {
        0 => Check::warn("landlock", "not supported by the kernel, or disabled", KERNEL),
        version => check_landlock(version, &support.limitations()),
    });
    checks.push(if support.seccomp {
        Check::ok("seccomp", "available")
    } else {
        Check::warn("seccomp", "not supported by the kernel", KERNEL)
    });
    checks.push(check_namespaces(app));
    checks.push(match app.environment.find_program("bwrap") {
        Some(path) => Check::ok("bubblewrap", format!("{}; not needed by any level", path.display())),
        None => Check::ok("bubblewrap", "not installed; not needed by any level"),
    });
    checks
}

fn check_landlock(version: u32, shortcomings: &[&str]) -> Check {
    if shortcomings.is_empty() {
        return Check::ok("landlock", format!("version {version} or newer"));
    }
    let detail = format!("version {version}; in `strict`, {}", shortcomings.join("; "));
    Check::warn("landlock", detail, KERNEL)
}

fn check_sandbox_level(level: SandboxLevel, support: SandboxSupport) -> Check {
    let highest = support.highest_level();
    let detail = format!("minimum level `{level}`; this machine supports up to `{highest}`");
    if level <= highest {
        Check::ok("sandbox", detail)
    } else {
        Check::fail(
            "sandbox",
            detail,
            "tasks that start programs will fail here: lower NOETL_SANDBOX, or use another machine",
        )
    }
}

fn check_namespaces(app: &App) -> Check {
    let results = ["--user", "--map-root-user", "--net", "--pid", "--fork", "true"];
    match program_output(app, Path::new("unshare"), &results) {
        Some(_) => Check::ok(
            "namespaces",
            "user, network and process namespaces; not needed by any level",
        ),
        None => Check::ok("namespaces", "not permitted; not needed by any level"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_missing_in_an_older_kernel_are_reported() {
        assert_eq!(check_landlock(6, &[]).remedy, None);
        let old = check_landlock(1, &["programs can signal others"]);
        assert_eq!(old.remedy, Some(KERNEL));
        assert!(old.detail.contains("programs can signal others"));
    }
}
