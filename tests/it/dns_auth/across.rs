//! Aliases from one zone of the server into another: dns-authd's answers beside those of PowerDNS and of BIND.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::Command;
use std::time::Duration;

use tests::daemon::Daemon;
use tests::dns::{A, CNAME, Data, MX, Message, Question, TXT, ask};
use tests::scratch::{Scratch, at, loopback};
use tests::site::Site;
use tests::wait;

/// Two zones that lead into each other, and a child of the first.
const ZONES: [(&str, &str); 3] = [
    (
        "a.test",
        "$TTL 300\n@ SOA ns1 host 1 3600 600 86400 60\n@ NS ns1\nns1 A 192.0.2.1\nwww CNAME www.b.test.\n\
         nx CNAME nx.b.test.\nnodata CNAME txt.b.test.\ndeleg CNAME x.deleg.b.test.\nwild CNAME q.wild.b.test.\n\
         chain CNAME mid\nmid CNAME chain.b.test.\nout CNAME www.else.test.\n*.w CNAME www.b.test.\n\
         dn DNAME b.test.\nback CNAME back.b.test.\nsub NS ns.sub\nns.sub A 192.0.2.9\ntosub CNAME www.sub\n\
         apex CNAME b.test.\nnxback CNAME nxback.b.test.\nloop CNAME loop.b.test.\nround CNAME x.round.b.test.\n\
         turn DNAME round.b.test.\n",
    ),
    (
        "b.test",
        "$TTL 200\n@ SOA ns1 host 1 3600 600 86400 30\n@ NS ns1\nns1 A 192.0.2.11\nwww A 192.0.2.20\ntxt TXT t\n\
         deleg NS ns.deleg\nns.deleg A 192.0.2.12\n*.wild A 192.0.2.30\nchain CNAME c2\nc2 CNAME www\n\
         back CNAME ns1.a.test.\nnxback CNAME nothere.a.test.\n@ MX 10 www\nloop CNAME loop.a.test.\n\
         round DNAME turn.a.test.\n",
    ),
    (
        "sub.a.test",
        "$TTL 100\n@ SOA ns host 1 3600 600 86400 30\n@ NS ns\nns A 192.0.2.9\nwww A 192.0.2.99\n",
    ),
];

/// Starts a peer that reads a named.conf with these zones; `more` stands before them.
fn start_peer(files: &Scratch, program: &str, server: SocketAddr, more: &str) -> Daemon {
    let home = files.join(program);
    std::fs::create_dir(&home).unwrap();
    let mut text = more.to_owned();
    for (name, _) in ZONES {
        let file = files.join(&format!("{name}.zone"));
        let file = file.display();
        writeln!(text, "zone \"{name}\" {{ type master; file \"{file}\"; }};").unwrap();
    }
    let conf = files.write(&format!("{program}.conf"), &text);
    let mut command = Command::new(program);
    if program == "named" {
        command.arg("-g").arg("-c").arg(conf);
    } else {
        let (conf, home) = (conf.display(), home.display());
        command.args([
            "--daemon=no",
            "--guardian=no",
            "--disable-syslog",
            "--launch=bind",
            "--no-config",
        ]);
        command.arg(format!("--bind-config={conf}"));
        command.arg(format!("--local-address={}", server.ip()));
        command.arg(format!("--local-port={}", server.port()));
        command.args([
            format!("--socket-dir={home}"),
            format!("--config-dir={home}"),
        ]);
        command.args(["--dname-processing=yes", "--edns-cookie-secret="]);
    }
    Daemon::spawn(program, command)
}

/// BIND's options. It follows aliases across zones only for clients that it may recurse for; it has nobody to ask.
fn named_options(files: &Scratch, server: SocketAddr) -> String {
    let (home, ip, port) = (files.join("named"), server.ip(), server.port());
    let home = home.display();
    format!(
        "options {{ directory \"{home}\"; listen-on port {port} {{ {ip}; }}; listen-on-v6 {{ none; }}; \
         pid-file none; session-keyfile none; recursion yes; dnssec-validation no; forwarders {{ 127.0.0.1 port 9; }}; \
         forward only; }};\ncontrols {{}};\n"
    )
}

/// An address for named, which takes none of those of the loopback network but this one. The port is none of those that the
/// kernel gives to connections: one of another test could take it before named does.
pub(super) fn free_address() -> SocketAddr {
    let is_free = |address: &SocketAddr| {
        UdpSocket::bind(address).is_ok() && TcpListener::bind(address).is_ok()
    };
    let next = || {
        let [.., third, fourth] = loopback().octets();
        let port = 12_000 + u16::from_be_bytes([third, fourth]) % 20_000;
        at(Ipv4Addr::LOCALHOST, port)
    };
    let mut candidates = std::iter::repeat_with(next).take(100);
    candidates.find(is_free).expect("one port is free")
}

/// The comparable part of an answer: the order of its records is not.
fn essence(answer: &Message) -> String {
    let mut text = format!("rcode {} aa {}", answer.rcode, answer.authoritative);
    for (section, records) in [
        ("answer", &answer.answers),
        ("authority", &answer.authority),
    ] {
        let line = |owner: &str, ttl, rtype, data: &Data| {
            format!("{} {ttl} {rtype} {data:?}", owner.to_ascii_lowercase())
        };
        let mut lines: Vec<String> = records
            .iter()
            .map(|record| line(&record.owner, record.ttl, record.rtype, &record.data))
            .collect();
        lines.sort();
        write!(text, "\n      {section} {lines:?}").unwrap();
    }
    text
}

#[test]
fn an_alias_into_another_zone_is_followed_as_powerdns_and_bind_do() {
    let site = Site::new();
    site.configure_authd(&ZONES, "");
    let _ours = site.start("dns-authd");
    let files = Scratch::new("across");
    for (name, text) in ZONES {
        files.write(&format!("{name}.zone"), &format!("$ORIGIN {name}.\n{text}"));
    }
    let (pdns, named) = (at(loopback(), 5303), free_address());
    let _pdns = start_peer(&files, "pdns_server", pdns, "");
    let _named = start_peer(&files, "named", named, &named_options(&files, named));
    for server in [pdns, named] {
        wait::for_it("the peer answers", Duration::from_secs(30), || {
            ask(server, &Question::new("b.test", A)).is_ok_and(|answer| answer.rcode == 0)
        });
    }
    // Name, type, and whether BIND has an answer of its own zones alone.
    let table = [
        ("www", A, true),
        ("www", CNAME, true),
        ("www", TXT, true),
        ("nx", A, true),
        ("nodata", A, true),
        ("nodata", TXT, true),
        ("deleg", A, false),
        ("wild", A, true),
        ("chain", A, true),
        ("out", A, false),
        ("x.w", A, true),
        ("www.dn", A, true),
        ("nx.dn", A, true),
        ("back", A, true),
        ("tosub", A, true),
        ("apex", MX, true),
        ("apex", A, true),
        ("nxback", A, true),
    ];
    let mut problems = String::new();
    for (name, rtype, bind_knows) in table {
        let question = Question::new(&format!("{name}.a.test"), rtype);
        let get = |server| match ask(server, &question) {
            Ok(answer) => essence(&answer),
            Err(error) => panic!("{name}: {error}"),
        };
        let ours = get(site.authority());
        for (peer, server, counts) in [("PowerDNS", pdns, true), ("BIND", named, bind_knows)] {
            if counts && get(server) != ours {
                let theirs = get(server);
                writeln!(
                    problems,
                    "{name} {rtype}\n  ours  {ours}\n  {peer}  {theirs}"
                )
                .unwrap();
            }
        }
    }
    assert!(problems.is_empty(), "{problems}");
    // The peers make SERVFAIL of a chain that is a loop; here it ends, and the resolver sees the loop.
    for name in ["loop", "x.turn", "round"] {
        let answer = ask(
            site.authority(),
            &Question::new(&format!("{name}.a.test"), A),
        )
        .unwrap();
        assert_eq!(answer.rcode, 0, "{name}: {answer:?}");
        assert!(
            !answer.answers.is_empty() && answer.answers.len() < 40,
            "{name}: {answer:?}"
        );
    }
}
