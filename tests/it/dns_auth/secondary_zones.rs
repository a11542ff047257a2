//! dns-authd as a secondary: of Knot, NSD and BIND, and of another dns-authd that goes away and comes back.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use tests::binaries::binary;
use tests::daemon::{Daemon, http_get, metric, run};
use tests::dns::{A, Question, ask, ask_a};
use tests::scratch::{Scratch, at, loopback};
use tests::site::Site;
use tests::wait;

use super::across::free_address;

const SECRET: &str = "dGhlIHNlY3JldCBvZiBhIHNlY29uZGFyeQ==";
const KEY: &str =
    "[[key]]\nname = \"transfer.key\"\nsecret = \"dGhlIHNlY3JldCBvZiBhIHNlY29uZGFyeQ==\"\n";
const PATIENCE: Duration = Duration::from_secs(60);

/// A zone that nobody would ask for again within an hour.
fn zone(serial: u32) -> String {
    format!(
        "$TTL 300\n@ SOA ns1 h {serial} 3600 3600 86400 60\n@ NS ns1\nns1 A 192.0.2.1\nversion A 192.0.2.{serial}\n\
         $GENERATE 1-50 n$ A 192.0.2.9\n"
    )
}

/// The same for programs that have no `$GENERATE` of this form, with the origin.
fn plain_zone(name: &str, serial: u32) -> String {
    let mut text = zone(serial);
    text.truncate(text.find("$GENERATE").unwrap());
    for number in 1..=50 {
        text.push_str(&format!("n{number} A 192.0.2.9\n"));
    }
    format!("$ORIGIN {name}.\n{text}")
}

/// Puts a new text in a file's place.
fn replace(files: &Scratch, name: &str, text: &str) {
    let new = files.write("new", text);
    std::fs::rename(new, files.join(name)).unwrap();
}

/// Configures dns-authd with these lines behind the usual ones.
fn configure(site: &Site, top: &str, tables: &str) {
    site.configure_authd(&[], top);
    let config = std::fs::read_to_string(site.files.join("dns-authd.toml")).unwrap();
    site.files
        .write("dns-authd.toml", &format!("{config}\n{KEY}\n{tables}"));
}

/// The table of a secondary zone.
fn secondary(name: &str, primary: SocketAddr) -> String {
    format!(
        "[[zone]]\nname = \"{name}\"\nfile = \"{name}.kept\"\nprimaries = [\"{primary}\"]\nkey = \"transfer.key\"\n"
    )
}

fn has(server: SocketAddr, zone: &str, serial: u32) -> bool {
    let wanted = super::addresses(&[&format!("192.0.2.{serial}")]);
    let version = ask_a(server, &format!("version.{zone}"));
    version.is_ok_and(|version| version.addresses() == wanted)
}

//--- Other primaries

fn start_knot(files: &Scratch, server: SocketAddr, ours: SocketAddr) -> Daemon {
    let home = files.join("knot");
    std::fs::create_dir_all(home.join("db")).unwrap();
    let home = home.display();
    let zone = files.write("knot.test.zone", &plain_zone("knot.test", 1));
    let text = format!(
        "server:\n  rundir: {home}\n  listen: {}@{}\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n\
         database:\n  storage: {home}/db\nlog:\n  - target: stderr\n    any: info\n\
         key:\n  - id: transfer.key\n    algorithm: hmac-sha256\n    secret: {SECRET}\n\
         remote:\n  - id: ours\n    address: {}@{}\n    key: transfer.key\n\
         acl:\n  - id: out\n    key: transfer.key\n    action: transfer\n\
         zone:\n  - domain: knot.test\n    file: {}\n    notify: ours\n    acl: out\n    zonefile-load: difference\n    \
         zonefile-sync: -1\n    journal-content: changes\n",
        server.ip(),
        server.port(),
        ours.ip(),
        ours.port(),
        zone.display(),
    );
    let mut command = Command::new("knotd");
    command.arg("--config").arg(files.write("knot.conf", &text));
    Daemon::spawn("knotd", command)
}

fn start_nsd(files: &Scratch, server: SocketAddr, ours: SocketAddr) -> Daemon {
    let home = files.join("nsd");
    std::fs::create_dir(&home).unwrap();
    let home = home.display();
    let zone = files.write("nsd.test.zone", &plain_zone("nsd.test", 1));
    let text = format!(
        "server:\n  ip-address: {}@{}\n  server-count: 1\n  username: \"\"\n  zonesdir: \"\"\n  database: \"\"\n  \
         pidfile: \"{home}/pid\"\n  xfrdfile: \"{home}/xfrd\"\n  xfrdir: \"{home}\"\n  zonelistfile: \"{home}/list\"\n\
         remote-control:\n  control-enable: no\n\
         key:\n  name: \"transfer.key\"\n  algorithm: hmac-sha256\n  secret: \"{SECRET}\"\n\
         zone:\n  name: \"nsd.test\"\n  zonefile: \"{}\"\n  provide-xfr: 127.0.0.0/8 transfer.key\n  \
         notify: {}@{} transfer.key\n",
        server.ip(),
        server.port(),
        zone.display(),
        ours.ip(),
        ours.port(),
    );
    let mut command = Command::new("nsd");
    command
        .arg("-d")
        .arg("-c")
        .arg(files.write("nsd.conf", &text));
    Daemon::spawn("nsd", command)
}

fn start_named(files: &Scratch, server: SocketAddr, ours: SocketAddr) -> Daemon {
    let home = files.join("named");
    std::fs::create_dir(&home).unwrap();
    let home = home.display();
    let zone = files.write("bind.test.zone", &plain_zone("bind.test", 1));
    let text = format!(
        "options {{ directory \"{home}\"; listen-on port {} {{ {}; }}; listen-on-v6 {{ none; }}; pid-file none; \
         session-keyfile none; recursion no; dnssec-validation no; notify explicit; notify-delay 0; }};\ncontrols {{}};\n\
         key \"transfer.key\" {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};\n\
         zone \"bind.test\" {{ type primary; file \"{}\"; ixfr-from-differences yes; \
         allow-transfer {{ key transfer.key; }}; also-notify {{ {} port {} key transfer.key; }}; }};\n",
        server.port(),
        server.ip(),
        zone.display(),
        ours.ip(),
        ours.port(),
    );
    let mut command = Command::new("named");
    command
        .arg("-g")
        .arg("-c")
        .arg(files.write("named.conf", &text));
    Daemon::spawn("named", command)
}

#[test]
fn changes_of_knot_nsd_and_bind_are_followed_at_once() {
    let (knot, nsd, named) = (at(loopback(), 5303), at(loopback(), 5304), free_address());
    let zones = [("knot.test", knot), ("nsd.test", nsd), ("bind.test", named)];
    let site = Site::new();
    let tables: String = zones
        .iter()
        .map(|(name, primary)| secondary(name, *primary))
        .collect();
    configure(&site, "", &tables);
    let mut serve = site.serve("dns-authd");
    serve
        .arg("--admin-socket")
        .arg(site.admin_socket("dns-authd"));
    let ours = Daemon::spawn("dns-authd", serve);
    let files = Scratch::new("primaries");
    let server = site.authority();
    let daemons = [
        start_knot(&files, knot, server),
        start_nsd(&files, nsd, server),
        start_named(&files, named, server),
    ];
    for (name, _) in zones {
        wait::for_it(name, PATIENCE, || has(server, name, 1));
    }
    for serial in [2, 3] {
        for ((name, _), daemon) in zones.iter().zip(&daemons) {
            replace(&files, &format!("{name}.zone"), &plain_zone(name, serial));
            daemon.hang_up();
        }
        for (name, _) in zones {
            wait::for_it(name, PATIENCE, || has(server, name, serial));
        }
    }
    // Those that have differences sent them.
    let log = ours.log();
    for name in ["knot.test.", "bind.test."] {
        let came = log
            .lines()
            .any(|line| line.contains("IXFR") && line.contains(name));
        assert!(came, "{name}: {log}");
    }
}

//--- A primary that goes away

/// A zone that is asked for every second, and expires in five.
fn hasty(serial: u32, n: usize) -> String {
    format!(
        "$TTL 300\n@ SOA ns1 h {serial} 1 1 5 60\n@ NS ns1\nns1 A 192.0.2.1\nversion A 192.0.2.{serial}\n\
         $GENERATE 1-{n} n$ A 192.0.2.9\n"
    )
}

struct Pair {
    primary: Site,
    secondary: Site,
}

impl Pair {
    fn new(text: &str) -> Self {
        let (primary, second) = (Site::new(), Site::new());
        primary.files.write("p.test.zone", text);
        configure(
            &primary,
            "transfers.allow-keys = [\"transfer.key\"]",
            "[[zone]]\nname = \"p.test\"\nfile = \"p.test.zone\"\n",
        );
        configure(&second, "", &secondary("p.test", primary.authority()));
        Self {
            primary,
            secondary: second,
        }
    }

    fn start(&self) -> Daemon {
        let mut serve = self.secondary.serve("dns-authd");
        let socket = self.secondary.admin_socket("dns-authd");
        serve.arg("--admin-socket").arg(socket);
        Daemon::spawn("dns-authd", serve)
    }

    fn has(&self, serial: u32) -> bool {
        has(self.secondary.authority(), "p.test", serial)
    }

    fn rcode(&self) -> Option<u16> {
        let answer = ask(
            self.secondary.authority(),
            &Question::new("version.p.test", A),
        );
        answer.ok().map(|answer| answer.rcode)
    }

    /// Runs a verb of `zone` against the secondary.
    fn verb(&self, words: &[&str]) -> (bool, String) {
        let mut command = Command::new(binary("dns-authd"));
        command.arg("zone").args(words);
        let admin = self.secondary.admin("dns-authd");
        command.args(["--admin", &admin.to_string()]);
        let (status, out, err) = run(command);
        (status.success(), format!("{out}{err}"))
    }
}

#[test]
fn a_zone_outlives_its_primary_until_it_expires_and_comes_back_with_it() {
    let pair = Pair::new(&hasty(1, 50));
    let primary = pair.primary.start("dns-authd");
    let ours = pair.start();
    wait::for_it("the zone comes", PATIENCE, || pair.has(1));
    // It is kept: another process answers from the file while the primary is away.
    primary.stop();
    ours.stop();
    let ours = pair.start();
    wait::for_it("the zone is kept", PATIENCE, || pair.has(1));
    wait::for_it("it expires", PATIENCE, || pair.rcode() == Some(2));
    let (_, list) = pair.verb(&["list"]);
    assert!(
        list.contains("EXPIRED") && list.contains("not refreshed"),
        "{list}"
    );
    let (_, page) = http_get(pair.secondary.admin("dns-authd"), "/metrics").unwrap();
    assert_eq!(metric(&page, "dns_authd_expired_zones"), Some(1.0));
    let _primary = pair.primary.start("dns-authd");
    wait::for_it("it is back", PATIENCE, || pair.has(1));
    // The primary sends no NOTIFY: the SOA timers find the change.
    replace(&pair.primary.files, "p.test.zone", &hasty(2, 50));
    wait::for_it("the change is found", PATIENCE, || pair.has(2));
    ours.stop();
}

#[test]
fn a_doubtful_version_is_held_back_and_the_zone_can_be_transferred_by_hand() {
    let pair = Pair::new(&zone(1));
    let _primary = pair.primary.start("dns-authd");
    let _ours = pair.start();
    wait::for_it("the zone comes", PATIENCE, || pair.has(1));
    let mut short = zone(2);
    short.truncate(short.find("$GENERATE").unwrap());
    // It loses most of its records: the primary accepts it, the secondary asks its operator.
    replace(&pair.primary.files, "p.test.zone", &short);
    let server = pair.primary.authority();
    let admin = pair.primary.admin("dns-authd").to_string();
    wait::for_it("the primary has it", PATIENCE, || {
        let mut command = Command::new(binary("dns-authd"));
        command.args(["zone", "accept", "p.test", "--admin", &admin]);
        run(command).0.success() || has(server, "p.test", 2)
    });
    let (came, text) = pair.verb(&["retransfer", "p.test"]);
    assert!(!came && text.contains("held back"), "{text}");
    assert!(pair.has(1));
    let (accepted, text) = pair.verb(&["accept", "p.test"]);
    assert!(accepted, "{text}");
    wait::for_it("the version is published", PATIENCE, || pair.has(2));
    let (came, text) = pair.verb(&["retransfer", "p.test"]);
    assert!(came && text.contains("serial 2"), "{text}");
    let (came, text) = pair.verb(&["retransfer", "elsewhere.test"]);
    assert!(!came && text.contains("no primaries"), "{text}");
}
