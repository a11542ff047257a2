//! Validation beside Unbound: a private tree from the root down, signed by BIND's tools and served by dns-authd.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use tests::daemon::{Daemon, http_get, metric};
use tests::dns::{
    A, AAAA, CNAME, Edns, MX, Message, NOERROR, NXDOMAIN, Question, SERVFAIL, SOA, TXT, ask,
};
use tests::scratch::{Scratch, at, loopback};
use tests::site::Site;
use tests::wait;

use super::signed_tree::{FUTURE, NSEC3, OPT_OUT, P256, PAST, QUESTIONS, Tree, Zone, sign};

pub(super) const DS: u16 = 43;
pub(super) const DNSKEY: u16 = 48;
/// The EDNS option of extended errors (RFC 8914).
const EXTENDED_ERROR: u16 = 15;

const GOOD: &str = "www A 192.0.2.1\nwww AAAA 2001:db8::1\n@ MX 10 WWW\nalias CNAME www\n*.wild A 192.0.2.2\n\
    a.b.there.wild TXT x\n*.walias CNAME www\na.ent A 192.0.2.3\ndn DNAME www.n3.test.\nmoved DNAME n3.test.\n\
    over CNAME www.n3.test.\nout CNAME www.plain.test.\nlate CNAME www.expired.test.\nlost CNAME nothing.good.test.\n";
const WWW: &str = "www A 192.0.2.66\n*.wild A 192.0.2.2\na.ent A 192.0.2.3\n";

/// The zones, each behind those below it.
const ZONES: [Zone; 15] = [
    Zone("sub.n3.test", None, P256, WWW),
    Zone("un.opt.test", None, P256, WWW),
    Zone("plain.test", None, P256, WWW),
    Zone("good.test", Some(&[]), P256, GOOD),
    Zone("n3.test", Some(NSEC3), "ED25519", WWW),
    Zone("opt.test", Some(OPT_OUT), "RSASHA256", WWW),
    Zone("large.test", Some(&[]), "ECDSAP384SHA384", WWW),
    Zone("long.test", Some(&[]), "RSASHA512", WWW),
    Zone("bogus.test", Some(&[]), P256, WWW),
    Zone("expired.test", Some(PAST), P256, WWW),
    Zone("early.test", Some(FUTURE), P256, WWW),
    Zone("wrong.test", Some(&[]), P256, WWW),
    Zone("nta.test", Some(PAST), P256, WWW),
    Zone(
        "test",
        Some(&[]),
        P256,
        "nothing TXT x\nalg NS ns.alg\nalg DS 1 18 2 \
        2BB183AF5F22588179A53B0A98631FAD1A2921182BB183AF5F22588179A53B0A\n",
    ),
    Zone(".", Some(&[]), P256, "lonely TXT x\n"),
];

/// The unsigned zone that a DS record with an algorithm of the future leads to.
const ALG: &str =
    "$TTL 300\n@ SOA ns host 1 3600 600 86400 60\n@ NS ns\nns A 192.0.2.53\nwww A 192.0.2.1\n";

/// The zones, and the trust anchor of the root. One server has them all.
fn tree(files: &Scratch) -> Tree {
    let mut tree = sign(files, &ZONES, |_| Ipv4Addr::new(192, 0, 2, 53));
    tree.zones.push(("alg.test".to_owned(), ALG.to_owned()));
    tree
}

/// Unbound that asks the site's dns-authd; `anchor` is a line of its configuration.
pub(super) fn start_unbound(
    files: &Scratch,
    server: SocketAddr,
    site: &Site,
    anchor: &str,
) -> Daemon {
    let authority = site.authority();
    let text = format!(
        "server:\n  directory: \"\"\n  chroot: \"\"\n  username: \"\"\n  pidfile: \"\"\n  use-syslog: no\n  \
         do-daemonize: no\n  logfile: \"\"\n  interface: {}@{}\n  do-not-query-localhost: no\n  \
         module-config: \"validator iterator\"\n  {anchor}\n  domain-insecure: \"nta.test\"\n  \
         ede: yes\n  local-zone: \"test.\" nodefault\n  num-threads: 1\n  val-log-level: 2\n\
         remote-control:\n  control-enable: no\n\
         forward-zone:\n  name: \".\"\n  forward-addr: {}@{}\n",
        server.ip(),
        server.port(),
        authority.ip(),
        authority.port(),
    );
    let mut command = Command::new("unbound");
    command
        .arg("-d")
        .arg("-c")
        .arg(files.write("unbound.conf", &text));
    Daemon::spawn("unbound", command)
}

pub(super) fn question(name: &str, rtype: u16, dnssec_ok: bool) -> Question {
    Question {
        edns: Some(Edns {
            udp_size: 1232,
            dnssec_ok,
            ..Edns::default()
        }),
        ..Question::new(name, rtype)
    }
}

/// The code of the extended error.
pub(super) fn reason(message: &Message) -> Option<u16> {
    let options = &message.edns.as_ref()?.options;
    let (_, data) = options.iter().find(|(code, _)| *code == EXTENDED_ERROR)?;
    Some(u16::from_be_bytes(data.get(..2)?.try_into().ok()?))
}

/// What clients see: response code, AD, and the answers in any order.
pub(super) fn essence(message: &Message) -> (u16, bool, Vec<String>) {
    let answers = message.answers.iter();
    let lines = answers.map(|it| {
        format!(
            "{} {} {:?}",
            it.owner.to_ascii_lowercase(),
            it.rtype,
            it.data
        )
    });
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines.dedup();
    (message.rcode, message.authentic_data, lines)
}

const ZONE_NAMES: [&str; 14] = [
    "good.test",
    "n3.test",
    "opt.test",
    "large.test",
    "long.test",
    "plain.test",
    "sub.n3.test",
    "un.opt.test",
    "bogus.test",
    "expired.test",
    "early.test",
    "wrong.test",
    "nta.test",
    "alg.test",
];

/// Every name and type that is compared.
fn questions() -> Vec<(String, u16)> {
    let mut all: Vec<(String, u16)> = Vec::new();
    for zone in ZONE_NAMES {
        for (name, rtype) in QUESTIONS {
            all.push((format!("{name}.{zone}"), rtype));
        }
        all.extend([
            (zone.to_owned(), SOA),
            (zone.to_owned(), DS),
            (zone.to_owned(), DNSKEY),
            (zone.to_owned(), MX),
        ]);
    }
    for name in [
        "alias.good.test",
        "q.walias.good.test",
        "x.moved.good.test",
        "www.moved.good.test",
        "no.moved.good.test",
        "over.good.test",
        "out.good.test",
        "late.good.test",
        "lost.good.test",
        "y.there.wild.good.test",
        "dn.good.test",
    ] {
        all.extend([
            (name.to_owned(), A),
            (name.to_owned(), AAAA),
            (name.to_owned(), CNAME),
        ]);
    }
    for name in [
        "test",
        "nothing.test",
        "no.test",
        "lonely",
        "no",
        "x.no",
        ".",
    ] {
        all.extend([
            (name.to_owned(), A),
            (name.to_owned(), TXT),
            (name.to_owned(), DS),
        ]);
    }
    all
}

struct Pair {
    site: Site,
    unbound: SocketAddr,
    recursor: Daemon,
    _others: [Daemon; 2],
    _files: Scratch,
}

fn start(more: &str) -> Pair {
    let files = Scratch::new("validation");
    let Tree { zones, anchor } = tree(&files);
    let site = Site::new();
    let zones: Vec<(&str, &str)> = zones
        .iter()
        .map(|(name, text)| (&**name, &**text))
        .collect();
    site.configure_authd(&zones, "answers.udp-payload = 4096");
    let authd = site.start("dns-authd");
    let text = format!("{}dnssec = \"validate\"\n", site.forward("."));
    let dnssec = format!(
        "dnssec = {{ mode = \"validate\", trust-anchors = [\"{anchor}\"], negative-trust-anchors = [\"nta.test\"] }}\n{more}"
    );
    site.configure_recursor(&text, &dnssec);
    let recursor = site.start("dns-recursor");
    let unbound = at(loopback(), 5304);
    let other = start_unbound(
        &files,
        unbound,
        &site,
        &format!("trust-anchor: \"{anchor}\""),
    );
    wait::for_it("Unbound", Duration::from_secs(30), || {
        ask(unbound, &Question::new("lonely", TXT))
            .is_ok_and(|answer| answer.rcode == u16::from(NOERROR))
    });
    Pair {
        site,
        unbound,
        recursor,
        _others: [authd, other],
        _files: files,
    }
}

#[test]
fn every_answer_has_the_code_and_the_ad_flag_of_unbound() {
    let pair = start("");
    let mut problems = Vec::new();
    let (mut n_secure, mut n_bogus) = (0, 0);
    for (name, rtype) in questions() {
        for dnssec_ok in [true, false] {
            let mut question = question(&name, rtype, dnssec_ok);
            let [ours, theirs] =
                [pair.site.resolver(), pair.unbound].map(|to| ask(to, &question).unwrap());
            if essence(&ours) != essence(&theirs) {
                let why = (reason(&ours), reason(&theirs));
                problems.push(format!(
                    "{name} {rtype} DO {dnssec_ok}:\n  ours   {:?}\n  theirs {:?} {why:?}",
                    essence(&ours),
                    essence(&theirs)
                ));
            }
            n_secure += usize::from(ours.authentic_data);
            if ours.rcode == u16::from(SERVFAIL) {
                n_bogus += 1;
                let reason = reason(&ours);
                if !reason.is_some_and(|code| (5..=12).contains(&code)) {
                    problems.push(format!("{name} {rtype}: SERVFAIL with {reason:?}"));
                }
                // With CD the data comes as it is.
                question.checking_disabled = true;
                let answer = ask(pair.site.resolver(), &question).unwrap();
                let is_data = [NOERROR, NXDOMAIN].contains(&u8::try_from(answer.rcode).unwrap());
                if !is_data || answer.authentic_data {
                    problems.push(format!("{name} {rtype} with CD: {answer:?}"));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(
        n_secure > 100 && n_bogus > 50,
        "{n_secure} secure, {n_bogus} bogus"
    );
    let (_, page) = http_get(pair.site.admin("dns-recursor"), "/metrics").unwrap();
    for state in ["secure", "insecure", "bogus"] {
        let name = format!("dns_recursor_validated_answers_total{{state=\"{state}\"}}");
        assert!(
            metric(&page, &name).is_some_and(|n| n > 5.0),
            "{state}:\n{page}"
        );
    }
    let log = pair.recursor.log();
    assert!(
        log.contains("Answer is bogus") && log.contains("a signature has expired"),
        "{log}"
    );
}

#[test]
fn a_local_zone_without_an_anchor_is_insecure_although_the_root_denies_it() {
    let files = Scratch::new("private");
    let Tree { zones, anchor } = tree(&files);
    let site = Site::new();
    let text =
        "$TTL 300\n@ SOA ns host 1 3600 600 86400 60\n@ NS ns\nns A 192.0.2.53\nwww A 192.0.2.9\n";
    let mut zones: Vec<(&str, &str)> = zones
        .iter()
        .map(|(name, text)| (&**name, &**text))
        .collect();
    zones.push(("ocp.lan", text));
    site.configure_authd(&zones, "answers.udp-payload = 4096");
    let _authd = site.start("dns-authd");
    let mode =
        |mode: &str| format!("dnssec = {{ mode = \"{mode}\", trust-anchors = [\"{anchor}\"] }}");
    let forwards = format!("{}{}", site.forward("."), site.forward("ocp.lan"));
    site.configure_recursor(&forwards, &mode("validate"));
    let recursor = site.start("dns-recursor");
    let check = |name: &str, dnssec_ok: bool, expected: (u8, bool)| {
        let answer = ask(site.resolver(), &question(name, A, dnssec_ok)).unwrap();
        let found = (u8::try_from(answer.rcode).unwrap(), answer.authentic_data);
        assert_eq!(found, expected, "{name} DO {dnssec_ok}");
    };
    check("x.lan", true, (NXDOMAIN, true));
    check("www.ocp.lan", true, (NOERROR, false));
    check("no.ocp.lan", true, (NXDOMAIN, false));
    check("www.expired.test", true, (SERVFAIL, false));
    // `process` validates for clients that ask for it.
    site.configure_recursor(&forwards, &mode("process"));
    recursor.hang_up();
    recursor.wait_log("Reloaded");
    check("www.wrong.test", false, (NOERROR, false));
    check("www.wrong.test", true, (SERVFAIL, false));
    check("www.good.test", true, (NOERROR, true));
    check("www.good.test", false, (NOERROR, false));
}
