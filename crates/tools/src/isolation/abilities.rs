//! What this machine can do to hold a program.

use std::path::Path;
use std::sync::OnceLock;

use crate::isolation::{SandboxLevel, enforce};

/// From this version on, Landlock binds `truncate`.
pub(super) const LANDLOCK_TRUNCATES: u32 = 3;

/// From this version on, Landlock binds signals and sockets without a file.
const LANDLOCK_SCOPES: u32 = 6;

/// What this machine can do to hold a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// Whether a program can be kept from gaining rights.
    pub no_new_privileges: bool,
    /// The version of Landlock's interface; 0 where there is none.
    pub landlock: u32,
    /// Whether calls of the kernel can be filtered.
    pub seccomp: bool,
}

impl Abilities {
    /// What this machine can do, looked up once.
    pub fn here() -> Self {
        static FOUND: OnceLock<Abilities> = OnceLock::new();
        *FOUND.get_or_init(|| Self {
            no_new_privileges: cfg!(target_os = "linux"),
            landlock: enforce::landlock_version(),
            seccomp: enforce::can_filter()
                && Path::new("/proc/sys/kernel/seccomp/actions_avail").exists(),
        })
    }

    /// The highest level that it can give.
    pub fn most(self) -> SandboxLevel {
        let levels = [SandboxLevel::Strict, SandboxLevel::Basic];
        let given = levels
            .into_iter()
            .find(|level| self.lacks(*level).is_empty());
        given.unwrap_or_default()
    }

    /// What `strict` is here beside what it is on a newer kernel, one sentence each.
    pub fn shortcomings(self) -> Vec<&'static str> {
        let told = [
            (
                LANDLOCK_TRUNCATES,
                "`truncate` of a file by its name is refused altogether",
            ),
            (
                LANDLOCK_SCOPES,
                "programs can signal other processes of their user",
            ),
            (
                LANDLOCK_SCOPES,
                "with `network: true` they reach abstract sockets of other programs",
            ),
        ];
        let lacking = told.iter().filter(|(since, _)| self.landlock < *since);
        lacking.map(|(_, told)| *told).collect()
    }

    /// What is missing for a level.
    pub(crate) fn lacks(self, level: SandboxLevel) -> Vec<&'static str> {
        let needs = [
            (SandboxLevel::Basic, self.no_new_privileges, "no_new_privs"),
            (SandboxLevel::Strict, self.landlock > 0, "Landlock"),
            (SandboxLevel::Strict, self.seccomp, "seccomp"),
        ];
        let missing = needs.iter().filter(|(of, has, _)| level >= *of && !has);
        missing.map(|(.., name)| *name).collect()
    }
}
