//! Transaction signatures, NOTIFY and incremental transfers, with the programs of others: queries of dig and kdig, and Knot, NSD and BIND as
//! secondaries.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use tests::daemon::{Daemon, http_get, metric, run};
use tests::dns::{A, Question, SOA, ask};
use tests::scratch::{Scratch, at, loopback};
use tests::site::Site;
use tests::wait;

use super::across::free_address;

pub(super) const SECRET: &str = "dGhlIHNlY3JldCBvZiB0aHJlZSBzZWNvbmRhcmllcw==";
const ALGORITHMS: [&str; 6] = [
    "hmac-md5",
    "hmac-sha1",
    "hmac-sha224",
    "hmac-sha256",
    "hmac-sha384",
    "hmac-sha512",
];

/// A zone that secondaries would not ask for again within an hour, of several messages.
fn zone(serial: u32) -> String {
    let text = "x".repeat(200);
    format!(
        "$TTL 300\n@ SOA ns1 h {serial} 3600 3600 86400 60\n NS ns1\nns1 A 192.0.2.1\nversion A 192.0.2.{serial}\n\
         $GENERATE 1-300 n$ TXT \"{text}\"\n"
    )
}

/// A key for each algorithm, named after it; the one for transfers has its secret in a file.
fn keys(site: &Site) -> String {
    site.files.write("secret", &format!("{SECRET}\n"));
    let mut text = String::new();
    for algorithm in ALGORITHMS {
        text.push_str(&format!(
            "[[key]]\nname = \"{algorithm}.key\"\nalgorithm = \"{algorithm}\"\nsecret-file = \"secret\"\n"
        ));
    }
    text
}

fn start(notify: &str) -> (Site, Daemon) {
    let site = Site::new();
    let more = format!(
        "transfers.allow-keys = [\"hmac-sha256.key\"]\n{notify}\n{}",
        keys(&site)
    );
    // Tables follow the keys of the file's beginning.
    site.configure_authd(&[], "");
    let config = std::fs::read_to_string(site.files.join("dns-authd.toml")).unwrap();
    site.files.write("example.com.zone", &zone(1));
    site.files.write(
        "dns-authd.toml",
        &format!(
            "{config}\n{more}\n[[zone]]\nname = \"example.com\"\nfile = \"example.com.zone\"\n"
        ),
    );
    let daemon = site.start("dns-authd");
    (site, daemon)
}

/// What dig, or kdig, says to these arguments.
pub(super) fn dig(program: &str, server: SocketAddr, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.arg(format!("@{}", server.ip()));
    command.args(["-p", &server.port().to_string()]);
    let once = if program == "dig" {
        "+tries=1"
    } else {
        "+retry=0"
    };
    command.args(["+time=5", once]).args(arguments);
    let (_, out, err) = run(command);
    format!("{out}{err}")
}

#[test]
fn dig_and_kdig_take_signed_answers_and_signed_transfers() {
    let (site, _daemon) = start("");
    let server = site.authority();
    for program in ["dig", "kdig"] {
        for algorithm in ALGORITHMS {
            let key = format!("{algorithm}:{algorithm}.key:{SECRET}");
            let answer = dig(program, server, &["-y", &key, "version.example.com", "A"]);
            assert!(answer.contains("192.0.2.1"), "{program}: {answer}");
            let is_right = match program {
                "dig" => !answer.contains("Couldn't verify") && answer.contains("NOERROR"),
                _ => !answer.contains("WARNING") && answer.contains("status: NOERROR"),
            };
            assert!(is_right, "{program} {algorithm}: {answer}");
        }
        let transfer = |key: &str, algorithm: &str| {
            let key = format!("{algorithm}:{key}:{SECRET}");
            dig(program, server, &["-y", &key, "example.com", "AXFR"])
        };
        let whole = transfer("hmac-sha256.key", "hmac-sha256");
        let n_records = whole
            .lines()
            .filter(|line| line.starts_with('n') && line.contains("TXT"))
            .count();
        assert_eq!(n_records, 300, "{program}: {whole}");
        assert!(
            !whole.contains("Couldn't verify") && !whole.contains("WARNING"),
            "{whole}"
        );
        // A key that is right, and not listed; one that is not known; and none.
        let refused = transfer("hmac-sha1.key", "hmac-sha1");
        assert!(!refused.contains("TXT"), "{program}: {refused}");
        let unknown = transfer("other.key", "hmac-sha256");
        assert!(
            unknown.contains("BADKEY") || unknown.contains("NOTAUTH"),
            "{program}: {unknown}"
        );
        let unsigned = dig(program, server, &["example.com", "AXFR"]);
        assert!(!unsigned.contains("TXT"), "{program}: {unsigned}");
    }
    let wrong = "hmac-sha256:hmac-sha256.key:d3Jvbmc=";
    let answer = dig("dig", server, &["-y", wrong, "version.example.com", "A"]);
    assert!(answer.contains("BADSIG"), "{answer}");
    let (_, page) = http_get(site.admin("dns-authd"), "/metrics").unwrap();
    let refused = metric(&page, "dns_authd_signatures_refused_total").unwrap();
    assert!(refused >= 3.0, "{refused}");
}

/// Starts Knot as a secondary.
pub(super) fn start_knot(files: &Scratch, server: SocketAddr, primary: SocketAddr) -> Daemon {
    let home = files.join("knot");
    // Knot makes the directory of its journal, and not the one above.
    std::fs::create_dir_all(home.join("db")).unwrap();
    let home = home.display();
    let text = format!(
        "server:\n  rundir: {home}\n  listen: {}@{}\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n\
         database:\n  storage: {home}/db\nlog:\n  - target: stderr\n    any: info\n\
         key:\n  - id: hmac-sha256.key\n    algorithm: hmac-sha256\n    secret: {SECRET}\n\
         remote:\n  - id: primary\n    address: {}@{}\n    key: hmac-sha256.key\n\
         acl:\n  - id: told\n    address: 127.0.0.1\n    key: hmac-sha256.key\n    action: notify\n\
         zone:\n  - domain: example.com\n    storage: {home}\n    master: primary\n    acl: told\n",
        server.ip(),
        server.port(),
        primary.ip(),
        primary.port(),
    );
    let mut command = Command::new("knotd");
    command.arg("--config").arg(files.write("knot.conf", &text));
    Daemon::spawn("knotd", command)
}

/// Starts NSD as a secondary. By default it loads transfers at most once in a second.
pub(super) fn start_nsd(files: &Scratch, server: SocketAddr, primary: SocketAddr) -> Daemon {
    let home = files.join("nsd");
    std::fs::create_dir(&home).unwrap();
    let home = home.display();
    let text = format!(
        "server:\n  ip-address: {}@{}\n  server-count: 1\n  xfrd-reload-timeout: 0\n  username: \"\"\n  zonesdir: \"{home}\"\n  database: \"\"\n  \
         pidfile: \"{home}/pid\"\n  xfrdfile: \"{home}/xfrd\"\n  xfrdir: \"{home}\"\n  zonelistfile: \"{home}/list\"\n\
         remote-control:\n  control-enable: no\n\
         key:\n  name: \"hmac-sha256.key\"\n  algorithm: hmac-sha256\n  secret: \"{SECRET}\"\n\
         zone:\n  name: \"example.com\"\n  zonefile: \"example.com.zone\"\n  \
         request-xfr: {}@{} hmac-sha256.key\n  allow-notify: 127.0.0.1 hmac-sha256.key\n",
        server.ip(),
        server.port(),
        primary.ip(),
        primary.port(),
    );
    let mut command = Command::new("nsd");
    command
        .arg("-d")
        .arg("-c")
        .arg(files.write("nsd.conf", &text));
    Daemon::spawn("nsd", command)
}

/// Starts BIND as a secondary.
pub(super) fn start_named(files: &Scratch, server: SocketAddr, primary: SocketAddr) -> Daemon {
    let home = files.join("named");
    std::fs::create_dir(&home).unwrap();
    let home = home.display();
    let text = format!(
        "options {{ directory \"{home}\"; listen-on port {} {{ {}; }}; listen-on-v6 {{ none; }}; pid-file none; \
         session-keyfile none; recursion no; dnssec-validation no; notify no; }};\ncontrols {{}};\n\
         key \"hmac-sha256.key\" {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};\n\
         zone \"example.com\" {{ type secondary; file \"example.com.zone\"; \
         primaries {{ {} port {} key \"hmac-sha256.key\"; }}; allow-notify {{ key \"hmac-sha256.key\"; }}; }};\n",
        server.port(),
        server.ip(),
        primary.ip(),
        primary.port(),
    );
    let mut command = Command::new("named");
    command
        .arg("-g")
        .arg("-c")
        .arg(files.write("named.conf", &text));
    Daemon::spawn("named", command)
}

#[test]
fn knot_nsd_and_bind_follow_changes_at_once_by_their_differences() {
    let (knot, nsd, named) = (at(loopback(), 5303), at(loopback(), 5304), free_address());
    let (site, ours) = start(&format!(
        "notify = {{ also = [\"{knot}\", \"{nsd}\", \"{named}\"], key = \"hmac-sha256.key\", timeout = \"1s\", attempts = 10 }}"
    ));
    let files = Scratch::new("secondaries");
    let primary = site.authority();
    let daemons = [
        start_knot(&files, knot, primary),
        start_nsd(&files, nsd, primary),
        start_named(&files, named, primary),
    ];
    let has = |server: SocketAddr, serial: u32| {
        let soa = ask(server, &Question::new("example.com", SOA));
        let version = ask(server, &Question::new("version.example.com", A));
        let wanted = super::addresses(&[&format!("192.0.2.{serial}")]);
        soa.is_ok_and(|soa| soa.rcode == 0)
            && version.is_ok_and(|version| version.addresses() == wanted)
    };
    let secondaries = [("Knot", knot), ("NSD", nsd), ("BIND", named)];
    for (name, server) in secondaries {
        wait::for_it(name, Duration::from_secs(60), || has(server, 1));
    }
    for serial in [2, 3, 4] {
        let new = site.files.write("new", &zone(serial));
        std::fs::rename(new, site.files.join("example.com.zone")).unwrap();
        for (name, server) in secondaries {
            wait::for_it(name, Duration::from_secs(60), || has(server, serial));
        }
    }
    let (_, page) = http_get(site.admin("dns-authd"), "/metrics").unwrap();
    let answered = metric(&page, "dns_authd_notifications_total{result=\"answered\"}");
    assert!(answered.unwrap() >= 9.0, "{answered:?}");
    // The whole zone came once to each, and then three differences.
    let kind = |kind: &str| {
        metric(
            &page,
            &format!("dns_authd_transfers_total{{kind=\"{kind}\"}}"),
        )
    };
    assert_eq!(kind("whole"), Some(3.0));
    assert_eq!(kind("differences"), Some(9.0));
    let [knot, _nsd, named] = &daemons;
    assert_eq!(
        knot.log().matches("IXFR, incoming").count(),
        6,
        "{}",
        knot.log()
    );
    // SOA records of the new version, of the one before and after, and an address that goes and one that comes.
    assert_eq!(
        named.log().matches(" 6 records, ").count(),
        3,
        "{}",
        named.log()
    );
    ours.stop();
}
