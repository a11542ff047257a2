//! Catalog zones (RFC 9432): dns-authd serves what a catalog of Knot or of another dns-authd lists, and Knot, BIND and another
//! dns-authd serve what its own lists.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tests::binaries::binary;
use tests::daemon::{Daemon, metric, run};
use tests::dns::{A, Question, ask, ask_a};
use tests::scratch::{Scratch, at, loopback};
use tests::site::Site;
use tests::wait;

use super::across::free_address;
use super::secondaries::{SECRET, dig};

const PATIENCE: Duration = Duration::from_secs(60);
const KEY: &str = "hmac-sha256.key";

/// A zone that would not be asked for again within an hour.
fn zone(origin: &str, last: u32) -> String {
    format!(
        "$ORIGIN {origin}.\n$TTL 300\n@ SOA ns1 h {last} 3600 3600 86400 60\n@ NS ns1\nns1 A 192.0.2.1\n\
         www A 192.0.2.{last}\n"
    )
}

/// Configures dns-authd with these tables behind the usual lines.
fn configure(site: &Site, top: &str, tables: &str) {
    site.configure_authd(&[], top);
    let config = std::fs::read_to_string(site.files.join("dns-authd.toml")).unwrap();
    let key = format!("[[key]]\nname = \"{KEY}\"\nsecret = \"{SECRET}\"\n");
    site.files
        .write("dns-authd.toml", &format!("{config}\n{key}\n{tables}"));
}

/// The table of a catalog that is read.
fn consumer(name: &str, primary: SocketAddr) -> String {
    format!(
        "[[catalog]]\nname = \"{name}\"\nfile = \"{name}.kept\"\nprimaries = [\"{primary}\"]\nkey = \"{KEY}\"\n\
         directory = \"members\"\nmax-members = 5\n"
    )
}

fn declared(name: &str) -> String {
    format!("[[zone]]\nname = \"{name}\"\nfile = \"{name}.zone\"\n")
}

fn start(site: &Site) -> Daemon {
    let mut serve = site.serve("dns-authd");
    serve
        .arg("--admin-socket")
        .arg(site.admin_socket("dns-authd"));
    Daemon::spawn("dns-authd", serve)
}

/// Whether the server has this version of a zone.
fn has(server: SocketAddr, zone: &str, last: u32) -> bool {
    let wanted = super::addresses(&[&format!("192.0.2.{last}")]);
    let answer = ask_a(server, &format!("www.{zone}"));
    answer.is_ok_and(|answer| answer.addresses() == wanted)
}

/// Whether the server refuses questions for a zone: it does not have it.
fn refuses(server: SocketAddr, zone: &str) -> bool {
    let answer = ask(server, &Question::new(&format!("www.{zone}"), A));
    answer.is_ok_and(|answer| answer.rcode == 5)
}

fn status(site: &Site) -> String {
    let mut command = Command::new(binary("dns-authd"));
    let admin = site.admin("dns-authd").to_string();
    command.args(["status", "--admin", &admin]);
    let (_, out, err) = run(command);
    format!("{out}{err}")
}

/// How many members are kept on disk.
fn n_kept(directory: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return 0;
    };
    let names = entries.map(|entry| entry.unwrap().path());
    names
        .filter(|path| path.extension().is_some_and(|end| end == "member"))
        .count()
}

//--- Knot has a catalog

/// The configuration of Knot with a catalog of these zones, each in a group or none.
fn knot_primary(
    files: &Scratch,
    server: SocketAddr,
    ours: SocketAddr,
    zones: &[(&str, Option<&str>)],
) -> std::path::PathBuf {
    let home = files.join("knot");
    std::fs::create_dir_all(home.join("db")).unwrap();
    let home = home.display();
    let mut text = format!(
        "server:\n  rundir: {home}\n  listen: {}@{}\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n\
         database:\n  storage: {home}/db\nlog:\n  - target: stderr\n    any: info\n\
         key:\n  - id: {KEY}\n    algorithm: hmac-sha256\n    secret: {SECRET}\n\
         remote:\n  - id: ours\n    address: {}@{}\n    key: {KEY}\n\
         acl:\n  - id: out\n    key: {KEY}\n    action: transfer\n\
         zone:\n  - domain: catalog.test\n    storage: {home}\n    catalog-role: generate\n    acl: out\n    notify: ours\n    \
         zonefile-sync: -1\n    journal-content: all\n",
        server.ip(),
        server.port(),
        ours.ip(),
        ours.port(),
    );
    for (name, group) in zones {
        let file = files.write(&format!("{name}.zone"), &zone(name, 7));
        let group = group.map_or(String::new(), |group| {
            format!("    catalog-group: {group}\n")
        });
        text.push_str(&format!(
            "  - domain: {name}\n    file: {}\n    catalog-role: member\n    catalog-zone: catalog.test\n{group}    acl: out\n    \
             notify: ours\n    zonefile-load: difference\n    zonefile-sync: -1\n    journal-content: changes\n",
            file.display()
        ));
    }
    files.write("knot.conf", &text)
}

#[test]
fn zones_of_knots_catalog_come_and_go_and_outlive_a_restart() {
    let knot = at(loopback(), 5303);
    let files = Scratch::new("catalog");
    let site = Site::new();
    let server = site.authority();
    site.files.write("own.test.zone", &zone("own.test", 1));
    configure(
        &site,
        "",
        &format!("{}{}", declared("own.test"), consumer("catalog.test", knot)),
    );
    let first = [
        ("a.test", None),
        ("b.test", Some("one")),
        ("own.test", None),
    ];
    let config = knot_primary(&files, knot, server, &first);
    let mut command = Command::new("knotd");
    command.arg("--config").arg(&config);
    let knotd = Daemon::spawn("knotd", command);
    let ours = start(&site);
    for name in ["a.test", "b.test"] {
        wait::for_it(name, PATIENCE, || has(server, name, 7));
    }
    // A zone that is configured otherwise stays, and the conflict has a name.
    assert!(has(server, "own.test", 1));
    let (_, ready) = site.get("dns-authd", "/readyz");
    let named = "lists own.test., which is configured otherwise";
    assert!(ready.contains(named), "{ready}");
    let text = status(&site);
    assert!(
        text.contains(named) && text.contains("2 zones served"),
        "{text}"
    );
    let (_, page) = site.get("dns-authd", "/metrics");
    assert_eq!(metric(&page, "dns_authd_catalog_conflicts"), Some(1.0));
    let members = site.files.join("members");
    wait::for_it("both are kept", PATIENCE, || n_kept(&members) == 2);
    // The catalog is for name servers that may transfer zones alone.
    assert!(refuses(server, "catalog.test"));
    // One goes, with its data; one comes.
    let second = [("a.test", None), ("c.test", None)];
    knot_primary(&files, knot, server, &second);
    knotd.hang_up();
    wait::for_it("c.test comes", PATIENCE, || has(server, "c.test", 7));
    wait::for_it("b.test goes", PATIENCE, || refuses(server, "b.test"));
    assert!(has(server, "a.test", 7) && has(server, "own.test", 1));
    wait::for_it("its data is gone", PATIENCE, || n_kept(&members) == 2);
    let (_, ready) = site.get("dns-authd", "/readyz");
    assert!(!ready.contains("catalog"), "{ready}");
    // NOTIFY about a member is taken.
    files.write("new", &zone("a.test", 8));
    std::fs::rename(files.join("new"), files.join("a.test.zone")).unwrap();
    knotd.hang_up();
    wait::for_it("a.test changes", PATIENCE, || has(server, "a.test", 8));
    // Without Knot, another process serves all of it from the disk.
    knotd.stop();
    ours.stop();
    let ours = start(&site);
    for (name, last) in [("a.test", 8), ("c.test", 7), ("own.test", 1)] {
        wait::for_it(name, PATIENCE, || has(server, name, last));
    }
    ours.stop();
}

//--- A catalog that a test writes

/// A catalog of another dns-authd: an ordinary zone with these lines.
fn written(serial: u32, lines: &str) -> String {
    format!("$TTL 0\n@ SOA invalid. invalid. {serial} 1 1 86400 0\n@ NS invalid.\n{lines}\n")
}

#[test]
fn a_broken_catalog_changes_nothing_and_a_new_identifier_begins_again() {
    let (primary, site) = (Site::new(), Site::new());
    let server = site.authority();
    for name in ["a.test", "b.test"] {
        primary.files.write(&format!("{name}.zone"), &zone(name, 7));
    }
    let write = |serial, lines: &str| {
        primary.files.write("new", &written(serial, lines));
        std::fs::rename(
            primary.files.join("new"),
            primary.files.join("catalog.test.zone"),
        )
        .unwrap();
    };
    let good = "version TXT \"2\"\n1.zones PTR a.test.\n2.zones PTR b.test.\n";
    write(1, good);
    configure(
        &primary,
        &format!(
            "zones.largest-loss = 100\ntransfers.allow-keys = [\"{KEY}\"]\nnotify = {{ also = [\"{server}\"] }}"
        ),
        &["catalog.test", "a.test", "b.test"].map(declared).concat(),
    );
    configure(
        &site,
        "zones.largest-loss = 100",
        &consumer("catalog.test", primary.authority()),
    );
    let _primary = primary.start("dns-authd");
    let ours = start(&site);
    for name in ["a.test", "b.test"] {
        wait::for_it(name, PATIENCE, || has(server, name, 7));
    }
    let many: String = (1..=6)
        .map(|n| format!("{n}.zones PTR m{n}.test.\n"))
        .collect();
    let versions = [
        ("1.zones PTR a.test.", "it has no `version` record"),
        (
            "version TXT \"1\"\n1.zones PTR a.test.",
            "its version is `1`",
        ),
        (
            "version TXT \"2\"\n1.zones PTR a.test.\n1.zones PTR b.test.",
            "member `1` has more than one PTR",
        ),
        (&format!("version TXT \"2\"\n{many}"), "more than 5 zones"),
    ];
    for (serial, (lines, reason)) in (2..).zip(versions) {
        write(serial, lines);
        wait::for_it(reason, PATIENCE, || {
            site.get("dns-authd", "/readyz").1.contains(reason)
        });
        assert!(has(server, "a.test", 7) && has(server, "b.test", 7));
        let text = status(&site);
        assert!(text.contains(reason), "{text}");
    }
    let (_, page) = site.get("dns-authd", "/metrics");
    assert_eq!(metric(&page, "dns_authd_broken_catalogs"), Some(1.0));
    // The good version again; one zone has another identifier, and is transferred again.
    write(
        9,
        "version TXT \"2\"\n1.zones PTR a.test.\nother.zones PTR b.test.",
    );
    ours.wait_log("begins again");
    // The zone of before may still answer: the log says when it is transferred again.
    wait::for_it("b.test is transferred again", PATIENCE, || {
        let log = ours.log();
        let transfers = log.lines().filter(|line| {
            line.contains("AXFR") && line.contains("b.test.") && !line.contains("catalog")
        });
        transfers.count() == 2
    });
    wait::for_it("b.test is back", PATIENCE, || has(server, "b.test", 7));
    let (_, ready) = site.get("dns-authd", "/readyz");
    assert!(!ready.contains("broken"), "{ready}");
    // Without the catalog in the configuration its zones go; a reload is enough.
    configure(&site, "", &declared("own.test"));
    site.files.write("own.test.zone", &zone("own.test", 1));
    ours.hang_up();
    wait::for_it("a.test goes", PATIENCE, || refuses(server, "a.test"));
    // Zones of files are loaded beside the reload.
    wait::for_it("own.test is there", PATIENCE, || has(server, "own.test", 1));
}

//--- A catalog of dns-authd

fn knot_consumer(files: &Scratch, server: SocketAddr, primary: SocketAddr) -> Daemon {
    let home = files.join("knot-consumer");
    std::fs::create_dir_all(home.join("db")).unwrap();
    let home = home.display();
    let text = format!(
        "server:\n  rundir: {home}\n  listen: {}@{}\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n\
         database:\n  storage: {home}/db\nlog:\n  - target: stderr\n    any: info\n\
         key:\n  - id: {KEY}\n    algorithm: hmac-sha256\n    secret: {SECRET}\n\
         remote:\n  - id: primary\n    address: {}@{}\n    key: {KEY}\n\
         acl:\n  - id: told\n    address: 127.0.0.1\n    key: {KEY}\n    action: notify\n\
         template:\n  - id: member\n    storage: {home}\n    master: primary\n    acl: told\n\
         zone:\n  - domain: catalog.test\n    storage: {home}\n    master: primary\n    acl: told\n    \
         catalog-role: interpret\n    catalog-template: member\n",
        server.ip(),
        server.port(),
        primary.ip(),
        primary.port(),
    );
    let mut command = Command::new("knotd");
    command
        .arg("--config")
        .arg(files.write("knot-consumer.conf", &text));
    Daemon::spawn("knotd", command)
}

fn named_consumer(files: &Scratch, server: SocketAddr, primary: SocketAddr) -> Daemon {
    let home = files.join("named");
    std::fs::create_dir(&home).unwrap();
    let home = home.display();
    let (ip, port) = (primary.ip(), primary.port());
    let text = format!(
        "options {{ directory \"{home}\"; listen-on port {} {{ {}; }}; listen-on-v6 {{ none; }}; pid-file none; \
         session-keyfile none; recursion no; dnssec-validation no; notify no; allow-new-zones yes; \
         allow-notify {{ key \"{KEY}\"; }}; \
         catalog-zones {{ zone \"catalog.test\" default-primaries {{ {ip} port {port} key \"{KEY}\"; }} \
         in-memory yes min-update-interval 1; }}; }};\ncontrols {{}};\n\
         key \"{KEY}\" {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};\n\
         zone \"catalog.test\" {{ type secondary; file \"catalog.zone\"; \
         primaries {{ {ip} port {port} key \"{KEY}\"; }}; }};\n",
        server.port(),
        server.ip(),
    );
    let mut command = Command::new("named");
    command
        .arg("-g")
        .arg("-c")
        .arg(files.write("named.conf", &text));
    Daemon::spawn("named", command)
}

#[test]
fn knot_bind_and_dns_authd_follow_a_catalog_that_dns_authd_writes() {
    let (knot, named) = (at(loopback(), 5303), free_address());
    let (site, other) = (Site::new(), Site::new());
    let server = site.authority();
    let consumers = [
        ("Knot", knot),
        ("BIND", named),
        ("dns-authd", other.authority()),
    ];
    let notify: Vec<String> = consumers
        .iter()
        .map(|(_, address)| format!("\"{address}\""))
        .collect();
    let top = format!(
        "transfers.allow-keys = [\"{KEY}\"]\n\
         notify = {{ also = [{}], key = \"{KEY}\", timeout = \"1s\", attempts = 20 }}",
        notify.join(", ")
    );
    let catalog = "[[catalog]]\nname = \"catalog.test\"\nfile = \"catalog.zone\"\n\
                   [[catalog.group]]\nname = \"inside\"\nzones = [\"a.test\"]\n";
    let adopt = |zones: &[&str]| {
        let tables: String = zones.iter().map(|zone| declared(zone)).collect();
        configure(&site, &top, &format!("{tables}{catalog}"));
    };
    for name in ["a.test", "b.test", "c.test"] {
        site.files.write(&format!("{name}.zone"), &zone(name, 7));
    }
    adopt(&["a.test", "b.test"]);
    let ours = start(&site);
    wait::for_it("the primary answers", PATIENCE, || has(server, "a.test", 7));
    // Those who may not transfer it learn nothing of it.
    let text = dig("dig", server, &["version.catalog.test", "TXT"]);
    assert!(text.contains("REFUSED"), "{text}");
    let key = format!("hmac-sha256:{KEY}:{SECRET}");
    let text = dig("dig", server, &["-y", &key, "version.catalog.test", "TXT"]);
    assert!(text.contains("NOERROR") && text.contains("\"2\""), "{text}");
    let text = dig("dig", server, &["catalog.test", "AXFR"]);
    assert!(text.contains("Transfer failed"), "{text}");
    let text = dig("dig", server, &["-y", &key, "catalog.test", "AXFR"]);
    for wanted in ["a.test.", "b.test.", "\"inside\""] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let files = Scratch::new("consumers");
    configure(&other, "", &consumer("catalog.test", server));
    let daemons = [
        knot_consumer(&files, knot, server),
        named_consumer(&files, named, server),
        start(&other),
    ];
    for (name, address) in consumers {
        for zone in ["a.test", "b.test"] {
            wait::for_it(&format!("{name}: {zone}"), PATIENCE, || {
                has(address, zone, 7)
            });
        }
    }
    // A reload with other zones is a new version of the catalog.
    adopt(&["a.test", "c.test"]);
    ours.hang_up();
    for (name, address) in consumers {
        wait::for_it(&format!("{name}: c.test"), PATIENCE, || {
            has(address, "c.test", 7)
        });
        wait::for_it(&format!("{name}: no b.test"), PATIENCE, || {
            refuses(address, "b.test")
        });
        assert!(has(address, "a.test", 7), "{name}");
    }
    // The same zones are the same version, behind a restart too.
    let serial = || {
        let text = dig(
            "dig",
            server,
            &["-y", &key, "catalog.test", "SOA", "+short"],
        );
        text.lines().next().map(str::to_owned)
    };
    let before = serial();
    ours.hang_up();
    ours.stop();
    let _ours = start(&site);
    wait::for_it("the primary is back", PATIENCE, || has(server, "a.test", 7));
    wait::for_it("the same version", PATIENCE, || {
        before.is_some() && serial() == before
    });
    drop(daemons);
}
