//! Settings good and bad.

use std::fmt::Display;
use std::io;

use super::*;

/// Files by path; a directory holds those whose parent it is.
struct Disk<'a>(&'a [(&'a str, &'a str)]);

impl Files for Disk<'_> {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.0.iter().find(|(name, _)| Path::new(name) == path);
        file.map(|(_, text)| text.as_bytes().to_vec())
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let inside = self.0.iter().map(|(name, _)| PathBuf::from(name));
        Ok(inside
            .filter(|path| path.parent() == Some(directory))
            .collect())
    }
}

/// A line that saves the warning that the root is not forwarded.
const ROOT: &str = "forward-zones-recurse=.=192.0.2.53\n";

#[track_caller]
fn conf(text: &str) -> RecursorConf {
    parse_bytes(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn on_disk(files: &[(&str, &str)]) -> Result<RecursorConf, Rejected> {
    parse(Path::new("/r"), &mut Disk(files), &[])
}

fn shown<T: Display>(items: &[T]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

/// Forwards in the notation of `forward-zones-file`.
fn forwards(conf: &RecursorConf) -> Vec<String> {
    let forwards = conf.forwards.iter().map(|it| {
        let recursive = if it.recursive { "+" } else { "" };
        let notify = if it.notify { "^" } else { "" };
        format!(
            "{recursive}{notify}{}={}",
            it.zone,
            shown(&it.upstreams).join(";")
        )
    });
    forwards.collect()
}

#[track_caller]
fn refused(text: &str, expected: &[&str]) {
    let rejected = parse_bytes(text.as_bytes()).unwrap_err();
    assert_eq!(shown(&rejected.problems), expected, "{text}");
}

#[track_caller]
fn warned(text: &str, expected: &[&str]) {
    let conf = conf(&format!("{text}\n{ROOT}"));
    assert_eq!(shown(&conf.warnings), expected, "{text}");
}

#[test]
fn the_seed_file_is_read_as_it_stands() {
    let text = include_bytes!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/data/seed/recursor.conf"
    ));
    let conf = parse_bytes(text).unwrap();
    assert_eq!(shown(&conf.listen), ["0.0.0.0:53", "[::]:53"]);
    assert_eq!(shown(&conf.allow_from), ["0.0.0.0/0"]);
    assert_eq!(conf.dnssec, Some(Dnssec::Off));
    assert_eq!(
        forwards(&conf),
        ["ocp4.redhat.ren.=127.0.0.1:5301", "+.=114.114.114.114:53"]
    );
    let places: Vec<_> = conf.forwards.iter().map(|it| it.position.clone()).collect();
    let places: Vec<_> = places.iter().flatten().map(ToString::to_string).collect();
    assert_eq!(places, ["recursor.conf:4:1", "recursor.conf:5:1"]);
    let dropped: Vec<_> = conf.dropped.iter().map(|it| it.key.as_str()).collect();
    assert_eq!(dropped, ["setgid", "setuid", "security-poll-suffix"]);
    assert_eq!(
        shown(&conf.warnings),
        [
            "recursor.conf:2:1: `192.168.7.0/0` has bits beyond its prefix and is read as 0.0.0.0/0",
            "recursor.conf:2:1: `allow-from` names no IPv6 network: no client has access over IPv6",
        ]
    );
}

#[test]
fn what_is_not_set_is_as_pdns_has_it_or_left_open() {
    let conf = conf("");
    assert_eq!(shown(&conf.listen), ["127.0.0.1:53"]);
    assert_eq!(
        shown(&conf.allow_from).join(", "),
        "127.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 169.254.0.0/16, 192.168.0.0/16, 172.16.0.0/12, \
         ::1/128, fc00::/7, fe80::/10"
    );
    assert_eq!(conf.allow_notify_from, []);
    assert_eq!(conf.forwards, []);
    assert_eq!((&conf.dont_query, conf.dnssec), (&None, None));
    assert_eq!(conf.cache, Cache::default());
    assert_eq!(conf.clients, Clients::default());
    assert_eq!(conf.upstreams, Upstreams::default());
    let local = Local {
        dns64_prefix: None,
        private_reverse: true,
        version: None,
        server_id: None,
        logs_queries: false,
        hosts: None,
    };
    assert_eq!(conf.local, local);
    assert_eq!(
        shown(&conf.warnings),
        [
            "no zone `.` is forwarded: this server does not resolve other names, where pdns would query the root servers"
        ]
    );
}

#[test]
fn every_number_and_switch_finds_its_place() {
    let conf = conf(
        "max-cache-entries=1\nmax-cache-ttl=2\nmax-negative-ttl=3\nminimum-ttl-override=4\n\
         serve-stale-extensions=120\nrefresh-on-ttl-perc=6\ndisable-packetcache\n\
         max-packetcache-entries=8\npacketcache-ttl=9\npacketcache-negative-ttl=10\n\
         packetcache-servfail-ttl=11\nthreads=12\nclient-tcp-timeout=13\nmax-tcp-clients=14\n\
         max-tcp-per-client=15\nmax-concurrent-requests-per-tcp-connection=16\n\
         udp-truncation-threshold=1717\nnetwork-timeout=1818\nmax-total-msec=1919\n\
         edns-outgoing-bufsize=2020\nuse-incoming-edns-subnet=yes\nserve-rfc1918=no\n",
    );
    let seconds = |n| Some(Duration::from_secs(n));
    let milliseconds = |n| Some(Duration::from_millis(n));
    assert_eq!(
        conf.cache,
        Cache {
            entries: Some(1),
            max_ttl: seconds(2),
            max_negative_ttl: seconds(3),
            min_ttl: seconds(4),
            stale: seconds(3600),
            refresh_percent: Some(6),
            packets: Packets {
                disabled: true,
                entries: Some(8),
                ttl: seconds(9),
                negative_ttl: seconds(10),
                failure_ttl: seconds(11),
            },
        }
    );
    assert_eq!(
        conf.clients,
        Clients {
            threads: Some(12),
            tcp_idle: seconds(13),
            tcp_connections: Some(14),
            tcp_per_client: Some(15),
            tcp_pipeline: Some(16),
            udp_limit: Some(1717),
        }
    );
    assert_eq!(
        conf.upstreams,
        Upstreams {
            timeout: milliseconds(1818),
            deadline: milliseconds(1919),
            udp_size: Some(2020),
            client_subnet: true,
            sources: Vec::new(),
        }
    );
    assert!(!conf.local.private_reverse);
    assert_eq!(conf.dropped, []);
}

#[test]
fn the_least_of_what_makes_sense_is_kept_to() {
    let conf = conf("threads=0\nudp-truncation-threshold=0\nedns-outgoing-bufsize=511\n");
    assert_eq!(conf.clients.threads, Some(1));
    assert_eq!(conf.clients.udp_limit, Some(512));
    assert_eq!(conf.upstreams.udp_size, Some(512));
    assert_eq!(
        shown(&conf.warnings).last().unwrap(),
        "recursor.conf:1:1: `threads=0` is taken for 1"
    );
}

#[test]
fn listeners_come_with_ports_or_without() {
    for (text, expected) in [
        ("local-port=54", "127.0.0.1:54"),
        ("local-address=0.0.0.0 ::", "0.0.0.0:53 [::]:53"),
        (
            "local-address=0.0.0.0,::\nlocal-port=54",
            "0.0.0.0:54 [::]:54",
        ),
        (
            "local-address=192.0.2.1:1, [::1]:2 [::2]\t2001:db8::1",
            "192.0.2.1:1 [::1]:2 [::2]:53 [2001:db8::1]:53",
        ),
        ("local-address+=::1", "127.0.0.1:53 [::1]:53"),
        ("local-address=::1\nlocal-address+=::2", "[::1]:53 [::2]:53"),
        ("local-address=::1\nlocal-address=::2", "[::2]:53"),
    ] {
        assert_eq!(shown(&conf(text).listen).join(" "), expected, "{text}");
    }
}

#[test]
fn networks_may_be_addresses_and_may_be_excluded() {
    let text = "allow-from=10.0.0.0/8, !10.1.0.0/16 192.0.2.1,fd00::/8, !fd00::1\n\
                allow-notify-from=127.0.0.1\ndont-query=";
    let read = conf(text);
    assert_eq!(
        shown(&read.allow_from),
        [
            "10.0.0.0/8",
            "!10.1.0.0/16",
            "192.0.2.1/32",
            "fd00::/8",
            "!fd00::1/128"
        ]
    );
    assert_eq!(shown(&read.allow_notify_from), ["127.0.0.1/32"]);
    assert_eq!(read.dont_query, Some(Vec::new()));

    let added = conf("allow-from+=192.0.2.0/24\ndont-query+=!10.0.0.1");
    assert_eq!(added.allow_from.len(), 10);
    assert_eq!(
        shown(&added.dont_query.unwrap()).last().unwrap(),
        "!10.0.0.1/32"
    );
}

#[test]
fn an_empty_list_lets_anybody_ask() {
    let conf = conf(&format!("{ROOT}allow-from=  # all\n"));
    assert_eq!(shown(&conf.allow_from), ["0.0.0.0/0", "::/0"]);
    assert_eq!(
        shown(&conf.warnings),
        ["recursor.conf:2:1: `allow-from` is empty: every client has access"]
    );
}

#[test]
fn a_file_of_networks_takes_the_place_of_the_list() {
    let conf = on_disk(&[
        (
            "/r",
            "allow-from=::1\nallow-from-file=/a\nforward-zones=.=192.0.2.1",
        ),
        (
            "/a",
            "# ours\n10.0.0.0/8 # wide\n\n  !10.1.1.1/16#\r\n::1\n",
        ),
    ])
    .unwrap();
    assert_eq!(
        shown(&conf.allow_from),
        ["10.0.0.0/8", "!10.1.0.0/16", "::1/128"]
    );
    assert_eq!(conf.files, ["/r", "/a"].map(PathBuf::from));
    assert_eq!(
        shown(&conf.warnings),
        [
            "/a:4:3: `!10.1.1.1/16` has bits beyond its prefix and is read as !10.1.0.0/16",
            "/r:1:1: `allow-from-file` replaces `allow-from`",
        ]
    );
    let notify = on_disk(&[
        ("/r", "allow-notify-from-file=/n"),
        ("/n", "192.0.2.1\n::1"),
    ]);
    assert_eq!(
        shown(&notify.unwrap().allow_notify_from),
        ["192.0.2.1/32", "::1/128"]
    );
    let slips = on_disk(&[
        ("/r", "allow-from-file=/a"),
        ("/a", "::1\n 10.0.0.0/40\nx y"),
    ]);
    assert_eq!(
        slips.unwrap_err().to_string(),
        "/a:2:2: `allow-from-file` takes networks, not `10.0.0.0/40`\n\
         /a:3:1: `allow-from-file` takes networks, not `x y`"
    );
}

#[test]
fn forwards_of_the_file_itself() {
    for (text, expected) in [
        ("forward-zones=a.b=192.0.2.1", "a.b.=192.0.2.1:53"),
        ("forward-zones=A.b.=192.0.2.1:5301 ", "A.b.=192.0.2.1:5301"),
        (
            "forward-zones=a=[::1]:9;::2;[::3];192.0.2.1:54;",
            "a.=[::1]:9;[::2]:53;[::3]:53;192.0.2.1:54",
        ),
        (
            "forward-zones=a=192.0.2.1, b=192.0.2.2,c=192.0.2.3\td=192.0.2.4",
            "a.=192.0.2.1:53 b.=192.0.2.2:53 c.=192.0.2.3:53 d.=192.0.2.4:53",
        ),
        (
            "forward-zones=a=192.0.2.1\nforward-zones+=b=192.0.2.2",
            "a.=192.0.2.1:53 b.=192.0.2.2:53",
        ),
        (
            "forward-zones=a=192.0.2.1,\\\n  b=192.0.2.2",
            "a.=192.0.2.1:53 b.=192.0.2.2:53",
        ),
        (
            "forward-zones-recurse=.=192.0.2.1\nforward-zones=a=192.0.2.2",
            "a.=192.0.2.2:53 +.=192.0.2.1:53",
        ),
        (
            "forward-zones=7.168.192.in-addr.arpa=127.0.0.1:5301",
            "7.168.192.in-addr.arpa.=127.0.0.1:5301",
        ),
        ("forward-zones=", ""),
    ] {
        assert_eq!(forwards(&conf(text)).join(" "), expected, "{text}");
    }
}

#[test]
fn forwards_of_a_file_of_their_own() {
    let conf = on_disk(&[
        ("/r", "forward-zones-file=/f"),
        (
            "/f",
            "# ours\n+.=192.0.2.1, 192.0.2.2:54 # resolvers\r\n\n^+b = 192.0.2.3;[::1]:9\n\
             +^c.=192.0.2.4,;  \n  ^d=192.0.2.5#near\n  # indented\n#e=x",
        ),
    ])
    .unwrap();
    assert_eq!(
        forwards(&conf),
        [
            "+.=192.0.2.1:53;192.0.2.2:54",
            "+^b.=192.0.2.3:53;[::1]:9",
            "+^c.=192.0.2.4:53",
            "^d.=192.0.2.5:53",
        ]
    );
    let places = conf.forwards.iter().filter_map(|it| it.position.as_ref());
    let places: Vec<_> = places.map(ToString::to_string).collect();
    assert_eq!(places, ["/f:2:1", "/f:4:1", "/f:5:1", "/f:6:3"]);
    assert_eq!(conf.warnings, []);
    assert_eq!(conf.files, ["/r", "/f"].map(PathBuf::from));
}

#[test]
fn slips_in_a_file_of_forwards_are_reported_with_their_place() {
    let file = "a=192.0.2.1\n=192.0.2.1\n+=192.0.2.1\nb\n c=nosuch, 192.0.2.1 \u{5141} 192.0.2.2:99999\n\
                d..e=192.0.2.1\nf=#192.0.2.1\ng=0.0.0.0;224.0.0.1,[ff02::1]:53 255.255.255.255";
    let rejected = on_disk(&[("/r", "forward-zones-file=/f"), ("/f", file)]).unwrap_err();
    assert_eq!(
        shown(&rejected.problems),
        [
            "/f:2:1: the zone before `=` is missing; for all names, write `.`",
            "/f:3:1: the zone before `=` is missing; for all names, write `.`",
            "/f:4:1: `b` has no address to forward to",
            "/f:5:4: `c` is forwarded to `nosuch`: not an address",
            "/f:5:22: `c` is forwarded to `\u{5141}`: not an address",
            "/f:5:24: `c` is forwarded to `192.0.2.2:99999`: not an address",
            "/f:6:1: `d..e` is not a zone name: empty label in a domain name",
            "/f:7:1: `f` has no address to forward to",
            "/f:8:3: `g` is forwarded to `0.0.0.0`: not the address of a server",
            "/f:8:11: `g` is forwarded to `224.0.0.1`: not the address of a server",
            "/f:8:21: `g` is forwarded to `[ff02::1]:53`: not the address of a server",
            "/f:8:34: `g` is forwarded to `255.255.255.255`: not the address of a server",
        ]
    );
    assert_eq!(rejected.files, ["/r", "/f"].map(PathBuf::from));
}

#[test]
fn of_two_forwards_for_a_zone_the_later_counts() {
    let conf = on_disk(&[
        (
            "/r",
            "forward-zones-file=/f\nforward-zones-recurse=A.=192.0.2.2,b=192.0.2.3\n\
             forward-zones=a=192.0.2.1",
        ),
        ("/f", "b=192.0.2.4\n+.=192.0.2.5"),
    ])
    .unwrap();
    assert_eq!(
        forwards(&conf),
        ["+A.=192.0.2.2:53", "b.=192.0.2.4:53", "+.=192.0.2.5:53"]
    );
    assert_eq!(
        shown(&conf.warnings),
        [
            "/f:1:1: `b.` is forwarded twice; the last one counts",
            "/r:2:1: `A.` is forwarded twice; the last one counts",
        ]
    );
}

#[test]
fn every_mode_of_dnssec_is_known() {
    for (word, mode, validates) in [
        ("off", Dnssec::Off, false),
        ("process-no-validate", Dnssec::ProcessNoValidate, false),
        ("process", Dnssec::Process, true),
        ("log-fail", Dnssec::LogFail, true),
        ("validate", Dnssec::Validate, true),
    ] {
        let conf = conf(&format!("dnssec={word}\n{ROOT}"));
        assert_eq!(conf.dnssec, Some(mode), "{word}");
        let warning = format!(
            "recursor.conf:1:1: `dnssec={word}`: validation is left to upstreams and clients"
        );
        let expected = if validates { vec![warning] } else { Vec::new() };
        assert_eq!(shown(&conf.warnings), expected, "{word}");
    }
}

#[test]
fn local_names() {
    let read = conf(
        "version-string=mine # x\nserver-id=a#b\nexport-etc-hosts\n\
         export-etc-hosts-search-suffix=example.net\nquery-local-address=192.0.2.1, ::",
    );
    assert_eq!(read.local.version.as_deref(), Some("mine"));
    assert_eq!(read.local.server_id.as_deref(), Some("a#b"));
    let hosts = Hosts {
        file: "/etc/hosts".into(),
        suffix: Some(Name::parse("example.net").unwrap()),
    };
    assert_eq!(read.local.hosts, Some(hosts));
    assert_eq!(shown(&read.upstreams.sources), ["192.0.2.1", "::"]);

    let other = conf("export-etc-hosts=yes\netc-hosts-file=/h\nversion-string=\nserver-id=");
    let hosts = Hosts {
        file: "/h".into(),
        suffix: None,
    };
    assert_eq!(other.local.hosts, Some(hosts));
    assert_eq!(other.local.version.as_deref(), Some(""));
    assert_eq!(other.local.server_id, None);
    assert_eq!(
        conf("export-etc-hosts=off\netc-hosts-file=/h").local.hosts,
        None
    );
}

#[test]
fn the_command_line_comes_last() {
    let text = "local-address=0.0.0.0\nlocal-port=53\nforward-zones=a=192.0.2.1";
    let arguments = [
        ("local-address", "127.0.0.9"),
        ("local-port", "5399"),
        ("forward-zones", "b=192.0.2.2"),
        ("daemon", "no"),
    ];
    let arguments = arguments.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let conf = parse(Path::new("r"), &mut Disk(&[("r", text)]), &arguments).unwrap();
    assert_eq!(shown(&conf.listen), ["127.0.0.9:5399"]);
    assert_eq!(forwards(&conf), ["b.=192.0.2.2:53"]);
    assert_eq!(conf.forwards.first().unwrap().position, None);
    let daemon = conf.dropped.first().unwrap();
    assert_eq!((daemon.key.as_str(), &daemon.position), ("daemon", &None));

    let unknown = [("forward-zone".to_owned(), String::new())];
    let rejected = parse(Path::new("r"), &mut Disk(&[("r", text)]), &unknown).unwrap_err();
    assert_eq!(
        rejected.to_string(),
        "unknown setting `forward-zone`, did you mean `forward-zones`?"
    );
}

#[test]
fn an_include_directory_is_read_after_the_file() {
    let conf = on_disk(&[
        ("/r", "include-dir=/d\nlocal-port=1\nthreads=1"),
        ("/d/2.conf", "local-port=3"),
        ("/d/1.conf", "local-port=2\nthreads=2"),
        ("/d/1.conf~", "nosuch"),
    ])
    .unwrap();
    assert_eq!(shown(&conf.listen), ["127.0.0.1:3"]);
    assert_eq!(conf.clients.threads, Some(2));
    assert_eq!(
        conf.files,
        ["/r", "/d/1.conf", "/d/2.conf"].map(PathBuf::from)
    );
}

#[test]
fn settings_of_no_consequence_say_why() {
    let text = "loglevel=5\nwebserver=yes\nreuseport=yes\ntcp-fast-open=5\n\
                pdns-distributes-queries=no\nauth-zones=a=/etc/a\nlua-config-file=/etc/l\n\
                security-poll-suffix=\nudp-source-port-avoid+=4791\n";
    let dropped = conf(text).dropped;
    assert_eq!(dropped.len(), 9);
    for (line, setting) in text.lines().zip(&dropped) {
        assert!(line.starts_with(&setting.key), "{line}");
        assert!(!setting.reason.is_empty(), "{line}");
    }
}

#[test]
fn queries_are_logged_unless_the_file_is_quiet() {
    for (text, logs) in [("", false), ("quiet=yes\n", false), ("quiet=no\n", true)] {
        let conf = conf(text);
        assert_eq!(conf.local.logs_queries, logs, "{text}");
        assert_eq!(conf.dropped, [], "{text}");
    }
}

#[test]
fn every_slip_is_reported_with_its_place() {
    refused(
        " forward-zone=a=192.0.2.1\nlocal-port=x\nlocal-address=127.0.0.1 nosuch\n\
         allow-from=10.0.0.0/40,!!::1\ninclude-dir=\ndnssec=maybe\n\
         forward-zones=a=192.0.2.1,192.0.2.2 b =192.0.2.3 c=192.0.2.3:0;x d=\n\
         forward-zones-recurse=a..b=192.0.2.1\nmax-cache-ttl=1h\nserve-stale-extensions=-1\n\
         udp-truncation-threshold=65536\nthreads=two\nexport-etc-hosts-search-suffix=a..b\n\
         setuid+=x\nallow-from-file=\nnosuch\nquery-local-address=eth0",
        &[
            "recursor.conf:1:2: unknown setting `forward-zone`, did you mean `forward-zones`?",
            "recursor.conf:2:1: `local-port` takes a number, not `x`",
            "recursor.conf:3:1: `local-address` takes addresses, not `nosuch`",
            "recursor.conf:4:1: `allow-from` takes networks, not `10.0.0.0/40`",
            "recursor.conf:4:1: `allow-from` takes networks, not `!!::1`",
            "recursor.conf:6:1: `dnssec` is `off`, `process-no-validate`, `process`, `log-fail` or \
             `validate`, not `maybe`",
            "recursor.conf:7:1: `forward-zones` takes `zone=address`, not `192.0.2.2`; \
             addresses of one zone are separated by `;`",
            "recursor.conf:7:1: `forward-zones` takes `zone=address`, not `b`; no blanks \
             go around `=`",
            "recursor.conf:7:1: the zone before `=` is missing; for all names, write `.`",
            "recursor.conf:7:1: `c` is forwarded to `192.0.2.3:0`: no server listens on port 0",
            "recursor.conf:7:1: `c` is forwarded to `x`: not an address",
            "recursor.conf:7:1: `d` has no address to forward to",
            "recursor.conf:8:1: `a..b` is not a zone name: empty label in a domain name",
            "recursor.conf:9:1: `max-cache-ttl` takes a number, not `1h`",
            "recursor.conf:10:1: `serve-stale-extensions` takes a number, not `-1`",
            "recursor.conf:11:1: `udp-truncation-threshold` takes a number, not `65536`",
            "recursor.conf:12:1: `threads` takes a number, not `two`",
            "recursor.conf:13:1: `export-etc-hosts-search-suffix` takes a name, not `a..b`: empty label in a domain name",
            "recursor.conf:14:1: `setuid+=` adds to a setting that is not set",
            "recursor.conf:16:1: unknown setting `nosuch`",
            "recursor.conf:17:1: `query-local-address` takes addresses, not `eth0`",
        ],
    );
    refused(
        "local-address=",
        &["recursor.conf:1:1: `local-address` names no address to listen on"],
    );
}

#[test]
fn files_that_cannot_be_read_are_refused() {
    let rejected = on_disk(&[]).unwrap_err();
    assert_eq!(rejected.to_string(), "cannot read /r: entity not found");
    let rejected = on_disk(&[("/r", "\nforward-zones-file=/f\nallow-from-file=/a")]).unwrap_err();
    assert_eq!(
        rejected.to_string(),
        "/r:2:1: cannot read /f: entity not found\n/r:3:1: cannot read /a: entity not found"
    );
    assert_eq!(rejected.files, ["/r", "/a", "/f"].map(PathBuf::from));
}

#[test]
fn unknown_settings_may_be_ignored_by_name() {
    let conf = conf("ignore-unknown-settings=nosuch, other\nnosuch=1\n");
    let dropped = conf.dropped.first().unwrap();
    assert_eq!(
        (dropped.key.as_str(), dropped.value.as_str()),
        ("nosuch", "1")
    );
}

#[test]
fn families_without_clients_are_a_warning() {
    warned("local-address=::\nallow-from=fd00::/8,10.0.0.0/8", &[]);
    warned("local-address=127.0.0.1\nallow-from=10.0.0.0/8", &[]);
    warned(
        "local-address=0.0.0.0,::\nallow-from=fd00::/8,!10.0.0.0/8",
        &["recursor.conf:2:1: `allow-from` names no IPv4 network: no client has access over IPv4"],
    );
}

#[test]
fn upstreams_that_would_be_asked_in_tls_beside_others_are_a_warning() {
    warned(
        "forward-zones=a=192.0.2.1:853;192.0.2.2",
        &[
            "recursor.conf:1:1: `192.0.2.1:853` gets queries over UDP and TCP, where pdns would speak \
             TLS: other upstreams of the zone do not",
        ],
    );
    warned("forward-zones=a=192.0.2.1:853", &[]);
    warned("forward-zones=a=192.0.2.1:853\ndot-to-port-853=no", &[]);
}

#[test]
fn warnings_do_not_grow_without_bound() {
    let text = format!("allow-from={}", "10.0.0.1/8,".repeat(MAX_WARNINGS * 2));
    assert_eq!(conf(&text).warnings.len(), MAX_WARNINGS);
}

#[test]
fn garbage_never_panics() {
    // Marsaglia's xorshift.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % u64::try_from(n).unwrap()).unwrap()
    };
    let mut words: Vec<&str> = keys::CATALOGUE.kept.to_vec();
    words.extend([
        "=",
        "=",
        "=",
        "=",
        "+=",
        "\n",
        "\n",
        "\n",
        "\n",
        " ",
        " ",
        "#",
        "\\",
        "\\\n",
        ",",
        ";",
        "!",
        "::1",
        "[::1]:5",
        "[",
        "]",
        "10.0.0.0/8",
        "192.168.7.0/0",
        "99999",
        "-1",
        "a.b",
        ".",
        "..",
        "+",
        "^",
        "\u{fc}",
        "\u{5141}\u{8bb8}",
        "\u{0}",
        "/f",
        "/a",
        "yes",
        "no",
        "%",
    ]);
    for _ in 0..1_500 {
        let mut text =
            |n: usize| -> String { (0..below(n)).map(|_| words[below(words.len())]).collect() };
        let (main, zones, networks) = (text(40), text(20), text(20));
        let disk = [
            ("/r", main.as_str()),
            ("/f", zones.as_str()),
            ("/a", networks.as_str()),
        ];
        drop(on_disk(&disk));
    }
    for _ in 0..500 {
        let octets: Vec<u8> = (0..below(200))
            .map(|_| u8::try_from(below(256)).unwrap())
            .collect();
        drop(parse_bytes(&octets));
    }
}
