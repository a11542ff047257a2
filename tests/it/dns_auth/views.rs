//! Views and access lists of zones: dns-authd beside BIND with the same named.conf, and each as the secondary of the other.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tests::binaries::binary;
use tests::daemon::{Daemon, http_get, run};
use tests::scratch::Scratch;
use tests::site::Site;
use tests::wait;

use super::across::free_address;
use super::secondaries::{SECRET, dig};

const PATIENCE: Duration = Duration::from_secs(60);
/// The addresses of clients: the first is one of the view `inside`, the second is for `outside`.
const INSIDE: &str = "127.0.0.1";
const OUTSIDE: &str = "127.0.0.2";

/// A zone that says what it is.
fn zone(word: &str, serial: u32) -> String {
    format!(
        "$TTL 60\n@ SOA ns h {serial} 3600 3600 86400 60\n@ NS ns\nns A 192.0.2.53\nword TXT \"{word}\"\n\
         *.wild TXT \"wild {word}\"\nto CNAME word.closed.test.\n"
    )
}

const KEYS: [&str; 3] = ["inside.key", "outside.key", "stranger.key"];

/// Two views of `example.com`, a zone of the inside alone, and one with a list; the same for both servers.
fn named_conf(files: &Scratch) -> String {
    for (file, word) in [
        ("inside.zone", "inside"),
        ("outside.zone", "outside"),
        ("only.zone", "only"),
        ("closed-inside.zone", "closed inside"),
        ("closed-outside.zone", "closed outside"),
    ] {
        files.write(file, &zone(word, 1));
    }
    let mut text = String::new();
    for key in KEYS {
        text.push_str(&format!(
            "key \"{key}\" {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};\n"
        ));
    }
    let file = |name: &str| files.join(name).display().to_string();
    let zone = |name: &str, path: &str, more: &str| {
        let path = file(path);
        format!("  zone \"{name}\" {{ type primary; file \"{path}\"; {more} }};\n")
    };
    let inside = [
        zone("example.com", "inside.zone", ""),
        zone("only.test", "only.zone", ""),
        zone(
            "closed.test",
            "closed-inside.zone",
            "allow-query { key stranger.key; };",
        ),
    ];
    let outside = [
        zone("example.com", "outside.zone", ""),
        zone(
            "closed.test",
            "closed-outside.zone",
            "allow-query { 127.0.0.3; };",
        ),
    ];
    text + &format!(
        "acl near {{ {INSIDE}; 192.0.2.0/24; }};\n\
         view inside {{\n  match-clients {{ !key outside.key; key inside.key; near; }};\n  \
         allow-transfer {{ key inside.key; }};\n{}}};\n\
         view outside {{\n  match-clients {{ key outside.key; 127.0.0.0/29; }};\n  \
         allow-transfer {{ key outside.key; }};\n{}}};\n",
        inside.concat(),
        outside.concat(),
    )
}

/// Starts BIND with a named.conf behind its options.
fn start_named(files: &Scratch, server: SocketAddr, text: &str) -> Daemon {
    let home = files.join("named");
    std::fs::create_dir(&home).unwrap();
    let (home, port, ip) = (home.display(), server.port(), server.ip());
    let options = format!(
        "options {{ directory \"{home}\"; listen-on port {port} {{ {ip}; }}; listen-on-v6 {{ none; }}; pid-file none; \
         session-keyfile none; recursion no; dnssec-validation no; notify explicit; minimal-responses yes; }};\ncontrols {{}};\n"
    );
    let mut command = Command::new("named");
    command.arg("-g").arg("-c");
    command.arg(files.write("named-options.conf", &format!("{options}{text}")));
    Daemon::spawn("named", command)
}

/// What a client at this address, perhaps with a key, is told: the response code, and the data of the answer.
fn told(
    server: SocketAddr,
    (from, key): (&str, Option<&str>),
    question: &[&str],
) -> (String, Vec<String>) {
    let signer = key.map(|key| format!("hmac-sha256:{key}:{SECRET}"));
    let mut arguments = vec!["-b", from, "+norecurse", "+nocookie"];
    arguments.extend(signer.iter().flat_map(|signer| ["-y", signer.as_str()]));
    arguments.extend(question);
    let text = dig("dig", server, &arguments);
    let status = text.lines().find_map(|line| line.split("status: ").nth(1));
    let status = status.map(|rest| rest.split(',').next().unwrap_or_default().to_owned());
    let answer = text.split(";; ANSWER SECTION:").nth(1).unwrap_or_default();
    let answer = answer.lines().skip(1).take_while(|line| !line.is_empty());
    let mut data: Vec<String> = answer
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    data.sort();
    (status.unwrap_or(text), data)
}

/// The words of a transfer: the strings of the TXT records, sorted.
fn transferred(server: SocketAddr, (from, key): (&str, Option<&str>)) -> Vec<String> {
    let signer = key.map(|key| format!("hmac-sha256:{key}:{SECRET}"));
    let mut arguments = vec!["-b", from];
    arguments.extend(signer.iter().flat_map(|signer| ["-y", signer.as_str()]));
    arguments.extend(["example.com", "AXFR"]);
    let text = dig("dig", server, &arguments);
    let lines = text.lines().filter(|line| line.contains("TXT"));
    let words = lines.filter_map(|line| line.split('"').nth(1).map(str::to_owned));
    // The records have no order.
    let mut words: Vec<String> = words.collect();
    words.sort();
    words
}

/// The clients of the comparison.
const CLIENTS: [(&str, Option<&str>); 9] = [
    (INSIDE, None),
    (OUTSIDE, None),
    ("127.0.0.3", None),
    ("127.0.0.9", None),
    (INSIDE, Some("outside.key")),
    (OUTSIDE, Some("inside.key")),
    (INSIDE, Some("stranger.key")),
    (OUTSIDE, Some("stranger.key")),
    ("127.0.0.9", Some("inside.key")),
];

#[test]
fn views_and_lists_answer_as_bind_answers_with_the_same_file() {
    let site = Site::new();
    let text = named_conf(&site.files);
    site.files.write("named.conf", &text);
    site.configure_authd(&[], "zones.named-conf = \"named.conf\"");
    let ours = site.start("dns-authd");
    let named = free_address();
    let bind = start_named(&site.files, named, &text);
    wait::for_it("BIND", PATIENCE, || {
        told(named, (INSIDE, None), &["example.com", "SOA"]).0 == "NOERROR"
    });
    let authority = site.authority();
    let mut answers: BTreeMap<String, usize> = BTreeMap::new();
    for client in CLIENTS {
        for question in [
            ["word.example.com", "TXT"],
            ["x.wild.example.com", "TXT"],
            ["none.example.com", "TXT"],
            ["word.only.test", "TXT"],
            ["word.closed.test", "TXT"],
            ["elsewhere.test", "SOA"],
        ] {
            for transport in ["+notcp", "+tcp"] {
                let [name, rtype] = question;
                let arguments = [name, rtype, transport];
                let (mine, theirs) = (
                    told(authority, client, &arguments),
                    told(named, client, &arguments),
                );
                assert_eq!(mine, theirs, "{client:?} {arguments:?}");
                let what = mine.1.first().cloned().unwrap_or(mine.0);
                *answers.entry(what).or_default() += 1;
            }
        }
        let (mine, theirs) = (transferred(authority, client), transferred(named, client));
        assert_eq!(mine, theirs, "{client:?} AXFR");
        let view = client.1.filter(|key| *key != "stranger.key");
        let view = view.and_then(|key| key.strip_suffix(".key"));
        match view {
            Some(view) => assert!(mine.contains(&view.to_owned()), "{client:?} {mine:?}"),
            None => assert!(mine.is_empty(), "{client:?} {mine:?}"),
        }
    }
    // The comparison is one of answers that differ.
    for wanted in [
        "word.example.com. 60 IN TXT \"inside\"",
        "word.example.com. 60 IN TXT \"outside\"",
        "word.only.test. 60 IN TXT \"only\"",
        "word.closed.test. 60 IN TXT \"closed inside\"",
        "word.closed.test. 60 IN TXT \"closed outside\"",
        "REFUSED",
        "NXDOMAIN",
    ] {
        assert!(answers.contains_key(wanted), "{wanted}: {answers:?}");
    }
    // Without recursion BIND follows no alias into another zone. dns-authd does, for those that the list of the other zone has.
    for (from, n_records) in [("127.0.0.3", 2), (OUTSIDE, 1), (INSIDE, 1)] {
        let (status, data) = told(authority, (from, None), &["to.example.com", "TXT"]);
        assert_eq!(
            (status.as_str(), data.len()),
            ("NOERROR", n_records),
            "{from} {data:?}"
        );
    }
    // The refusal of a zone with a list says why (RFC 8914).
    let refusal = dig(
        "dig",
        authority,
        &["-b", OUTSIDE, "word.closed.test", "TXT"],
    );
    assert!(refusal.contains("EDE: 18"), "{refusal}");
    an_imported_file_means_the_same(&site, &ours);
    drop(bind);
    ours.stop();
}

/// The configuration that `import` makes of the named.conf passes `check`, and a server with it answers the same.
fn an_imported_file_means_the_same(site: &Site, ours: &Daemon) {
    let mut import = Command::new(binary("dns-authd"));
    import
        .args(["import", "named"])
        .arg(site.files.join("named.conf"));
    let (status, imported, err) = run(import);
    assert!(status.success(), "{err}");
    assert!(!imported.contains("not carried"), "{imported}");
    let other = Site::new();
    let (version, rest) = imported.split_once("version = \"v1\"").unwrap();
    let text = format!(
        "{version}version = \"v1\"\nlisten = [\"{}\"]\nadmin.listen = \"{}\"\nhealth.endpoint = \"none\"\n{rest}",
        other.authority(),
        other.admin("dns-authd")
    );
    other.files.write("dns-authd.toml", &text);
    let second = other.start("dns-authd");
    for client in CLIENTS {
        for question in [["word.example.com", "TXT"], ["word.closed.test", "TXT"]] {
            let (one, two) = (
                told(site.authority(), client, &question),
                told(other.authority(), client, &question),
            );
            assert_eq!(one, two, "{client:?} {question:?}\n{text}");
        }
        assert_eq!(
            transferred(site.authority(), client),
            transferred(other.authority(), client),
            "{client:?}\n{}",
            ours.log()
        );
    }
    second.stop();
}

/// A primary with two views, whose zones take updates, and BIND and another dns-authd as secondaries of both.
fn configure_primary(site: &Site, secondaries: &[SocketAddr]) {
    site.files.write("inside.zone", &zone("inside", 1));
    site.files.write("outside.zone", &zone("outside", 1));
    let history = site.files.join("history");
    let notified: Vec<String> = secondaries.iter().map(|it| format!("\"{it}\"")).collect();
    let more = format!(
        "history.directory = \"{}\"\nzones.serial-must-rise = true\n\
         notify = {{ also = [{}], timeout = \"1s\", attempts = 10 }}",
        history.display(),
        notified.join(", ")
    );
    site.configure_authd(&[], &more);
    let mut text = std::fs::read_to_string(site.files.join("dns-authd.toml")).unwrap();
    for view in ["inside", "outside"] {
        let networks = match view {
            "inside" => INSIDE,
            _ => "127.0.0.0/8",
        };
        text.push_str(&format!(
            "[[key]]\nname = \"{view}.key\"\nsecret = \"{SECRET}\"\n\
             [[view]]\nname = \"{view}\"\nmatch-clients = [\"{networks}\"]\nmatch-keys = [\"{view}.key\"]\n\
             notify-key = \"{view}.key\"\n\
             [[zone]]\nname = \"example.com\"\nview = \"{view}\"\nfile = \"{view}.zone\"\n\
             allow-transfer-keys = [\"{view}.key\"]\n[[zone.update]]\nkey = \"{view}.key\"\n"
        ));
    }
    site.files.write("dns-authd.toml", &text);
}

/// A secondary of both views.
fn configure_secondary(site: &Site, primary: SocketAddr) {
    site.configure_authd(&[], "");
    let mut text = std::fs::read_to_string(site.files.join("dns-authd.toml")).unwrap();
    for view in ["inside", "outside"] {
        let networks = match view {
            "inside" => INSIDE,
            _ => "127.0.0.0/8",
        };
        text.push_str(&format!(
            "[[key]]\nname = \"{view}.key\"\nsecret = \"{SECRET}\"\n\
             [[view]]\nname = \"{view}\"\nmatch-clients = [\"{networks}\"]\nmatch-keys = [\"{view}.key\"]\n\
             [[zone]]\nname = \"example.com\"\nview = \"{view}\"\nfile = \"{view}.zone\"\n\
             primaries = [\"{primary}\"]\nkey = \"{view}.key\"\n"
        ));
    }
    site.files.write("dns-authd.toml", &text);
}

fn secondary_conf(primary: SocketAddr) -> String {
    let mut text = String::new();
    for view in ["inside", "outside"] {
        let (ip, port) = (primary.ip(), primary.port());
        let others = if view == "inside" {
            "!key outside.key; key inside.key; 127.0.0.1;"
        } else {
            "any;"
        };
        text.push_str(&format!(
            "key \"{view}.key\" {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};\n\
             view {view} {{ match-clients {{ {others} }};\n zone \"example.com\" {{ type secondary; file \"{view}.zone\"; \
             primaries {{ {ip} port {port} key \"{view}.key\"; }}; allow-notify {{ key \"{view}.key\"; }}; }};\n}};\n"
        ));
    }
    // A view names keys that stand behind it.
    let (keys, views): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with("key"));
    format!("{}\n{}\n", keys.join("\n"), views.join("\n"))
}

/// Sends an update that is signed with the key of a view, from an address of the other.
fn update(server: SocketAddr, view: &str, line: &str) {
    let files = Scratch::new("update");
    let (ip, port) = (server.ip(), server.port());
    let text = format!(
        "server {ip} {port}\nlocal {OUTSIDE}\nkey hmac-sha256:{view}.key {SECRET}\nzone example.com.\n{line}\nsend\n"
    );
    let mut command = Command::new("nsupdate");
    command.arg(files.write("lines", &text));
    let (status, out, err) = run(command);
    assert!(status.success(), "{view} {line}: {out}{err}");
}

fn verb(site: &Site, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(binary("dns-authd"));
    let admin = site.admin("dns-authd").to_string();
    command
        .arg("zone")
        .args(arguments)
        .args(["--admin", &admin]);
    if !matches!(arguments, ["list" | "show" | "history" | "diff", ..]) {
        command.arg("--socket").arg(site.admin_socket("dns-authd"));
    }
    let (status, out, err) = run(command);
    (status.success(), out + &err)
}

/// The words that the clients of the two views are told.
fn words(server: SocketAddr, name: &str) -> [String; 2] {
    [INSIDE, OUTSIDE].map(|from| {
        let (status, data) = told(server, (from, None), &[name, "TXT"]);
        let word = data.first().and_then(|line| line.split('"').nth(1));
        word.map_or(status, str::to_owned)
    })
}

#[test]
fn transfers_notify_updates_and_histories_keep_views_apart() {
    let (site, second) = (Site::new(), Site::new());
    let named = free_address();
    configure_primary(&site, &[named, second.authority()]);
    configure_secondary(&second, site.authority());
    let ours = site.start("dns-authd");
    let bind = start_named(&second.files, named, &secondary_conf(site.authority()));
    let follower = second.start("dns-authd");
    let servers = [
        ("primary", site.authority()),
        ("BIND", named),
        ("secondary", second.authority()),
    ];
    for (name, server) in servers {
        wait::for_it(name, PATIENCE, || {
            words(server, "word.example.com") == ["inside", "outside"]
        });
    }
    // Each view follows its own updates, which its key makes from any address, and no other.
    update(
        site.authority(),
        "inside",
        "update add new.example.com 60 TXT \"in\"",
    );
    for (name, server) in servers {
        wait::for_it(name, PATIENCE, || {
            words(server, "new.example.com") == ["in", "NXDOMAIN"]
        });
    }
    update(
        site.authority(),
        "outside",
        "update add new.example.com 60 TXT \"out\"",
    );
    for (name, server) in servers {
        wait::for_it(name, PATIENCE, || {
            words(server, "new.example.com") == ["in", "out"]
        });
    }
    let history = site.files.join("history");
    for view in ["inside", "outside"] {
        let file = history.join(view).join("example.com.history");
        assert!(file.is_file(), "{}", file.display());
        let zone = format!("example.com..{view}");
        let (is_there, text) = verb(&site, &["diff", &zone]);
        let word = if view == "inside" {
            "\"in\""
        } else {
            "\"out\""
        };
        assert!(is_there && text.contains(word), "{zone}: {text}");
        assert!(text.starts_with(&zone), "{text}");
        let (is_there, text) = verb(&site, &["show", &zone]);
        assert!(is_there && text.contains(word), "{zone}: {text}");
    }
    let (is_there, text) = verb(&site, &["history", "example.com"]);
    assert!(!is_there && text.contains("not served"), "{text}");
    for (admin, n_secondaries) in [(&site, 0), (&second, 2)] {
        let (_, text) = admin.get("dns-authd", "/zones");
        let zones: Value = serde_json::from_str(&text).unwrap();
        let zones = zones.as_array().unwrap();
        let names: Vec<&str> = zones
            .iter()
            .filter_map(|zone| zone["name"].as_str())
            .collect();
        assert_eq!(names, ["example.com..inside", "example.com..outside"]);
        let with_primaries = zones.iter().filter(|zone| !zone["secondary"].is_null());
        assert_eq!(with_primaries.count(), n_secondaries, "{text}");
    }
    let (_, page) = http_get(site.admin("dns-authd"), "/metrics").unwrap();
    assert!(page.contains("zone=\"example.com..inside\""), "{page}");
    // A restart keeps both; a sync writes the file of one.
    ours.stop();
    let ours = site.start("dns-authd");
    assert_eq!(words(site.authority(), "new.example.com"), ["in", "out"]);
    let (is_done, text) = verb(&site, &["sync", "example.com..inside"]);
    assert!(is_done, "{text}");
    let file =
        |view: &str| std::fs::read_to_string(site.files.join(&format!("{view}.zone"))).unwrap();
    assert!(file("inside").contains("\"in\"") && !file("outside").contains("\"out\""));
    drop((bind, follower));
    ours.stop();
}
