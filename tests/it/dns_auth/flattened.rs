//! Secondaries that cannot run LUA records follow liveness all the same: Knot, NSD and BIND.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use tests::daemon::{Daemon, http_get, metric};
use tests::dns::{A, Data, Question, SOA, TXT, ask};
use tests::scratch::{Scratch, at, loopback};
use tests::site::Site;
use tests::wait;

use super::across::free_address;
use super::secondaries::{SECRET, dig, start_knot, start_named, start_nsd};

const PATIENCE: Duration = Duration::from_secs(60);
/// The port that is probed.
const PORT: u16 = 6443;

/// A server whose liveness the zone follows.
struct Member {
    ip: IpAddr,
    listener: Option<TcpListener>,
}

impl Member {
    fn new() -> Self {
        let mut member = Self {
            ip: loopback().into(),
            listener: None,
        };
        member.rise();
        member
    }

    fn rise(&mut self) {
        let address = SocketAddr::new(self.ip, PORT);
        let bind = || TcpListener::bind(address).ok();
        self.listener = Some(wait::until("the port is free", PATIENCE, bind));
    }

    fn fall(&mut self) {
        self.listener = None;
    }
}

/// A zone that secondaries would not ask for again within an hour.
fn zone(serial: u32, members: &[Member]) -> String {
    let list: Vec<String> = members.iter().map(|one| format!("'{}'", one.ip)).collect();
    let set = format!("ifportup({PORT}, {{{}}}, {{interval=1}})", list.join(","));
    format!(
        "$TTL 300\n@ SOA ns1 h {serial} 3600 3600 86400 60\n NS ns1\nns1 A 192.0.2.1\nversion TXT \"{serial}\"\n\
         live LUA A \"{set}\"\n*.apps LUA A \"{set}\"\nback LUA TXT \"bestwho:toString()\"\n"
    )
}

fn configure(site: &Site, notify: &[SocketAddr], members: &[Member]) {
    let history = site.files.join("history");
    let notify: Vec<String> = notify.iter().map(|one| format!("\"{one}\"")).collect();
    let more = format!(
        "zones.serial-must-rise = true\nhistory.directory = \"{}\"\n\
         notify = {{ also = [{}], key = \"hmac-sha256.key\", timeout = \"1s\", attempts = 10 }}\n",
        history.display(),
        notify.join(", "),
    );
    site.configure_authd(&[], &more);
    let config = std::fs::read_to_string(site.files.join("dns-authd.toml")).unwrap();
    let key = |name: &str| format!("[[key]]\nname = \"{name}\"\nsecret = \"{SECRET}\"\n");
    let keys = ["hmac-sha256.key", "raw.key", "none.key"].map(key).concat();
    site.files.write("example.com.zone", &zone(1, members));
    site.files.write(
        "dns-authd.toml",
        &format!(
            "{config}\n[transfers]\nallow-keys = [\"hmac-sha256.key\", \"raw.key\", \"none.key\"]\n\
             [[transfers.peer]]\nkeys = [\"hmac-sha256.key\"]\nlua = \"flatten\"\n\
             [[transfers.peer]]\nkeys = [\"none.key\"]\nzones = [\"example.com\"]\nlua = \"refuse\"\n\
             {keys}\n[[zone]]\nname = \"example.com\"\nfile = \"example.com.zone\"\n"
        ),
    );
}

/// The addresses that a server has for a name.
fn of(server: SocketAddr, name: &str) -> BTreeSet<IpAddr> {
    let answer = ask(server, &Question::new(name, A));
    answer.map(|answer| answer.addresses()).unwrap_or_default()
}

/// Waits until every secondary has these members; the time that each took since dns-authd itself had them.
fn follow(site: &Site, secondaries: &[(&str, SocketAddr)], members: &[&Member]) {
    let expected: BTreeSet<IpAddr> = members.iter().map(|member| member.ip).collect();
    let mut here = None;
    let mut there = vec![None; secondaries.len()];
    let is_right = |address| {
        ["live.example.com", "x.apps.example.com"]
            .iter()
            .all(|name| of(address, name) == expected)
    };
    // dns-authd draws one of them for each query: its status has them all.
    let is_known = || {
        let (_, text) = site.get("dns-authd", "/zones");
        let zones: serde_json::Value = serde_json::from_str(&text).unwrap();
        let sets = zones[0]["live"].as_array().cloned().unwrap_or_default();
        let live = sets.iter().find(|set| set["owner"] == "live.example.com.");
        let listed = live.and_then(|live| live["members"].as_array().cloned());
        let listed = listed.unwrap_or_default().into_iter();
        let listed = listed.filter_map(|one| one.as_str()?.parse::<IpAddr>().ok());
        listed.collect::<BTreeSet<IpAddr>>() == expected
    };
    wait::for_it("every secondary follows", PATIENCE, || {
        if here.is_none() && is_known() {
            here = Some(Instant::now());
        }
        for ((_, address), time) in secondaries.iter().zip(&mut there) {
            if time.is_none() && is_right(*address) {
                *time = Some(Instant::now());
            }
        }
        there.iter().all(Option::is_some) && here.is_some()
    });
    for ((name, _), time) in secondaries.iter().zip(there) {
        let lag = time
            .zip(here)
            .map(|(time, here)| time.saturating_duration_since(here));
        println!(
            "{name} follows {} members {lag:?} behind dns-authd",
            expected.len()
        );
    }
}

/// The serial that a server has.
fn serial(server: SocketAddr) -> u32 {
    let soa = ask(server, &Question::new("example.com", SOA)).unwrap();
    match &soa.answers[0].data {
        Data::Soa(_, _, [serial, ..]) => *serial,
        other => panic!("{other:?}"),
    }
}

fn transfer(site: &Site, key: &str) -> String {
    let key = format!("hmac-sha256:{key}:{SECRET}");
    dig(
        "dig",
        site.authority(),
        &["-y", &key, "example.com", "AXFR"],
    )
}

#[test]
fn knot_nsd_and_bind_follow_liveness_and_edits() {
    let (knot, nsd, named) = (at(loopback(), 5303), at(loopback(), 5304), free_address());
    let mut members = [Member::new(), Member::new(), Member::new()];
    let site = Site::new();
    configure(&site, &[knot, nsd, named], &members);
    let _healthd = site.start("healthd");
    let ours = site.start("dns-authd");
    let files = Scratch::new("flattened");
    let primary = site.authority();
    let daemons: [Daemon; 3] = [
        start_knot(&files, knot, primary),
        start_nsd(&files, nsd, primary),
        start_named(&files, named, primary),
    ];
    let secondaries = [("Knot", knot), ("NSD", nsd), ("BIND", named)];
    let [a, b, c] = &members;
    follow(&site, &secondaries, &[a, b, c]);

    // A flip, both ways.
    members[1].fall();
    let [a, b, c] = &members;
    follow(&site, &secondaries, &[a, c]);
    assert!(b.listener.is_none());
    members[2].fall();
    follow(&site, &secondaries, &[&members[0]]);
    members[1].rise();
    let [a, b, _] = &members;
    follow(&site, &secondaries, &[a, b]);

    // What each gets of the zone.
    let raw = transfer(&site, "raw.key");
    assert!(raw.contains("TYPE65402"), "{raw}");
    assert!(
        raw.contains(" 1 3600 3600"),
        "the serial of the file: {raw}"
    );
    let flat = transfer(&site, "hmac-sha256.key");
    assert!(!flat.contains("TYPE65402"), "{flat}");
    assert!(flat.contains("*.apps.example.com."), "{flat}");
    assert!(
        !flat.contains("back.example.com."),
        "it reads the query: {flat}"
    );
    let none = transfer(&site, "none.key");
    assert!(none.contains("Transfer failed"), "{none}");
    let version = |server| {
        let answer = ask(server, &Question::new("version.example.com", TXT));
        answer.is_ok_and(|answer| {
            let mut records = answer.answers.iter();
            records.any(|record| record.data == Data::Text(vec!["2".to_owned()]))
        })
    };

    // An edited file comes too, and the live sets stay.
    let new = site.files.write("new", &zone(2, &members));
    std::fs::rename(new, site.files.join("example.com.zone")).unwrap();
    for (name, server) in secondaries {
        wait::for_it(name, PATIENCE, || version(server));
    }
    follow(&site, &secondaries, &[&members[0], &members[1]]);
    let (_, page) = http_get(site.admin("dns-authd"), "/metrics").unwrap();
    let whole = metric(&page, "dns_authd_transfers_total{kind=\"whole\"}");
    // Each secondary took the whole zone once, and so did dig twice.
    assert_eq!(whole, Some(5.0), "{page}");
    let made = metric(&page, "dns_authd_flattened_versions_total").unwrap();
    assert!(made >= 5.0, "{made}");

    // The serials continue behind a restart, where the secondaries would ignore lower ones, and so do the differences.
    let before = serial(knot);
    ours.stop();
    let ours = site.start("dns-authd");
    members[0].fall();
    follow(&site, &secondaries, &[&members[1]]);
    members[2].rise();
    follow(&site, &secondaries, &[&members[1], &members[2]]);
    for (name, server) in secondaries {
        assert!(serial(server) > before, "{name}");
    }
    let (_, page) = http_get(site.admin("dns-authd"), "/metrics").unwrap();
    let whole = metric(&page, "dns_authd_transfers_total{kind=\"whole\"}");
    assert_eq!(whole, Some(0.0), "no secondary took the whole zone again");
    assert_eq!(serial(primary), 2, "others see the serial of the file");

    // Without LUA records the zone is as it is, and the secondaries still follow.
    let plain = "$TTL 300\n@ SOA ns1 h 3 3600 3600 86400 60\n NS ns1\nns1 A 192.0.2.1\nversion TXT \"3\"\nlive A 192.0.2.77\n";
    let new = site.files.write("new", plain);
    std::fs::rename(new, site.files.join("example.com.zone")).unwrap();
    for (name, server) in secondaries {
        wait::for_it(name, PATIENCE, || {
            of(server, "live.example.com") == super::addresses(&["192.0.2.77"])
        });
    }
    ours.stop();
    drop(daemons);
}
