//! Signed zones: other software signs them, delv and Unbound validate what dns-authd answers, and Knot answers the same.

use std::collections::BTreeSet;
use std::net::SocketAddr;
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
const NSEC3: u16 = 50;
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
    /// The file of the trust anchor for delv.
    anchors: PathBuf,
    /// The record of the key that it has.
    key: String,
}

/// Signs a zone in one way.
fn sign(zone: &str, options: &[&str]) -> Signed {
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
    files.write("in.zone", &format!("{zone}{}", keys.concat()));
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
        key: key.to_owned(),
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
        let signed = sign(ZONE, options);
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

//--- Unbound

/// More of the zone, for Unbound alone: a wildcard that no record has. Its denial needs two proofs, of which Knot and NSD have one each.
const MORE: &str = "b.*.ent TXT x\n";
const MORE_QUESTIONS: [(&str, u16); 5] = [
    ("x.ent", A),
    ("b.x.ent", A),
    ("*.ent", TXT),
    ("ent", A),
    ("x.b.x.ent", TXT),
];
/// A child zone without signatures, which the same server has.
const CHILD: &str =
    "$TTL 300\n@ SOA ns h 1 3600 600 86400 60\n@ NS ns\nns A 192.0.2.92\nwww A 192.0.2.93\n";

fn start_unbound(files: &Scratch, server: SocketAddr, authority: SocketAddr, key: &str) -> Daemon {
    let text = format!(
        "server:\n  directory: \"\"\n  chroot: \"\"\n  username: \"\"\n  pidfile: \"\"\n  use-syslog: no\n  \
         do-daemonize: no\n  logfile: \"\"\n  interface: {}@{}\n  do-not-query-localhost: no\n  \
         module-config: \"validator iterator\"\n  trust-anchor: \"{key}\"\n  local-zone: \"test.\" nodefault\n  \
         aggressive-nsec: no\n  qname-minimisation: no\n  num-threads: 1\n  val-log-level: 2\n\
         remote-control:\n  control-enable: no\n\
         stub-zone:\n  name: \"s.test\"\n  stub-addr: {}@{}\n\
         stub-zone:\n  name: \"insecure.s.test\"\n  stub-addr: {}@{}\n",
        server.ip(),
        server.port(),
        authority.ip(),
        authority.port(),
        authority.ip(),
        authority.port(),
    );
    let mut command = Command::new("unbound");
    command.arg("-d").arg("-c");
    command.arg(files.write("unbound.conf", &text));
    Daemon::spawn("unbound", command)
}

/// A question to a resolver that is to validate.
fn validated(server: SocketAddr, below: &str, rtype: u16) -> Message {
    let question = Question {
        recursion_desired: true,
        ..with_signatures(below, rtype)
    };
    ask(server, &question).unwrap()
}

/// The zone with another signature over the addresses of `www`.
fn tampered(zone: &str) -> String {
    let mut n = 0;
    let lines = zone.lines().map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_its =
            words.first() == Some(&"www.s.test.") && words.get(3..5) == Some(&["RRSIG", "A"]);
        match words.get(12).filter(|_| is_its) {
            Some(signature) => {
                n += 1;
                let first = if signature.starts_with('A') { "B" } else { "A" };
                line.replace(signature, &format!("{first}{}", &signature[1..]))
            }
            None => line.to_owned(),
        }
    });
    let text = lines.collect::<Vec<_>>().join("\n") + "\n";
    assert_eq!(n, 1, "one signature: {zone}");
    text
}

#[test]
fn unbound_validates_every_kind_of_answer_from_a_signed_zone() {
    for (way, options) in WAYS {
        let signed = sign(&format!("{ZONE}{MORE}"), options);
        let text = std::fs::read_to_string(signed.files.join("s.test.zone")).unwrap();
        let site = Site::new();
        site.configure_authd(&[("s.test", &text), ("insecure.s.test", CHILD)], "");
        let ours: Daemon = site.start("dns-authd");
        let resolver = at(loopback(), 5305);
        let unbound = start_unbound(&signed.files, resolver, site.authority(), &signed.key);
        wait::for_it("Unbound", Duration::from_secs(30), || {
            ask(resolver, &Question::new("s.test", SOA)).is_ok()
        });
        let asked = QUESTIONS
            .iter()
            .filter(|(_, _, can_validate)| *can_validate);
        let asked = asked.map(|(below, rtype, _)| (*below, *rtype));
        let mut problems = String::new();
        for (below, rtype) in asked.chain(MORE_QUESTIONS) {
            let own = ask(site.authority(), &with_signatures(below, rtype)).unwrap();
            let answer = validated(resolver, below, rtype);
            let owner = name(below).to_ascii_lowercase();
            let has = |message: &Message| {
                message
                    .answers
                    .iter()
                    .any(|it| it.owner.to_ascii_lowercase() == owner)
            };
            // RFC 5155 §9.2: behind an opt-out nothing that denies a name is secure; it is not bogus either.
            let denies_names = own.authority.iter().any(|record| record.rtype == NSEC3)
                && !matches!(
                    (below, rtype),
                    ("www" | "alias" | "" | "ent" | "c" | "b.c" | "secure", _)
                );
            let is_open = way == "opt-out" && (own.rcode == 3 || denies_names);
            let is_right = answer.rcode == own.rcode
                && has(&answer) == has(&own)
                && (answer.authentic_data || is_open);
            if !is_right {
                problems.push_str(&format!(
                    "{way} {below} {rtype}: {answer:?}\n  ours: {own:?}\n"
                ));
            }
        }
        assert!(problems.is_empty(), "{problems}{}", unbound.log());
        let child = validated(resolver, "www.insecure", A);
        assert_eq!(
            (child.rcode, child.authentic_data),
            (0, false),
            "{way}: {child:?}"
        );
        assert_eq!(child.answers.len(), 1, "{way}: {child:?}");
        unbound.stop();

        // A signature that is wrong makes the answer bogus, and no other one.
        let wrong = site.files.write("new", &tampered(&text));
        ours.stop();
        std::fs::rename(wrong, site.files.join("s.test.zone")).unwrap();
        let _ours = site.start("dns-authd");
        let unbound = start_unbound(&signed.files, resolver, site.authority(), &signed.key);
        wait::for_it("Unbound", Duration::from_secs(30), || {
            ask(resolver, &Question::new("s.test", NS)).is_ok()
        });
        for (below, rcode, is_secure) in [("www", 2, false), ("mail", 0, true), ("alias", 2, false)]
        {
            let answer = validated(resolver, below, A);
            let found = (answer.rcode, answer.authentic_data);
            assert_eq!(
                found,
                (rcode, is_secure),
                "{way} {below}: {answer:?}{}",
                unbound.log()
            );
        }
    }
}
