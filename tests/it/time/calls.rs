//! The system calls of the thread that keeps the time, with their flags: those that a simulator of clock and network replaces,
//! and no others. What is not on the lists here would be real in an unreal world, or refused there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use tests::daemon::Daemon;
use tests::time::{Agent, PATIENCE, Says, Server, ask_patiently};
use tests::wait;

/// Calls that are simulated: clocks, sockets, waiting.
const SIMULATED: &[&str] = &[
    "bind",
    "clock_adjtime",
    "clock_gettime",
    "close",
    "connect",
    "fcntl",
    "getrandom",
    "getsockname",
    // NICs and their clocks.
    "ioctl",
    "poll",
    "read",
    "recvmsg",
    "sendmsg",
    "sendto",
    "setsockopt",
    "socket",
    "timerfd_create",
    "timerfd_settime",
    "write",
];
/// Calls that need not be: memory, other threads, a thread's end, a signal.
const HARMLESS: &[&str] = &[
    "brk",
    "exit",
    "exit_group",
    "futex",
    "madvise",
    "mmap",
    "mprotect",
    "munmap",
    "restart_syscall",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sigaltstack",
];

/// Of a call: how its flags begin, and those that clknetsim has.
type Flags = (&'static str, &'static str, &'static [&'static str]);
const FLAGS: &[Flags] = &[
    (
        "clock_gettime",
        "CLOCK_",
        &["CLOCK_MONOTONIC", "CLOCK_MONOTONIC_RAW", "CLOCK_REALTIME"],
    ),
    // F_GETFD: a build for tests asks before it closes a descriptor.
    ("fcntl", "F_", &["F_GETFD", "F_SETFD", "F_SETFL"]),
    ("poll", "POLL", &["POLLERR", "POLLIN", "POLLPRI"]),
    // MSG_ERRQUEUE: see `Reports`. The others describe what came.
    (
        "recvmsg",
        "MSG_",
        &["MSG_DONTWAIT", "MSG_ERRQUEUE", "MSG_TRUNC"],
    ),
    ("sendmsg", "MSG_", &["MSG_NOSIGNAL"]),
    ("sendto", "MSG_", &["MSG_NOSIGNAL"]),
    ("socket", "SOCK_", &["SOCK_DGRAM"]),
    ("timerfd_create", "CLOCK_", &["CLOCK_MONOTONIC"]),
    ("timerfd_create", "TFD_", &["TFD_NONBLOCK"]),
    ("timerfd_settime", "TFD_", &[]),
];

/// The same command, with all it does written down.
fn traced(command: &Command, trace: &Path) -> Command {
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-qq", "-s", "32", "-o"])
        .arg(trace)
        .arg(command.get_program())
        .args(command.get_args());
    strace
}

/// Ends the traced process, and with it the tracer, and returns the trace. A tracer itself takes no signal.
fn end(mut daemon: Daemon, trace: &Path) -> String {
    let read = || std::fs::read_to_string(trace).expect("strace writes it");
    let text = read();
    let (process, _) = text.split_once(' ').expect("the first line is its start");
    let process = process.parse().ok().and_then(Pid::from_raw);
    kill_process(process.expect("a number"), Signal::TERM).expect("it runs");
    daemon.wait();
    read()
}

/// The lines of the thread that made a timer, from there on; the only one that does.
fn loop_of(trace: &str) -> Vec<&str> {
    let is_made = |line: &&str| line.contains("timerfd_create(");
    let first = trace.lines().find(is_made).expect("a timer is made");
    let (thread, _) = first.split_once(' ').expect("a line begins with a number");
    trace
        .lines()
        .skip_while(|line| !is_made(line))
        .filter(|line| {
            line.split_once(' ')
                .is_some_and(|(other, _)| other == thread)
        })
        .collect()
}

/// The call of a line: `12 poll(…`, or the rest of one, `12 <... poll resumed>…`. None for a signal or an exit.
fn call(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(' ')?;
    let rest = rest.trim_start();
    let rest = rest.strip_prefix("<... ").unwrap_or(rest);
    let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')?;
    rest.get(..end).filter(|name| !name.is_empty())
}

/// The flags in a line that a simulator has not.
fn foreign_flags<'a>(name: &str, line: &'a str) -> Vec<&'a str> {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = line.split(|letter| !is_word(letter));
    let is_foreign = |word: &&str| {
        FLAGS.iter().any(|(call, prefix, known)| {
            *call == name && word.starts_with(prefix) && !known.contains(word)
        })
    };
    words.filter(is_foreign).collect()
}

/// The descriptors whose error the last poll reported. The error queue of another is empty as far as anybody knows, and a
/// simulator reads an empty one as the queue of datagrams, whose first it takes.
#[derive(Default)]
struct Reports {
    reported: BTreeSet<String>,
    /// The descriptor of a `recvmsg` that was interrupted by a line of another thread.
    unfinished: Option<String>,
}

impl Reports {
    /// Whether the call of this line is allowed.
    fn is_allowed(&mut self, name: &str, line: &str) -> bool {
        match name {
            "poll" => self.polled(line),
            "recvmsg" => {
                let descriptor = line
                    .split_once(" recvmsg(")
                    .and_then(|(_, rest)| rest.split_once(','))
                    .map(|(descriptor, _)| descriptor.to_owned());
                let descriptor = descriptor.or_else(|| self.unfinished.take());
                if line.contains("<unfinished") {
                    self.unfinished = descriptor;
                    return true;
                }
                let flags = line.rsplit_once("}, ").map_or("", |(_, flags)| flags);
                return !flags.contains("MSG_ERRQUEUE")
                    || descriptor.is_some_and(|one| self.reported.contains(&one));
            }
            _ => {}
        }
        true
    }

    /// `… = 1 ([{fd=9, revents=POLLPRI|POLLERR}])`.
    fn polled(&mut self, line: &str) {
        let Some((_, result)) = line.rsplit_once(" = ") else {
            return;
        };
        let states = result.split("{fd=").skip(1);
        let is_error = |state: &&str| state.contains("POLLPRI") || state.contains("POLLERR");
        let number = |state: &str| Some(state.split_once(',')?.0.to_owned());
        self.reported = states.filter(is_error).filter_map(number).collect();
    }
}

#[track_caller]
fn check(lines: &[&str], wanted: &[&str]) {
    let mut reports = Reports::default();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in lines {
        let Some(name) = call(line) else {
            continue;
        };
        assert!(
            SIMULATED.contains(&name) || HARMLESS.contains(&name),
            "not on the list: {line}"
        );
        *counts.entry(name).or_default() += 1;
        let foreign = foreign_flags(name, line);
        assert!(foreign.is_empty(), "{foreign:?} in {line}");
        assert!(
            reports.is_allowed(name, line),
            "no poll reported this error queue: {line}"
        );
        if let Some((_, length)) = line.split_once("msg_iovlen=") {
            assert!(length.starts_with("1,"), "{line}");
        }
    }
    for name in wanted {
        assert!(counts.contains_key(name), "no {name} in {counts:?}");
    }
}

#[test]
fn the_check_sees_flags_and_reads_of_the_error_queue() {
    let table = [
        (
            "timerfd_create",
            "1 timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK) = 5",
            0,
        ),
        (
            "timerfd_create",
            "1 timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC|TFD_NONBLOCK) = 5",
            1,
        ),
        (
            "socket",
            "1 socket(AF_INET, SOCK_DGRAM|SOCK_CLOEXEC, IPPROTO_IP) = 6",
            1,
        ),
        (
            "timerfd_settime",
            "1 timerfd_settime(5, TFD_TIMER_ABSTIME, {it_interval",
            1,
        ),
    ];
    for (name, line, n) in table {
        assert_eq!(foreign_flags(name, line).len(), n, "{line}");
    }
    let mut reports = Reports::default();
    let lines = [
        (
            "1 recvmsg(6, {msg_namelen=28}, MSG_DONTWAIT|MSG_ERRQUEUE) = -1 EAGAIN",
            false,
        ),
        (
            "1 poll([{fd=5, events=POLLIN|POLLPRI}, {fd=6, events=POLLIN|POLLPRI}], 2, -1 <unfinished ...>",
            true,
        ),
        (
            "1 <... poll resumed>) = 1 ([{fd=6, revents=POLLPRI|POLLERR}])",
            true,
        ),
        (
            "1 recvmsg(6, {msg_namelen=0, msg_flags=MSG_ERRQUEUE}, MSG_DONTWAIT|MSG_ERRQUEUE) = 48",
            true,
        ),
        ("1 recvmsg(5,  <unfinished ...>", true),
        (
            "1 <... recvmsg resumed>{msg_namelen=0}, MSG_DONTWAIT|MSG_ERRQUEUE) = 48",
            false,
        ),
        (
            "1 poll([{fd=6, events=POLLIN|POLLPRI}], 1, -1) = 1 ([{fd=6, revents=POLLIN}])",
            true,
        ),
        (
            "1 recvmsg(6, {msg_namelen=0}, MSG_DONTWAIT|MSG_ERRQUEUE) = 48",
            false,
        ),
        ("1 recvmsg(6, {msg_namelen=0}, MSG_DONTWAIT) = 48", true),
    ];
    for (line, is_allowed) in lines {
        let name = call(line).expect("a call");
        assert_eq!(reports.is_allowed(name, line), is_allowed, "{line}");
    }
}

#[test]
fn the_thread_that_keeps_the_time_makes_only_calls_that_can_be_simulated() {
    let server = Server::on_loopback(Says::default());
    let lines = server.line("iburst minpoll -2 maxpoll -2 xleave");
    // No card here stamps: the kernel does, and one line says so.
    let agent = Agent::on_loopback(&format!(
        "{lines}log measurements statistics tracking\nhwtimestamp lo\nhwtimestamp *\n"
    ));
    let trace = agent.files.join("trace");
    let daemon = Daemon::spawn("traced", traced(&agent.serve(), &trace));
    agent.wait_state(&["locked"]);
    let n = server.n_requests();
    wait::for_it("a few more requests", PATIENCE, || {
        server.n_requests() > n + 4
    });
    let told = daemon.log();
    let n_told = told.matches("The kernel timestamps packets, not the NIC");
    assert_eq!(n_told.count(), 1, "{told}");
    let text = end(daemon, &trace);
    let wanted = [
        "clock_adjtime",
        "close",
        "connect",
        "poll",
        "recvmsg",
        "sendto",
        "socket",
        "timerfd_settime",
    ];
    check(&loop_of(&text), &wanted);
}

#[test]
fn alone_it_serves_with_the_same_calls() {
    let server = Server::on_loopback(Says::default());
    let lines = server.line("iburst minpoll -2 maxpoll -2");
    let agent = Agent::on_loopback(&format!("{lines}allow 127.0.0.0/8\n"));
    let trace = agent.files.join("trace");
    let mut command = agent.command("solo");
    command
        .arg("--no-clock")
        .arg("--chrony-conf")
        .arg(agent.files.join("chrony.conf"));
    let daemon = Daemon::spawn("traced", traced(&command, &trace));
    daemon.wait_log("locked");
    let reply = ask_patiently(agent.address());
    assert_eq!((reply.leap(), reply.stratum), (0, 2));
    agent.wait_offset(0.0, 0.1);
    let text = end(daemon, &trace);
    check(&loop_of(&text), &["poll", "recvmsg", "sendmsg", "sendto"]);
    // From its first reading of a clock on it has not made another thread either, but for the drift file.
    let threads = text.matches("clone3(").count();
    assert!(threads <= 1, "{threads} threads");
    assert!(agent.drift_file().exists(), "the frequency is kept");
}
