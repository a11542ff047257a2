//! HAProxy and lb-proxy on one file, each on an address of its own.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use tests::binaries::binary;
use tests::daemon::{self, Daemon};
use tests::lb::{Place, program};
use tests::scratch::at;
use tests::stream::is_listened_on;
use tests::wait;

use super::servers::Servers;
use super::{Case, Step, Vector};

/// Both proxies, their servers, and what the import said.
pub(super) struct Rig {
    servers: Servers,
    haproxy: (Place, Daemon),
    ours: (Place, Daemon),
    _healthd: Daemon,
    remarks: String,
}

impl Rig {
    /// Starts everything. `wrong` gets what the import should not have done.
    pub(super) fn start(case: &Case, wrong: &mut Vec<String>) -> Self {
        let servers = Servers::start(&case.servers);
        let peer = Place::new();
        let haproxy = start_haproxy(&peer, case, &servers);
        let place = Place::new();
        let file = place
            .files
            .write("haproxy.cfg", &filled(case, place.ip, &servers));
        let import = |flag: Option<&str>| {
            let mut command = Command::new(binary("lb-proxy"));
            command
                .args(["import", "haproxy.cfg"])
                .args(flag)
                .arg(&file);
            daemon::run(command)
        };
        let (status, mut toml, mut remarks) = import(None);
        let is_right = match case.refusal {
            None => status.code() == Some(0),
            Some(words) => status.code() == Some(65) && remarks.contains(words),
        };
        if !is_right {
            wrong.push(format!(
                "{}: import ended with {status}, {:?} was wanted:\n{remarks}",
                case.name, case.refusal
            ));
        }
        if status.code() == Some(65) {
            (_, toml, remarks) = import(Some("--accept-open"));
        }
        let (_, text) = toml
            .split_once("version = \"v1\"\n")
            .unwrap_or_else(|| panic!("{}: {remarks}{toml}", case.name));
        let healthd = place.start_healthd("");
        // The file's own number of workers and socket would be there twice.
        place.configure(&text.replace("\nworkers = ", "\n# workers = "));
        let ours = Daemon::start("lb-proxy", place.serve());
        Self {
            servers,
            haproxy: (peer, haproxy),
            ours: (place, ours),
            _healthd: healthd,
            remarks,
        }
    }

    /// Does the steps before a vector.
    pub(super) fn prepare(&mut self, vector: &Vector) {
        if !vector.has_steps_inside() && !vector.steps.is_empty() {
            self.step(&vector.steps);
            std::thread::sleep(SETTLED);
        }
    }

    fn step(&mut self, steps: &[Step]) {
        for step in steps {
            self.servers.step(*step);
        }
    }

    /// The outcomes of a vector at HAProxy and at lb-proxy.
    pub(super) fn run(&mut self, vector: &Vector) -> (String, String) {
        let (peer, ours) = (self.haproxy.0.ip, self.ours.0.ip);
        if vector.has_steps_inside() {
            let inverse = vector.steps.iter().map(|step| match *step {
                Step::Down(name) | Step::Closed(name) => Step::Up(name),
                Step::Up(name) => Step::Down(name),
                Step::Status(name, _) => Step::Status(name, 200),
            });
            let inverse: Vec<Step> = inverse.collect();
            let mut one = |proxy: Ipv4Addr| {
                self.step(&inverse);
                // Checks find the states that the connection begins with.
                std::thread::sleep(SETTLED);
                vector.outcome(proxy, || self.step(&vector.steps))
            };
            return (one(peer), one(ours));
        }
        let other = vector.clone();
        let thread = std::thread::spawn(move || other.outcome(peer, || ()));
        let own = vector.outcome(ours, || ());
        (thread.join().expect("a vector ends"), own)
    }

    /// Whether the import said these words.
    pub(super) fn said(&self, words: &str) -> bool {
        self.remarks.contains(words)
    }

    /// The remarks of the import.
    pub(super) fn remarks(&self) -> &str {
        &self.remarks
    }
}

/// Several intervals of the checks that cases have: both proxies must have seen a change before they are compared.
const SETTLED: Duration = Duration::from_secs(2);

/// The file of a case, with addresses in it.
fn filled(case: &Case, front: Ipv4Addr, servers: &Servers) -> String {
    let mut text = case.file.replace("{front}", &front.to_string());
    for (name, address) in servers.addresses() {
        text = text.replace(&format!("{{{name}}}"), &address.to_string());
        let host = address.ip().to_string();
        text = text.replace(&format!("{{{name}.ip}}"), &host);
    }
    text
}

fn start_haproxy(place: &Place, case: &Case, servers: &Servers) -> Daemon {
    let text = filled(case, place.ip, servers);
    let text = format!("global\n maxconn 500\n{text}");
    let config = place.files.write("haproxy.cfg", &text);
    let mut command = Command::new(program("haproxy"));
    command.arg("-db").arg("-f").arg(config);
    let haproxy = Daemon::spawn("haproxy", command);
    // It listens on all ports before it serves any.
    let port = case.vectors.first().map_or(0, |vector| vector.port);
    let what = format!("{}: HAProxy serves", case.name);
    wait::until(&what, Duration::from_secs(20), || {
        let log = haproxy.log();
        assert!(!log.contains("Fatal errors"), "{}: {log}", case.name);
        is_listened_on(at(place.ip, port)).then_some(())
    });
    haproxy
}
