//! PTP against Debian's ptp4l: as our grandmaster, and as a slave beside us that says what it knows.
//!
//! All of it free-running: ptp4l may not touch the clock and is not asked to, and we never do here. Both ends have one clock, so
//! what is measured is how far an offset is from zero.

use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use clock_drivers::Clocks;
use clock_drivers::ptp::Slave;
use clocks::refclock::{Context, Observation, Observed, Scale};
use tests::daemon::{Daemon, metric};
use tests::netns::{Machine, Network};
use tests::scratch::Scratch;
use tests::time::{Agent, PATIENCE, ask_patiently};
use tests::wait;
use time_model::sample::ClockSample;
use time_model::settings::{
    PtpDelay, PtpSettings, PtpTransport, RefclockDriver, RefclockOptions, RefclockSettings,
};
use time_model::time::{RawTime, Reading, UnixTime};
use time_model::view::{PtpRole, PtpState, PtpView};

/// The error of software timestamps on a machine that is busy: a thousand times what they are on one that is not.
const BOUND: i64 = 2_000_000;

/// Two machines on a wire.
struct Wire {
    master: Machine,
    slave: Machine,
    files: Scratch,
    _network: Network,
}

impl Wire {
    fn new() -> Self {
        let mut network = Network::new();
        Self {
            master: network.machine("gm", "192.168.7.1/24"),
            slave: network.machine("oc", "192.168.7.2/24"),
            files: Scratch::new("ptp"),
            _network: network,
        }
    }

    /// ptp4l on one of the machines, which cannot set a clock in any case.
    fn ptp4l(&self, machine: &Machine, name: &str, lines: &str) -> Daemon {
        let socket = self.socket(name);
        let text = format!(
            "[global]\nfree_running 1\ntime_stamping software\nuds_address {}\n\
             logAnnounceInterval 0\nlogSyncInterval -2\nlogMinDelayReqInterval -2\n{lines}\n",
            socket.display()
        );
        let config = self.files.write(&format!("{name}.conf"), &text);
        let mut command = machine.command("capsh");
        let line = format!("exec ptp4l -f {} -i eth0 -m", config.display());
        command.args(["--drop=cap_sys_time", "--", "-c", &line]);
        Daemon::spawn(name, command)
    }

    /// An agent on the slave's machine that has the time from PTP alone.
    fn agent(&self) -> (Agent, Daemon) {
        let agent = Agent::on(
            &self.slave,
            [192, 168, 7, 2].into(),
            "allow 192.168.7.0/24\n",
        );
        let lines = "node = \"oc\"\n[[ptp]]\ninterface = \"eth0\"\ndelay-interval = -2\npoll = 0\nrefid = \"PTP\"\n";
        let serve = agent.serve_by(agent.admin(), lines);
        let daemon = Daemon::start("timesync-agent", serve);
        (agent, daemon)
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.files.join(&format!("{name}.sock"))
    }
}

fn settings() -> PtpSettings {
    PtpSettings {
        announce_interval: 0,
        delay_interval: -2,
        ..PtpSettings::new("eth0")
    }
}

/// Both clocks, as the agent reads them.
fn now() -> Reading {
    use rustix::time::{ClockId, clock_gettime};
    let nanoseconds = |id| {
        let time = clock_gettime(id);
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    };
    Reading {
        raw: RawTime(nanoseconds(ClockId::MonotonicRaw)),
        wall: UnixTime(nanoseconds(ClockId::Realtime)),
    }
}

/// By how much a time is ahead of the only clock that there is.
fn off(at: RawTime, time: UnixTime) -> i64 {
    let now = now();
    time.0 - (now.wall - (now.raw - at)).0
}

/// The next ones, this many.
fn told(receiver: &Receiver<Observation>, n: usize) -> Vec<(i64, Scale)> {
    let told = std::iter::repeat_with(|| receiver.recv_timeout(PATIENCE).expect("PTP is followed"));
    let times = told.take(n).map(|told| match told.what {
        Observed::Time { time, scale } => (off(told.at, time), scale),
        Observed::Pulse { .. } => panic!("{told:?}"),
    });
    times.collect()
}

/// The one in the middle.
fn median(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Whether seconds that were measured are few.
fn is_small(seconds: Option<f64>) -> bool {
    seconds.is_some_and(|seconds| seconds.abs() < 2e-3)
}

fn follow(settings: &PtpSettings, ptp4l: &str) {
    let wire = Wire::new();
    let _master = wire.ptp4l(&wire.master, "gm", ptp4l);
    let slave = wire.slave.inside(|| Slave::start(settings, 0, [7; 16]));
    let (slave, receiver) = slave.expect("the slave starts");
    let told = told(&receiver, 20);
    let off = median(told.iter().map(|told| told.0).collect());
    assert!(off.abs() < BOUND, "{off} ns");
    // A free-running ptp4l has an arbitrary timescale, which is what its clock has: UTC.
    assert_eq!(told[0].1, Scale::Configured);
    let view = slave.view();
    assert_eq!((view.role, view.state), (PtpRole::Slave, PtpState::Locked));
    assert_eq!(
        (view.process, view.interface.as_str()),
        ("timesync-agent", "eth0")
    );
    assert_eq!((view.class, view.steps_removed), (248, 1));
    assert!(
        view.grandmaster.is_some() && view.n_measured >= 20,
        "{view:?}"
    );
    // Single ones are as far off as who stamps them waits for its turn.
    wait::for_it("what it measures is small", PATIENCE, || {
        let view = slave.view();
        is_small(view.delay) && is_small(view.offset)
    });
}

#[test]
#[ignore = "needs network namespaces"]
fn a_grandmaster_is_followed_over_udp() {
    follow(&settings(), "network_transport UDPv4");
}

#[test]
#[ignore = "needs network namespaces"]
fn a_grandmaster_is_followed_over_ethernet() {
    let settings = PtpSettings {
        transport: PtpTransport::Ethernet,
        domain: 24,
        ..settings()
    };
    follow(&settings, "network_transport L2\ndomainNumber 24");
}

#[test]
#[ignore = "needs network namespaces"]
fn a_grandmaster_is_followed_where_neighbours_measure_delays() {
    let settings = PtpSettings {
        delay: PtpDelay::PeerToPeer,
        ..settings()
    };
    follow(
        &settings,
        "network_transport UDPv4\ndelay_mechanism P2P\nlogMinPdelayReqInterval -2",
    );
}

#[test]
#[ignore = "needs network namespaces"]
fn a_grandmaster_that_goes_is_missed_and_found_again() {
    let wire = Wire::new();
    let master = wire.ptp4l(&wire.master, "gm", "");
    let slave = wire.slave.inside(|| Slave::start(&settings(), 0, [7; 16]));
    let (slave, receiver) = slave.expect("the slave starts");
    told(&receiver, 3);
    master.kill();
    let state = |slave: &Slave| slave.view().state;
    wait::for_it("holdover", PATIENCE, || state(&slave) == PtpState::Holdover);
    wait::for_it("nothing to follow", PATIENCE, || {
        let view = slave.view();
        (view.state, view.role) == (PtpState::FreeRun, PtpRole::Listening)
    });
    while receiver.try_recv().is_ok() {}
    let _master = wire.ptp4l(&wire.master, "gm", "");
    told(&receiver, 3);
    wait::for_it("locked again", PATIENCE, || {
        state(&slave) == PtpState::Locked
    });
}

#[test]
#[ignore = "needs network namespaces"]
fn a_node_has_its_time_from_ptp_and_gives_it_to_others() {
    let wire = Wire::new();
    let master = wire.ptp4l(&wire.master, "gm", "clockClass 6");
    let (agent, daemon) = wire.agent();
    let status = agent.wait_state(&["locked"]);
    assert_eq!(
        (&status["stratum"], &status["reference_id"]),
        (&1.into(), &"50545000".into())
    );
    let (code, text) = agent.chronyc(&["-n", "sources"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("#* PTP"), "{text}");
    // An observer of an OpenShift node sees a locked slave.
    let wait_metric = |what: &str, name: &str, wanted: &dyn Fn(f64) -> bool| {
        wait::for_it(what, PATIENCE, || {
            let metrics = agent
                .get("/metrics")
                .map_or(String::new(), |(_, text)| text);
            metric(&metrics, name).is_some_and(wanted)
        });
    };
    let labels = "process=\"timesync-agent\",node=\"oc\",iface=\"eth0\"";
    let state = format!("openshift_ptp_clock_state{{{labels}}}");
    let role = format!("openshift_ptp_interface_role{{{labels}}}");
    wait_metric("locked", &state, &|state| {
        state.to_bits() == 1_f64.to_bits()
    });
    wait_metric("a slave", &role, &|role| role.to_bits() == 1_f64.to_bits());
    // A client on the other end of the wire: all of them share one clock.
    let address = "192.168.7.2:123".parse().unwrap();
    let reply = wire.master.inside(|| ask_patiently(address));
    assert_eq!((reply.leap(), reply.stratum), (0, 1));
    wait::for_it("clients are given the time", PATIENCE, || {
        let reply = wire.master.inside(|| ask_patiently(address));
        reply.offset.abs() < 0.01
    });
    // Without its grandmaster it holds what it has learned, and clients are answered as before.
    master.kill();
    wait_metric("in holdover", &state, &|state| {
        state.to_bits() != 1_f64.to_bits()
    });
    agent.wait_state(&["holdover"]);
    let reply = wire.master.inside(|| ask_patiently(address));
    assert_eq!(reply.stratum, 1);
    let _master = wire.ptp4l(&wire.master, "gm", "clockClass 6");
    agent.wait_state(&["locked"]);
    daemon.stop();
}

/// The reports of a ptp4l, as samples and in the status.
fn ask(
    socket: &Path,
    done: impl Fn(&PtpView, &[ClockSample]) -> bool,
) -> (PtpView, Vec<ClockSample>) {
    let driver = RefclockDriver::Ptp4l {
        socket: socket.to_owned(),
        domain: 0,
    };
    let options = RefclockOptions {
        poll: -1,
        driver_poll: -3,
        filter: 1,
        ..RefclockOptions::default()
    };
    let clocks = [RefclockSettings::new(driver, options, 0)];
    let (mut clocks, failures) = Clocks::open(&clocks, now(), timesync_agent::system::seed);
    assert!(failures.is_empty(), "{failures:?}");
    let begun = Instant::now();
    let mut made = Vec::new();
    loop {
        let outputs = clocks.handle_timeout(&Context::default(), now());
        made.extend(outputs.into_iter().filter_map(|output| output.sample));
        std::thread::sleep(Duration::from_millis(20));
        clocks.handle_readable(0, &Context::default());
        let view = clocks.ptp().next().expect("there is one");
        if done(&view, &made) {
            return (view, made);
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "{view:?}, {} samples",
            made.len()
        );
    }
}

#[test]
#[ignore = "needs network namespaces"]
fn a_ptp4l_that_follows_says_what_it_measures() {
    let wire = Wire::new();
    let master = wire.ptp4l(&wire.master, "gm", "");
    let slave = wire.ptp4l(&wire.slave, "oc", "slaveOnly 1");
    let socket = wire.socket("oc");
    wait::for_it("ptp4l", PATIENCE, || socket.exists());
    let (view, made) = ask(&socket, |view, made| {
        let is_measured = is_small(view.delay) && is_small(view.offset);
        made.len() >= 5 && is_measured && !view.interface.is_empty()
    });
    let off = median(
        made.iter()
            .map(|made| off(made.at, UnixTime(made.at.0.saturating_add(made.ahead))))
            .collect(),
    );
    assert!(off.abs() < BOUND, "{off} ns");
    assert_eq!((view.process, view.interface.as_str()), ("ptp4l", "eth0"));
    assert_eq!((view.role, view.state), (PtpRole::Slave, PtpState::Locked));
    assert_eq!((view.class, view.steps_removed), (248, 1));
    // Without a master there is nothing to measure.
    master.kill();
    let (view, made) = ask(&socket, |view, _| {
        view.role == PtpRole::Listening && view.state == PtpState::FreeRun
    });
    assert_eq!((view.grandmaster, view.class), (None, 255));
    assert!(
        made.len() <= 1,
        "what was measured last is no news: {}",
        made.len()
    );
    slave.kill();
}

#[test]
#[ignore = "needs network namespaces"]
fn a_grandmaster_says_that_it_is_one() {
    let wire = Wire::new();
    let _master = wire.ptp4l(&wire.master, "gm", "clockClass 6\ndomainNumber 0");
    let socket = wire.socket("gm");
    wait::for_it("ptp4l", PATIENCE, || socket.exists());
    let (view, made) = ask(&socket, |view, _| {
        view.role == PtpRole::Master && view.class == 6
    });
    assert_eq!((view.state, view.grandmaster), (PtpState::FreeRun, None));
    assert!(made.is_empty());
}
