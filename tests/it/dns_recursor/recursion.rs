//! Recursion with validation beside Unbound: a private tree whose zones each have a server of their own, in one BIND with a view
//! for each address; and behind a slow link that loses datagrams.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tests::binaries::binary;
use tests::daemon::{Daemon, http_get};
use tests::dns::{
    A, AAAA, MX, Message, NOERROR, NS, Question, SERVFAIL, SOA, TXT, ask, ask_a, name_to_wire,
};
use tests::netns::{Machine, Network};
use tests::scratch::Scratch;
use tests::upstream::{Action, Asked, Upstream};
use tests::wait;

use super::links::is_lost;
use super::signed_tree::{FUTURE, NSEC3, OPT_OUT, P256, PAST, QUESTIONS, Tree, Zone, sign};
use super::validation::{DNSKEY, DS, essence, question, reason};

const GOOD: &str = "www A 192.0.2.1\nwww AAAA 2001:db8::1\n@ MX 10 www\nalias CNAME www\n*.wild A 192.0.2.2\n\
    a.b.there.wild TXT x\n*.walias CNAME www\na.ent A 192.0.2.3\nmoved DNAME n3.test.\nover CNAME www.n3.test.\n\
    out CNAME www.plain.test.\nlate CNAME www.expired.test.\nlost CNAME nothing.good.test.\nfar CNAME www.bank.example.\n";
const WWW: &str = "www A 192.0.2.66\n*.wild A 192.0.2.2\na.ent A 192.0.2.3\n";
/// Besides those that every zone has below it: one with a server elsewhere, and one whose DS record has an algorithm of the future.
const TEST: &str = "nothing TXT x\nglueless.test. NS ns1.bank.example.\nalg.test. NS ns.alg.test.\nns.alg A 192.168.7.37\n\
    alg DS 1 18 2 2BB183AF5F22588179A53B0A98631FAD1A2921182BB183AF5F22588179A53B0A\n";

/// The zones, each behind those below it, and the last octet of the address of each.
const ZONES: [(u8, Zone); 20] = [
    (26, Zone("sub.n3.test", None, P256, WWW)),
    (27, Zone("un.opt.test", None, P256, WWW)),
    (25, Zone("plain.test", None, P256, WWW)),
    (34, Zone("deep.ent.good.test", Some(&[]), P256, WWW)),
    (35, Zone("signed.opt.test", Some(&[]), P256, WWW)),
    (22, Zone("good.test", Some(&[]), P256, GOOD)),
    (23, Zone("n3.test", Some(NSEC3), "ED25519", WWW)),
    (24, Zone("opt.test", Some(OPT_OUT), "RSASHA256", WWW)),
    (28, Zone("bogus.test", Some(&[]), P256, WWW)),
    (29, Zone("expired.test", Some(PAST), P256, WWW)),
    (30, Zone("early.test", Some(FUTURE), P256, WWW)),
    (31, Zone("wrong.test", Some(&[]), P256, WWW)),
    (36, Zone("nta.test", Some(PAST), P256, WWW)),
    (37, Zone("alg.test", None, P256, WWW)),
    (REFUSING, Zone("lame.test", None, P256, WWW)),
    (CLOSED, Zone("dead.test", None, P256, WWW)),
    (
        33,
        Zone(
            "bank.example",
            Some(&[]),
            P256,
            "www A 192.0.2.9\nns1 A 192.168.7.33\n",
        ),
    ),
    (32, Zone("example", Some(NSEC3), P256, "")),
    (21, Zone("test", Some(&[]), P256, TEST)),
    (20, Zone(".", Some(&[]), P256, "lonely TXT x\n")),
];
/// An address with a server that has no zone.
const REFUSING: u8 = 40;
/// An address without a server.
const CLOSED: u8 = 41;
/// The addresses of the two resolvers.
const OURS: u8 = 2;
const UNBOUND: u8 = 3;

/// The questions that cost the servers more than with Unbound, and why.
const DEARER: [(&str, u16, &str); 10] = [
    (
        "un.opt.test",
        DS,
        "a referral has no SOA record for the denial of DS records, which clients get",
    ),
    (
        "x.y.no.opt.test",
        A,
        "a denial with opt-out is not believed for the names below",
    ),
    ("www.moved.good.test", AAAA, ALIAS),
    ("no.moved.good.test", A, ALIAS),
    ("no.moved.good.test", AAAA, ALIAS),
    ("over.good.test", AAAA, ALIAS),
    ("out.good.test", AAAA, ALIAS),
    (
        "late.good.test",
        A,
        "that a name is bogus is remembered for a second, by Unbound for a minute",
    ),
    ("late.good.test", AAAA, ALIAS),
    ("far.good.test", AAAA, ALIAS),
];
const ALIAS: &str = "answers are kept whole, so that an alias is asked for with each type";

fn address(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, 7, last)
}

/// The addresses of servers.
fn servers() -> impl Iterator<Item = u8> {
    let all = ZONES.iter().map(|(last, _)| *last);
    all.filter(|last| *last != CLOSED)
}

/// Serves each zone at its own address alone.
fn start_named(machine: &Machine, files: &Scratch, tree: &Tree) -> Daemon {
    let mut views = String::new();
    for last in servers() {
        let of_address = ZONES.iter().filter(|(at, _)| *at == last);
        let mut names: Vec<&str> = of_address.map(|(_, Zone(name, ..))| *name).collect();
        names.retain(|name| *name != "lame.test");
        // The unsigned zone whose server is in another one.
        if last == 33 {
            names.push("glueless.test");
        }
        let mut zones = String::new();
        for name in names {
            write!(
                zones,
                "zone \"{name}\" {{ type primary; file \"{name}.zone\"; }}; "
            )
            .unwrap();
        }
        let address = address(last);
        writeln!(
            views,
            "view \"v{last}\" {{ match-destinations {{ {address}; }}; {zones} }};"
        )
        .unwrap();
    }
    for (name, text) in &tree.zones {
        files.write(&format!("{name}.zone"), text);
    }
    let glueless =
        "$TTL 300\n@ SOA ns host 1 3600 600 86400 60\n@ NS ns1.bank.example.\nwww A 192.0.2.7\n";
    files.write("glueless.test.zone", glueless);
    let listen: Vec<String> = servers().map(|it| format!("{};", address(it))).collect();
    let directory = files.path().display();
    let text = format!(
        "options {{ directory \"{directory}\"; pid-file none; session-keyfile none; lock-file none; recursion no; \
         listen-on {{ {} }}; listen-on-v6 {{ none; }}; dnssec-validation no; empty-zones-enable no; notify no; \
         querylog yes; }};\ncontrols {{ }};\n\
         logging {{ channel e {{ stderr; severity info; }}; category default {{ e; }}; category query-errors {{ null; }}; \
         channel q {{ file \"queries.log\"; }}; category queries {{ q; }}; }};\n{views}",
        listen.concat(),
    );
    let mut command = machine.command("named");
    command.args(["-f", "-n", "1", "-c"]);
    command.arg(files.write("named.conf", &text));
    let daemon = Daemon::spawn("named", command);
    daemon.wait_log("all zones loaded");
    daemon
}

/// A file with one server of the root.
fn root_hints(files: &Scratch) -> String {
    let text = format!(". 3600000 NS ns.\nns. 3600000 A {}\n", address(20));
    files.write("named.root", &text).display().to_string()
}

fn start_unbound(machine: &Machine, files: &Scratch, trust: &str) -> Daemon {
    let hints = root_hints(files);
    let text = format!(
        "server:\n  directory: \"\"\n  chroot: \"\"\n  username: \"\"\n  pidfile: \"\"\n  use-syslog: no\n  \
         do-daemonize: no\n  logfile: \"\"\n  interface: 127.0.0.1@5300\n  do-ip6: no\n  root-hints: \"{hints}\"\n  \
         module-config: \"validator iterator\"\n  {trust}\n  ede: yes\n  \
         local-zone: \"test.\" nodefault\n  num-threads: 1\n  aggressive-nsec: no\n  \
         target-fetch-policy: \"0 0 0 0 0\"\nremote-control:\n  control-enable: no\n"
    );
    let mut command = machine.command("unbound");
    command.arg("-d").arg("-c");
    command.arg(files.write("unbound.conf", &text));
    Daemon::spawn("unbound", command)
}

fn start_ours(machine: &Machine, files: &Scratch, dnssec: &str) -> Daemon {
    let hints = root_hints(files);
    let text = format!(
        "version = \"v1\"\nlisten = [\"127.0.0.1:5300\"]\nadmin.listen = \"127.0.0.1:9403\"\n\
         recursion.root-hints = \"{hints}\"\n{dnssec}\n[[forward]]\nzone = \".\"\nmode = \"recurse\"\n"
    );
    let mut command = machine.command(binary("dns-recursor"));
    command.args(["serve", "--config"]);
    command.arg(files.write("dns-recursor.toml", &text));
    Daemon::start("dns-recursor", command)
}

/// The queries that the servers have got, by the last octet of the address of the resolver.
struct Seen {
    log: PathBuf,
    /// The octets that are read.
    read: usize,
}

impl Seen {
    /// Those since the last time.
    fn next(&mut self) -> BTreeMap<u8, Vec<String>> {
        let text = std::fs::read_to_string(&self.log).unwrap();
        let mut found: BTreeMap<u8, Vec<String>> = BTreeMap::new();
        let new = text.get(self.read..).unwrap_or_default();
        // The last line may not be whole yet.
        let whole = new.rfind('\n').map_or(0, |at| at + 1);
        self.read += whole;
        for line in new[..whole].lines() {
            let from = line.split_once(" 192.168.7.").and_then(|(_, rest)| {
                let (last, _) = rest.split_once('#')?;
                last.parse().ok()
            });
            let asked = line.split_once(" query: ").map(|(_, asked)| asked);
            let (from, asked): (u8, &str) = (from.unwrap(), asked.unwrap());
            let words: Vec<&str> = asked.split(' ').collect();
            let server = line.rsplit_once("(192.168.7.").unwrap().1;
            let line = format!(
                "{} {} at {}",
                words[0].to_ascii_lowercase(),
                words[2],
                server.trim_end_matches(')')
            );
            found.entry(from).or_default().push(line);
        }
        found
    }
}

/// The names and types that are compared, in an order in which later ones find the servers that earlier ones have found.
fn questions() -> Vec<(String, u16)> {
    let mut all = vec![("www.good.test".to_owned(), A)];
    for (_, Zone(zone, ..)) in &ZONES {
        if ["test", ".", "example", "bank.example"].contains(zone) {
            continue;
        }
        let names: &[(&str, u16)] = match *zone {
            "dead.test" | "lame.test" => &[("www", A)],
            "good.test" | "n3.test" | "opt.test" => &QUESTIONS,
            _ => &[("www", A), ("no", A), ("q.wild", A)],
        };
        for (name, rtype) in names {
            all.push((format!("{name}.{zone}"), *rtype));
        }
        if !["dead.test", "lame.test"].contains(zone) {
            all.extend([SOA, DS, DNSKEY].map(|rtype| ((*zone).to_owned(), rtype)));
        }
    }
    for name in [
        "alias",
        "q.walias",
        "www.moved",
        "no.moved",
        "over",
        "out",
        "late",
        "lost",
        "far",
    ] {
        let name = format!("{name}.good.test");
        all.extend([(name.clone(), A), (name, AAAA)]);
    }
    for (name, rtype) in [
        ("good.test", MX),
        ("www.glueless.test", A),
        ("no.glueless.test", A),
        ("www.bank.example", A),
        ("nothing.test", TXT),
        ("no.test", A),
        ("lonely", TXT),
        ("no", A),
        ("x.no", A),
        (".", SOA),
    ] {
        all.push((name.to_owned(), rtype));
    }
    all
}

/// Waits for Unbound.
fn wait_for(judge: &Machine, resolver: SocketAddr) {
    judge.inside(|| {
        wait::for_it("Unbound", Duration::from_secs(20), || {
            ask(resolver, &Question::new("localhost", A)).is_ok()
        });
    });
}

/// The differences between two answers.
fn difference(ours: &Message, theirs: &Message) -> Option<String> {
    let codes = (reason(ours), reason(theirs));
    // Of a bogus answer Unbound often says no more than that, or that a key is missing, when a signature has expired.
    let is_bogus = |code: u16| (6..=12).contains(&code);
    let same_code = match codes {
        (Some(ours), Some(theirs)) => ours == theirs || is_bogus(ours) && [6, 9].contains(&theirs),
        _ => true,
    };
    let same = essence(ours) == essence(theirs) && same_code;
    (!same).then(|| {
        format!(
            "\n  ours   {:?}\n  theirs {:?} {codes:?}",
            essence(ours),
            essence(theirs)
        )
    })
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn every_answer_is_unbounds_and_costs_the_servers_no_more() {
    let mut network = Network::new();
    let addresses: Vec<String> = servers()
        .chain([CLOSED])
        .map(|last| format!("{}/24", address(last)))
        .collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let world = network.machine_with("world", &addresses);
    let ours = network.machine("ours", &format!("{}/24", address(OURS)));
    let judge = network.machine("judge", &format!("{}/24", address(UNBOUND)));
    let files = Scratch::new("recursion");
    let zones: Vec<Zone> = ZONES.map(|(_, zone)| zone).into();
    let tree = sign(&files, &zones, |name| {
        let of_name = ZONES.iter().find(|(_, Zone(zone, ..))| *zone == name);
        address(of_name.unwrap().0)
    });
    let _named = start_named(&world, &files, &tree);
    let resolver = SocketAddr::from(([127, 0, 0, 1], 5300));
    let trust = format!(
        "trust-anchor: \"{}\"\n  domain-insecure: \"nta.test\"",
        tree.anchor
    );
    let dnssec = format!(
        "[dnssec]\nmode = \"validate\"\ntrust-anchors = [\"{}\"]\nnegative-trust-anchors = [\"nta.test\"]",
        tree.anchor
    );
    let _resolvers = [
        start_unbound(&judge, &files, &trust),
        start_ours(&ours, &files, &dnssec),
    ];
    wait_for(&judge, resolver);
    let mut seen = Seen {
        log: files.join("queries.log"),
        read: 0,
    };
    let mut problems = String::new();
    let mut table = String::from("ours unbound question\n");
    let mut totals = [0, 0];
    for (name, rtype) in questions() {
        let question = question(&name, rtype, true);
        let [of_ours, of_unbound] =
            [&ours, &judge].map(|machine| machine.inside(|| ask(resolver, &question)));
        let mut asked = seen.next();
        let [asked, of_judge] = [OURS, UNBOUND].map(|it| asked.remove(&it).unwrap_or_default());
        totals = [totals[0] + asked.len(), totals[1] + of_judge.len()];
        writeln!(
            table,
            "{:4} {:7} {name} {rtype}",
            asked.len(),
            of_judge.len()
        )
        .unwrap();
        let is_dearer = asked.len() > of_judge.len();
        let known = DEARER.iter().any(|(of, at, _)| *of == name && *at == rtype);
        if is_dearer != known {
            writeln!(
                problems,
                "{name} {rtype}: asked {asked:?}\n  Unbound {of_judge:?}"
            )
            .unwrap();
        }
        let different = match (&of_ours, &of_unbound) {
            (Ok(ours), Ok(theirs)) => difference(ours, theirs),
            (Ok(ours), Err(_)) if ours.rcode == u16::from(SERVFAIL) => None,
            other => Some(format!("{other:?}")),
        };
        if let Some(different) = different {
            writeln!(problems, "{name} {rtype}: {different}").unwrap();
        }
    }
    writeln!(table, "{:4} {:7} in all", totals[0], totals[1]).unwrap();
    println!("{table}");
    assert!(problems.is_empty(), "{problems}\n{table}");
    assert!(totals[0] <= totals[1], "{table}");
    let admin = SocketAddr::from(([127, 0, 0, 1], 9403));
    let (_, status) = ours.inside(|| http_get(admin, "/status")).unwrap();
    for word in [
        "\"root_servers\":1",
        "\"mode\":\"recurse\"",
        "\"known_zones\":",
    ] {
        assert!(status.replace(' ', "").contains(word), "{word}: {status}");
    }
    let last = ours.inside(|| ask(resolver, &Question::new("www.good.test", A)));
    assert_eq!(last.unwrap().rcode, u16::from(NOERROR));
}

/// The names that are asked over a link, 20 a second.
const NAMES: usize = 24;

/// The queries that have come for names over a link, by the last octet of the address of the resolver.
type Arrived = Arc<Mutex<BTreeMap<u8, usize>>>;

/// The root's server behind a link with this round trip, which loses one of five datagrams; it knows all names.
fn far_root(
    seed: u64,
    round_trip: Duration,
    arrived: &Arrived,
) -> impl FnMut(&Asked) -> Action + Send + 'static {
    let arrived = Arc::clone(arrived);
    let mut attempts: BTreeMap<(u8, String), u64> = BTreeMap::new();
    move |asked| {
        let IpAddr::V4(from) = asked.from.ip() else {
            return Action::Silence;
        };
        let (from, name) = (from.octets()[3], asked.name());
        let attempt = attempts.entry((from, name.clone())).or_default();
        *attempt += 1;
        if is_lost(seed, &name, *attempt) {
            return Action::Silence;
        }
        if name.starts_with('n') && name.contains("far") {
            *arrived.lock().unwrap().entry(from).or_default() += 1;
        }
        let qtype = asked.message.questions.first().map(|(_, qtype, _)| *qtype);
        let wire = match (qtype, &*name) {
            (Some(NS), _) => asked.answer(NOERROR, &[(NS, 300, name_to_wire("ns."))]),
            (Some(A), "ns.") => asked.answer(NOERROR, &[(A, 300, address(20).octets().to_vec())]),
            (Some(A), _) => asked.answer(NOERROR, &[(A, 300, vec![192, 0, 2, 1])]),
            _ => asked.negative(NOERROR, "", 300),
        };
        Action::SendLater(round_trip, wire)
    }
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn behind_a_slow_and_lossy_link_no_name_fails_that_unbound_finds() {
    let mut network = Network::new();
    let world = network.machine("world", &format!("{}/24", address(20)));
    let ours = network.machine("ours", &format!("{}/24", address(OURS)));
    let judge = network.machine("judge", &format!("{}/24", address(UNBOUND)));
    let files = Scratch::new("far-root");
    let arrived = Arrived::default();
    let root = SocketAddr::from((address(20), 53));
    let far = far_root(1, Duration::from_millis(600), &arrived);
    let upstream = world.inside(|| Upstream::start(root, far));
    let resolver = SocketAddr::from(([127, 0, 0, 1], 5300));
    let _resolvers = [
        start_unbound(&judge, &files, ""),
        start_ours(&ours, &files, ""),
    ];
    wait_for(&judge, resolver);
    for (seed, round_trip) in [(1, 600), (2, 900)] {
        upstream.act(far_root(seed, Duration::from_millis(round_trip), &arrived));
        arrived.lock().unwrap().clear();
        let both = [&ours, &judge];
        for machine in both {
            let _warm = machine.inside(|| ask_a(resolver, &format!("warm.far{round_trip}")));
        }
        let is_found = |machine: &Machine, n: usize| {
            let name = format!("n{n}.far{round_trip}");
            let answer = machine.inside(|| ask_a(resolver, &name));
            answer.is_ok_and(|answer| answer.rcode == u16::from(NOERROR))
        };
        let found: Vec<[bool; 2]> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..NAMES)
                .map(|n| {
                    std::thread::sleep(Duration::from_millis(50));
                    both.map(|machine| scope.spawn(move || is_found(machine, n)))
                })
                .collect();
            let pairs = threads.into_iter();
            pairs
                .map(|pair| pair.map(|it| it.join().unwrap()))
                .collect()
        });
        let failed = found.iter().filter(|[ours, theirs]| !ours && *theirs);
        let counts = arrived.lock().unwrap().clone();
        println!("{round_trip} ms: queries that arrived {counts:?}, found {found:?}");
        assert_eq!(failed.count(), 0, "{round_trip} ms: {found:?}");
        // The simulation has the exact bound; here a busy machine counts as a part of the link.
        let [ours, theirs] = [OURS, UNBOUND].map(|it| counts.get(&it).copied().unwrap_or(0));
        assert!(
            ours <= theirs.max(NAMES * 3 / 2),
            "{round_trip} ms: {counts:?}"
        );
    }
}
