//! Signed zones: other software signs them, delv validates what dns-authd answers, and Knot answers the same.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tests::daemon::{Daemon, run};
use tests::dns::{A, AAAA, CNAME, Edns, MX, Message, NS, Question, SOA, TXT, ask};
use tests::scratch::{Scratch, at, loopback};
use tests::site::Site;
use tests::wait;

use super::peers::start_knot;

const DS: u16 = 43;
const DNSKEY: u16 = 48;
const ANY_TYPE: u16 = 65_280;

const ZONE: &str = "$TTL 300\n@ SOA ns1 host 7 3600 600 86400 60\n@ NS ns1\n@ MX 10 mail\nns1 A 192.0.2.53\n\
    mail A 192.0.2.25\nwww A 192.0.2.80\nwww AAAA 2001:db8::80\nwww TYPE65280 \\# 2 0102\nalias CNAME www\na1 CNAME a2\na2 CNAME www\n\
    far CNAME www.elsewhere.example.\ndangling CNAME nowhere\ntowild CNAME q.wild\n*.wild A 192.0.2.81\n*.wild TXT w\n\
    *.wildalias CNAME www\nhere.wild TXT h\na.b.c A 192.0.2.82\nmoved DNAME wild\nsecure NS ns.secure\n\
    secure DS 12345 13 2 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\nns.secure A 192.0.2.91\n\
    insecure NS ns.insecure\nns.insecure A 192.0.2.92\ndeep.only.deleg NS ns.elsewhere.example.\nzz TXT last\n";

/// The ways of signing: options of `dnssec-signzone`.
const WAYS: [(&str, &[&str]); 3] = [
    ("nsec", &[]),
    ("nsec3", &["-3", "-", "-H", "0"]),
    ("opt-out", &["-3", "aabb", "-H", "5", "-A"]),
];

/// A question, and whether delv can follow it within the zone.
const QUESTIONS: [(&str, u16, bool); 34] = [
    ("", SOA, true),
    ("", NS, true),
    ("", MX, true),
    ("", DNSKEY, true),
    ("", TXT, true),
    ("www", A, true),
    ("WWW", AAAA, true),
    ("www", ANY_TYPE, true),
    ("www", MX, true),
    ("alias", A, true),
    ("alias", CNAME, true),
    ("alias", MX, true),
    ("a1", A, true),
    ("far", CNAME, true),
    ("far", A, false),
    ("none", A, true),
    ("x.y.none", A, true),
    ("x.www", A, true),
    ("dangling", A, true),
    ("c", A, true),
    ("b.c", A, true),
    ("x.b.c", A, true),
    ("x.wild", A, true),
    ("x.y.wild", TXT, true),
    ("x.wild", MX, true),
    ("x.here.wild", A, true),
    ("wild", A, true),
    ("towild", A, true),
    ("x.wildalias", A, true),
    ("x.moved", A, true),
    ("secure", DS, true),
    ("insecure", DS, true),
    ("www.secure", A, false),
    ("www.insecure", A, false),
];

struct Signed {
    files: Scratch,
    anchors: PathBuf,
}

/// Signs the zone in one way.
fn sign(options: &[&str]) -> Signed {
    let files = Scratch::new("signed");
    let tool = |name: &str, arguments: &[&str]| {
        let mut command = Command::new(name);
        command.current_dir(files.path()).args(arguments);
        let (status, stdout, stderr) = run(command);
        assert!(status.success(), "{name}: {stdout}{stderr}");
        stdout
    };
    let algorithm = ["-q", "-a", "ECDSAP256SHA256"];
    let keys = [
        tool(
            "dnssec-keygen",
            &[&algorithm[..], &["-f", "KSK", "s.test"]].concat(),
        ),
        tool("dnssec-keygen", &[&algorithm[..], &["s.test"]].concat()),
    ];
    let keys = keys
        .map(|name| std::fs::read_to_string(files.join(&format!("{}.key", name.trim()))).unwrap());
    files.write("in.zone", &format!("{ZONE}{}", keys.concat()));
    let mut arguments = vec![
        "-q",
        "-S",
        "-o",
        "s.test",
        "-O",
        "full",
        "-f",
        "s.test.zone",
    ];
    arguments.extend(options);
    arguments.push("in.zone");
    tool("dnssec-signzone", &arguments);
    // The key-signing key as delv trusts it.
    let key = keys[0].lines().find(|line| !line.starts_with(';')).unwrap();
    let (_, data) = key.split_once(" DNSKEY ").unwrap();
    let mut words = data.split_whitespace();
    let numbers: Vec<&str> = words.by_ref().take(3).collect();
    let data: String = words.collect();
    let anchor = format!(
        "trust-anchors {{ s.test. static-key {} \"{data}\"; }};\n",
        numbers.join(" ")
    );
    files.write("anchors", &anchor);
    Signed {
        anchors: files.join("anchors"),
        files,
    }
}

fn name(below: &str) -> String {
    match below {
        "" => "s.test".to_owned(),
        below => format!("{below}.s.test"),
    }
}

/// The records of an answer with signatures, in any order.
fn essence(message: &Message) -> (u16, bool, BTreeSet<String>) {
    let mut lines = BTreeSet::new();
    let sections = [
        ("answer", &message.answers),
        ("authority", &message.authority),
    ];
    for (section, records) in sections {
        for record in records {
            let owner = record.owner.to_ascii_lowercase();
            lines.insert(format!(
                "{section} {owner} {} {} {:?}",
                record.ttl, record.rtype, record.data
            ));
        }
    }
    (message.rcode, message.authoritative, lines)
}

fn with_signatures(below: &str, rtype: u16) -> Question {
    Question {
        edns: Some(Edns {
            udp_size: 4096,
            dnssec_ok: true,
            ..Edns::default()
        }),
        ..Question::new(&name(below), rtype)
    }
}

#[test]
fn answers_from_signed_zones_are_validated_by_delv_and_are_those_of_knot() {
    for (way, options) in WAYS {
        let signed = sign(options);
        let text = std::fs::read_to_string(signed.files.join("s.test.zone")).unwrap();
        let site = Site::new();
        site.configure_authd(&[("s.test", &text)], "answers.udp-payload = 4096");
        let _ours: Daemon = site.start("dns-authd");
        let knot = at(loopback(), 5303);
        let _knot = start_knot(&signed.files, knot, &["s.test"]);
        wait::for_it("Knot", Duration::from_secs(30), || {
            ask(knot, &Question::new("s.test", SOA)).is_ok_and(|answer| answer.rcode == 0)
        });
        let mut problems = Vec::new();
        for (below, rtype, can_validate) in QUESTIONS {
            let question = with_signatures(below, rtype);
            let [ours, theirs] =
                [site.authority(), knot].map(|server| essence(&ask(server, &question).unwrap()));
            if ours != theirs {
                problems.push(format!(
                    "{way} {below} {rtype}\n  ours {ours:?}\n  Knot {theirs:?}"
                ));
            }
            let bare = ask(site.authority(), &Question::new(&name(below), rtype)).unwrap();
            let records = bare.answers.iter().chain(&bare.authority);
            let added = records
                .filter(|record| [46, 47, 50].contains(&record.rtype))
                .count();
            assert_eq!(added, 0, "{below} {rtype}: {bare:?}");
            if can_validate {
                let mut delv = Command::new("delv");
                let server = site.authority();
                delv.arg(format!("@{}", server.ip()))
                    .args(["-p", &server.port().to_string(), "-a"])
                    .arg(&signed.anchors)
                    .args(["+root=s.test", &name(below), &format!("TYPE{rtype}")]);
                let (_, stdout, stderr) = run(delv);
                // RFC 5155 §9.2: behind an opt-out, a wildcard's answer is not secure.
                let is_open =
                    way == "opt-out" && below.ends_with(".wild") && stdout.contains("unsigned");
                if !stdout.contains("fully validated") && !is_open {
                    problems.push(format!("{way} {below} {rtype}: delv says {stdout}{stderr}"));
                }
            }
        }
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }
}
