//! `dns-recursor node-hosts`: the hosts file of a node.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tests::binaries::binary;
use tests::daemon::{Daemon, http_get, metric, run};
use tests::dns::{A, AAAA, NOERROR, NXDOMAIN};
use tests::scratch::{Scratch, at, loopback};
use tests::upstream::{Action, Asked, Upstream};
use tests::wait;

const SERVICE: &str = "image-registry.openshift-image-registry.svc";
const OTHERS: &str = "127.0.0.1 localhost\n10.0.0.5 node1";
const BEGIN: &str = "# BEGIN outpost-node-resolver";
const END: &str = "# END outpost-node-resolver";
/// Far longer than anything takes here: a busy machine is no fault.
const LONG: Duration = Duration::from_secs(60);

/// A hosts file, and a server for the services in it.
struct Place {
    files: Scratch,
    server: SocketAddr,
    admin: SocketAddr,
}

impl Place {
    fn new(hosts: &str) -> Self {
        let files = Scratch::new("node-hosts");
        fs::write(files.join("hosts"), hosts).unwrap();
        Self {
            files,
            server: at(loopback(), 5300),
            admin: at(loopback(), 9408),
        }
    }

    fn hosts(&self) -> PathBuf {
        self.files.join("hosts")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.hosts()).unwrap_or_default()
    }

    /// The command with the variables of the script that it replaces.
    fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(binary("dns-recursor"));
        command
            .env("SERVICES", SERVICE)
            .env("CLUSTER_DOMAIN", "cluster.local")
            .args(["node-hosts", "--nameserver", &self.server.to_string()])
            .args(["--admin", &self.admin.to_string()])
            .arg("--hosts-file")
            .arg(self.hosts())
            .args(more);
        command
    }

    fn start(&self, more: &[&str]) -> Daemon {
        Daemon::start("node-hosts", self.command(more))
    }

    fn wait_for(&self, text: &str) {
        wait::for_it(text, LONG, || self.text().contains(text));
    }

    fn metrics(&self) -> String {
        http_get(self.admin, "/metrics").unwrap().1
    }
}

/// A record for the service, of the family of the question.
fn addresses(asked: &Asked, v4: &[[u8; 4]], v6: &[[u8; 16]]) -> Action {
    let rtype = asked.message.questions[0].1;
    let records: Vec<(u16, u32, Vec<u8>)> = match rtype {
        A => v4.iter().map(|it| (A, 5, it.to_vec())).collect(),
        _ => v6.iter().map(|it| (AAAA, 5, it.to_vec())).collect(),
    };
    Action::Send(match records.is_empty() {
        true => asked.negative(NOERROR, "cluster.local", 5),
        false => asked.answer(NOERROR, &records),
    })
}

fn block(lines: &[&str]) -> String {
    let lines = lines
        .iter()
        .map(|it| format!("{it} {SERVICE} {SERVICE}.cluster.local\n"));
    format!("{BEGIN}\n{}{END}", lines.collect::<String>())
}

#[test]
fn lines_of_services_come_follow_and_stay() {
    let place = Place::new(OTHERS);
    let six = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let upstream = Upstream::start(place.server, move |asked| {
        addresses(asked, &[[172, 30, 1, 1]], &[six])
    });
    let daemon = place.start(&[]);
    let both = block(&["172.30.1.1", "fd00::1"]);
    wait::for_it("both families", LONG, || {
        place.text() == format!("{OTHERS}\n{both}")
    });
    let status = || {
        let mut command = Command::new(binary("dns-recursor"));
        command.args(["node-hosts", "status", "--admin", &place.admin.to_string()]);
        run(command).1
    };
    wait::for_it("the status of the write", LONG, || {
        let (status, all) = (
            status(),
            ["(replaced)", "2 lines in the block", "IPv6: fd00::1"],
        );
        all.iter().all(|told| status.contains(told))
    });
    assert_eq!(metric(&place.metrics(), "node_hosts_entries"), Some(2.0));
    // Another address, after a signal; then the server fails, which changes nothing.
    upstream.act(|asked| addresses(asked, &[[172, 30, 1, 2]], &[]));
    daemon.hang_up();
    place.wait_for("172.30.1.2 ");
    upstream.act(|asked| Action::Send(asked.answer(tests::dns::SERVFAIL, &[])));
    daemon.hang_up();
    let failed = "node_hosts_lookups_total{outcome=\"failed\"}";
    wait::for_it("failures", LONG, || {
        metric(&place.metrics(), failed).is_some_and(|count| count >= 2.0)
    });
    assert!(place.text().contains("172.30.1.2 "), "{}", place.text());
    // SIGTERM leaves the file, and the next process keeps its lines while the server is silent.
    daemon.stop();
    let left = place.text();
    assert!(left.contains("172.30.1.2 "), "{left}");
    upstream.act(|_| Action::Silence);
    let daemon = place.start(&["--clean"]);
    daemon.stop();
    assert_eq!(
        place.text(),
        OTHERS,
        "--clean removes the block, and no other octet"
    );
}

#[test]
fn a_service_that_is_gone_goes_when_that_is_wanted() {
    let place = Place::new(OTHERS);
    let upstream = Upstream::start(place.server, |asked| {
        addresses(asked, &[[172, 30, 1, 1]], &[])
    });
    let daemon = place.start(&["--remove-after", "1ms"]);
    place.wait_for("172.30.1.1 ");
    upstream.act(|asked| Action::Send(asked.negative(NXDOMAIN, "cluster.local", 5)));
    let denied = "node_hosts_lookups_total{outcome=\"denied\"}";
    let n_denied = || metric(&place.metrics(), denied).unwrap_or(0.0);
    // Two families, two denials each, and it is still there.
    for n in 1..=2 {
        assert!(
            place.text().contains("172.30.1.1 "),
            "{n}: {}",
            place.text()
        );
        let before = n_denied();
        daemon.hang_up();
        wait::for_it("denials", LONG, || n_denied() >= before + 2.0);
    }
    daemon.hang_up();
    wait::for_it("the block is gone", LONG, || place.text() == OTHERS);
    daemon.stop();
}

#[test]
fn lines_of_node_resolver_move_into_the_block_and_a_rival_is_corrected() {
    let old = format!(
        "{OTHERS}\n172.30.9.9 {SERVICE} {SERVICE}.cluster.local # openshift-generated-node-resolver\n"
    );
    let place = Place::new(&old);
    // No server answers: the old address counts.
    let upstream = Upstream::start(place.server, |_| Action::Silence);
    let daemon = place.start(&["--replace-node-resolver"]);
    let moved = format!("{OTHERS}\n{}\n", block(&["172.30.9.9"]));
    wait::for_it("the line has moved", LONG, || place.text() == moved);
    upstream.act(|asked| addresses(asked, &[[172, 30, 1, 1]], &[]));
    daemon.hang_up();
    place.wait_for("172.30.1.1 ");
    // An editor that knows nothing of the block, a program that copies over the file, one that appends.
    let edited = place.files.write("hosts", "127.0.0.1 localhost\n");
    let expected = format!("127.0.0.1 localhost\n{}\n", block(&["172.30.1.1"]));
    wait::for_it("the block is back", LONG, || place.text() == expected);
    fs::write(&edited, "10.0.0.7 node7\n").unwrap();
    wait::for_it("the block is back", LONG, || {
        place.text() == format!("10.0.0.7 node7\n{}\n", block(&["172.30.1.1"]))
    });
    let grown = format!("{}10.0.0.8 node8\n", place.text());
    fs::write(&edited, &grown).unwrap();
    upstream.act(|asked| addresses(asked, &[[172, 30, 1, 2]], &[]));
    daemon.hang_up();
    wait::for_it("both", LONG, || {
        place.text() == grown.replace("172.30.1.1", "172.30.1.2")
    });
    daemon.stop();
}

#[test]
fn wrong_arguments_are_a_wrong_configuration() {
    let mut command = Command::new(binary("dns-recursor"));
    command
        .env_remove("SERVICES")
        .env_remove("NAMESERVER")
        .arg("node-hosts");
    let (status, _, log) = run(command);
    assert_eq!(status.code(), Some(78), "{log}");
    assert!(
        log.contains("no service") && log.contains("no server to ask"),
        "{log}"
    );
}

/// Whether a hosts file is whole: the bytes of others, and then nothing or one block.
fn is_whole(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(OTHERS) else {
        return false;
    };
    let Some(rest) = rest.strip_prefix('\n') else {
        return rest.is_empty();
    };
    let inside = rest
        .strip_prefix(BEGIN)
        .and_then(|rest| rest.strip_suffix(END));
    let lines = inside.map(|inside| inside.trim_matches('\n').lines().collect::<Vec<_>>());
    lines.is_some_and(|lines| {
        let long = format!("{SERVICE}.cluster.local");
        lines.len() == ADDRESSES
            && lines.iter().all(|line| {
                let words: Vec<&str> = line.split(' ').collect();
                words.len() == 3 && words[1] == SERVICE && words[2] == long
            })
    })
}

/// The addresses of the service while the process is killed.
const ADDRESSES: usize = 16;

/// Reads the file again and again; returns the number of readings, and the first one that was not whole.
fn read_on(path: &Path, is_over: &AtomicBool) -> (u64, Option<String>) {
    let mut n_reads = 0;
    while !is_over.load(Ordering::Relaxed) {
        match fs::read_to_string(path) {
            Ok(text) if is_whole(&text) => n_reads += 1,
            Ok(text) => return (n_reads, Some(text)),
            Err(error) => return (n_reads, Some(error.to_string())),
        }
    }
    (n_reads, None)
}

#[test]
fn killed_in_a_loop_it_leaves_a_whole_file_to_every_reader() {
    let place = Place::new(OTHERS);
    let number = AtomicU32::new(0);
    // Each answer is another one, so that each life has something to write.
    let _upstream = Upstream::start(place.server, move |asked| {
        let n = number.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let address = |last: u8| [10, n[2], n[3], last];
        let all: Vec<[u8; 4]> = (1..=16).map(address).collect();
        addresses(asked, &all, &[])
    });
    let is_over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (path, is_over) = (place.hosts(), Arc::clone(&is_over));
            std::thread::spawn(move || read_on(&path, &is_over))
        })
        .collect();
    let begin = Instant::now();
    let (mut n_kills, mut n_writes, mut last) = (0_u32, 0_u32, place.text());
    // At any moment of its first writes: the time to the kill goes over all that its start takes.
    while n_kills < 60 || n_writes < 10 {
        let daemon = Daemon::spawn("node-hosts", place.command(&[]));
        let life = Duration::from_millis(u64::from(n_kills % 30) * 5);
        if n_kills % 3 == 2 {
            let before = last.clone();
            wait::for_it("a write", LONG, || place.text() != before);
        } else {
            std::thread::sleep(life);
        }
        daemon.signal(Signal::KILL);
        drop(daemon);
        n_kills += 1;
        let text = place.text();
        n_writes += u32::from(text != std::mem::replace(&mut last, text.clone()));
        assert!(
            begin.elapsed() < Duration::from_secs(600),
            "{n_kills} kills, {n_writes} writes"
        );
    }
    is_over.store(true, Ordering::Relaxed);
    for reader in readers {
        let (n_reads, torn) = reader.join().unwrap();
        assert_eq!(torn, None, "after {n_reads} readings");
        assert!(n_reads > 0);
    }
    // What killed processes have left beside it goes with the next write.
    let daemon = place.start(&["--clean"]);
    wait::for_it("a write", LONG, || place.text() != last);
    daemon.stop();
    assert_eq!(place.text(), OTHERS);
    let names = fs::read_dir(place.files.path()).unwrap().count();
    assert_eq!(names, 1, "nothing is left beside the file");
}

/// A mount of the file itself, as node-resolver has it, and a disk that is full.
#[test]
#[ignore = "needs network namespaces"]
fn mounts_and_full_disks_are_borne() {
    let place = Place::new(OTHERS);
    let upstream = Upstream::start(place.server, |asked| {
        addresses(asked, &[[172, 30, 1, 1]], &[])
    });
    // The file of the host, mounted over another one in a mount namespace of its own.
    let host = place.files.write("host", OTHERS);
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    let before = inode(&host);
    let script = format!(
        "mount --bind {} {} && exec \"$@\"",
        host.display(),
        place.hosts().display()
    );
    let daemon = Daemon::start("node-hosts", inside(&script, &place.command(&[])));
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    let expected = format!("{OTHERS}\n{}", block(&["172.30.1.1"]));
    wait::for_it("the host's file", LONG, || read(&host) == expected);
    assert_eq!(inode(&host), before, "the same file");
    wait::for_it("the way of the write", LONG, || {
        let status = http_get(place.admin, "/status").unwrap().1;
        status.contains("in place: the file is a mount point")
    });
    // An editor on the host writes the file: that is seen, and corrected.
    fs::write(&host, format!("{OTHERS}\n")).unwrap();
    let expected = format!("{OTHERS}\n{}\n", block(&["172.30.1.1"]));
    wait::for_it("the host's file again", LONG, || read(&host) == expected);
    daemon.stop();
    // A disk without room for a second file: the old one stays, and the state says so.
    let large = "10.1.1.1 another\n".repeat(2_500);
    fs::write(place.files.join("large"), &large).unwrap();
    let directory = place.files.join("small");
    fs::create_dir(&directory).unwrap();
    let hosts = directory.join("hosts");
    let script = format!(
        "mount -t tmpfs -o size=64k none {0} && cp {1} {0}/hosts && exec \"$@\"",
        directory.display(),
        place.files.join("large").display()
    );
    let mut command = place.command(&[]);
    command.arg("--hosts-file").arg(&hosts);
    drop(upstream);
    let _upstream = Upstream::start(place.server, |asked| {
        addresses(asked, &[[172, 30, 1, 1]], &[])
    });
    let mut daemon = Daemon::spawn("node-hosts", inside(&script, &without_first_file(&command)));
    let failures = || metric(&place.metrics(), "node_hosts_write_failures_total");
    wait::for_it("a failure", LONG, || {
        http_get(place.admin, "/metrics").is_ok() && failures().is_some_and(|count| count > 0.0)
    });
    let root = PathBuf::from(format!("/proc/{}/root", daemon.id()));
    let seen = root.join(hosts.strip_prefix("/").unwrap());
    assert_eq!(read(&seen), large);
    assert!(daemon.is_running());
    let (code, reasons) = http_get(place.admin, "/readyz").unwrap();
    assert_eq!(code, 503, "{reasons}");
    daemon.stop();
}

/// A command in a mount namespace of its own, after a script.
fn inside(script: &str, command: &Command) -> Command {
    let mut outer = Command::new("unshare");
    outer.args([
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-ec",
        script,
        "sh",
    ]);
    outer.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            outer.env(name, value);
        }
    }
    outer
}

/// A command whose last `--hosts-file` counts: the flag may be given once.
fn without_first_file(command: &Command) -> Command {
    let arguments: Vec<_> = command.get_args().collect();
    let first = arguments
        .iter()
        .position(|it| *it == "--hosts-file")
        .unwrap();
    let mut other = Command::new(command.get_program());
    for (index, argument) in arguments.iter().enumerate() {
        if index != first && index != first + 1 {
            other.arg(argument);
        }
    }
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            other.env(name, value);
        }
    }
    other
}
