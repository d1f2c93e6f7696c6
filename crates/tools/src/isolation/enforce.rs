//! Applies a sandbox to the current thread and the programs that it starts: privileges, files, network and system
//! calls.
//!
//! Every mechanism here applies to one thread, is inherited by children and cannot be undone. So a dedicated thread
//! restricts itself, starts the program and ends. No code runs between `fork` and `exec`.

use std::io;

use crate::isolation::sandbox::SandboxRules;

#[cfg(target_os = "linux")]
pub(super) use linux::{can_filter, enforce, landlock_version};
#[cfg(not(target_os = "linux"))]
pub(super) use nothing::{can_filter, enforce, landlock_version};

#[cfg(not(target_os = "linux"))]
mod nothing {
    use super::{SandboxRules, io};

    pub(in crate::isolation) fn enforce(_: &SandboxRules) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(in crate::isolation) fn landlock_version() -> u32 {
        0
    }

    pub(in crate::isolation) fn can_filter() -> bool {
        false
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};

    use landlock::{
        ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
        RulesetError, RulesetStatus, Scope, path_beneath_rules,
    };
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
        TargetArch,
    };

    use super::{SandboxRules, io};
    use crate::isolation::support::LANDLOCK_TRUNCATE_VERSION;
    use crate::isolation::{SandboxLevel, SandboxSupport};

    /// Landlock ABI version to use, as far as the kernel supports it.
    const ABI_WANTED: ABI = ABI::V6;

    /// Paths that programs and interpreters need to start.
    const SYSTEM_PATHS: [&str; 24] = [
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/lib32",
        "/lib64",
        "/nix/store",
        "/etc/alternatives",
        "/etc/ca-certificates",
        "/etc/group",
        "/etc/host.conf",
        "/etc/hosts",
        "/etc/ld.so.cache",
        "/etc/ld.so.conf",
        "/etc/ld.so.conf.d",
        "/etc/ld.so.preload",
        "/etc/locale.alias",
        "/etc/localtime",
        "/etc/mime.types",
        "/etc/nsswitch.conf",
        "/etc/passwd",
        "/etc/pki",
        "/etc/resolv.conf",
        "/etc/ssl",
    ];

    /// Harmless devices.
    const DEVICE_PATHS: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

    /// Denied system calls: they affect other processes, the kernel or the machine, or bypass the other rules.
    const DENIED_CALLS: &[libc::c_long] = &[
        libc::SYS_acct,
        libc::SYS_add_key,
        libc::SYS_adjtimex,
        libc::SYS_bpf,
        libc::SYS_chroot,
        libc::SYS_clock_adjtime,
        libc::SYS_clock_settime,
        libc::SYS_delete_module,
        libc::SYS_finit_module,
        libc::SYS_fsconfig,
        libc::SYS_fsmount,
        libc::SYS_fsopen,
        libc::SYS_fspick,
        libc::SYS_init_module,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_io_uring_setup,
        libc::SYS_kcmp,
        libc::SYS_kexec_load,
        libc::SYS_keyctl,
        libc::SYS_mount,
        libc::SYS_mount_setattr,
        libc::SYS_move_mount,
        libc::SYS_name_to_handle_at,
        libc::SYS_open_by_handle_at,
        libc::SYS_open_tree,
        libc::SYS_perf_event_open,
        libc::SYS_pidfd_getfd,
        libc::SYS_pivot_root,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_ptrace,
        libc::SYS_quotactl,
        libc::SYS_reboot,
        libc::SYS_request_key,
        libc::SYS_setdomainname,
        libc::SYS_sethostname,
        libc::SYS_setns,
        libc::SYS_settimeofday,
        libc::SYS_swapoff,
        libc::SYS_swapon,
        libc::SYS_syslog,
        libc::SYS_umount2,
        libc::SYS_unshare,
        libc::SYS_userfaultfd,
    ];

    pub(in crate::isolation) fn enforce(sandbox_rules: &SandboxRules) -> io::Result<()> {
        rustix::thread::set_no_new_privs(true)?;
        if sandbox_rules.level >= SandboxLevel::Strict {
            restrict_files(sandbox_rules).map_err(io::Error::other)?;
            let rules = denied_calls(sandbox_rules.has_network, SandboxSupport::detect().landlock);
            let rules = rules.map_err(io::Error::other)?;
            filter_calls(rules).map_err(io::Error::other)?;
        }
        Ok(())
    }

    #[derive(Debug, thiserror::Error)]
    enum RestrictError {
        #[error("Landlock: {0}")]
        Rules(#[from] RulesetError),
        #[error("Landlock is not enforced")]
        NotEnforced,
    }

    fn restrict_files(sandbox_rules: &SandboxRules) -> Result<(), RestrictError> {
        let read_only = AccessFs::from_read(ABI_WANTED);
        let everything = AccessFs::from_all(ABI_WANTED);
        let device = AccessFs::ReadFile | AccessFs::WriteFile;
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(ABI::V1))?
            // Rights of newer kernels are used if they exist.
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(everything)?
            .scope(Scope::from_all(ABI_WANTED))?;
        if !sandbox_rules.has_network {
            rules = rules.handle_access(AccessNet::from_all(ABI_WANTED))?;
        }
        let system = SYSTEM_PATHS.iter().map(Path::new);
        let readable = system.chain(sandbox_rules.read_paths.iter().map(PathBuf::as_path));
        let status = rules
            .create()?
            .add_rules(path_beneath_rules(readable, read_only))?
            .add_rules(path_beneath_rules(&sandbox_rules.write_paths, everything))?
            .add_rules(path_beneath_rules(DEVICE_PATHS, device))?
            .restrict_self()?;
        match status.ruleset {
            RulesetStatus::NotEnforced => Err(RestrictError::NotEnforced),
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        }
    }

    pub(in crate::isolation) fn landlock_version() -> u32 {
        let versions = [ABI::V1, ABI::V2, ABI::V3, ABI::V4, ABI::V5, ABI::V6];
        let supported = versions.iter().take_while(|version| supports_abi(**version));
        u32::try_from(supported.count()).unwrap_or(0)
    }

    /// Whether the kernel supports a version completely; the check enforces nothing.
    fn supports_abi(version: ABI) -> bool {
        let probe = || {
            let mut rules = Ruleset::default()
                .set_compatibility(CompatLevel::HardRequirement)
                .handle_access(AccessFs::from_all(version))?;
            let network: BitFlags<AccessNet> = AccessNet::from_all(version);
            if !network.is_empty() {
                rules = rules.handle_access(network)?;
            }
            let scopes: BitFlags<Scope> = Scope::from_all(version);
            if !scopes.is_empty() {
                rules = rules.scope(scopes)?;
            }
            rules.create()
        };
        probe().is_ok()
    }

    pub(in crate::isolation) fn can_filter() -> bool {
        TargetArch::try_from(std::env::consts::ARCH).is_ok()
    }

    fn filter_calls(rules: SeccompRules) -> Result<(), seccompiler::Error> {
        let denied = SeccompAction::Errno(errno_value(libc::EPERM));
        let absent = SeccompAction::Errno(errno_value(libc::ENOSYS));
        seccompiler::apply_filter(&compile_filter(rules, denied)?)?;
        // The flags of `clone3` are behind a pointer, so they cannot be filtered; programs fall back to `clone`.
        let unseen = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
        seccompiler::apply_filter(&compile_filter(unseen, absent)?)
    }

    type SeccompRules = BTreeMap<i64, Vec<SeccompRule>>;

    /// System calls to deny with this version of Landlock.
    fn denied_calls(network: bool, landlock: u32) -> Result<SeccompRules, seccompiler::Error> {
        let mut rules: SeccompRules = DENIED_CALLS.iter().map(|call| (*call, Vec::new())).collect();
        if landlock < LANDLOCK_TRUNCATE_VERSION {
            // These versions do not restrict `truncate`; a file opened for writing can still be emptied.
            rules.insert(libc::SYS_truncate, Vec::new());
        }
        if !network {
            rules.insert(libc::SYS_socket, Vec::new());
        }
        let new_user = SeccompCmpOp::MaskedEq(flag_value(libc::CLONE_NEWUSER));
        let new_user = argument_rule(0, new_user, flag_value(libc::CLONE_NEWUSER))?;
        rules.insert(libc::SYS_clone, vec![new_user]);
        // TIOCSTI would type into the terminal that the worker runs in.
        let typing = argument_rule(1, SeccompCmpOp::Eq, libc::TIOCSTI)?;
        rules.insert(libc::SYS_ioctl, vec![typing]);
        Ok(rules)
    }

    fn argument_rule(argument: u8, operation: SeccompCmpOp, value: u64) -> Result<SeccompRule, seccompiler::Error> {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operation, value)?;
        Ok(SeccompRule::new(vec![condition])?)
    }

    fn compile_filter(rules: SeccompRules, action: SeccompAction) -> Result<BpfProgram, seccompiler::Error> {
        let machine = TargetArch::try_from(std::env::consts::ARCH)?;
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, machine)?;
        Ok(filter.try_into()?)
    }

    fn errno_value(number: i32) -> u32 {
        number.unsigned_abs()
    }

    fn flag_value(flag: i32) -> u64 {
        u64::from(flag.unsigned_abs())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn system_calls_that_landlock_does_not_restrict_are_denied() {
            for (landlock, is_refused) in [(1, true), (2, true), (3, false), (6, false)] {
                let rules = denied_calls(true, landlock).unwrap();
                let restricts_truncate = rules.contains_key(&libc::SYS_truncate);
                assert_eq!(restricts_truncate, is_refused, "version {landlock}");
                compile_filter(rules, SeccompAction::Errno(errno_value(libc::EPERM))).unwrap();
            }
        }
    }
}
