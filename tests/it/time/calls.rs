//! The system calls of the thread that keeps the time: those that a simulator of clock and network replaces, and no
//! others. What is not on the list here would be real in an unreal world.

use std::collections::BTreeMap;
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

#[track_caller]
fn check(lines: &[&str], wanted: &[&str]) {
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
        if line.contains(" socket(") {
            // With flags in its type a socket is refused in a simulation.
            assert!(line.contains(", SOCK_DGRAM, IPPROTO_IP"), "{line}");
        }
        if let Some((_, length)) = line.split_once("msg_iovlen=") {
            assert!(length.starts_with("1,"), "{line}");
        }
    }
    for name in wanted {
        assert!(counts.contains_key(name), "no {name} in {counts:?}");
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
