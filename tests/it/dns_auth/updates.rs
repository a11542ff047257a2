//! DNS UPDATE, with the programs of others: nsupdate and knsupdate, what external-dns and cert-manager send, and Knot as a secondary.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tests::binaries::binary;
use tests::daemon::{Daemon, http_get, metric, run};
use tests::dns::{A, NOERROR, NXDOMAIN, Question, TXT, ask, ask_a};
use tests::site::Site;
use tests::sockets::Held;
use tests::wait;

use super::addresses;

const PATIENCE: Duration = Duration::from_secs(60);
const SECRET: &str = "dGhlIHNlY3JldCBvZiB0aHJlZSBzZWNvbmRhcmllcw==";
const ZONE: &str = "; by hand\n$TTL 60\n@ SOA ns h 1 3600 3600 86400 60\n NS ns\nns A 192.0.2.53\nwww A 192.0.2.80\n\
    live LUA A \"'192.0.2.99'\"\n$GENERATE 1-30 n$ A 192.0.2.1\n";

fn configure(site: &Site) {
    let history = site.files.join("history");
    let more = format!(
        "zones.serial-must-rise = true\nhistory.directory = \"{}\"\ntransfers.allow-keys = [\"apps.key\"]\n",
        history.display()
    );
    site.configure_authd(&[], &more);
    let config = std::fs::read_to_string(site.files.join("dns-authd.toml")).unwrap();
    site.files.write("example.com.zone", ZONE);
    let key = |name: &str| format!("[[key]]\nname = \"{name}\"\nsecret = \"{SECRET}\"\n");
    let keys = ["apps.key", "acme.key", "none.key"].map(key).concat();
    site.files.write(
        "dns-authd.toml",
        &format!(
            "{config}\n{keys}\n[[zone]]\nname = \"example.com\"\nfile = \"example.com.zone\"\n\
             [[zone.update]]\nkey = \"apps.key\"\nnames = [\"*.apps.example.com\", \"live.example.com\"]\n\
             types = [\"A\", \"AAAA\", \"CNAME\", \"TXT\"]\n\
             [[zone.update]]\nkey = \"acme.key\"\ntypes = [\"TXT\"]\n"
        ),
    );
}

fn start() -> (Site, Daemon) {
    let site = Site::new();
    configure(&site);
    let daemon = site.start("dns-authd");
    (site, daemon)
}

/// What a program says to these lines, sent as one message; the code of the response, if it is an error.
fn send(
    program: &str,
    server: SocketAddr,
    key: Option<&str>,
    lines: &str,
    tcp: bool,
) -> (bool, String) {
    let mut command = Command::new(program);
    if tcp {
        command.arg("-v");
    }
    let key = key.map_or_else(String::new, |key| match program {
        "nsupdate" => format!("key hmac-sha256:{key} {SECRET}\n"),
        _ => format!("key hmac-sha256:{key} {SECRET}\n"),
    });
    let zone = match lines.contains("zone ") {
        true => "",
        false => "zone example.com.\n",
    };
    let text = format!(
        "server {} {}\n{key}{zone}{lines}\nsend\n",
        server.ip(),
        server.port()
    );
    let file = tests::scratch::Scratch::new("nsupdate");
    let path = file.write("lines", &text);
    command.arg(path);
    let (status, out, err) = run(command);
    (status.success(), out + &err)
}

fn accepted(site: &Site, key: &str, lines: &str) {
    for_programs(|program, tcp| {
        let (is_sent, text) = send(program, site.authority(), Some(key), lines, tcp);
        assert!(
            is_sent && !text.contains("failed"),
            "{program} {lines}: {text}"
        );
    });
}

/// The four ways of sending; each message is sent in all of them, so it has to say the same each time.
fn for_programs(mut each: impl FnMut(&str, bool)) {
    for program in ["nsupdate", "knsupdate"] {
        for tcp in [false, true] {
            each(program, tcp);
        }
    }
}

fn rcode(site: &Site, name: &str, rtype: u16) -> u16 {
    ask(site.authority(), &Question::new(name, rtype))
        .unwrap()
        .rcode
}

/// The zone in the status.
fn status(site: &Site) -> Value {
    let (_, text) = site.get("dns-authd", "/zones");
    let zones: Value = serde_json::from_str(&text).unwrap();
    zones[0].clone()
}

/// What `dns-authd zone` says, and whether it succeeded.
fn verb(site: &Site, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(binary("dns-authd"));
    let admin = site.admin("dns-authd").to_string();
    command
        .arg("zone")
        .args(arguments)
        .args(["--admin", &admin]);
    if matches!(arguments, ["sync" | "reload" | "rollback", ..]) {
        command.arg("--socket").arg(site.admin_socket("dns-authd"));
    }
    let (status, out, err) = run(command);
    (status.success(), out + &err)
}

#[test]
fn nsupdate_and_knsupdate_change_what_their_keys_may_and_hear_why_not() {
    let (site, daemon) = start();
    accepted(
        &site,
        "apps.key",
        "update add x.apps.example.com. 60 A 192.0.2.1",
    );
    let answer = ask_a(site.authority(), "x.apps.example.com").unwrap();
    assert_eq!(answer.addresses(), addresses(&["192.0.2.1"]));
    assert_eq!(
        status(&site)["serial"],
        2,
        "three of the four changed nothing"
    );
    for (key, lines, expected) in [
        // Who may what.
        (
            None,
            "update add y.apps.example.com. 60 A 192.0.2.1",
            "REFUSED",
        ),
        (
            Some("none.key"),
            "update add y.apps.example.com. 60 A 192.0.2.1",
            "REFUSED",
        ),
        (
            Some("other.key"),
            "update add y.apps.example.com. 60 A 192.0.2.1",
            "BADKEY",
        ),
        (
            Some("apps.key"),
            "update add y.example.com. 60 A 192.0.2.1",
            "REFUSED",
        ),
        (
            Some("apps.key"),
            "update add y.apps.example.com. 60 MX 1 a.",
            "REFUSED",
        ),
        (
            Some("acme.key"),
            "update add y.example.com. 60 A 192.0.2.1",
            "REFUSED",
        ),
        (
            Some("apps.key"),
            "update delete live.example.com. A",
            "REFUSED",
        ),
        (
            Some("apps.key"),
            "zone other.test.\nupdate add y.other.test. 60 A 192.0.2.1",
            "NOTAUTH",
        ),
        (
            Some("apps.key"),
            "update add y.other.test. 60 A 192.0.2.1",
            "NOTZONE",
        ),
        // One of two that may not be: neither is.
        (
            Some("apps.key"),
            "update add y.apps.example.com. 60 A 192.0.2.1\nupdate delete www.example.com. A",
            "REFUSED",
        ),
        // Prerequisites.
        (
            Some("apps.key"),
            "prereq nxdomain www.example.com.\nupdate delete x.apps.example.com. A",
            "YXDOMAIN",
        ),
        (
            Some("apps.key"),
            "prereq yxdomain y.example.com.\nupdate delete x.apps.example.com. A",
            "NXDOMAIN",
        ),
        (
            Some("apps.key"),
            "prereq nxrrset www.example.com. A\nupdate delete x.apps.example.com. A",
            "YXRRSET",
        ),
        (
            Some("apps.key"),
            "prereq yxrrset www.example.com. TXT\nupdate delete x.apps.example.com. A",
            "NXRRSET",
        ),
        (
            Some("apps.key"),
            "prereq yxrrset www.example.com. A 192.0.2.81\nupdate delete x.apps.example.com. A",
            "NXRRSET",
        ),
    ] {
        for_programs(|program, tcp| {
            let (_, text) = send(program, site.authority(), key, lines, tcp);
            // The word of knsupdate for a key that is not known is that of the code.
            let words = [
                expected,
                if expected == "BADKEY" {
                    "NOTAUTH"
                } else {
                    expected
                },
            ];
            let says = words.iter().any(|word| text.contains(word));
            assert!(says, "{program} {lines}: {text}");
        });
    }
    assert_eq!(rcode(&site, "y.apps.example.com", A), u16::from(NXDOMAIN));
    assert_eq!(rcode(&site, "x.apps.example.com", A), u16::from(NOERROR));
    assert_eq!(status(&site)["serial"], 2);
    accepted(
        &site,
        "apps.key",
        "prereq yxrrset www.example.com. A 192.0.2.80\nupdate delete x.apps.example.com. A",
    );
    assert_eq!(rcode(&site, "x.apps.example.com", A), u16::from(NXDOMAIN));
    let (_, metrics) = http_get(site.admin("dns-authd"), "/metrics").unwrap();
    let count = |result: &str| {
        metric(
            &metrics,
            &format!("dns_authd_updates_total{{result=\"{result}\"}}"),
        )
    };
    assert_eq!(count("carried-out"), Some(8.0));
    assert!(count("unmet-prerequisite") >= Some(20.0), "{metrics}");
    assert!(count("refused") >= Some(16.0), "{metrics}");
    // The difference from the first version, in one step for each; over UDP too, since it fits.
    for way in ["+tcp", "+notcp"] {
        let mut dig = Command::new("dig");
        let key = format!("hmac-sha256:apps.key:{SECRET}");
        dig.arg(format!("@{}", site.authority().ip()))
            .args(["-p", &site.authority().port().to_string(), "-y", &key])
            .args([way, "example.com", "IXFR=1"]);
        let (_, text, _) = run(dig);
        let soas = text.lines().filter(|line| line.contains("\tSOA\t")).count();
        assert!(
            soas == 6 && text.contains("x.apps.example.com."),
            "{way} {text}"
        );
        assert!(!text.contains("Couldn't verify"), "{way} {text}");
    }
    daemon.stop();
}

#[test]
fn external_dns_and_cert_manager_find_what_they_need() {
    let (site, daemon) = start();
    let server = site.authority();
    // external-dns reads the zone by a transfer, and writes an address with its TXT record in one message.
    accepted(
        &site,
        "apps.key",
        "update add shop.apps.example.com. 0 A 192.0.2.10\n\
         update add a-shop.apps.example.com. 0 TXT \"heritage=external-dns,external-dns/owner=site\"",
    );
    let mut dig = Command::new("dig");
    let key = format!("hmac-sha256:apps.key:{SECRET}");
    dig.arg(format!("@{}", server.ip())).args([
        "-p",
        &server.port().to_string(),
        "-y",
        &key,
        "example.com",
        "AXFR",
    ]);
    let (_, zone, _) = run(dig);
    assert!(
        zone.contains("a-shop.apps.example.com.") && zone.contains("heritage=external-dns"),
        "{zone}"
    );
    // It replaces a target by its removal and an addition.
    accepted(
        &site,
        "apps.key",
        "update delete shop.apps.example.com. 0 A 192.0.2.10\nupdate add shop.apps.example.com. 0 A 192.0.2.11",
    );
    let answer = ask_a(server, "shop.apps.example.com").unwrap();
    assert_eq!(answer.addresses(), addresses(&["192.0.2.11"]));
    // cert-manager removes the set, adds its record, and takes away that record alone.
    let challenge = "_acme-challenge.shop.apps.example.com.";
    accepted(
        &site,
        "acme.key",
        &format!("update delete {challenge} TXT\nupdate add {challenge} 60 TXT \"first\""),
    );
    accepted(
        &site,
        "acme.key",
        &format!("update add {challenge} 60 TXT \"second\""),
    );
    let count = || {
        ask(server, &Question::new(challenge, TXT))
            .unwrap()
            .answers
            .len()
    };
    assert_eq!(count(), 2);
    accepted(
        &site,
        "acme.key",
        &format!("update delete {challenge} TXT \"first\""),
    );
    assert_eq!(count(), 1);
    accepted(
        &site,
        "acme.key",
        &format!("update delete {challenge} TXT \"second\""),
    );
    assert_eq!(count(), 0);
    daemon.stop();
}

#[test]
fn what_is_acknowledged_outlives_kill_and_the_file_stays_until_it_is_synced() {
    let (site, mut daemon) = start();
    for n in 1..=5 {
        let lines = format!("update add k{n}.apps.example.com. 60 A 192.0.2.{n}");
        let (is_sent, text) = send(
            "nsupdate",
            site.authority(),
            Some("apps.key"),
            &lines,
            false,
        );
        assert!(is_sent, "{text}");
        daemon.kill();
        daemon = site.start("dns-authd");
        for before in 1..=n {
            let name = format!("k{before}.apps.example.com");
            assert_eq!(
                rcode(&site, &name, A),
                u16::from(NOERROR),
                "{name} after {n} kills"
            );
        }
        assert_eq!(status(&site)["serial"], n + 1);
    }
    let file = site.files.join("example.com.zone");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), ZONE);
    let (_, text) = verb(&site, &["list"]);
    assert!(text.contains("5 records added to serial 1"), "{text}");
    // An edited file is served with the updates.
    let edited = format!("{ZONE}hand A 192.0.2.7\n");
    std::fs::rename(site.files.write("new", &edited), &file).unwrap();
    wait::for_it("the edited file is served", PATIENCE, || {
        rcode(&site, "hand.example.com", A) == u16::from(NOERROR)
    });
    assert_eq!(rcode(&site, "k5.apps.example.com", A), u16::from(NOERROR));
    assert_eq!(status(&site)["serial"], 7);
    let (is_synced, text) = verb(&site, &["sync", "example.com"]);
    assert!(is_synced && text.contains("serial 7"), "{text}");
    let written = std::fs::read_to_string(&file).unwrap();
    for part in [
        "k3.apps.example.com.",
        "hand.example.com.",
        "LUA\tA \"'192.0.2.99'\"",
    ] {
        assert!(written.contains(part), "{part} in {written}");
    }
    assert_eq!(status(&site)["updates"], Value::Null);
    let (is_synced, text) = verb(&site, &["sync", "example.com"]);
    assert!(!is_synced && text.contains("have what is served"), "{text}");
    daemon.kill();
    let daemon = site.start("dns-authd");
    assert_eq!(status(&site)["serial"], 7);
    assert_eq!(rcode(&site, "k5.apps.example.com", A), u16::from(NOERROR));
    daemon.stop();
}

#[test]
fn a_swap_of_processes_loses_no_update() {
    let site = Site::new();
    configure(&site);
    let held = Held::bind(site.authority());
    let start = || {
        let mut command = site.serve("dns-authd");
        command = held.hand_to("dns", &command);
        Daemon::start("dns-authd", command)
    };
    let mut current = start();
    let mut n = 0;
    let mut add = |site: &Site| {
        n += 1;
        let lines = format!("update add s{n}.apps.example.com. 60 A 192.0.2.{n}");
        let (is_sent, text) = send(
            "nsupdate",
            site.authority(),
            Some("apps.key"),
            &lines,
            n % 2 == 0,
        );
        assert!(is_sent, "{text}");
        n
    };
    for _ in 0..2 {
        add(&site);
        let next = start();
        // Both are there: whichever of them gets it, it is not lost.
        let during = std::thread::scope(|scope| {
            let adding = scope.spawn(|| (add(&site), add(&site)));
            std::mem::replace(&mut current, next).stop();
            adding.join().unwrap().1
        });
        for before in 1..=during {
            let name = format!("s{before}.apps.example.com");
            wait::for_it("the update is served", PATIENCE, || {
                rcode(&site, &name, A) == u16::from(NOERROR)
            });
        }
    }
    current.stop();
}
