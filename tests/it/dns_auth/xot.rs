//! Zone transfers over TLS (RFC 9103): kdig, NSD and BIND transfer from dns-authd, and dns-authd from NSD, BIND and another dns-authd.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tests::certificate::{of_server, pin};
use tests::daemon::{Daemon, http_get, metric, run};
use tests::dns::ask_a;
use tests::scratch::{Scratch, at, loopback};
use tests::site::Site;
use tests::wait;

use super::across::free_address;
use super::secondaries::SECRET;

const NAME: &str = "ns.xot.test";
const KEY: &str = "transfer.key";
const PATIENCE: Duration = Duration::from_secs(60);

/// A zone that a secondary would not ask for again within an hour.
fn zone(origin: &str, serial: u32) -> String {
    let mut text = format!(
        "$ORIGIN {origin}.\n$TTL 300\n@ SOA ns1 h {serial} 3600 3600 86400 60\n@ NS ns1\nns1 A 192.0.2.1\nversion A 192.0.2.{serial}\n"
    );
    for number in 1..=50 {
        text.push_str(&format!("n{number} A 192.0.2.9\n"));
    }
    text
}

fn has(server: SocketAddr, zone: &str, serial: u32) -> bool {
    let wanted = super::addresses(&[&format!("192.0.2.{serial}")]);
    let version = ask_a(server, &format!("version.{zone}"));
    version.is_ok_and(|version| version.addresses() == wanted)
}

/// Puts a new text in a file's place.
fn replace(files: &Scratch, name: &str, text: &str) {
    let new = files.write("new", text);
    std::fs::rename(new, files.join(name)).unwrap();
}

/// The certificate of a server, and its key.
fn certificate(files: &Scratch, name: &str) -> [PathBuf; 2] {
    let [chain, key] = ["crt", "pem"].map(|kind| files.join(&format!("{name}.{kind}")));
    of_server(&chain, &key, name);
    [chain, key]
}

/// dns-authd with TLS, and these lines behind the usual ones.
fn configure(site: &Site, [chain, key]: &[PathBuf; 2], tables: &str) -> SocketAddr {
    let dot = at(site.ip, 8853);
    let tls = format!(
        "tls.certificate = \"{}\"\ntls.key = \"{}\"\ntls.dot = [\"{dot}\"]",
        chain.display(),
        key.display()
    );
    site.configure_authd(&[], &tls);
    let config = std::fs::read_to_string(site.files.join("dns-authd.toml")).unwrap();
    let key = format!("[[key]]\nname = \"{KEY}\"\nsecret = \"{SECRET}\"\n");
    site.files
        .write("dns-authd.toml", &format!("{config}\n{key}\n{tables}"));
    dot
}

/// The text of kdig for these arguments.
fn kdig(server: SocketAddr, arguments: &[&str]) -> String {
    let mut command = Command::new("kdig");
    command.arg(format!("@{}", server.ip()));
    command.args(["-p", &server.port().to_string(), "+timeout=10", "+retry=0"]);
    command.args(arguments);
    let (_, out, err) = run(command);
    format!("{out}{err}")
}

//--- dns-authd as the primary

#[test]
fn a_zone_that_needs_tls_is_transferred_over_tls_alone() {
    let site = Site::new();
    let identity = certificate(&site.files, NAME);
    site.files.write("a.test.zone", &zone("a.test", 1));
    site.files.write("b.test.zone", &zone("b.test", 1));
    let dot = configure(
        &site,
        &identity,
        "[transfers]\nallow-keys = [\"transfer.key\"]\n\
         [[zone]]\nname = \"a.test\"\nfile = \"a.test.zone\"\nallow-transfer-transport = \"tls\"\n\
         [[zone]]\nname = \"b.test\"\nfile = \"b.test.zone\"\n\
         [[transfers.peer]]\nnetworks = [\"192.0.2.99\"]\ntransport = \"any\"\n",
    );
    let daemon = site.start("dns-authd");
    let plain = site.authority();
    let (ca, host) = (
        format!("+tls-ca={}", identity[0].display()),
        format!("+tls-hostname={NAME}"),
    );
    let key = format!("hmac-sha256:{KEY}:{SECRET}");
    let n_records = |text: &str| text.lines().filter(|line| line.starts_with('n')).count();
    let tls = ["+tls", &ca, &host, "-y", &key];
    for name in ["a.test", "b.test"] {
        for (rtype, expected) in [("AXFR", 51), ("IXFR=0", 51), ("IXFR=1", 0)] {
            let text = kdig(dot, &[&tls[..], &[name, rtype]].concat());
            assert_eq!(n_records(&text), expected, "{name} {rtype}: {text}");
            assert!(text.contains("SOA"), "{name} {rtype}: {text}");
        }
        let text = kdig(dot, &[&tls[..], &[name, "SOA", "+short"]].concat());
        assert!(text.contains(" 1 3600 3600 "), "{text}");
        // TLS does not let anyone in: there is no key here.
        let text = kdig(dot, &["+tls", &ca, &host, name, "AXFR"]);
        assert_eq!(n_records(&text), 0, "{text}");
        // TCP carries no zone that needs TLS.
        let text = kdig(plain, &["+tcp", "-y", &key, name, "AXFR"]);
        let expected = if name == "a.test" { 0 } else { 51 };
        assert_eq!(n_records(&text), expected, "{name} over TCP: {text}");
    }
    daemon.wait_log("this client has to transfer it over TLS");
    // Over UDP the answer to IXFR is the SOA record alone, whatever the history has.
    let text = kdig(plain, &["+notcp", "-y", &key, "a.test", "IXFR=0"]);
    assert_eq!(n_records(&text), 0, "{text}");
    // Others get answers as before.
    assert!(has(plain, "a.test", 1));
    daemon.stop();
}

fn start_nsd_secondary(files: &Scratch, server: SocketAddr, dot: SocketAddr, ca: &Path) -> Daemon {
    let home = files.join("nsd");
    std::fs::create_dir(&home).unwrap();
    let home = home.display();
    let text = format!(
        "server:\n  ip-address: {}@{}\n  server-count: 1\n  xfrd-reload-timeout: 0\n  username: \"\"\n  zonesdir: \"{home}\"\n  database: \"\"\n  \
         pidfile: \"{home}/pid\"\n  xfrdfile: \"{home}/xfrd\"\n  xfrdir: \"{home}\"\n  zonelistfile: \"{home}/list\"\n  \
         tls-cert-bundle: \"{}\"\n\
         remote-control:\n  control-enable: no\n\
         tls-auth:\n  name: xot\n  auth-domain-name: {NAME}\n\
         key:\n  name: \"{KEY}\"\n  algorithm: hmac-sha256\n  secret: \"{SECRET}\"\n\
         zone:\n  name: \"a.test\"\n  zonefile: \"a.test.zone\"\n  \
         request-xfr: {}@{} {KEY} xot\n  allow-notify: 127.0.0.1 {KEY}\n",
        server.ip(),
        server.port(),
        ca.display(),
        dot.ip(),
        dot.port(),
    );
    let mut command = Command::new("nsd");
    command.arg("-d").arg("-c");
    command.arg(files.write("nsd.conf", &text));
    Daemon::spawn("nsd", command)
}

/// Starts BIND with these options and this text behind them.
fn start_named(files: &Scratch, options: &str, more: &str) -> Daemon {
    let home = files.join("named");
    std::fs::create_dir(&home).unwrap();
    let text = format!(
        "options {{ directory \"{}\"; listen-on-v6 {{ none; }}; pid-file none; session-keyfile none; recursion no; \
         dnssec-validation no; {options} }};\ncontrols {{}};\n\
         key \"{KEY}\" {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};\n{more}\n",
        home.display()
    );
    let mut command = Command::new("named");
    command.arg("-g").arg("-c");
    command.arg(files.write("named.conf", &text));
    Daemon::spawn("named", command)
}

#[test]
fn nsd_and_bind_follow_changes_over_tls() {
    let (nsd, named) = (at(loopback(), 5304), free_address());
    let site = Site::new();
    let identity = certificate(&site.files, NAME);
    site.files.write("a.test.zone", &zone("a.test", 1));
    let dot = configure(
        &site,
        &identity,
        &format!(
            "[transfers]\nallow-keys = [\"transfer.key\"]\ntransport = \"tls\"\n\
             [notify]\nalso = [\"{nsd}\", \"{named}\"]\nkey = \"{KEY}\"\ntimeout = \"1s\"\nattempts = 10\n\
             [[zone]]\nname = \"a.test\"\nfile = \"a.test.zone\"\n"
        ),
    );
    let daemon = site.start("dns-authd");
    let files = Scratch::new("xot");
    let ca = identity[0].display();
    let bind = start_named(
        &files,
        &format!(
            "listen-on port {} {{ {}; }}; notify no;",
            named.port(),
            named.ip()
        ),
        &format!(
            "tls xot {{ ca-file \"{ca}\"; remote-hostname \"{NAME}\"; }};\n\
             zone \"a.test\" {{ type secondary; file \"a.test.zone\"; primaries {{ {} port {} key \"{KEY}\" tls xot; }}; \
             allow-notify {{ key \"{KEY}\"; }}; }};",
            dot.ip(),
            dot.port()
        ),
    );
    let _nsd = start_nsd_secondary(&files, nsd, dot, &identity[0]);
    let secondaries = [("NSD", nsd), ("BIND", named)];
    for serial in [1, 2, 3] {
        if serial > 1 {
            replace(&site.files, "a.test.zone", &zone("a.test", serial));
        }
        for (name, server) in secondaries {
            wait::for_it(&format!("{name} {serial}"), PATIENCE, || {
                has(server, "a.test", serial)
            });
        }
    }
    let (_, page) = http_get(site.admin("dns-authd"), "/metrics").unwrap();
    let kind = |kind: &str| {
        metric(
            &page,
            &format!("dns_authd_transfers_total{{kind=\"{kind}\"}}"),
        )
    };
    assert_eq!(kind("whole"), Some(2.0), "{page}");
    assert_eq!(kind("differences"), Some(4.0), "{page}");
    assert!(!bind.log().contains("failed"), "{}", bind.log());
    daemon.stop();
}

//--- dns-authd as the secondary

fn start_nsd_primary(
    files: &Scratch,
    (server, dot): (SocketAddr, SocketAddr),
    [chain, key]: &[PathBuf; 2],
    ours: SocketAddr,
) -> Daemon {
    let home = files.join("nsd");
    std::fs::create_dir(&home).unwrap();
    let home = home.display();
    let zone = files.write("nsd.test.zone", &zone("nsd.test", 1));
    let text = format!(
        "server:\n  ip-address: {}@{}\n  ip-address: {}@{}\n  server-count: 1\n  username: \"\"\n  zonesdir: \"\"\n  \
         database: \"\"\n  pidfile: \"{home}/pid\"\n  xfrdfile: \"{home}/xfrd\"\n  xfrdir: \"{home}\"\n  \
         zonelistfile: \"{home}/list\"\n  tls-service-key: \"{}\"\n  tls-service-pem: \"{}\"\n  tls-port: {}\n\
         remote-control:\n  control-enable: no\n\
         key:\n  name: \"{KEY}\"\n  algorithm: hmac-sha256\n  secret: \"{SECRET}\"\n\
         zone:\n  name: \"nsd.test\"\n  zonefile: \"{}\"\n  provide-xfr: 127.0.0.0/8 {KEY}\n  notify: {}@{} {KEY}\n",
        server.ip(),
        server.port(),
        dot.ip(),
        dot.port(),
        key.display(),
        chain.display(),
        dot.port(),
        zone.display(),
        ours.ip(),
        ours.port(),
    );
    let mut command = Command::new("nsd");
    command.arg("-d").arg("-c");
    command.arg(files.write("nsd.conf", &text));
    Daemon::spawn("nsd", command)
}

fn start_bind_primary(
    files: &Scratch,
    (server, dot): (SocketAddr, SocketAddr),
    [chain, key]: &[PathBuf; 2],
    ours: SocketAddr,
) -> Daemon {
    let zone = files.write("bind.test.zone", &zone("bind.test", 1));
    start_named(
        files,
        &format!(
            "listen-on port {} {{ {}; }}; listen-on port {} tls local {{ {}; }}; notify explicit; notify-delay 0;",
            server.port(),
            server.ip(),
            dot.port(),
            dot.ip()
        ),
        &format!(
            "tls local {{ cert-file \"{}\"; key-file \"{}\"; }};\n\
             zone \"bind.test\" {{ type primary; file \"{}\"; ixfr-from-differences yes; \
             allow-transfer transport tls {{ key {KEY}; }}; also-notify {{ {} port {} key {KEY}; }}; }};",
            chain.display(),
            key.display(),
            zone.display(),
            ours.ip(),
            ours.port()
        ),
    )
}

/// The table of a secondary zone, with what its primary has to prove.
fn secondary(name: &str, primary: SocketAddr, tls: &str) -> String {
    format!(
        "[[zone]]\nname = \"{name}\"\nfile = \"{name}.kept\"\nprimaries = [\"{primary}\"]\nkey = \"{KEY}\"\ntls = {{ {tls} }}\n"
    )
}

#[test]
fn changes_of_nsd_bind_and_dns_authd_are_followed_over_tls() {
    let site = Site::new();
    let other = Site::new();
    let identity = certificate(&site.files, NAME);
    let files = Scratch::new("xot-primaries");
    let (nsd, bind) = (
        (at(loopback(), 5304), at(loopback(), 5853)),
        (free_address(), free_address()),
    );
    other.files.write("own.test.zone", &zone("own.test", 1));
    let own = configure(
        &other,
        &identity,
        &format!(
            "[transfers]\nallow-keys = [\"{KEY}\"]\ntransport = \"tls\"\n\
             [notify]\nalso = [\"{}\"]\nkey = \"{KEY}\"\n\
             [[zone]]\nname = \"own.test\"\nfile = \"own.test.zone\"\n",
            site.authority()
        ),
    );
    let named = format!(
        "server-name = \"{NAME}\", ca = \"{}\"",
        identity[0].display()
    );
    let pinned = format!("pins = [\"{}\"]", pin(&identity[0]));
    let strange = certificate(&site.files, "other.test");
    let wrong = format!("pins = [\"{}\"]", pin(&strange[0]));
    let tables = [
        secondary("nsd.test", nsd.1, &named),
        secondary("bind.test", bind.1, &named),
        secondary("own.test", own, &pinned),
    ];
    configure(&site, &identity, &tables.concat());
    let server = site.authority();
    let primaries = [
        start_nsd_primary(&files, nsd, &identity, server),
        start_bind_primary(&files, bind, &identity, server),
        other.start("dns-authd"),
    ];
    let ours = Daemon::spawn("dns-authd", site.serve("dns-authd"));
    let zones = ["nsd.test", "bind.test", "own.test"];
    for serial in [1, 2, 3] {
        if serial > 1 {
            for ((name, daemon), files) in
                zones
                    .iter()
                    .zip(&primaries)
                    .zip([&files, &files, &other.files])
            {
                replace(files, &format!("{name}.zone"), &zone(name, serial));
                daemon.hang_up();
            }
        }
        for name in zones {
            wait::for_it(&format!("{name} {serial}"), PATIENCE, || {
                has(server, name, serial)
            });
        }
    }
    let log = ours.log();
    for name in ["bind.test.", "own.test."] {
        let came = log
            .lines()
            .any(|line| line.contains("IXFR") && line.contains(name) && line.contains("(TLS)"));
        assert!(came, "{name}: {log}");
    }
    ours.stop();

    // A primary that is not the one that it should be gives no zone; one whose identity does not matter does.
    for (tls, comes) in [
        (wrong.as_str(), false),
        (
            "server-name = \"ns.xot.test\", ca = \"other.test.crt\"",
            false,
        ),
        ("authentication = \"opportunistic\"", true),
    ] {
        std::fs::remove_file(site.files.join("own.test.kept")).unwrap_or_default();
        configure(&site, &identity, &secondary("own.test", own, tls));
        let ours = Daemon::spawn("dns-authd", site.serve("dns-authd"));
        match comes {
            true => wait::for_it(tls, PATIENCE, || has(server, "own.test", 3)),
            false => ours.wait_log("invalid peer certificate"),
        }
        assert_eq!(has(server, "own.test", 3), comes, "{tls}");
        ours.stop();
    }
}
