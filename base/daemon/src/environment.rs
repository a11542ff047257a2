//! The service manager's environment variables, read once.
//!
//! A service reads no other environment variables, so nothing depends on when they are read, and no thread can race with a
//! change of them. Options of a command may be variables: those of `dns-recursor node-hosts`, read before its threads start.

use std::env;
use std::ffi::OsString;
use std::sync::OnceLock;
use std::time::Duration;

/// The variables of systemd's protocols (`sd_listen_fds(3)`, `sd_notify(3)`, `sd_watchdog_enabled(3)`).
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// `LISTEN_PID`: the process the inherited sockets are meant for.
    pub listen_pid: Option<u32>,
    /// `LISTEN_FDS`: how many sockets were handed over, from descriptor 3 on.
    pub listen_fds: usize,
    /// `LISTEN_FDNAMES`: their names, in order.
    pub listen_names: Vec<String>,
    /// `NOTIFY_SOCKET`: the socket that takes reports of states.
    pub notify_socket: Option<OsString>,
    /// `WATCHDOG_USEC`, when `WATCHDOG_PID` is this process or unset.
    pub watchdog: Option<Duration>,
    /// `JOURNAL_STREAM`: device and inode of the journal's end of standard error.
    pub journal_stream: Option<(u64, u64)>,
}

impl Environment {
    /// The environment this process started with.
    pub fn current() -> &'static Self {
        static CURRENT: OnceLock<Environment> = OnceLock::new();
        CURRENT.get_or_init(|| Self::from_lookup(std::process::id(), |name| env::var_os(name)))
    }

    /// Reads the variables through `lookup`, for the process `pid`.
    pub fn from_lookup(pid: u32, lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        let text = |name: &str| lookup(name).and_then(|value| value.into_string().ok());
        let number = |name: &str| text(name).and_then(|value| value.trim().parse::<u64>().ok());
        let small = |name: &str| number(name).and_then(|value| u32::try_from(value).ok());
        let names = text("LISTEN_FDNAMES").filter(|names| !names.is_empty());
        let for_us = small("WATCHDOG_PID").is_none_or(|watched| watched == pid);
        Self {
            listen_pid: small("LISTEN_PID"),
            listen_fds: number("LISTEN_FDS")
                .and_then(|count| usize::try_from(count).ok())
                .unwrap_or(0),
            listen_names: names
                .map(|names| names.split(':').map(str::to_owned).collect())
                .unwrap_or_default(),
            notify_socket: lookup("NOTIFY_SOCKET").filter(|path| !path.is_empty()),
            watchdog: number("WATCHDOG_USEC")
                .filter(|&micros| micros > 0 && for_us)
                .map(Duration::from_micros),
            journal_stream: text("JOURNAL_STREAM").and_then(|value| {
                let (device, inode) = value.split_once(':')?;
                Some((device.parse().ok()?, inode.parse().ok()?))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pid: u32, variables: &[(&str, &str)]) -> Environment {
        Environment::from_lookup(pid, |name| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn nothing_set_is_nothing_asked() {
        let environment = read(7, &[]);
        assert_eq!(environment.listen_fds, 0);
        assert!(environment.notify_socket.is_none());
        assert!(environment.watchdog.is_none());
    }

    #[test]
    fn a_watchdog_meant_for_another_process_is_not_ours() {
        let usec = ("WATCHDOG_USEC", "3000000");
        assert_eq!(read(7, &[usec]).watchdog, Some(Duration::from_secs(3)));
        let ours = read(7, &[usec, ("WATCHDOG_PID", "7")]);
        assert_eq!(ours.watchdog, Some(Duration::from_secs(3)));
        assert_eq!(read(7, &[usec, ("WATCHDOG_PID", "8")]).watchdog, None);
        assert_eq!(read(7, &[("WATCHDOG_USEC", "0")]).watchdog, None);
        assert_eq!(read(7, &[("WATCHDOG_USEC", "soon")]).watchdog, None);
    }

    #[test]
    fn sockets_and_journal_are_read() {
        let environment = read(
            7,
            &[
                ("LISTEN_PID", "7"),
                ("LISTEN_FDS", "2"),
                ("LISTEN_FDNAMES", "dns:admin"),
                ("JOURNAL_STREAM", "9:4711"),
            ],
        );
        assert_eq!(environment.listen_pid, Some(7));
        assert_eq!(environment.listen_fds, 2);
        assert_eq!(environment.listen_names, ["dns", "admin"]);
        assert_eq!(environment.journal_stream, Some((9, 4711)));
    }
}
