//! Other programs that correct the clock: with two of them, neither can.
//!
//! Programs that this process can see are found at start, before anything is changed. A program that it cannot see (on the host
//! of a container, say) is noticed by a clock that has changed; [`Clock::look`](super::clock::Clock::look) sees that.

use std::fmt;
use std::fs;
use std::path::Path;

/// Names of such programs, as the kernel has them: 15 letters at most.
const NAMES: [&str; 9] = [
    "chronyd",
    "ntpd",
    "ntp-daemon",
    "openntpd",
    "systemd-timesyn",
    "busybox-ntpd",
    "ptp4l",
    "phc2sys",
    "timesync-agent",
];

/// `CAP_SYS_TIME` (linux/capability.h).
const SET_TIME: u64 = 1 << 25;

/// A program that may correct the clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompetingService {
    /// The name of the program.
    pub name: String,
    /// Its number.
    pub pid: u32,
}

impl fmt::Display for CompetingService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.name, self.pid)
    }
}

/// The first one that runs here, by the process directory (`/proc`). A `ptp4l` that keeps a card's clock is none where its time
/// is taken from that clock: `with_ptp` says so.
#[must_use]
pub fn find(processes: &Path, with_ptp: bool) -> Option<CompetingService> {
    let own = std::process::id();
    let mut services: Vec<CompetingService> = fs::read_dir(processes)
        .ok()?
        .flatten()
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let name = fs::read_to_string(entry.path().join("comm")).ok()?;
            let arguments = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let name = name.trim_end();
            let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
            let is_one = is_competing(name, &arguments, with_ptp) && may_set_clock(&status);
            is_one.then(|| CompetingService {
                name: name.to_owned(),
                pid,
            })
        })
        .filter(|service| service.pid != own)
        .collect();
    services.sort_by_key(|service| service.pid);
    services.into_iter().next()
}

/// Returns whether a process may set the clock, by the kernel's account of its capabilities: a process without them corrects no
/// clock. An agent whose configuration leaves the clock alone has given them up.
fn may_set_clock(status: &str) -> bool {
    let set = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_none_or(|set| set & SET_TIME != 0)
}

/// Whether a program corrects the clock, by its name and its arguments (each ends with a zero).
fn is_competing(name: &str, arguments: &[u8], with_ptp: bool) -> bool {
    if !NAMES.contains(&name) || (name == "ptp4l" && with_ptp) {
        return false;
    }
    let lets_it_alone = |argument: &[u8]| match name {
        // Options that make these leave the clock as it is; letters stand alone or in a row.
        "chronyd" => {
            argument.starts_with(b"-")
                && !argument.starts_with(b"--")
                && argument.iter().any(|letter| b"xQp".contains(letter))
        }
        "timesync-agent" => {
            [&b"-x"[..], b"--no-clock", b"-Q", b"--measure-once"].contains(&argument)
        }
        "ptp4l" => argument == b"--free_running=1",
        _ => false,
    };
    // Only the commands of the list that serve correct the clock.
    let serves = name != "timesync-agent"
        || arguments
            .split(|octet| *octet == 0)
            .any(|word| word == b"serve");
    serves
        && !arguments
            .split(|octet| *octet == 0)
            .skip(1)
            .any(lets_it_alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_correct_the_clock_are_known() {
        for (name, arguments, with_ptp, expected) in [
            ("chronyd", "chronyd\0-F\x001\0", false, true),
            ("chronyd", "chronyd\0-x\0-f\0/etc/x.conf\0", false, false),
            ("chronyd", "chronyd\0-dx\0", false, false),
            ("chronyd", "chronyd\0-f\0/etc/x.conf\0", false, true),
            (
                "systemd-timesyn",
                "/lib/systemd/systemd-timesyncd\0",
                true,
                true,
            ),
            ("ptp4l", "ptp4l\0-i\0eth0\0", false, true),
            ("ptp4l", "ptp4l\0-i\0eth0\0", true, false),
            ("phc2sys", "phc2sys\0-a\0-r\0", true, true),
            ("timesync-agent", "timesync-agent\0serve\0", false, true),
            (
                "timesync-agent",
                "timesync-agent\0serve\0-x\0",
                false,
                false,
            ),
            ("timesync-agent", "timesync-agent\0status\0", false, false),
            ("chronyc", "chronyc\0", false, false),
            ("xntpd", "", false, false),
        ] {
            let found = is_competing(name, arguments.as_bytes(), with_ptp);
            assert_eq!(found, expected, "{name} {arguments:?}");
        }
    }

    #[test]
    fn who_may_not_set_the_clock_is_no_rival() {
        for (status, expected) in [
            (
                "Name:\tchronyd\nCapPrm:\t0000000000000000\nCapEff:\t0000000002000400\n",
                true,
            ),
            ("CapEff:\t000001ffffffffff\n", true),
            (
                "CapPrm:\t0000000002000000\nCapEff:\t0000000000000400\n",
                false,
            ),
            ("CapEff:\t0000000000000000\n", false),
            ("CapEff:\tnobody knows\n", true),
            ("", true),
        ] {
            assert_eq!(may_set_clock(status), expected, "{status:?}");
        }
    }

    #[test]
    fn the_first_rival_is_found_among_processes() {
        let directory = tempfile::tempdir().unwrap();
        for (pid, name) in [(7, "init"), (40, "ntpd"), (9, "chronyd"), (8, "phc2sys")] {
            let process = directory.path().join(pid.to_string());
            fs::create_dir_all(&process).unwrap();
            fs::write(process.join("comm"), format!("{name}\n")).unwrap();
            let flag = if pid == 8 { "" } else { "-x" };
            fs::write(process.join("cmdline"), format!("{name}\0{flag}\0")).unwrap();
        }
        fs::create_dir_all(directory.path().join("self")).unwrap();
        let found = find(directory.path(), false);
        fs::remove_dir_all(directory.path()).unwrap();
        assert_eq!(found.unwrap().to_string(), "phc2sys (process 8)");
        assert_eq!(find(directory.path(), false), None, "nothing can be seen");
    }
}
