//! `outpost up`, from the outside: the whole site on loopback addresses, its commands and its end.

mod explain;
mod page;

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use api::outpost::{UpService, UpSite};
use rustix::process::Signal;
use tests::binaries::{ALL_SERVICES, SERVICES, binary};
use tests::daemon::{Daemon, run};
use tests::dns::{self, Question, ask_a};
use tests::scratch::{Scratch, loopback};
use tests::status::odd_keys;
use tests::wait;

/// A loopback network and a run directory that belong to one site of one test.
struct Place {
    net: [u8; 3],
    scratch: Scratch,
}

impl Place {
    fn new(label: &str) -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(192);
        // Beyond the addresses that `loopback` gives; its third byte tells processes apart.
        let [_, _, process, _] = loopback().octets();
        let net = [127, NEXT.fetch_add(1, Ordering::Relaxed), process];
        Self {
            net,
            scratch: Scratch::new(label),
        }
    }

    fn host(&self, last: u8) -> Ipv4Addr {
        let [first, second, third] = self.net;
        Ipv4Addr::new(first, second, third, last)
    }

    fn run_dir(&self) -> PathBuf {
        self.scratch.join("site")
    }

    fn recursor(&self) -> SocketAddr {
        (self.host(1), 5300).into()
    }

    /// Every address that the site listens on.
    fn listeners(&self) -> Vec<SocketAddr> {
        let own = [
            5000, 5300, 5301, 9401, 9402, 9403, 9404, 9405, 9406, 9407, 11_123, 6443, 8443, 5443,
        ]
        .map(|port| (self.host(1), port).into());
        let masters = [13, 14, 15]
            .into_iter()
            .flat_map(|last| [6443, 8443, 5443].map(|port| (self.host(last), port).into()));
        own.into_iter().chain(masters).collect()
    }

    fn up(&self) -> Command {
        let [first, second, third] = self.net;
        let net = format!("{first}.{second}.{third}");
        self.outpost(&["up", "--no-build", "--log", "--net", &net])
    }

    /// A verb of `outpost` for the site at this place.
    fn outpost(&self, arguments: &[&str]) -> Command {
        // The services have to be beside it.
        for service in ALL_SERVICES {
            assert!(binary(service).is_file(), "{service} is not beside outpost");
        }
        let mut command = Command::new(binary("outpost"));
        command.args(arguments).arg("--run-dir").arg(self.run_dir());
        command
    }

    fn start(&self) -> Daemon {
        self.start_with(&[])
    }

    fn start_with(&self, more: &[&str]) -> Daemon {
        let mut command = self.up();
        command.args(more);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Daemon::start("outpost up", command)
    }

    fn status(&self) -> UpSite {
        let (status, text, complaint) = run(self.outpost(&["status", "--json"]));
        assert!(status.success(), "{complaint}");
        serde_json::from_str(&text).expect("status is JSON")
    }

    fn services(&self) -> Vec<UpService> {
        self.status().services
    }

    fn pids(&self) -> Vec<u32> {
        self.services()
            .iter()
            .filter_map(|service| service.pid)
            .collect()
    }

    fn masters(&self) -> BTreeSet<IpAddr> {
        [13, 14, 15].map(|last| self.host(last).into()).into()
    }

    /// The master that answers at the proxy's address at this moment.
    fn get(&self, address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("somebody accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text
    }

    /// The master to which the proxy leads on a port.
    fn master_behind(&self, port: u16) -> String {
        let text = self.get((self.host(1), port).into(), "/");
        let body = text.split_once("\r\n\r\n").expect("HTTP").1;
        body.split_once(',').expect("a greeting").0.to_owned()
    }

    /// The one address that a name has at this moment.
    fn address(&self, name: &str) -> IpAddr {
        let message =
            ask_a(self.recursor(), name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(
            message.rcode,
            u16::from(dns::NOERROR),
            "{name}: {message:?}"
        );
        let addresses = message.addresses();
        assert_eq!(addresses.len(), 1, "{name}: {message:?}");
        addresses.into_iter().next().expect("one address")
    }
}

/// Whether a process has ended, be it that its adoptive parent has not noticed yet.
fn is_gone(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_none_or(|(_, state)| state.starts_with('Z'))
}

/// Leftovers that must not be there once a site has ended.
fn assert_nothing_is_left(place: &Place, pids: &[u32]) {
    for pid in pids {
        assert!(is_gone(*pid), "process {pid} is left");
    }
    assert!(!place.run_dir().exists(), "the run directory is left");
    for address in place.listeners() {
        TcpListener::bind(address).unwrap_or_else(|error| panic!("TCP {address}: {error}"));
        UdpSocket::bind(address).unwrap_or_else(|error| panic!("UDP {address}: {error}"));
    }
}

/// The lines that a running site suggests, and what becomes of each in a shell with the same programs.
fn suggested(label: &str, path: Option<&str>) -> Vec<(String, Option<i32>, String)> {
    let place = Place::new(label);
    let printed = place.scratch.join("printed");
    let mut command = place.up();
    command.stdin(Stdio::null());
    command.stdout(std::fs::File::create(&printed).unwrap());
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let site = Daemon::start("outpost up", command);
    wait::for_it("suggestions are printed", PATIENCE, || {
        std::fs::read_to_string(&printed).is_ok_and(|text| text.contains("Ctrl-C stops"))
    });
    let text = std::fs::read_to_string(&printed).unwrap();
    let (_, lines) = text.split_once("in another terminal:\n").unwrap();
    let (lines, _) = lines.split_once("Ctrl-C stops").unwrap();
    let lines = lines.lines().filter_map(|line| line.strip_prefix("    "));
    let tried = lines.map(|line| {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", line]);
        if let Some(path) = path {
            shell.env("PATH", path);
        }
        let (status, out, complaint) = run(shell);
        (line.to_owned(), status.code(), out + &complaint)
    });
    let tried = tried.collect();
    site.stop();
    tried
}

#[test]
fn suggested_commands_work_with_what_is_here() {
    let tried = suggested("up-try", None);
    assert_eq!(tried.len(), 6, "{tried:#?}");
    for (line, code, said) in &tried {
        let is_elsewhere = line.contains("# apt-get install");
        assert!(*code == Some(0) || is_elsewhere, "{line}\n{said}");
    }
}

#[test]
fn a_machine_without_tools_is_told_which_packages_have_them() {
    let tried = suggested("up-bare", Some("/nowhere"));
    assert_eq!(tried.len(), 6, "{tried:#?}");
    for (line, code, said) in &tried {
        match line.split_once("   # apt-get install ") {
            // The shell finds no such program.
            Some((_, package)) => {
                assert!(["bind9-dnsutils", "curl"].contains(&package), "{line}");
                assert_eq!(*code, Some(127), "{line}\n{said}");
            }
            None => assert_eq!(*code, Some(0), "{line}\n{said}"),
        }
    }
    let works = |(line, ..): &&(String, Option<i32>, String)| !line.contains('#');
    assert_eq!(tried.iter().filter(works).count(), 2, "a push and a master");
}

#[test]
fn a_site_answers_follows_its_masters_and_leaves_nothing_behind() {
    let place = Place::new("up");
    let site = place.start();

    for name in ["api", "c.apps", "registry", "quay"] {
        let address = place.address(&format!("{name}.ocp4.redhat.ren"));
        assert!(place.masters().contains(&address), "{name}: {address}");
    }
    assert_eq!(
        place.address("helper.ocp4.redhat.ren"),
        IpAddr::from([192, 168, 7, 11])
    );
    assert_eq!(
        place.address("etcd-1.ocp4.redhat.ren"),
        IpAddr::from(place.host(14))
    );

    // One time for the site, although no server is there.
    let time = tests::time::ask((place.host(1), 11_123).into()).expect("an answer");
    assert_eq!((time.leap(), time.stratum), (0, 10), "{time:?}");
    assert!(time.offset.abs() < 0.1, "{time:?}");

    // A wait for a server outside would be in every answer; the delay of a busy machine is not.
    let took = (0..5).map(|n| {
        let asked = Instant::now();
        let outside = ask_a(place.recursor(), &format!("n{n}.example.com")).expect("an answer");
        assert_eq!(outside.rcode, u16::from(dns::SERVFAIL), "{outside:?}");
        asked.elapsed()
    });
    let fastest = took.min().expect("there are five");
    assert!(fastest < Duration::from_secs(2), "{fastest:?}");

    // Connections reach every master in turn.
    for port in [6443, 8443] {
        let reached: BTreeSet<String> = (0..6).map(|_| place.master_behind(port)).collect();
        let all = ["master-0", "master-1", "master-2"].map(str::to_owned);
        assert_eq!(reached, BTreeSet::from(all), "port {port}");
    }

    // The registry is behind the balancer and behind each of its names.
    let registry = place.address("registry.ocp4.redhat.ren");
    for address in [IpAddr::from(place.host(1)), registry] {
        let answer = place.get(SocketAddr::new(address, 5443), "/v2/");
        assert!(
            answer
                .to_ascii_lowercase()
                .contains("docker-distribution-api-version: registry/2.0"),
            "{address}: {answer}"
        );
    }

    // A master taken down leaves the answers and stays away.
    let gone = IpAddr::from(place.host(14));
    let (status, text, complaint) = run(place.outpost(&["master", "down", "1"]));
    assert!(status.success(), "{complaint}");
    assert_eq!(text.trim(), "master-1 is down");
    // The proxy finds a refusing master out by itself, and tries the next one at once.
    for _ in 0..10 {
        assert_ne!(place.master_behind(6443), "master-1");
    }
    let names = ["api", "c.apps", "registry"].map(|name| format!("{name}.ocp4.redhat.ren"));
    wait::for_it("no answer names a master that is down", PATIENCE, || {
        (0..ROUNDS).all(|_| {
            std::thread::sleep(Duration::from_millis(20));
            names.iter().all(|name| place.address(name) != gone)
        })
    });
    let (status, _, complaint) = run(place.outpost(&["master", "up", "master-1"]));
    assert!(status.success(), "{complaint}");
    for name in &names {
        wait::for_it("a master that is up again is named again", PATIENCE, || {
            place.address(name) == gone
        });
    }

    // Every document is written in the same way.
    let of_services = (9401..).take(SERVICES.len()).map(|port| {
        let answer = place.get((place.host(1), port).into(), "/status");
        let (_, body) = answer.split_once("\r\n\r\n").expect("HTTP");
        serde_json::from_str(body).expect("JSON")
    });
    for document in of_services.chain([serde_json::to_value(place.status()).expect("JSON")]) {
        assert_eq!(odd_keys(&document), Vec::<String>::new(), "{document:#}");
    }

    let pids = place.pids();
    assert_eq!(pids.len(), SERVICES.len());
    site.stop();
    assert_nothing_is_left(&place, &pids);
}

#[test]
fn every_rendered_configuration_passes_the_check_of_its_service() {
    let place = Place::new("up-check");
    let site = place.start();
    for service in SERVICES {
        let mut command = Command::new(binary(service));
        command
            .args(["check", "--config"])
            .arg(place.run_dir().join(format!("{service}.toml")));
        let (status, text, complaint) = run(command);
        assert!(status.success(), "{service}: {text}{complaint}");
    }
    site.stop();
}

#[test]
fn a_zone_of_a_rendered_site_goes_back_to_the_version_before() {
    let place = Place::new("up-back");
    let site = place.start();
    let zone = "ocp4.redhat.ren";
    let file = place.run_dir().join("zones").join(zone);
    let text = std::fs::read_to_string(&file).expect("the zone of the site");
    let line = text
        .lines()
        .find(|line| line.contains("; serial"))
        .expect("a serial");
    let serial: u32 = line
        .split_whitespace()
        .next()
        .expect("a number")
        .parse()
        .expect("a number");
    let mistake = || {
        // dns-recursor would keep that there is no such name.
        let authority = SocketAddr::from((place.host(1), 5301));
        let answer = ask_a(authority, &format!("mistake.{zone}"));
        answer.expect("an answer").addresses()
    };
    let edited = text.replace(line, &format!("{} ; serial", serial + 1));
    let new = place
        .scratch
        .write("new.zone", &(edited + "\nmistake 1 IN A 192.0.2.66\n"));
    std::fs::rename(new, &file).expect("the file is in its place");
    wait::for_it("the edited zone is served", PATIENCE, || {
        !mistake().is_empty()
    });
    let mut command = Command::new(binary("dns-authd"));
    command
        .args(["zone", "rollback", zone, &serial.to_string(), "--admin"])
        .arg(SocketAddr::from((place.host(1), 9402)).to_string())
        .arg("--socket")
        .arg(place.run_dir().join("dns-authd.admin"));
    let (status, text, complaint) = run(command);
    assert!(status.success(), "{text}{complaint}");
    wait::for_it("the mistake is gone", PATIENCE, || mistake().is_empty());
    assert_eq!(
        place.address(&format!("helper.{zone}")),
        IpAddr::from([192, 168, 7, 11])
    );
    site.stop();
}

/// A manifest of a Service with an address.
fn service(name: &str, address: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: shop}}\n\
         spec: {{clusterIP: {address}, ports: [{{port: 80}}]}}\n"
    )
}

#[test]
fn a_directory_of_manifests_is_the_cluster_of_the_site() {
    let place = Place::new("up-cluster");
    let manifests = place.scratch.join("manifests");
    std::fs::create_dir_all(&manifests).unwrap();
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    std::fs::write(manifests.join("shop.yaml"), namespace).unwrap();
    std::fs::write(manifests.join("web.yaml"), service("web", "172.30.0.20")).unwrap();
    let site = place.start_with(&["--kubernetes", &manifests.display().to_string()]);

    // A file that was written a moment ago counts once it stands still.
    wait::for_it("clusterd is ready", PATIENCE, || {
        let services = place.services();
        let clusterd = &services[1];
        assert_eq!(clusterd.name, "clusterd", "{services:?}");
        clusterd.state == "ready"
    });
    let get = || {
        let mut command = Command::new(binary("clusterd"));
        let socket = place.run_dir().join("clusterd.sock");
        command.args(["get", "service", "--socket"]).arg(socket);
        let (status, text, complaint) = run(command);
        assert!(status.success(), "{complaint}");
        text
    };
    wait::for_it("the first Service is there", PATIENCE, || {
        let first = get();
        first.contains("web") && first.contains("172.30.0.20")
    });
    // Its name is there for everyone who asks the site.
    let of_web = IpAddr::from([172, 30, 0, 20]);
    wait::for_it("the Service has a name", PATIENCE, || {
        let answer = ask_a(place.recursor(), "web.shop.svc.cluster.local");
        answer.is_ok_and(|answer| answer.addresses() == [of_web].into())
    });

    // A file that is saved is taken up, and one that is removed takes its objects with it.
    std::fs::write(manifests.join("cart.yaml"), service("cart", "172.30.0.21")).unwrap();
    wait::for_it("the second Service is there", PATIENCE, || {
        get().contains("172.30.0.21")
    });
    std::fs::remove_file(manifests.join("web.yaml")).unwrap();
    wait::for_it("the first Service is gone", PATIENCE, || {
        !get().contains("172.30.0.20")
    });

    let pids = place.pids();
    assert_eq!(pids.len(), ALL_SERVICES.len());
    site.stop();
    assert_nothing_is_left(&place, &pids);
    assert!(manifests.join("cart.yaml").is_file(), "they are the user's");
}

#[test]
fn a_cluster_that_is_no_directory_is_refused_before_anything_starts() {
    let place = Place::new("up-no-cluster");
    for (path, complaint) in [
        (place.scratch.join("none"), "cannot read"),
        (place.scratch.write("file", ""), "is no directory"),
    ] {
        let mut command = place.up();
        command.arg("--kubernetes").arg(&path);
        let (status, _, said) = run(command);
        assert_eq!(status.code(), Some(69), "{said}");
        assert!(said.contains(complaint), "{said}");
        assert!(!place.run_dir().exists());
    }
}

#[test]
fn a_service_that_dies_is_started_again() {
    let place = Place::new("up-restart");
    let site = place.start();
    let victim = place.pids()[1];
    signal(victim, Signal::KILL);
    wait::for_it("dns-authd is ready again", PATIENCE, || {
        let authd = &place.services()[1];
        authd.restarts == 1 && authd.state == "ready"
    });
    assert!(site.log().is_empty(), "nothing is amiss: {}", site.log());
    let pids = place.pids();
    site.stop();
    assert_nothing_is_left(&place, &pids);
}

#[test]
fn services_do_not_outlive_an_outpost_that_is_killed() {
    let place = Place::new("up-killed");
    let site = place.start();
    let pids = place.pids();
    site.kill();
    wait::for_it("the services end", PATIENCE, || {
        pids.iter().all(|pid| is_gone(*pid))
    });
    // The last of their threads may hold the sockets a moment longer.
    wait::for_it("their ports are free", PATIENCE, || {
        let listeners = place.listeners();
        listeners
            .iter()
            .all(|address| TcpListener::bind(address).is_ok())
    });

    // Leftovers in the run directory do not stop the next site, which clears them.
    let next = place.start();
    let pids = place.pids();
    next.stop();
    assert_nothing_is_left(&place, &pids);
}

#[test]
fn a_taken_port_is_named_with_its_owner_before_anything_starts() {
    let place = Place::new("up-taken");
    let taken: SocketAddr = (place.host(1), 9402).into();
    let holder = TcpListener::bind(taken).expect("a free port");
    let (status, text, complaint) = run(place.up());
    assert_eq!(status.code(), Some(69), "{complaint}");
    assert_eq!(text, "");
    let wanted = format!("TCP {taken}, wanted for the admin listener of dns-authd: taken by ");
    assert!(complaint.contains(&wanted), "{complaint}");
    assert!(
        complaint.contains(&format!("(pid {})", std::process::id())),
        "{complaint}"
    );
    drop(holder);
    assert_nothing_is_left(&place, &[]);
}

#[test]
fn a_second_site_in_the_same_directory_is_refused() {
    let place = Place::new("up-twice");
    let site = place.start();
    let (status, _, complaint) = run(place.up());
    assert_eq!(status.code(), Some(69), "{complaint}");
    assert!(
        complaint.contains(&format!("pid {}", site.id())),
        "{complaint}"
    );
    // The first one does not mind.
    assert!(
        dns::ask(
            place.recursor(),
            &Question::new("api.ocp4.redhat.ren", dns::A)
        )
        .is_ok()
    );
    site.stop();
}

#[test]
fn a_watch_shows_the_status_again_and_again_until_the_site_ends() {
    let place = Place::new("up-watch");
    let site = place.start();
    let shown = place.scratch.join("shown");
    let mut command = place.outpost(&["status", "--json", "--watch=200ms"]);
    command.stdout(std::fs::File::create(&shown).unwrap());
    command.stderr(Stdio::null());
    let mut watch = command.spawn().unwrap();
    let looks = || {
        let text = std::fs::read_to_string(&shown).unwrap();
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        lines.collect::<Vec<UpSite>>()
    };
    wait::for_it("three looks", PATIENCE, || looks().len() >= 3);
    assert!(looks().iter().all(|look| !look.services.is_empty()));
    site.stop();
    let ended = wait::until("the watch ends", PATIENCE, || watch.try_wait().unwrap());
    assert_eq!(ended.code(), Some(69));
}

#[test]
fn a_command_without_a_site_says_so() {
    let place = Place::new("up-none");
    for arguments in [&["status"][..], &["master", "down", "1"]] {
        let (status, _, complaint): (ExitStatus, _, _) = run(place.outpost(arguments));
        assert_eq!(status.code(), Some(69), "{complaint}");
        assert!(complaint.contains("no site is running in"), "{complaint}");
    }
}

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(pid.expect("a process id"), signal).expect("it runs");
}

/// How long anything may take. Wide: the machine may be building at the same time.
const PATIENCE: Duration = Duration::from_secs(20);
/// Looks at an answer that has to stay as it is.
const ROUNDS: usize = 50;
