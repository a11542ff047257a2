//! An imported keepalived.conf does as keepalived does with it, or `import` says that it does not.
//!
//! A [`Case`] is a file and what happens to its node: another router comes and goes, a port that a script asks for closes, a link
//! loses its carrier. Debian's keepalived has the file on one wire and lb-proxy, from what `import` prints, on another.
//! After each step the outcome is the addresses and routes of the node, and the last state that a script heard. The case says the
//! outcome of keepalived; lb-proxy's is the same, or the case names a remark, and the import must have printed it.
//!
//! To add a shape: write a case in [`cases`]. `virtual_server` needs LVS, which the kernels of test machines have not; its
//! keywords are in the crate's own test of every keyword of the manual.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tests::binaries::binary;
use tests::daemon::{self, Daemon};
use tests::keepalived::{Instance, Keepalived};
use tests::netns::{Machine, Network};
use tests::scratch::Scratch;
use tests::stream::Server;

const OWN: &str = "192.168.7.13";
const RIVAL: &str = "192.168.7.14";
const HELD: &str = "eth0 192.168.7.100/24";
const VIP: &str = "virtual_ipaddress { 192.168.7.100/24 }";
/// The port that scripts ask for.
const PORT: u16 = 8080;

/// How long an outcome may take: the machine may be building, and a probe counts as good after ten seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long an outcome must stay.
const STABLE: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Copy)]
enum Step {
    /// The program begins.
    Start,
    /// Another router with this priority.
    Rival(u8),
    /// It is gone.
    NoRival,
    /// The port is served, or not.
    Port(bool),
    /// The carrier of a link.
    Carrier(bool),
    /// The other link of the node is up.
    Other(bool),
    /// The tracked file has this number.
    File(&'static str),
}

/// What happens, and the outcome.
struct Vector {
    steps: Vec<Step>,
    keepalived: String,
    /// lb-proxy's, if it differs, and a part of the remark.
    ours: Option<(String, &'static str)>,
}

struct Case {
    name: &'static str,
    /// `{dir}` is a directory of the case.
    file: String,
    rival: Instance,
    vectors: Vec<Vector>,
}

impl Case {
    /// An instance with these lines, beside a router of its kind.
    fn new(name: &'static str, before: &str, lines: &str) -> Self {
        let version = if before.contains("vrrp_version 3") {
            3
        } else {
            2
        };
        let unicast = lines.contains("unicast_peer");
        Self {
            name,
            file: format!(
                "global_defs {{\nscript_user root\n}}\n{before}\nvrrp_instance V {{\ninterface eth0\nvirtual_router_id 51\n{lines}\n}}\n"
            ),
            rival: Instance {
                version,
                router_id: 51,
                priority: 0,
                interval: Duration::from_secs(1),
                addresses: vec!["192.168.7.100".parse().unwrap()],
                unicast: unicast.then(|| (RIVAL.parse().unwrap(), OWN.parse().unwrap())),
                password: lines.contains("auth_pass").then(|| "secret".to_owned()),
            },
            vectors: Vec::new(),
        }
    }

    fn with(mut self, steps: &[Step], outcome: &str) -> Self {
        self.vectors.push(Vector {
            steps: steps.to_vec(),
            keepalived: outcome.to_owned(),
            ours: None,
        });
        self
    }

    /// The outcomes differ, and the import says so.
    fn differs(mut self, steps: &[Step], outcomes: [&str; 2], remark: &'static str) -> Self {
        let [keepalived, ours] = outcomes.map(str::to_owned);
        self.vectors.push(Vector {
            steps: steps.to_vec(),
            keepalived,
            ours: Some((ours, remark)),
        });
        self
    }
}

/// The shapes of the manual that can be seen from outside.
fn cases() -> Vec<Case> {
    let all = [elections(), scripts(), links(), machine(), notices()];
    all.into_iter().flatten().collect()
}

/// Lines of most instances.
fn plain() -> String {
    format!("state BACKUP\npriority 100\nadvert_int 1\n{VIP}")
}

fn elections() -> Vec<Case> {
    use Step::{NoRival, Rival, Start};
    let plain = plain();
    let two = "vrrp_sync_group G {\ngroup {\nV\nW\n}\n}\n\
               vrrp_instance W {\ninterface eth0\nvirtual_router_id 52\npriority 100\nvirtual_ipaddress { 192.168.7.101/24 }\n}";
    let both = "eth0 192.168.7.100/24, eth0 192.168.7.101/24";
    vec![
        Case::new(
            "password",
            "",
            &format!("{plain}\nauthentication {{ auth_type PASS\nauth_pass secret\n}}"),
        )
        .with(&[Start], HELD)
        .with(&[Rival(200)], "")
        .with(&[NoRival], HELD)
        .with(&[Rival(50)], HELD),
        Case::new("version 3", "global_defs { vrrp_version 3\n}", &plain)
            .with(&[Start], HELD)
            .with(&[Rival(200)], "")
            .with(&[NoRival], HELD),
        Case::new(
            "unicast",
            "",
            &format!("{plain}\nunicast_src_ip {OWN}\nunicast_peer {{\n{RIVAL}\n}}"),
        )
        .with(&[Start], HELD)
        .with(&[Rival(200)], "")
        .with(&[NoRival], HELD),
        Case::new("preempt", "", &plain).with(&[Rival(50), Start], HELD),
        Case::new("nopreempt", "", &format!("{plain}\nnopreempt"))
            .with(&[Rival(50), Start], "")
            .with(&[NoRival], HELD)
            .with(&[Rival(200)], "")
            .with(&[NoRival], HELD),
        Case::new(
            "nopreempt as MASTER",
            "",
            &format!("{}\nnopreempt", plain.replace("BACKUP", "MASTER")),
        )
        .with(&[Rival(50), Start], HELD),
        Case::new("preempt_delay", "", &format!("{plain}\npreempt_delay 600"))
            .with(&[Rival(50), Start], "")
            .with(&[NoRival], HELD),
        Case::new("sync group", two, &plain)
            .with(&[Start], both)
            .with(&[Rival(200)], "")
            .with(&[NoRival], both),
        Case::new(
            "IPv6",
            "global_defs { vrrp_version 3\n}",
            "priority 100\nvirtual_ipaddress { fd00:7::100/64 }",
        )
        .with(&[Start], "eth0 fd00:7::100/64"),
    ]
}

fn scripts() -> Vec<Case> {
    use Step::{Port, Rival, Start};
    let plain = plain();
    let script = |weight: i32| {
        format!(
            "vrrp_script s {{\nscript \"/bin/bash -c '</dev/tcp/127.0.0.1/{PORT}'\"\ninterval 1\ntimeout 2\nrise 1\nfall 1\nweight {weight}\n}}"
        )
    };
    vec![
        Case::new(
            "required script",
            &script(0),
            &format!("{plain}\ntrack_script {{ s }}"),
        )
        .with(&[Port(true), Start], HELD)
        .with(&[Port(false)], "")
        .with(&[Port(true)], HELD),
        Case::new(
            "weight below zero",
            &script(-60),
            &format!("{plain}\ntrack_script {{ s }}"),
        )
        .with(&[Port(true), Rival(80), Start], HELD)
        .with(&[Port(false)], "")
        .with(&[Port(true)], HELD),
        Case::new(
            "weight above zero",
            &script(60),
            &format!("{plain}\ntrack_script {{ s }}"),
        )
        .with(&[Port(false), Rival(120), Start], "")
        .with(&[Port(true)], HELD)
        .with(&[Port(false)], ""),
        Case::new(
            "script of a group",
            &format!(
                "{}\nvrrp_sync_group G {{\ngroup {{ V }}\ntrack_script {{ s }}\n}}",
                script(0)
            ),
            &plain,
        )
        .with(&[Port(true), Start], HELD)
        .with(&[Port(false)], ""),
    ]
}

/// What else is tracked.
fn links() -> Vec<Case> {
    use Step::{Carrier, File, Other, Start};
    let plain = plain();
    vec![
        Case::new("carrier", "", &plain)
            .with(&[Start], HELD)
            .with(&[Carrier(false)], "")
            .with(&[Carrier(true)], HELD),
        Case::new(
            "track_interface",
            "",
            &format!("{plain}\ntrack_interface {{ eth1 }}"),
        )
        .with(&[Start], HELD)
        .differs(
            &[Other(false)],
            ["", HELD],
            "the interface of the addresses is always tracked, and no other",
        ),
        Case::new(
            "track_file",
            "track_file f {\nfile {dir}/tracked\n}",
            &format!("{plain}\ntrack_file {{ f weight 0\n}}"),
        )
        .with(&[File("0"), Start], HELD)
        .differs(&[File("1")], ["", HELD], "probes decide"),
    ]
}

/// What is the machine's own here.
fn machine() -> Vec<Case> {
    use Step::Start;
    let plain = plain();
    let route = "virtual_routes {\n198.51.100.0/24 via 192.168.7.14\n}";
    vec![
        Case::new("virtual_routes", "", &format!("{plain}\n{route}")).differs(
            &[Start],
            [&format!("198.51.100.0/24, {HELD}"), HELD],
            "routes and rules do not move",
        ),
        Case::new(
            "address of another link",
            "",
            &plain.replace("/24 }", "/24\n192.168.8.100/24 dev eth1\n}"),
        )
        .differs(
            &[Start],
            [&format!("{HELD}, eth1 192.168.8.100/24"), HELD],
            "addresses are on the interface that is advertised on",
        ),
        Case::new(
            "static_ipaddress",
            "static_ipaddress {\n192.168.7.150/24 dev eth0\n}",
            &plain,
        )
        .differs(
            &[Start],
            [&format!("{HELD}, eth0 192.168.7.150/24"), HELD],
            "addresses and routes that do not move are the machine's own",
        ),
        Case::new(
            "startup delay",
            "global_defs { vrrp_startup_delay 600\n}",
            &plain,
        )
        .differs(
            &[Start],
            ["", HELD],
            "listens for the others for three intervals",
        ),
    ]
}

/// What scripts hear.
fn notices() -> Vec<Case> {
    use Step::{Carrier, NoRival, Rival, Start};
    let plain = plain();
    let told = |state: &str, held: &str| match held {
        "" => format!("told {state}"),
        held => format!("{held}, told {state}"),
    };
    vec![
        Case::new("notify", "", &format!("{plain}\nnotify {{dir}}/notify"))
            .with(&[Start], &told("MASTER", HELD))
            .with(&[Rival(200)], &told("BACKUP", ""))
            .with(&[NoRival], &told("MASTER", HELD))
            .with(&[Carrier(false)], &told("FAULT", "")),
        Case::new(
            "notify_master",
            "",
            &format!("{plain}\nnotify_master \"{{dir}}/notify x x MASTER\""),
        )
        .differs(
            &[Start],
            [&told("MASTER", HELD), HELD],
            "`notify` hears every change",
        ),
    ]
}

/// One of the programs, its wire, and what happens there.
struct Side<'a> {
    case: &'a Case,
    node: Machine,
    other: Machine,
    files: Scratch,
    rival: Option<Keepalived>,
    server: Option<Server>,
    program: Option<Program>,
    remarks: String,
    _network: Network,
}

#[expect(dead_code, reason = "they run as long as they are there")]
enum Program {
    Keepalived(Keepalived),
    Ours { healthd: Daemon, lb: Daemon },
}

impl<'a> Side<'a> {
    fn new(case: &'a Case) -> Self {
        let mut network = Network::new();
        let node = network.machine_with("m0", &[&format!("{OWN}/24"), "fd00:7::13/64"]);
        let other = network.machine("m1", &format!("{RIVAL}/24"));
        for arguments in [
            &[
                "link", "add", "eth1", "type", "veth", "peer", "name", "far1",
            ][..],
            &["link", "set", "far1", "up"],
            &["link", "set", "eth1", "up"],
        ] {
            let status = node.command("ip").args(arguments).status();
            assert!(status.unwrap().success());
        }
        let files = Scratch::new("keepalived-import");
        let told = files.join("told");
        let script = files.write(
            "notify",
            &format!("#!/bin/sh\necho \"$3\" >> {}\n", told.display()),
        );
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(script, mode).unwrap();
        Self {
            case,
            node,
            other,
            files,
            rival: None,
            server: None,
            program: None,
            remarks: String::new(),
            _network: network,
        }
    }

    fn file(&self) -> String {
        let directory = self.files.join("");
        let directory = directory.display().to_string();
        self.case
            .file
            .replace("{dir}", directory.trim_end_matches('/'))
    }

    fn keepalived(&self) -> Program {
        Program::Keepalived(Keepalived::start_with(&self.node, &self.file()))
    }

    /// lb-proxy as imported, with healthd.
    fn ours(&mut self) -> Program {
        let file = self.files.write("keepalived.conf", &self.file());
        let mut import = Command::new(binary("lb-proxy"));
        import.args(["import", "keepalived.conf"]).arg(file);
        let (status, toml, remarks) = daemon::run(import);
        assert!(status.success(), "{}: {status}: {remarks}", self.case.name);
        self.remarks = remarks;
        let (_, text) = toml.split_once("version = \"v1\"\n").unwrap();
        let socket = self.files.join("healthd.sock");
        let socket = socket.display();
        let state = |name: &str| self.files.join(name).display().to_string();
        let text = format!(
            "version = \"v1\"\nhealth.endpoint = \"unix:{socket}\"\nadmin.listen = \"none\"\nswap.socket = \"none\"\n\
             state = \"{}\"\n{text}",
            state("lb-state")
        );
        let healthd = format!(
            "version = \"v1\"\nadmin.listen = \"none\"\nlisten = [\"unix:{socket}\"]\nstate = \"{}\"\n",
            state("healthd-state")
        );
        let start = |name: &str, text: &str| {
            let config = self.files.write(&format!("{name}.toml"), text);
            let mut command = self.node.command(binary(name));
            command.arg("serve").arg("--config").arg(config);
            Daemon::start(name, command)
        };
        let healthd = start("healthd", &healthd);
        Program::Ours {
            healthd,
            lb: start("lb-proxy", &text),
        }
    }

    fn step(&mut self, step: Step, is_peer: bool) {
        match step {
            Step::Start if is_peer => self.program = Some(self.keepalived()),
            Step::Start => self.program = Some(self.ours()),
            Step::Rival(priority) => {
                let rival = Instance {
                    priority,
                    ..self.case.rival.clone()
                };
                self.rival = None;
                self.rival = Some(Keepalived::start(&self.other, &rival));
                if self.program.is_none() {
                    let address = "192.168.7.100".parse().unwrap();
                    tests::wait::for_it("the other router is active", PATIENCE, || {
                        self.other.has_address(address)
                    });
                }
            }
            Step::NoRival => {
                if let Some(rival) = self.rival.take() {
                    rival.stop();
                }
            }
            Step::Port(is_served) => {
                let at = SocketAddr::new("127.0.0.1".parse().unwrap(), PORT);
                self.server = None;
                if is_served {
                    self.server = Some(self.node.inside(|| Server::named(at, "asked")));
                }
            }
            Step::Carrier(true) => self.node.regain_carrier(),
            Step::Carrier(false) => self.node.lose_carrier(),
            Step::Other(is_up) => {
                let state = if is_up { "up" } else { "down" };
                let mut command = self.node.command("ip");
                command.args(["link", "set", "eth1", state]);
                assert!(command.status().unwrap().success());
            }
            Step::File(number) => drop(self.files.write("tracked", number)),
        }
    }

    fn outcome(&self) -> String {
        let listed = |arguments: &[&str]| {
            let output = self.node.command("ip").args(arguments).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let mut facts = BTreeSet::new();
        for line in listed(&["-o", "addr", "show"]).lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let [_, link, _, address, ..] = words.as_slice() {
                let is_own =
                    address.starts_with("192.168.7.13/") || address.starts_with("fd00:7::13/");
                if !is_own && *link != "lo" && !address.starts_with("fe80:") {
                    facts.insert(format!("{link} {address}"));
                }
            }
        }
        if listed(&["route", "show"]).contains("198.51.100.0/24") {
            facts.insert("198.51.100.0/24".to_owned());
        }
        let told = std::fs::read_to_string(self.files.join("told")).unwrap_or_default();
        if let Some(state) = told.lines().last() {
            facts.insert(format!("told {state}"));
        }
        facts.into_iter().collect::<Vec<_>>().join(", ")
    }

    /// The outcome, once it stays as wanted; the last one if it never does.
    fn settled(&self, wanted: &str) -> String {
        let start = Instant::now();
        let mut since: Option<Instant> = None;
        loop {
            let seen = self.outcome();
            match (seen == wanted, since) {
                (true, Some(since)) if since.elapsed() >= STABLE => return seen,
                (true, None) => since = Some(Instant::now()),
                (true, Some(_)) => {}
                (false, _) if start.elapsed() >= PATIENCE => return seen,
                (false, _) => since = None,
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// The problems of a case.
fn problems(case: &Case) -> Vec<String> {
    let (mut peer, mut ours) = (Side::new(case), Side::new(case));
    let mut wrong = Vec::new();
    for vector in &case.vectors {
        for step in &vector.steps {
            peer.step(*step, true);
            ours.step(*step, false);
        }
        let (own, remark) = match &vector.ours {
            Some((own, remark)) => (own, Some(*remark)),
            None => (&vector.keepalived, None),
        };
        let seen = (peer.settled(&vector.keepalived), ours.settled(own));
        let steps = &vector.steps;
        println!(
            "{}: {steps:?}: keepalived: {:?}; lb-proxy: {:?}{}",
            case.name,
            seen.0,
            seen.1,
            remark.map_or(String::new(), |remark| format!(", said: {remark}"))
        );
        if (&seen.0, &seen.1) != (&vector.keepalived, own) {
            wrong.push(format!(
                "{}: {steps:?}:\n  keepalived: {:?}, wanted {:?}\n  lb-proxy: {:?}, wanted {own:?}\n  remarks:\n{}",
                case.name, seen.0, vector.keepalived, seen.1, ours.remarks
            ));
        }
        if remark.is_some_and(|remark| !ours.remarks.contains(remark)) {
            wrong.push(format!(
                "{}: not said: {remark:?}\n{}",
                case.name, ours.remarks
            ));
        }
    }
    wrong
}

/// Cases at a time.
const AT_ONCE: usize = 6;

#[test]
#[ignore = "needs network namespaces"]
fn an_imported_file_does_as_keepalived_does_or_the_import_says_so() {
    let cases = Mutex::new(cases());
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(case) = cases.lock().unwrap().pop() else {
                        return;
                    };
                    let found = problems(&case);
                    wrong.lock().unwrap().extend(found);
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
