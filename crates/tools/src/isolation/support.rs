//! Sandbox support of this machine.

use std::path::Path;
use std::sync::OnceLock;

use crate::isolation::{SandboxLevel, enforce};

/// First Landlock version that restricts `truncate`.
pub(super) const LANDLOCK_TRUNCATE_VERSION: u32 = 3;

/// First Landlock version that restricts signals and abstract sockets.
const LANDLOCK_SCOPE_VERSION: u32 = 6;

/// Sandbox features of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxSupport {
    /// Whether programs can be prevented from gaining privileges.
    pub no_new_privileges: bool,
    /// Landlock ABI version; 0 if not supported.
    pub landlock: u32,
    /// Whether system calls can be filtered.
    pub seccomp: bool,
}

impl SandboxSupport {
    /// Features of this machine, detected once.
    pub fn detect() -> Self {
        static FOUND: OnceLock<SandboxSupport> = OnceLock::new();
        *FOUND.get_or_init(|| Self {
            no_new_privileges: cfg!(target_os = "linux"),
            landlock: enforce::landlock_version(),
            seccomp: enforce::can_filter() && Path::new("/proc/sys/kernel/seccomp/actions_avail").exists(),
        })
    }

    /// Highest supported level.
    pub fn highest_level(self) -> SandboxLevel {
        let levels = [SandboxLevel::Strict, SandboxLevel::Basic];
        let level = levels.into_iter().find(|level| self.missing_for(*level).is_empty());
        level.unwrap_or_default()
    }

    /// Limitations of `strict` on this kernel, one phrase each.
    pub fn limitations(self) -> Vec<&'static str> {
        let features = [
            (
                LANDLOCK_TRUNCATE_VERSION,
                "`truncate` of a file by name is always denied",
            ),
            (
                LANDLOCK_SCOPE_VERSION,
                "programs can send signals to other processes of the same user",
            ),
            (
                LANDLOCK_SCOPE_VERSION,
                "with `network: true` programs can connect to abstract sockets of other programs",
            ),
        ];
        let missing = features.iter().filter(|(since, _)| self.landlock < *since);
        missing.map(|(_, feature)| *feature).collect()
    }

    /// Missing features for a level.
    pub(crate) fn missing_for(self, level: SandboxLevel) -> Vec<&'static str> {
        let needs = [
            (SandboxLevel::Basic, self.no_new_privileges, "no_new_privs"),
            (SandboxLevel::Strict, self.landlock > 0, "Landlock"),
            (SandboxLevel::Strict, self.seccomp, "seccomp"),
        ];
        let missing = needs.iter().filter(|(of, has, _)| level >= *of && !has);
        missing.map(|(.., name)| *name).collect()
    }
}
