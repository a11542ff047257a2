//! dns-authd as the primary and as the secondary of PowerDNS, with TSIG, NOTIFY and LUA records both ways.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use tests::daemon::{Daemon, run};
use tests::dns::{A, Data, Question, TXT, ask};
use tests::scratch::{Scratch, at, loopback};
use tests::site::Site;
use tests::wait;

const SECRET: &str = "dGhlIHNlY3JldCBvZiBQb3dlckROUw==";
const PATIENCE: Duration = Duration::from_secs(60);

/// A zone that nobody would ask for again within an hour.
fn zone(serial: u32) -> String {
    format!(
        "$TTL 300\n@ SOA ns1 h {serial} 3600 3600 86400 60\n NS ns1\nns1 A 192.0.2.1\nversion TXT \"{serial}\"\n\
         live LUA A \"'192.0.2.7'\"\n"
    )
}

fn replace(files: &Scratch, name: &str, text: &str) {
    let new = files.write("new", text);
    std::fs::rename(new, files.join(name)).unwrap();
}

/// A program of PowerDNS with this configuration.
fn tool(files: &Scratch, program: &str, arguments: &[&str]) {
    let mut command = Command::new(program);
    let home = files.path().display();
    command.arg(format!("--config-dir={home}")).args(arguments);
    let (status, out, err) = run(command);
    assert!(status.success(), "{program} {arguments:?}: {out}{err}");
}

/// Starts PowerDNS as the secondary of `ours.test` and the primary of `pdns.test`.
fn start_pdns(files: &Scratch, server: SocketAddr, ours: SocketAddr) -> Daemon {
    let home = files.path().display();
    files.write("pdns.test.zone", &zone(1));
    let other = ours.to_string();
    files.write(
        "named.conf",
        &format!(
            "zone \"ours.test\" {{ type slave; file \"{home}/ours.test.zone\"; masters {{ {other}; }}; }};\n\
             zone \"pdns.test\" {{ type master; file \"{home}/pdns.test.zone\"; also-notify {{ {other}; }}; }};\n"
        ),
    );
    // Over loopback, NOTIFY comes from another address than the primary's.
    files.write(
        "pdns.conf",
        &format!(
            "launch=bind\nbind-config={home}/named.conf\nbind-dnssec-db={home}/db\nlocal-address={}\nlocal-port={}\n\
             secondary=yes\nprimary=yes\ndaemon=no\nguardian=no\ndisable-syslog=yes\nsocket-dir={home}\nallow-axfr-ips=\n\
             only-notify=\nenable-lua-records=yes\ntrusted-notification-proxy=127.0.0.1\ncache-ttl=0\nquery-cache-ttl=0\n\
             negquery-cache-ttl=0\n",
            server.ip(),
            server.port(),
        ),
    );
    let db = files.join("db").display().to_string();
    tool(files, "pdnsutil", &["create-bind-db", &db]);
    let key = ["import-tsig-key", "transfer.key", "hmac-sha256", SECRET];
    tool(files, "pdnsutil", &key);
    for (zone, role) in [("ours.test", "secondary"), ("pdns.test", "primary")] {
        let activate = ["activate-tsig-key", zone, "transfer.key", role];
        tool(files, "pdnsutil", &activate);
    }
    let mut command = Command::new("pdns_server");
    command.arg(format!("--config-dir={home}"));
    Daemon::spawn("pdns_server", command)
}

fn configure(site: &Site, pdns: SocketAddr) {
    let top = format!(
        "notify = {{ also = [\"{pdns}\"], key = \"transfer.key\", timeout = \"1s\", attempts = 10 }}\n\
         transfers.allow-keys = [\"transfer.key\"]\n"
    );
    site.configure_authd(&[("ours.test", &zone(1))], &top);
    let config = std::fs::read_to_string(site.files.join("dns-authd.toml")).unwrap();
    site.files.write(
        "dns-authd.toml",
        &format!(
            "{config}\n[[zone]]\nname = \"pdns.test\"\nfile = \"pdns.test.kept\"\nprimaries = [\"{pdns}\"]\n\
             key = \"transfer.key\"\n\n[[key]]\nname = \"transfer.key\"\nsecret = \"{SECRET}\"\n"
        ),
    );
}

/// Whether a server has this version of a zone.
fn has(server: SocketAddr, zone: &str, serial: u32) -> bool {
    let version = ask(server, &Question::new(&format!("version.{zone}"), TXT));
    let wanted = Data::Text(vec![serial.to_string()]);
    version.is_ok_and(|version| version.answers.iter().any(|it| it.data == wanted))
}

#[test]
fn powerdns_follows_dns_authd_and_is_followed_by_it() {
    let files = Scratch::new("powerdns");
    let site = Site::new();
    let pdns = at(loopback(), 5303);
    configure(&site, pdns);
    let ours = site.start("dns-authd");
    let theirs = start_pdns(&files, pdns, site.authority());
    let both = [("ours.test", pdns), ("pdns.test", site.authority())];
    for (zone, server) in both {
        wait::for_it(zone, PATIENCE, || has(server, zone, 1));
        // The program came along, and the other server runs it.
        let live = ask(server, &Question::new(&format!("live.{zone}"), A)).unwrap();
        assert_eq!(live.addresses(), super::addresses(&["192.0.2.7"]), "{zone}");
    }
    replace(&site.files, "ours.test.zone", &zone(2));
    replace(&files, "pdns.test.zone", &zone(2));
    tool(&files, "pdns_control", &["bind-reload-now", "pdns.test"]);
    tool(&files, "pdns_control", &["notify", "pdns.test"]);
    for (zone, server) in both {
        wait::for_it(zone, PATIENCE, || has(server, zone, 2));
    }
    // Without the key nobody gets the zone.
    for (zone, server) in [("ours.test", site.authority()), ("pdns.test", pdns)] {
        let refused = super::secondaries::dig("dig", server, &[zone, "AXFR"]);
        assert!(refused.contains("Transfer failed"), "{refused}");
    }
    drop(theirs);
    ours.stop();
}
