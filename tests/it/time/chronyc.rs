//! chronyc and chronyd beside the agent: the same reports, the same files.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use daemon::latest::Latest;
use tests::binaries::binary;
use tests::daemon::run;
use tests::scratch::{Scratch, loopback};

use chronyc::answer::ControlRequest;
use chronyc::reply::{Report, Status};
use ntp::responder::Tables;
use random::Random;
use time_model::settings::{CommandSocket, SelectOptions, Settings};
use time_model::time::{RawTime, Reading, SECOND, Span, UnixTime};
use time_model::view::{
    KeyView, Leap, PacketView, Reason, SelectionView, SmoothingView, SourceMode, SourceState,
    SourceStatistics, SourceView, StampSource, Tracking, View,
};
use timesync_agent::cmdmon::{Control, Outcome, Server};
use timesync_agent::views::Views;

/// The address of chronyc's protocol here.
const COMMAND_PORT: u16 = 11_324;

/// Views that are compared; each takes a few dozen processes.
const N_VIEWS: u64 = 4;

/// Says how a command went without doing it.
struct Nobody;

impl Control for Nobody {
    fn perform(&self, errand: ControlRequest) -> Outcome {
        let status = match errand {
            ControlRequest::Rekey => Status::Success,
            _ => Status::NoSuchSource,
        };
        Box::pin(std::future::ready((status, Report::Null)))
    }
}

/// Numbers of every size and sign.
struct Dice(Random);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0.bits() % n
    }

    /// From a nanosecond to years, or nothing.
    fn span(&mut self) -> f64 {
        match self.below(8) {
            0 => 0.0,
            _ => (1.0 + self.0.unit()) * 10_f64.powi(i32::try_from(self.below(18)).unwrap() - 9),
        }
    }

    fn offset(&mut self) -> f64 {
        let span = self.span();
        if self.below(2) == 0 { span } else { -span }
    }

    fn leap(&mut self) -> Leap {
        match self.below(4) {
            0 => Leap::Normal,
            1 => Leap::Insert,
            2 => Leap::Delete,
            _ => Leap::Unsynchronised,
        }
    }

    fn small(&mut self, n: u64) -> u8 {
        u8::try_from(self.below(n)).unwrap()
    }

    fn poll(&mut self) -> i8 {
        i8::try_from(self.below(32)).unwrap() - 7
    }

    fn time(&mut self) -> UnixTime {
        UnixTime(i64::try_from(self.below(4_000_000_000_000_000_000)).unwrap())
    }

    fn packet(&mut self, local: bool) -> PacketView {
        let stamps = [
            StampSource::Daemon,
            StampSource::Kernel,
            StampSource::Hardware,
        ];
        PacketView {
            port: 123,
            local_address: local.then(|| "2001:db8::2".parse().unwrap()),
            leap: self.leap(),
            version: self.small(5),
            mode: self.small(6),
            stratum: self.small(4),
            poll: self.poll(),
            precision: -self.poll(),
            root_delay: self.span(),
            root_dispersion: self.span(),
            reference_id: u32::from_be_bytes(*b"GPS\0"),
            reference_time: self.time(),
            offset: self.offset(),
            delay: self.span(),
            dispersion: self.span(),
            response_time: self.span(),
            jitter_asymmetry: self.0.unit() - 0.5,
            tests: u16::try_from(self.below(1024)).unwrap(),
            interleaved: self.below(2) == 0,
            authenticated: self.below(2) == 0,
            transmit_stamp: stamps[usize::from(self.small(3))],
            receive_stamp: stamps[usize::from(self.small(3))],
            n_sent: 4,
            n_received: 3,
            n_valid: 2,
            n_good: 1,
        }
    }

    fn selection(&mut self) -> SelectionView {
        let reasons = [
            Reason::NoSelect,
            Reason::NoSamples,
            Reason::Unsynchronised,
            Reason::Distance,
            Reason::WaitsSamples,
            Reason::Stale,
            Reason::Untrusted,
            Reason::WaitsSources,
            Reason::NotPreferred,
            Reason::Outlier,
            Reason::Best,
        ];
        let mut options = || SelectOptions {
            noselect: self.below(2) == 0,
            prefer: self.below(2) == 0,
            trust: self.below(2) == 0,
            require: self.below(2) == 0,
        };
        let (configured, effective) = (options(), options());
        SelectionView {
            reason: reasons[usize::from(self.small(11))],
            configured,
            effective,
            score: self.span(),
            low: self.offset(),
            high: self.offset(),
        }
    }

    fn source(&mut self, index: u8, now: Reading) -> SourceView {
        let states = [
            SourceState::Unselectable,
            SourceState::Falseticker,
            SourceState::TooVariable,
            SourceState::Outlier,
            SourceState::Combined,
            SourceState::Best,
        ];
        let is_clock = index == 2;
        let age = 10_i64.pow(u32::from(self.small(9))) * SECOND;
        SourceView {
            name: format!("ntp-{index}.example.org"),
            address: match index {
                0 => Some("192.0.2.1".parse().unwrap()),
                1 => Some("2001:db8:1234:5678:9abc:def0:1234:5678".parse().unwrap()),
                _ => None,
            },
            reference_id: u32::from_be_bytes(*b"PHC0"),
            mode: if is_clock {
                SourceMode::ReferenceClock
            } else {
                SourceMode::Server
            },
            state: states[usize::from(self.small(6))],
            stratum: self.small(16),
            poll: self.poll(),
            reach: self.small(256),
            online: self.below(2) == 0,
            burst: self.below(2) == 0,
            last_sample: (self.below(4) > 0).then_some(now.raw - Span(age)),
            adjusted_offset: self.offset(),
            measured_offset: self.offset(),
            root_distance: self.span(),
            statistics: SourceStatistics {
                n_samples: self.small(65).into(),
                n_runs: self.small(33).into(),
                span: Span(age),
                frequency: self.offset(),
                skew: self.span(),
                offset: self.offset(),
                offset_error: self.span(),
                deviation: self.span(),
            },
            selection: self.selection(),
            key: (index == 0).then_some(KeyView {
                id: 7,
                kind: 3,
                bits: 160,
            }),
            packet: match index {
                0 => Some(self.packet(true)),
                1 => Some(self.packet(false)),
                _ => None,
            },
        }
    }

    fn view(&mut self) -> View {
        let now = Reading {
            raw: RawTime(2_000_000_000 * SECOND),
            wall: UnixTime(1_795_000_000 * SECOND),
        };
        let addresses = [
            None,
            Some("192.0.2.1".parse().unwrap()),
            Some("2001:db8::1".parse().unwrap()),
        ];
        View {
            now,
            tracking: Tracking {
                reference_id: u32::from_be_bytes(*b"PHC0"),
                address: addresses[usize::from(self.small(3))],
                stratum: self.small(16),
                leap: self.leap(),
                reference_time: self.time(),
                correction: self.offset(),
                last_offset: self.offset(),
                rms_offset: self.span(),
                frequency: self.offset(),
                residual_frequency: self.offset(),
                skew: self.span(),
                root_delay: self.span(),
                root_dispersion: self.span(),
                update_interval: self.span(),
                ..Tracking::default()
            },
            sources: (0..3).map(|index| self.source(index, now)).collect(),
            n_unresolved: 1,
            smoothing: Some(SmoothingView {
                active: self.0.bits().is_multiple_of(2),
                leap_only: self.0.bits().is_multiple_of(2),
                offset: self.offset(),
                frequency: self.offset(),
                wander: self.offset(),
                since: self.span(),
                left: self.span(),
            }),
            ..View::default()
        }
    }
}

/// A server of chronyc on a runtime of its own, until it is dropped.
struct Answering {
    address: String,
    files: Scratch,
    views: Arc<Latest<View>>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Answering {
    fn start() -> Self {
        let (ip, files) = (loopback(), Scratch::new("chronyc"));
        let mut settings = Settings::default();
        settings.commands.port = COMMAND_PORT;
        settings.commands.bind_addresses = vec![ip.into()];
        settings.commands.socket = CommandSocket(Some(files.join("chronyd.sock")));
        let views = Latest::new(View::default());
        let shown = Views::published(Arc::clone(&views));
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (started, ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(async {
                let tables = Tables::new(65_536, [1, 2]);
                let random = Random::new([7; 16]);
                let control = Box::new(Nobody);
                let server =
                    Server::start(&settings, shown, tables, random, control, |_| Vec::new());
                started.send(server.listeners().len()).unwrap();
                let _dropped = stopped.await;
            });
        });
        assert!(ready.recv().unwrap() >= 2, "UDP and the socket");
        Self {
            address: ip.to_string(),
            files,
            views,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// The output of chronyc and of the agent for one report.
    fn both(&self, host: &str, flags: &[&str], verb: &[&str]) -> [(Option<i32>, String); 2] {
        let port = COMMAND_PORT.to_string();
        let mut chronyc = Command::new("chronyc");
        chronyc
            .args(["-h", host, "-p", &port])
            .args(flags)
            .args(verb);
        let mut own = Command::new(binary("timesync-agent"));
        own.args(verb).args(flags).args(["-H", host, "-p", &port]);
        [chronyc, own].map(|command| {
            let (status, stdout, stderr) = run(command);
            (status.code(), stdout + &stderr)
        })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _joined = thread.join();
        }
    }
}

#[test]
fn reports_are_chronycs_letter_by_letter() {
    let answering = Answering::start();
    let socket = answering.files.join("chronyd.sock").display().to_string();
    let mut dice = Dice(Random::new([17; 16]));
    for n in 0..N_VIEWS {
        answering.views.publish(dice.view());
        let udp: [&[&str]; 4] = [
            &["tracking"],
            &["sources", "-v"],
            &["sourcestats", "-v"],
            &["activity"],
        ];
        let unix: [&[&str]; 6] = [
            &["ntpdata"],
            &["ntpdata", "192.0.2.1"],
            &["selectdata", "-v"],
            &["smoothing"],
            &["serverstats"],
            &["clients"],
        ];
        let asked = udp.iter().map(|verb| (answering.address.as_str(), *verb));
        for (host, verb) in asked.chain(unix.iter().map(|verb| (socket.as_str(), *verb))) {
            for flags in [&["-n"][..], &["-n", "-c"]] {
                let [theirs, ours] = answering.both(host, flags, verb);
                assert_eq!(ours, theirs, "{verb:?} {flags:?} of view {n}");
                assert_eq!(ours.0, Some(0), "{ours:?}");
            }
        }
    }
}

#[test]
fn commands_end_as_chronycs_do() {
    let answering = Answering::start();
    let mut dice = Dice(Random::new([3; 16]));
    let mut view = dice.view();
    view.tracking.address = Some("192.0.2.1".parse().unwrap());
    view.tracking.correction = -0.05;
    view.tracking.skew = 0.5;
    answering.views.publish(view);
    let socket = answering.files.join("chronyd.sock").display().to_string();
    let udp = answering.address.as_str();
    for (host, verb, code) in [
        (socket.as_str(), &["rekey"][..], 0),
        (&socket, &["makestep"], 1),
        (&socket, &["online", "192.0.2.9"], 1),
        (udp, &["makestep"], 1),
        (udp, &["serverstats"], 1),
        (udp, &["burst", "4/8"], 1),
        // A node of OpenShift waits for this.
        (udp, &["waitsync", "0", "0.1", "0.0", "1"], 0),
        (udp, &["waitsync", "1", "0.01"], 1),
        (udp, &["waitsync", "1", "0.1", "0.1"], 1),
    ] {
        let [theirs, ours] = answering.both(host, &[], verb);
        assert_eq!(ours, theirs, "{verb:?}");
        assert_eq!(ours.0, Some(code), "{verb:?} {ours:?}");
    }
}

#[test]
fn waiting_is_told_in_json_too() {
    let answering = Answering::start();
    let mut view = Dice(Random::new([3; 16])).view();
    view.tracking.address = Some("192.0.2.1".parse().unwrap());
    view.tracking.correction = -0.05;
    view.tracking.skew = 0.5;
    answering.views.publish(view);
    let port = COMMAND_PORT.to_string();
    let wait = |host: &str, patience: &str, limits: &[&str]| {
        let mut command = Command::new(binary("timesync-agent"));
        command.args(["waitsync", "--json", "-H", host, "-p", &port]);
        command.args(["--timeout", patience, "--retries", "0"]);
        let (status, stdout, _) = run({
            command.args(limits);
            command
        });
        let looks: Vec<serde_json::Value> = stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        (status.code(), looks)
    };
    let (code, looks) = wait(&answering.address, "10000", &["0", "0.1"]);
    assert_eq!((code, looks.len()), (Some(0), 1), "{looks:?}");
    assert_eq!(looks[0]["try"], 1);
    assert!((looks[0]["correction"].as_f64().unwrap() - 0.05).abs() < 1e-6);
    assert!((looks[0]["skew"].as_f64().unwrap() - 0.5).abs() < 1e-6);
    assert_eq!(looks[0]["reference_id"], "50484330");
    // As many looks as are asked for, and each says why.
    let (code, looks) = wait(&answering.address, "10000", &["2", "0.01", "0", "0.1"]);
    assert_eq!((code, looks.len()), (Some(1), 2), "{looks:?}");
    let (code, looks) = wait(&loopback().to_string(), "50", &["1"]);
    assert_eq!(code, Some(1));
    assert_eq!(looks[0]["error"], "506 Cannot talk to daemon", "{looks:?}");
}

#[test]
fn a_daemon_that_is_not_there_is_told() {
    let ip = loopback().to_string();
    let mut command = Command::new(binary("timesync-agent"));
    command.args(["tracking", "-H", &ip, "--timeout", "10", "--retries", "1"]);
    let (status, stdout, stderr) = run(command);
    assert_eq!(
        (status.code(), stdout + &stderr),
        (Some(1), "506 Cannot talk to daemon\n".to_owned())
    );
    let mut command = Command::new(binary("timesync-agent"));
    command.args(["tracking", "-H", "/nowhere/chronyd.sock"]);
    let (status, stdout, stderr) = run(command);
    let expected = "Could not open connection to daemon\n".to_owned();
    assert_eq!((status.code(), stdout + &stderr), (Some(1), expected));
}

//--- chrony.conf

/// Lines, and whether the agent differs from `chronyd -p`: it looks at more than words, and a directory may be missing.
const LINES: &[(&str, bool)] = &[
    ("server a b", false),
    ("server", false),
    ("server a minpoll", false),
    ("server a minpoll 99", false),
    ("server a minpoll x", false),
    ("server a key 0", false),
    ("server a minpoll 12 maxpoll 3", false),
    ("SERVER a IBurst", false),
    ("server x version 5", false),
    ("server x asymmetry 0.6", false),
    ("server x maxdelay 2000", false),
    ("server x filter 0", false),
    ("server x extfield F323", false),
    ("server x maxsources 3", false),
    ("server x minstratum 5", false),
    ("server x minstratum 17", false),
    ("server x minstratum", false),
    (
        "refclock PHC /dev/ptp0:nocrossts local poll 2 minsamples 4",
        false,
    ),
    ("server x port 70000", true),
    ("server x nts", true),
    ("server 192.0.2.1:123", false),
    ("pool x maxsources 17", false),
    ("peer x", false),
    ("driftfile", false),
    ("driftfile a b", false),
    ("makestep 1", false),
    ("makestep 1 2 3", false),
    ("makestep 1 x", false),
    ("makestep 1e-3 -1", false),
    ("rtcsync 1", false),
    ("rtcsync # x", false),
    ("  # x", false),
    ("\t!x", false),
    ("allow 1.2", false),
    ("allow 1.2/8", false),
    ("allow 0/0", false),
    ("allow ::/0", false),
    ("allow 192.0.2.1 b", false),
    ("allow all foo/8", false),
    ("allow 192.0.2.1/33", true),
    ("local stratum 0", false),
    ("local stratum 16", false),
    ("local stratum 5 orphan distance 0.1", false),
    ("local foo", false),
    ("log foo", false),
    ("log tracking measurements", false),
    ("logdir a b", false),
    ("port 99999", true),
    ("port abc", false),
    ("port 123x", true),
    ("bindaddress x", false),
    ("bindaddress /a", false),
    ("bindcmdaddress /a", false),
    ("bindcmdaddress a", false),
    ("maxslewrate abc", false),
    ("commandkey 1", false),
    ("generatecommandkey", false),
    ("linux_hz 100", false),
    ("include /nowhere", false),
    ("include /nowhere/*.conf", true),
    ("confdir /nowhere", false),
    ("confdir", false),
    ("sourcedir /nowhere", false),
    ("leapsecmode x", false),
    ("leapsecmode STEP", false),
    ("refclock PHC", false),
    ("refclock PHC /dev/ptp0 refid ABCDE", false),
    ("refclock XXX a", true),
    ("refclock SHM x", true),
    ("hwtimestamp", false),
    ("hwtimestamp eth0 rxfilter x", false),
    ("hwtimestamp eth0 foo", false),
    ("ratelimit interval 99", false),
    ("smoothtime 1", false),
    ("authselectmode x", false),
    ("fallbackdrift 1", false),
    ("maxchange 1", false),
    ("maxchange 1 2 3", false),
    ("tempcomp a 1", false),
    ("tempcomp a 1 b", false),
    ("tempcomp a 1 2 3 4 5", false),
    ("foo", false),
    ("user", false),
    ("broadcast 32 192.0.2.255", false),
    ("initstepslew", false),
    ("manual", false),
    ("clientloglimit x", false),
    ("minsources 0", false),
    ("mailonchange a 1", false),
    ("mailonchange a", false),
    ("acquisitionport 0", false),
    ("ntsservercert", false),
    ("lock_all", false),
    ("stratumweight 0", false),
    ("noclientlog", false),
    ("logchange 0.5", false),
    ("minsamples x", false),
    ("rtcfile a", false),
    ("ptpport 319", false),
    ("nocerttimecheck 1", false),
    ("cmdallow", false),
    ("dumponexit", false),
    ("opencommands", true),
];

#[test]
fn lines_are_refused_where_chronyd_refuses_them() {
    let files = Scratch::new("chrony-conf");
    let conf = files.join("chrony.conf");
    let found = ["/usr/sbin/chronyd", "/sbin/chronyd"];
    let found = found.into_iter().find(|path| Path::new(path).exists());
    let chronyd = PathBuf::from(found.unwrap_or("chronyd"));
    for (line, differs) in LINES {
        std::fs::write(&conf, format!("{line}\n")).unwrap();
        let mut command = Command::new(&chronyd);
        command.arg("-p").arg("-f").arg(&conf);
        let (status, stdout, stderr) = run(command);
        let ours = peer_chrony::parse(&conf, &mut daemon::disk::Disk);
        assert_eq!(
            ours.is_ok() == status.success(),
            !differs,
            "{line}: {ours:?}\n{stdout}{stderr}"
        );
    }
}
