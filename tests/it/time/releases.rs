//! chronyc of more than one release, each on a chronyd of its own release and on the agent: every command shows the same columns and
//! ends alike.
//!
//! Debian's release is always compared. A newer one is in no package of it: with
//!
//! ```text
//! OUTPOST_CHRONY=DIR cargo test -p tests --test it -- time::releases
//! ```
//!
//! the `chronyd` and `chronyc` in DIR, built there by `./configure && make`, are compared as well.
//!
//! A server that never answered is left out: in `selectdata` it is `s` of chronyd 4.3, as of the agent, and `M` of 4.8.

use std::path::{Path, PathBuf};
use std::process::Command;

use tests::daemon::run;
use tests::scratch::loopback;
use tests::time::{Agent, Chronyd, PATIENCE, PORT, Says, Server};
use tests::wait;

/// The directory of another release.
const VARIABLE: &str = "OUTPOST_CHRONY";

/// Commands that show something. `SERVER` is the address of the first server, `NOBODY` that of no source.
const REPORTS: &[&str] = &[
    "tracking",
    "sources",
    "sources -v",
    "sources -a",
    "sourcestats",
    "sourcestats -v",
    "selectdata",
    "selectdata -v",
    "ntpdata",
    "ntpdata SERVER",
    "ntpdata NOBODY",
    "authdata",
    "authdata -v",
    "activity",
    "serverstats",
    "clients",
    "clients -k",
    "clients -p 1",
    "sourcename SERVER",
    "sourcename NOBODY",
    "smoothing",
    "rtcdata",
    "manual list",
    "waitsync 1 1 0 1",
    "accheck 127.0.0.1",
    "accheck 10.0.0.1",
    "cmdaccheck 10.0.0.1",
    "help",
    "nonsense",
    "sources nonsense",
];

/// Commands that change something, in this order. What they change of the time is compared in `manual`.
const CHANGES: &[&str] = &[
    "allow 10.0.0.0/8",
    "deny 10.1.0.0/16",
    "accheck 10.1.1.1",
    "accheck 10.2.1.1",
    "allow all 10.2.0.0/16",
    "deny all 10.2.0.0/16",
    "deny 10.2.0.0/40",
    "cmdallow 10.0.0.0/8",
    "cmddeny 10.1.0.0/16",
    "cmdallow all 10.2.0.0/16",
    "cmddeny all 10.2.0.0/16",
    "minpoll SERVER 1",
    "maxpoll SERVER 2",
    "minpoll NOBODY 1",
    "maxdelay SERVER 0.5",
    "maxdelay NOBODY 0.5",
    "maxdelayratio SERVER 5",
    "maxdelaydevratio SERVER 5",
    "minstratum SERVER 1",
    "minstratum NOBODY 1",
    "polltarget SERVER 10",
    "offset SERVER 0.0",
    "offset NOBODY 0.0",
    "selectopts SERVER +prefer +trust",
    "selectopts SERVER -prefer -trust",
    "selectopts NOBODY +prefer",
    "selectopts PPS7 +prefer",
    "reselect",
    "reselectdist 0.001",
    "maxupdateskew 100",
    "makestep 1 1",
    "makestep 0.1 -1",
    "burst 2/4",
    "burst 1/2 SERVER",
    "burst 1/2 NOBODY",
    "online",
    "offline SERVER",
    "online SERVER",
    "offline NOBODY",
    "onoffline",
    "local stratum 10",
    "local stratum 10 orphan",
    "local stratum 10 distance 0.5",
    "local off",
    "manual off",
    "manual reset",
    "manual delete 0",
    "settime 12:00",
    "settime nonsense",
    "manual on",
    "manual nonsense",
    "settime 1 Jan 1960",
    "manual delete 0",
    "manual off",
    "dfreq 0.001",
    "dfreq nonsense",
    "doffset 0.0001",
    "doffset 1e12",
    "smoothtime reset",
    "smoothtime activate",
    "trimrtc",
    "writertc",
    "cyclelogs",
    "dump",
    "rekey",
    "refresh",
    "reload sources",
    "add server 127.9.9.9 port 9 offline",
    "add server 127.9.9.9 port 9 offline",
    "add peer 127.9.9.8 port 9 offline",
    "add pool 127.9.9.7 port 9 offline",
    "delete 127.9.9.9",
    "delete 127.9.9.9",
    "delete NOBODY",
    "reset sources",
    "timeout 100",
    "retries 2",
    "shutdown",
];

/// chronyd and chronyc of one release.
struct Release {
    chronyd: PathBuf,
    chronyc: PathBuf,
}

fn releases() -> Vec<Release> {
    let mut releases = vec![Release {
        chronyd: "/usr/sbin/chronyd".into(),
        chronyc: "chronyc".into(),
    }];
    match std::env::var_os(VARIABLE).map(PathBuf::from) {
        Some(directory) => releases.push(Release {
            chronyd: directory.join("chronyd"),
            chronyc: directory.join("chronyc"),
        }),
        None => eprintln!("one release alone: {VARIABLE} names no directory of another one"),
    }
    releases
}

/// What chronyc says, as it stands: exit code, output, errors.
fn ask(chronyc: &Path, socket: &Path, flags: &[&str], command: &str) -> (Option<i32>, String) {
    let mut ask = Command::new(chronyc);
    ask.arg("-h").arg(socket).args(flags);
    let (status, text, errors) = run({
        ask.args(command.split(' '));
        ask
    });
    (status.code(), text + &errors)
}

/// Without what depends on the moment: every number is one, whatever its sign and its unit, and space does not count.
fn columns(text: &str) -> String {
    let mut columns = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_number = letter.is_ascii_digit()
            || matches!(letter, '+' | '-') && letters.peek().is_some_and(char::is_ascii_digit);
        if is_number {
            while letters
                .next_if(|next| next.is_ascii_digit() || *next == '.')
                .is_some()
            {}
            while letters.next_if(|next| "numsy".contains(*next)).is_some() {}
            columns.push('0');
        } else if letter != ' ' {
            columns.push(letter);
        }
    }
    // The sign of an offset and of a frequency of `tracking`.
    columns.replace("slow", "fast")
}

/// The columns of a report by `-c` that do not depend on the moment, octet by octet.
fn lasting(command: &str, text: &str) -> Option<Vec<String>> {
    let wanted: &[usize] = match command.split(' ').next()? {
        // Mode, state, name, stratum, poll.
        "sources" => &[0, 1, 2, 3, 4],
        // Name.
        "sourcestats" => &[0],
        // State, name, authentication, options.
        "selectdata" => &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        // Reference ID, name, stratum, leap.
        "tracking" => &[0, 1, 2, 13],
        // Remote address and port, leap, version, mode, stratum.
        "ntpdata" => &[0, 1, 4, 5, 6, 7],
        "authdata" | "activity" | "sourcename" | "accheck" | "cmdaccheck" | "rtcdata" => {
            return Some(vec![text.to_owned()]);
        }
        _ => return None,
    };
    let of_line = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let field = |index: &usize| fields.get(*index).copied().unwrap_or_default();
        wanted.iter().map(field).collect::<Vec<_>>().join(",")
    };
    Some(text.lines().map(of_line).collect())
}

#[test]
fn chronyc_of_every_release_shows_the_same_of_the_agent() {
    for release in releases() {
        let servers = [(); 2].map(|()| Server::on_loopback(Says::default()));
        let [first, second] = &servers;
        let mut lines = String::from("allow 127.0.0.0/8\nlocal stratum 10\n");
        lines += &first.line("iburst minpoll 0 maxpoll 0");
        lines += &second.line("iburst minpoll 0 maxpoll 0 noselect");
        let server = first.line("").split(' ').nth(1).unwrap().to_owned();
        let agent = Agent::on_loopback(&lines);
        let mut daemon = agent.start();
        let ip = loopback();
        let chronyd = Chronyd::of(
            &release.chronyd,
            &format!("port {PORT}\nbindaddress {ip}\ncmdport 0\n{lines}"),
        );
        let sockets = [chronyd.command_socket(), agent.command_socket()];
        let both = |flags: &[&str], command: &str| {
            let command = command
                .replace("SERVER", &server)
                .replace("NOBODY", "192.0.2.77");
            let [theirs, ours] = &sockets;
            [theirs, ours].map(|socket| ask(&release.chronyc, socket, flags, &command))
        };
        wait::for_it("both follow and have asked eight times", PATIENCE, || {
            both(&["-n", "-c"], "tracking")
                .iter()
                .all(|(_, text)| text.contains(&server))
                && both(&["-n", "-c"], "sources")
                    .iter()
                    .all(|(_, text)| text.matches(",377,").count() == 2)
        });
        for flags in [&["-n"][..], &["-n", "-c"], &["-n", "-e"]] {
            for command in REPORTS {
                let [theirs, ours] = both(flags, command);
                let masked = |(code, text): &(Option<i32>, String)| (*code, columns(text));
                assert_eq!(
                    masked(&ours),
                    masked(&theirs),
                    "{flags:?} {command}: {}{}",
                    ours.1,
                    theirs.1
                );
                if flags.contains(&"-c") {
                    assert_eq!(
                        lasting(command, &ours.1),
                        lasting(command, &theirs.1),
                        "{command}"
                    );
                }
            }
        }
        for command in CHANGES {
            let [theirs, ours] = both(&["-n"], command);
            assert_eq!(ours, theirs, "{command}");
        }
        assert!(daemon.wait().success(), "by `shutdown`");
    }
}

#[test]
fn what_is_masked_is_numbers() {
    for (one, other) in [
        ("+12ns[ -3us] +/-  7ms", "-1s[+0ns] +/- 123us"),
        ("Skew : 0.224 ppm", "Skew : 12 ppm"),
        ("0.1 seconds slow of NTP", "2 seconds fast of NTP"),
    ] {
        assert_eq!(columns(one), columns(other));
    }
    for (one, other) in [("^* 1", "^? 1"), ("200 OK", "500 Failure")] {
        assert_ne!(columns(one), columns(other));
    }
}
