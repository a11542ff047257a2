//! The limits of a unit, `MemoryMax=` and `TasksMax=`, as systemd sets them: by a control group of its own for each slot.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::installed::values;

/// Where control groups are.
const ROOT: &str = "/sys/fs/cgroup";

/// The control groups of a slot: one where the kernel has version 2, one for each controller where it has version 1. None where
/// none can be made.
#[derive(Debug, Default)]
pub(super) struct Limits {
    groups: Vec<PathBuf>,
}

impl Limits {
    /// Makes the groups of a unit.
    pub(super) fn of(unit: &str) -> Self {
        let limit = |key: &str| values(unit, key).first().map(|limit| bytes(limit));
        let (memory, tasks) = (limit("MemoryMax"), limit("TasksMax"));
        let (Some(memory), Some(tasks)) = (memory, tasks) else {
            panic!("no limits in {unit}");
        };
        let files: [(&str, &str, u64); 2] =
            match Path::new(ROOT).join("cgroup.controllers").exists() {
                true => [("", "memory.max", memory), ("", "pids.max", tasks)],
                false => [
                    ("memory", "memory.limit_in_bytes", memory),
                    ("pids", "pids.max", tasks),
                ],
            };
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("outpost-test-{}-{number}", std::process::id());
        let mut limits = Self::default();
        for (controller, file, limit) in files {
            let group = Path::new(ROOT).join(controller).join(&name);
            if !group.exists() && fs::create_dir(&group).is_err() {
                return Self::none();
            }
            if !limits.groups.contains(&group) {
                limits.groups.push(group.clone());
            }
            if fs::write(group.join(file), limit.to_string()).is_err() {
                return Self::none();
            }
        }
        limits
    }

    fn none() -> Self {
        eprintln!(
            "no control groups can be made here: the services run without the limits of their units"
        );
        Self::default()
    }

    /// The commands of a shell that put it, and what it becomes, into the groups.
    pub(super) fn script(&self) -> String {
        let join = |group: &PathBuf| format!("echo $$ >{}/cgroup.procs; ", group.display());
        self.groups.iter().map(join).collect()
    }

    /// How many processes the kernel has ended because there was no memory left for them.
    pub(super) fn n_killed(&self) -> u64 {
        let files = ["memory.events", "memory.oom_control"];
        let texts = self
            .groups
            .iter()
            .flat_map(|group| files.map(|file| group.join(file)));
        let texts = texts.filter_map(|path| fs::read_to_string(path).ok());
        texts.map(|text| field(&text, "oom_kill")).sum()
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        for group in &self.groups {
            // A process may still be on its way out: then the empty group stays until the machine starts again.
            drop(fs::remove_dir(group));
        }
    }
}

/// The octets of `256M`; a bare number is itself.
fn bytes(limit: &str) -> u64 {
    let (digits, unit) = match limit.strip_suffix('M') {
        Some(digits) => (digits, 1 << 20),
        None => (limit, 1),
    };
    digits.parse::<u64>().expect("a limit is a number") * unit
}

fn field(text: &str, key: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let value = lines.find_map(|(name, value)| (name == key).then_some(value));
    value
        .and_then(|value| value.trim().parse().ok())
        .unwrap_or(0)
}
