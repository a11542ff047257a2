//! dns-authd beside Knot and NSD: one table of questions, most of them odd, and what the three say.
//!
//! If one of the peers answers the same, nothing is to be explained. Every other answer is in a list, with the
//! reason why it is another one; a reason that has become unnecessary is wrong there, too.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use tests::daemon::Daemon;
use tests::dns::{Message, Question, ask, exchange_udp, name_to_wire, receive_tcp, send_tcp};
use tests::scratch::{Scratch, at, loopback};
use tests::site::Site;
use tests::wait;

/// Two zones that lead into each other.
const ZONES: [(&str, &str); 2] = [
    (
        "t.example",
        "$TTL 300\n@ SOA ns1 host 1 3600 600 86400 60\n@ NS ns1\n@ NS ns2.other.example.\nns1 A 192.0.2.1\n\
         ns1 AAAA 2001:db8::1\n@ MX 10 mail\nmail A 192.0.2.2\nwww A 192.0.2.3\nwww A 192.0.2.4\n\
         alias CNAME www\na1 CNAME a2\na2 CNAME a3\na3 CNAME www\nloop1 CNAME loop2\nloop2 CNAME loop1\n\
         self CNAME self\nxl CNAME xl.u.example.\nout CNAME www.elsewhere.test.\ndangling CNAME nowhere\n\
         towild CNAME q.wild\ntod CNAME x.dn\n*.wild A 192.0.2.6\n*.wild TXT w\n*.cw CNAME www\n\
         sub.ent.wild2 A 192.0.2.7\n*.wild2 A 192.0.2.8\ndeleg NS ns.deleg\nns.deleg A 192.0.2.9\n\
         deleg2 NS ns.outside.test.\ndn DNAME target.u.example.\ndin DNAME wild\n\
         dl DNAME aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.\
         bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb.\
         ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc.u.example.\n\
         srv SRV 1 2 80 www\nsrvout SRV 1 2 80 www.elsewhere.test.\n*.srvw SRV 1 2 80 mail\n\
         wc.*.odd A 192.0.2.10\n",
    ),
    (
        "u.example",
        "$TTL 300\n@ SOA ns1.t.example. host 1 3600 600 86400 60\n@ NS ns1.t.example.\n\
         xl CNAME xl.t.example.\nx.target A 192.0.2.20\ntarget A 192.0.2.21\n",
    ),
];

/// The text of a zone's file, with RRsets too long for a datagram in the first: those of `huge` have some
/// sixty thousand octets, nearly what a message may have.
fn zone(number: usize) -> String {
    let (_, text) = ZONES[number];
    let mut text = text.to_owned();
    if number == 0 {
        let padding = "y".repeat(240);
        for n in 0..230 {
            writeln!(text, "many A 10.0.0.{n}\nhuge TXT \"{n:03}{padding}\"").unwrap();
        }
    }
    text
}

/// The answers that differ from both peers', and why.
const REASONS: [(&str, &str); 11] = [
    (
        "udp www.t.example 1 cookie of 7",
        "FORMERR as NSD, and with an OPT record, as to every query that has one (RFC 6891 §6.1.1)",
    ),
    (
        "udp www.t.example 1 cookie of 9",
        "FORMERR as NSD, and with an OPT record, as to every query that has one (RFC 6891 §6.1.1)",
    ),
    (
        "udp t.example 251",
        "IXFR that does not say what it knows breaks its format (RFC 1995 §3)",
    ),
    (
        "udp t.example 252",
        "a transfer over UDP is not defined (RFC 5936 §4.2): refused, not unknown",
    ),
    (
        "udp www.t.example 252",
        "as over TCP, where the peers say so too: this is no zone",
    ),
    (
        "udp www.t.example 1 cut",
        "FORMERR without OPT says that nobody here speaks EDNS (RFC 6891 §7)",
    ),
    (
        "two of them",
        "FORMERR without OPT says that nobody here speaks EDNS (RFC 6891 §7)",
    ),
    ("opcode 4", "NOTIFY is for secondaries, which this is not"),
    (
        "opcode 4 edns",
        "NOTIFY is for secondaries, which this is not",
    ),
    (
        "udp version.bind 16 class 3",
        "tells its version to nobody unless the operator wants it",
    ),
    (
        "udp hostname.bind 16 class 3",
        "authoritative for what it says of itself, as BIND",
    ),
];

/// The three servers.
struct Peers {
    servers: [(&'static str, SocketAddr); 3],
    _daemons: Vec<Daemon>,
    _files: (Site, Scratch),
}

impl Peers {
    fn start() -> Self {
        let site = Site::new();
        let zones = [0, 1].map(zone);
        let [(t, _), (u, _)] = ZONES;
        site.configure_authd(&[(t, &zones[0]), (u, &zones[1])], "");
        let ours = site.start("dns-authd");
        let files = Scratch::new("peers");
        for ((name, _), text) in ZONES.iter().zip(&zones) {
            files.write(&format!("{name}.zone"), &format!("$ORIGIN {name}.\n{text}"));
        }
        let (knot, nsd) = (at(loopback(), 5303), at(loopback(), 5304));
        let daemons = vec![
            ours,
            start_knot(&files, knot, &ZONES.map(|(name, _)| name)),
            start_nsd(&files, nsd, &ZONES.map(|(name, _)| name)),
        ];
        let servers = [
            ("dns-authd", site.authority()),
            ("Knot", knot),
            ("NSD", nsd),
        ];
        for (name, server) in servers {
            wait::for_it(name, Duration::from_secs(30), || {
                let answer = ask(server, &Question::new("u.example", 6));
                answer.is_ok_and(|answer| answer.rcode == 0)
            });
        }
        Self {
            servers,
            _daemons: daemons,
            _files: (site, files),
        }
    }
}

/// Starts Knot for these zones, whose files are in `files`.
pub(super) fn start_knot(files: &Scratch, server: SocketAddr, zones: &[&str]) -> Daemon {
    let home = files.join("knot");
    let home = home.display();
    let mut text = format!(
        "server:\n  rundir: {home}\n  listen: {}@{}\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n\
         database:\n  storage: {home}/db\nlog:\n  - target: stderr\n    any: warning\ntemplate:\n  - id: default\n    \
         zonefile-load: whole\n    journal-content: none\n    zonefile-sync: -1\nzone:\n",
        server.ip(),
        server.port(),
    );
    for name in zones {
        let zone = files.join(&format!("{name}.zone"));
        writeln!(text, "  - domain: {name}\n    file: {}", zone.display()).unwrap();
    }
    std::fs::create_dir(files.join("knot")).unwrap();
    files.write("knot.conf", &text);
    let mut command = Command::new("knotd");
    command.arg("--config").arg(files.join("knot.conf"));
    Daemon::spawn("knotd", command)
}

/// Starts NSD for these zones, whose files are in `files`.
pub(super) fn start_nsd(files: &Scratch, server: SocketAddr, zones: &[&str]) -> Daemon {
    let home = files.join("nsd");
    let home = home.display();
    let mut text = format!(
        "server:\n  ip-address: {}@{}\n  server-count: 1\n  answer-cookie: yes\n  username: \"\"\n  zonesdir: \"\"\n  database: \"\"\n  \
         pidfile: \"{home}/pid\"\n  xfrdfile: \"{home}/xfrd\"\n  xfrdir: \"{home}\"\n  zonelistfile: \"{home}/list\"\n  \
         rrl-ratelimit: 0\n  round-robin: no\n  minimal-responses: yes\nremote-control:\n  control-enable: no\n",
        server.ip(),
        server.port(),
    );
    for name in zones {
        let zone = files.join(&format!("{name}.zone"));
        writeln!(
            text,
            "zone:\n  name: \"{name}\"\n  zonefile: \"{}\"",
            zone.display()
        )
        .unwrap();
    }
    std::fs::create_dir(files.join("nsd")).unwrap();
    files.write("nsd.conf", &text);
    let mut command = Command::new("nsd");
    command.arg("-d").arg("-c").arg(files.join("nsd.conf"));
    Daemon::spawn("nsd", command)
}

//--- Questions

/// A message that is sent, and how.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) wire: Vec<u8>,
    pub(super) tcp: bool,
}

fn case(name: impl Into<String>, wire: Vec<u8>) -> Case {
    Case {
        name: name.into(),
        wire,
        tcp: false,
    }
}

const ID: u16 = 0x1234;

/// A message: flags, the numbers of questions and of additional records, and what follows.
pub(super) fn message(flags: u16, n_questions: u8, n_additional: u8, body: &[u8]) -> Vec<u8> {
    let mut wire = ID.to_be_bytes().to_vec();
    wire.extend(flags.to_be_bytes());
    wire.extend([0, n_questions, 0, 0, 0, 0, 0, n_additional]);
    wire.extend(body);
    wire
}

pub(super) fn question(name: &str, rtype: u16, class: u16) -> Vec<u8> {
    let mut wire = name_to_wire(name);
    wire.extend(rtype.to_be_bytes());
    wire.extend(class.to_be_bytes());
    wire
}

/// An OPT record: size, version, flags and options as they stand.
pub(super) fn opt(size: u16, version: u8, flags: u16, options: &[u8]) -> Vec<u8> {
    let mut wire = vec![0, 0, 41];
    wire.extend(size.to_be_bytes());
    wire.extend([0, version]);
    wire.extend(flags.to_be_bytes());
    wire.extend(u16::try_from(options.len()).unwrap().to_be_bytes());
    wire.extend(options);
    wire
}

fn option(code: u16, data: &[u8]) -> Vec<u8> {
    let mut wire = code.to_be_bytes().to_vec();
    wire.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
    wire.extend(data);
    wire
}

/// Names that are there, that are not, and everything between.
fn names(cases: &mut Vec<Case>) {
    let below = "www ns1 mail nx a.b.nx alias a1 loop1 self xl out dangling towild tod q.wild q.r.wild wild *.wild \
                 x.*.wild c.cw ent.wild2 x.ent.wild2 sub.ent.wild2 y.sub.ent.wild2 z.wild2 wild2 deleg x.deleg ns.deleg \
                 deleg2 dn x.dn y.dn p.din din srv srvout k.srvw many wc.x.odd x.odd *.odd odd x.*.odd WwW.T.eXaMpLe.";
    let mut all: Vec<(String, u16)> = Vec::new();
    for name in below.split_whitespace() {
        let name = match name.strip_suffix('.') {
            Some(whole) => whole.to_owned(),
            None => format!("{name}.t.example"),
        };
        // A, AAAA, CNAME, MX, SRV, DS, DNAME
        all.extend([1, 28, 5, 15, 33, 43, 39].map(|rtype| (name.clone(), rtype)));
    }
    for rtype in [1, 2, 6, 15, 43, 48, 251, 252] {
        all.push(("t.example".to_owned(), rtype));
    }
    // RRSIG, NSEC, MAILB, MAILA, TSIG, TKEY, OPT, nothing, unassigned, NXNAME, AXFR
    for rtype in [46, 47, 253, 254, 250, 249, 41, 0, 65_535, 128, 252] {
        all.push(("www.t.example".to_owned(), rtype));
    }
    for name in ["elsewhere.test", ".", "example", "xl.u.example"] {
        all.extend([1, 2, 6].map(|rtype| (name.to_owned(), rtype)));
    }
    let long = "l".repeat(63);
    all.push((format!("{long}.dl.t.example"), 1));
    all.push(("bb.dl.t.example".to_owned(), 1));
    for (name, rtype) in all {
        let wire = message(0, 1, 0, &question(&name, rtype, 1));
        cases.push(case(format!("udp {name} {rtype}"), wire));
    }
    for (name, rtype) in [
        ("many.t.example", 1),
        ("huge.t.example", 16),
        ("www.t.example", 252),
    ] {
        let wire = message(0, 1, 0, &question(name, rtype, 1));
        let name = format!("tcp {name} {rtype}");
        cases.push(Case {
            name,
            wire,
            tcp: true,
        });
    }
}

/// OPT records, good and bad.
fn extensions(cases: &mut Vec<Case>) {
    let asked = question("www.t.example", 1, 1);
    let with = |record: &[u8]| message(0, 1, 1, &[&asked[..], record].concat());
    let plain = |options: &[u8]| opt(1232, 0, 0, options);
    let client = |family: u8, prefix: u8, scope: u8, address: &[u8]| {
        plain(&option(8, &[&[0, family, prefix, scope], address].concat()))
    };
    let mut owned = opt(1232, 0, 0, &[]);
    drop(owned.splice(0..1, *b"\x01a\0"));
    let mut beyond = plain(&option(3, &[]));
    beyond[10] = 9;
    let table = [
        ("edns", plain(&[])),
        ("do", opt(1232, 0, 0x8000, &[])),
        ("reserved flags", opt(1232, 0, 0x7fff, &[])),
        ("size 0", opt(0, 0, 0, &[])),
        ("size 65535", opt(65_535, 0, 0, &[])),
        ("version 1", opt(1232, 1, 0, &[])),
        ("version 255", opt(1232, 255, 0, &[])),
        ("cookie of 8", plain(&option(10, &[1; 8]))),
        ("cookie of 7", plain(&option(10, &[1; 7]))),
        ("cookie of 9", plain(&option(10, &[1; 9]))),
        ("cookie of 24", plain(&option(10, &[1; 24]))),
        ("padding", plain(&option(12, &[0; 10]))),
        ("subnet", client(1, 24, 0, &[192, 0, 2])),
        ("subnet, scope set", client(1, 24, 24, &[192, 0, 2])),
        ("subnet, family 99", client(99, 24, 0, &[192, 0, 2])),
        ("subnet, spare bits", client(1, 23, 0, &[192, 0, 3])),
        ("subnet, 33 bits", client(1, 33, 0, &[192, 0, 2, 1, 1])),
        ("keepalive", plain(&option(11, &[]))),
        ("unknown", plain(&option(65_001, b"xyz"))),
        ("expire", plain(&option(9, &[]))),
        ("cut", plain(&[0, 3, 0])),
        ("beyond the end", beyond),
        ("not the root's", owned),
    ];
    for (name, record) in table {
        cases.push(case(format!("udp www.t.example 1 {name}"), with(&record)));
    }
    let two = [asked.clone(), plain(&[]), plain(&[])].concat();
    cases.push(case("two of them", message(0, 1, 2, &two)));
    for name in ["nx.t.example", "elsewhere.test", "huge.t.example"] {
        let body = [question(name, 16, 1), opt(1232, 0, 0x8000, &[])].concat();
        cases.push(case(format!("udp {name} 16 do"), message(0, 1, 1, &body)));
    }
}

/// Headers, classes, opcodes, and questions that are none.
fn oddities(cases: &mut Vec<Case>) {
    let asked = question("www.t.example", 1, 1);
    for (name, flags) in [
        ("RD", 0x100),
        ("CD", 0x10),
        ("AD", 0x20),
        ("Z", 0x40),
        ("AA", 0x400),
        ("TC", 0x200),
        ("RA", 0x80),
        ("an rcode", 5),
        ("QR", 0x8000),
    ] {
        cases.push(case(format!("with {name}"), message(flags, 1, 0, &asked)));
    }
    let apex = question("t.example", 6, 1);
    for opcode in 1..16 {
        let flags = opcode << 11;
        cases.push(case(
            format!("opcode {opcode}"),
            message(flags, 1, 0, &apex),
        ));
    }
    let body = [apex, opt(1232, 0, 0, &[])].concat();
    cases.push(case("opcode 4 edns", message(4 << 11, 1, 1, &body)));
    for (name, rtype, class) in [
        ("www.t.example", 1, 0),
        ("www.t.example", 1, 2),
        ("www.t.example", 1, 3),
        ("www.t.example", 1, 4),
        ("www.t.example", 1, 254),
        ("www.t.example", 1, 255),
        ("www.t.example", 255, 255),
        ("version.bind", 16, 3),
        ("hostname.bind", 16, 3),
        ("nope.bind", 16, 3),
    ] {
        let wire = message(0, 1, 0, &question(name, rtype, class));
        cases.push(case(format!("udp {name} {rtype} class {class}"), wire));
    }
    let bare = opt(1232, 0, 0, &[]);
    let twice = [&asked[..], &asked].concat();
    for (name, n_questions, n_additional, body) in [
        ("questions 0", 0, 0, &[][..]),
        ("questions 0 edns", 0, 1, &bare[..]),
        ("questions 2", 2, 0, &twice[..]),
        ("questions 2, one there", 2, 0, &asked[..]),
        ("a pointer to itself", 1, 0, &b"\xc0\x0c\0\x01\0\x01"[..]),
        (
            "a pointer into the header",
            1,
            0,
            &b"\x03www\xc0\x04\0\x01\0\x01"[..],
        ),
        ("a label of type 01", 1, 0, &b"\x41a\0\x01\0\x01"[..]),
        ("a name that is cut", 1, 0, &b"\x03ww"[..]),
        ("no type", 1, 0, &asked[..asked.len() - 4]),
        ("a header alone", 1, 0, &[]),
    ] {
        cases.push(case(name, message(0, n_questions, n_additional, body)));
    }
    cases.push(case("eleven octets", message(0, 1, 0, &[])[..11].to_vec()));
}

//--- Answers

/// The comparable part of an answer: not its order, nor what peers add of their own accord.
pub(super) fn essence(raw: Option<Vec<u8>>) -> String {
    let Some(raw) = raw else {
        return "silence".to_owned();
    };
    let answer = match Message::read(&raw) {
        Ok(answer) => answer,
        Err(error) => return format!("unreadable: {error}"),
    };
    let Message { rcode, opcode, .. } = answer;
    let flags = [
        (answer.authoritative, "aa"),
        (answer.truncated, "tc"),
        (answer.recursion_desired, "rd"),
        (answer.recursion_available, "ra"),
        (answer.authentic_data, "ad"),
        (answer.checking_disabled, "cd"),
    ];
    let flags: Vec<&str> = flags
        .iter()
        .filter(|(set, _)| *set)
        .map(|(_, name)| *name)
        .collect();
    let mut text = format!("rcode {rcode} opcode {opcode} {flags:?}");
    // A truncated part does not count.
    let n_kept = if answer.truncated { 0 } else { usize::MAX };
    for (section, records) in [
        ("answer", &answer.answers),
        ("authority", &answer.authority),
        ("additional", &answer.additional),
    ] {
        let mut lines: Vec<String> = records
            .iter()
            .take(n_kept)
            .map(|record| {
                let owner = record.owner.to_ascii_lowercase();
                format!("{owner} {} {} {:?}", record.ttl, record.rtype, record.data)
            })
            .collect();
        // Sections are sets: Knot repeats an alias that leads to itself.
        lines.sort_by_key(|line| line.to_ascii_lowercase());
        lines.dedup();
        match lines.len() {
            0 => {}
            1..6 => write!(text, "\n      {section} {lines:?}").unwrap(),
            n => write!(text, "\n      {section}: {n}, {:?} …", lines[0]).unwrap(),
        }
    }
    if let Some(edns) = &answer.edns {
        let mut options: Vec<u16> = edns.options.iter().map(|(code, _)| *code).collect();
        // Why it failed (RFC 8914) is more than the peers say.
        options.retain(|code| *code != 15);
        write!(text, "\n      edns {} {options:?}", edns.version).unwrap();
    }
    text
}

pub(super) fn send(case: &Case, server: SocketAddr, patience: Duration) -> Option<Vec<u8>> {
    if !case.tcp {
        return exchange_udp(server, &case.wire, patience).ok();
    }
    let mut stream = tests::dns::connect(server).ok()?;
    send_tcp(&mut stream, &case.wire).ok()?;
    receive_tcp(&mut stream).ok()
}

#[test]
fn answers_are_those_of_knot_or_nsd_but_for_a_reason() {
    let mut cases = Vec::new();
    names(&mut cases);
    extensions(&mut cases);
    oddities(&mut cases);
    let peers = Peers::start();
    let reasons: BTreeMap<&str, &str> = REASONS.into();
    let mut problems = String::new();
    for case in &cases {
        let ask = |patience| {
            let [ours, knot, nsd] = peers
                .servers
                .map(|(_, server)| essence(send(case, server, patience)));
            let is_alike = ours == knot || ours == nsd;
            let is_expected = is_alike != reasons.contains_key(&*case.name);
            (is_expected, is_alike, [ours, knot, nsd])
        };
        // Some get no response; the test waits long only if that is wrong.
        let mut found = ask(Duration::from_millis(700));
        if !found.0 {
            found = ask(Duration::from_secs(5));
        }
        let (is_expected, is_alike, [ours, knot, nsd]) = found;
        if !is_expected {
            let what = if is_alike {
                "needs no reason"
            } else {
                "differs"
            };
            let name = &case.name;
            writeln!(
                problems,
                "{name} {what}\n  ours  {ours}\n  Knot  {knot}\n  NSD   {nsd}"
            )
            .unwrap();
        }
    }
    assert!(problems.is_empty(), "of {}:\n{problems}", cases.len());
    for (name, _) in REASONS {
        assert!(
            cases.iter().any(|case| case.name == name),
            "{name} is not asked"
        );
    }
}
