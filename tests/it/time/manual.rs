//! The time that is entered with chronyc, on chronyd and on the agent; and every number that a command of chronyc's protocol may
//! have, as datagrams.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tests::daemon::{Daemon, run};
use tests::scratch::{Scratch, at, loopback};
use tests::time::{Agent, Chronyd, PATIENCE, PORT};
use tests::wait;

const HOUR: f64 = 3600.0;
/// The time that the machine may keep a command waiting, in seconds. Offsets here are of an hour.
const SLACK: f64 = 300.0;
/// Numbers of commands of chrony 4.3.
const N_COMMANDS: u16 = 72;
const SHUTDOWN: u16 = 62;
/// `LOGON` of chrony 1, which fails in 4.3 and is no command in later releases, nor here. No chronyc sends it.
const LOGON: u16 = 10;

/// `BURST` of no request at all is refused here, before it is looked for sources; chronyc refuses it itself.
const BURST: u16 = 3;
/// `SERVER_STATS` has a longer form since 4.4, for who leaves room for it.
const SERVER_STATS: u16 = 54;

/// Both with the same lines. None has a source.
struct Both {
    agent: Agent,
    _daemon: Daemon,
    chronyd: Chronyd,
}

impl Both {
    fn start(lines: &str) -> Self {
        let agent = Agent::on_loopback(lines);
        let daemon = agent.start();
        let ip = loopback();
        let chronyd = Chronyd::on_loopback(&format!(
            "port {PORT}\nbindaddress {ip}\ncmdport 0\n{lines}"
        ));
        Self {
            agent,
            _daemon: daemon,
            chronyd,
        }
    }

    /// The output of chronyc for both: for chronyd, and for the agent.
    fn ask(&self, arguments: &[&str]) -> [(Option<i32>, String); 2] {
        [
            self.chronyd.chronyc(arguments),
            self.agent.chronyc_unix(arguments),
        ]
    }

    /// Both say this.
    #[track_caller]
    fn say(&self, command: &str, code: i32, text: &str) {
        let words: Vec<&str> = command.split(' ').collect();
        for (got, said) in self.ask(&words) {
            assert_eq!((got, said.trim()), (Some(code), text), "{command}");
        }
    }

    /// The lines of a report by `-c`, as both have them; a field that is no number is none.
    fn lines(&self, report: &[&str]) -> [Vec<Vec<f64>>; 2] {
        let words: Vec<&str> = ["-n", "-c"].iter().chain(report).copied().collect();
        self.ask(&words).map(|(code, text)| {
            assert_eq!(code, Some(0), "{text}");
            let of_line = |line: &str| {
                let fields = line.split(',');
                fields
                    .map(|field| field.parse().unwrap_or(f64::NAN))
                    .collect()
            };
            text.lines().map(of_line).collect()
        })
    }

    /// The correction and the frequency of `tracking`.
    fn tracking(&self) -> [(f64, f64); 2] {
        self.lines(&["tracking"])
            .map(|lines| (lines[0][4], lines[0][7]))
    }

    /// Enters a time that is so much ahead of this machine's, and returns the numbers of both answers.
    #[track_caller]
    fn enter(&self, ahead: f64) -> [Vec<f64>; 2] {
        let text = date(ahead);
        let words: Vec<&str> = ["settime"].into_iter().chain(text.split(' ')).collect();
        self.ask(&words).map(|(code, text)| {
            assert_eq!(code, Some(0), "{text}");
            let text = text.strip_prefix("200 OK\n").unwrap_or(&text);
            assert!(text.starts_with("Clock was "), "{text}");
            let parts = [
                "seconds fast.  Frequency change = ",
                "ppm, new frequency = ",
            ];
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
            numbers(text)
        })
    }
}

/// The numbers in a text, whatever stands between them.
fn numbers(text: &str) -> Vec<f64> {
    let part = |letter: char| letter.is_ascii_digit() || "+-.".contains(letter);
    let words = text.split(|letter: char| !part(letter));
    words
        .filter_map(|word| word.trim_end_matches('.').parse().ok())
        .collect()
}

/// A time that is a number of seconds ahead of this machine's, as chronyc reads it.
fn date(ahead: f64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let at = format!("@{:.0}", now.as_secs_f64() + ahead);
    let (_, text, _) = run({
        let mut date = Command::new("date");
        date.args(["-d", &at, "+%b %d, %Y %H:%M:%S"]);
        date.env("LC_ALL", "C");
        date
    });
    text.trim().to_owned()
}

#[track_caller]
fn near(value: f64, expected: f64, within: f64) {
    assert!((value - expected).abs() <= within, "{value} {expected}");
}

#[test]
fn a_time_that_is_entered_has_the_same_effect() {
    let both = Both::start("allow 127.0.0.0/8\nlocal stratum 10\n");
    both.say("manual list", 0, EMPTY);
    both.say("settime 12:00", 1, NOT_ENABLED);
    both.say("manual on", 0, "200 OK");
    for [offset, change, frequency] in both.enter(HOUR).map(|of| <[f64; 3]>::try_from(of).unwrap())
    {
        near(offset, -HOUR, SLACK);
        assert_eq!((change, frequency), (0.0, 0.0));
    }
    // The clock of this machine stays; what is known of it has changed, and clients get the time.
    for (correction, _) in both.tracking() {
        near(correction, HOUR, SLACK);
    }
    both.agent.wait_offset(HOUR, SLACK);
    // Entries are a second apart at least.
    std::thread::sleep(Duration::from_millis(1100));
    for answer in both.enter(2.0 * HOUR) {
        assert_eq!(answer.len(), 3);
    }
    for rows in both.lines(&["manual", "list"]) {
        let rows: Vec<&[f64]> = rows
            .iter()
            .filter_map(|row| row.last_chunk::<3>())
            .map(|row| &row[..])
            .collect();
        assert_eq!(rows.len(), 2);
        for (row, expected) in rows.iter().zip([-HOUR, -HOUR]) {
            let [slewed, original, residual] = row[..] else {
                panic!("{row:?}");
            };
            near(original, expected, SLACK);
            near(residual, 0.0, SLACK);
            assert!(slewed.is_finite());
        }
        // Nothing is left of the last one.
        near(rows[1][0], 0.0, SLACK);
    }
    both.say("manual delete 2", 1, "516 Sample index out of range");
    both.say("manual delete 1", 0, "200 OK");
    both.say("manual delete 0", 0, "200 OK");
    both.say("manual list", 0, EMPTY);
    both.say("manual off", 0, "200 OK");
    both.say("settime 12:00", 1, NOT_ENABLED);
}

const EMPTY: &str = "210 n_samples = 0\n\
                     #    Date     Time(UTC)    Slewed   Original   Residual\n\
                     =======================================================";
const NOT_ENABLED: &str = "505 Facility not enabled in daemon";

#[test]
fn the_directive_allows_it_and_frequency_and_offset_change_alike() {
    let both = Both::start("manual\nlocal stratum 10\n");
    both.enter(HOUR);
    both.say("manual reset", 0, "200 OK");
    both.say("manual list", 0, EMPTY);
    let before = both.tracking();
    both.say("dfreq 12.5", 0, "200 OK");
    both.say("doffset -1800", 0, "200 OK");
    for (before, after) in before.iter().zip(both.tracking()) {
        near(after.1 - before.1, 12.5, 0.01);
        near(after.0 - before.0, HOUR / 2.0, SLACK);
    }
    both.say("doffset 1e12", 1, "500 Failure");
}

/// The statuses and the kinds of the replies to every command without arguments, at a socket.
fn statuses(socket: &Path) -> Vec<(u16, u16)> {
    let files = Scratch::new("commands");
    let own = files.join("own.sock");
    let asker = UnixDatagram::bind(&own).unwrap();
    asker.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reply = [0; 1000];
    (0..N_COMMANDS)
        .filter(|number| *number != SHUTDOWN)
        .map(|number| {
            wait::uninterrupted(|| asker.send_to(&datagram(number), socket)).unwrap();
            let length = wait::uninterrupted(|| asker.recv(&mut reply)).unwrap();
            read(number, &reply[..length])
        })
        .collect()
}

/// The same over UDP, where reports alone are answered.
fn statuses_over_udp(to: std::net::SocketAddr) -> Vec<(u16, u16)> {
    let asker = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    asker.set_read_timeout(Some(PATIENCE)).unwrap();
    asker.connect(to).unwrap();
    let mut reply = [0; 1000];
    (0..N_COMMANDS)
        .map(|number| {
            wait::uninterrupted(|| asker.send(&datagram(number))).unwrap();
            let length = wait::uninterrupted(|| asker.recv(&mut reply)).unwrap();
            read(number, &reply[..length])
        })
        .collect()
}

/// A request without arguments: all of them are zero.
fn datagram(number: u16) -> Vec<u8> {
    let mut octets = vec![6, 1, 0, 0];
    octets.extend(number.to_be_bytes());
    octets.resize(520, 0);
    octets
}

fn read(number: u16, reply: &[u8]) -> (u16, u16) {
    let field = |place: usize| u16::from_be_bytes([reply[place], reply[place + 1]]);
    assert_eq!(field(4), number);
    (field(6), field(8))
}

#[test]
fn every_number_is_answered_as_chronyd_answers_it() {
    let lines = "local stratum 10\n";
    let agent = Agent::on_loopback(lines);
    let _daemon = agent.start();
    let ip = loopback();
    let port = agent.command_port();
    let chronyd = Chronyd::on_loopback(&format!(
        "port 0\ncmdport {port}\nbindcmdaddress {ip}\n{lines}"
    ));
    let differ = |theirs: Vec<(u16, u16)>, ours: Vec<(u16, u16)>, numbers: &[u16]| {
        let all = numbers.iter().zip(theirs.into_iter().zip(ours));
        let differ = all.filter(|(number, (theirs, ours))| {
            let is_alike = match **number {
                LOGON => true,
                BURST => ours.0 == theirs.0,
                SERVER_STATS => ours.1 == theirs.1,
                _ => ours == theirs,
            };
            !is_alike
        });
        differ.map(|it| format!("{it:?}")).collect::<Vec<_>>()
    };
    // The number, chronyd's kind of report and status, ours.
    let numbers: Vec<u16> = (0..N_COMMANDS).collect();
    let theirs = statuses_over_udp(at(ip, port));
    let ours = statuses_over_udp(at(agent.ip, port));
    assert_eq!(differ(theirs, ours, &numbers), [""; 0], "over UDP");
    let numbers: Vec<u16> = numbers
        .into_iter()
        .filter(|number| *number != SHUTDOWN)
        .collect();
    let theirs = statuses(&chronyd.command_socket());
    let ours = statuses(&agent.command_socket());
    assert_eq!(differ(theirs, ours, &numbers), [""; 0]);
}
