//! Settings good and bad.

use std::io;

use super::*;

/// Files by path; those under `/etc/d` are in that directory.
struct Disk<'a>(&'a [(&'a str, &'a str)]);

impl Files for Disk<'_> {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.0.iter().find(|(name, _)| Path::new(name) == path);
        file.map(|(_, text)| text.as_bytes().to_vec())
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let inside = self.0.iter().map(|(name, _)| PathBuf::from(name));
        let inside: Vec<_> = inside
            .filter(|path| path.parent() == Some(directory))
            .collect();
        if inside.is_empty() {
            Err(io::ErrorKind::NotFound.into())
        } else {
            Ok(inside)
        }
    }
}

const NEEDED: &str = "launch=bind\nbind-config=b\n";

fn conf(text: &str) -> PdnsConf {
    parse_bytes(format!("{NEEDED}{text}").as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn refused(text: &str, expected: &[&str]) {
    let rejected = parse_bytes(text.as_bytes()).unwrap_err();
    let problems: Vec<_> = rejected.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems, expected, "{text}");
}

fn listen(conf: &PdnsConf) -> Vec<String> {
    conf.listen.iter().map(ToString::to_string).collect()
}

#[test]
fn the_seed_file_is_read_as_it_stands() {
    let text = include_bytes!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/data/seed/pdns.conf"
    ));
    let conf = parse_bytes(text).unwrap();
    assert_eq!(listen(&conf), ["127.0.0.1:5301"]);
    assert_eq!(conf.bind_config, Path::new("/etc/pdns/bind.conf"));
    assert_eq!(conf.check_interval, Some(Duration::from_secs(300)));
    assert_eq!(
        conf.lua,
        Lua {
            records: LuaRecords::Yes,
            exec_limit: Some(1000),
            check_interval: Duration::from_secs(5),
            whitespace: true,
        }
    );
    let dropped: Vec<_> = conf.dropped.iter().map(|it| it.key.as_str()).collect();
    assert_eq!(dropped, ["setgid", "setuid"]);
}

#[test]
fn the_seed_file_for_a_server_alone_listens_everywhere() {
    let text = include_bytes!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/data/seed/pdns-alone.conf"
    ));
    assert_eq!(
        listen(&parse_bytes(text).unwrap()),
        ["0.0.0.0:53", "[::]:53"]
    );
}

#[test]
fn what_is_not_set_is_as_pdns_has_it() {
    let conf = conf("");
    assert_eq!(listen(&conf), ["0.0.0.0:53", "[::]:53"]);
    assert_eq!(conf.check_interval, None);
    assert_eq!(conf.lua.records, LuaRecords::No);
    assert_eq!(
        conf.answers,
        Answers {
            any_to_tcp: true,
            client_subnet: false,
            udp_limit: 1232,
            version: Version::Full,
            server_id: ServerId::Host,
        }
    );
    let allowed: Vec<_> = conf
        .transfers
        .allowed
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(allowed, ["127.0.0.0/8", "::1/128"]);
    assert_eq!(conf.zone_files.default_ttl, 3600);
    assert_eq!(conf.network.tcp_connections, 20);
}

#[test]
fn the_longest_answer_over_udp_is_one_that_can_be_sent() {
    for (written, limit, is_told) in [
        ("0", 512, false),
        ("511", 512, false),
        ("4096", 4096, false),
        ("8192", 4096, true),
    ] {
        let conf = conf(&format!("udp-truncation-threshold={written}\n"));
        assert_eq!(conf.answers.udp_limit, limit, "{written}");
        assert_eq!(!conf.dropped.is_empty(), is_told, "{written}");
    }
}

#[test]
fn lines_are_read_as_pdns_reads_them() {
    let conf = conf(
        "  # a comment\n\tlocal-port = 54 # and another\r\nserver-id=a#b\nversion-string=x \\\n  y=z\n\
         local-address=192.0.2.1, 2001:db8::1\nlocal-address+=[::1]:99\nlocal-address+=192.0.2.2:98\n\
         any-to-tcp=no\nany-to-tcp\ndisable-axfr=off\nedns-subnet-processing=yes",
    );
    assert_eq!(
        listen(&conf),
        [
            "192.0.2.1:54",
            "[2001:db8::1]:54",
            "[::1]:99",
            "192.0.2.2:98"
        ]
    );
    assert_eq!(conf.answers.server_id, ServerId::Text("a#b".to_owned()));
    assert_eq!(conf.answers.version, Version::Text("x   y=z".to_owned()));
    assert!(conf.answers.any_to_tcp && conf.answers.client_subnet);
    assert!(!conf.transfers.disabled);
}

#[test]
fn the_last_line_may_lack_its_end() {
    assert_eq!(listen(&conf("local-address=::1\\")), ["[::1]:53"]);
    assert_eq!(listen(&conf("local-address=\\\n::1")), ["[::1]:53"]);
}

#[test]
fn values_of_each_kind() {
    let conf = conf(
        "enable-lua-records=shared\nlua-records-exec-limit=-1\nlua-records-insert-whitespace=no\n\
         version-string=anonymous\nallow-axfr-ips=10.0.0.0/8,192.0.2.1\n\
         max-generate-steps=7\nbind-ignore-broken-records\nlocal-port=\n",
    );
    assert_eq!(
        (conf.lua.records, conf.lua.exec_limit, conf.lua.whitespace),
        (LuaRecords::Shared, None, false)
    );
    assert_eq!(conf.answers.version, Version::Anonymous);
    let allowed: Vec<_> = conf
        .transfers
        .allowed
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(allowed, ["10.0.0.0/8", "192.0.2.1/32"]);
    assert_eq!(
        (
            conf.zone_files.generate_steps,
            conf.zone_files.skip_out_of_zone
        ),
        (7, true)
    );
}

#[test]
fn the_command_line_comes_last() {
    let arguments = [
        ("local-address", "127.0.0.9"),
        ("local-port", "5399"),
        ("daemon", "no"),
    ];
    let arguments = arguments.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let text = format!("{NEEDED}local-address=0.0.0.0\nlocal-port=53");
    let conf = parse(Path::new("p"), &mut Disk(&[("p", &text)]), &arguments).unwrap();
    assert_eq!(listen(&conf), ["127.0.0.9:5399"]);
    let daemon = conf.dropped.first().unwrap();
    assert_eq!((daemon.key.as_str(), &daemon.position), ("daemon", &None));
    let rejected = parse(
        Path::new("p"),
        &mut Disk(&[("p", &text)]),
        &[("nosuch".to_owned(), String::new())],
    );
    assert_eq!(
        rejected.unwrap_err().to_string(),
        "unknown setting `nosuch`"
    );
}

#[test]
fn a_second_backend_is_named_as_not_carried_over() {
    for text in [
        "launch=bind,gsqlite3\nbind-config=b\n",
        "launch=bind\nlaunch+=gsqlite3\nbind-config=b\n",
    ] {
        let conf = parse(Path::new("/etc/p"), &mut Disk(&[("/etc/p", text)]), &[]).unwrap();
        let dropped: Vec<_> = conf
            .dropped
            .iter()
            .map(|it| (&*it.key, &*it.value))
            .collect();
        assert_eq!(dropped, [("launch", "gsqlite3")], "{text}");
    }
}

#[test]
fn an_include_directory_is_read_in_order() {
    let disk = [
        (
            "/etc/p",
            "launch=bind\nbind-config=b\ninclude-dir=/etc/d\nlocal-port=1\n",
        ),
        ("/etc/d/2.conf", "local-port=3"),
        ("/etc/d/1.conf", "local-port=2\nlocal-address=::1"),
        ("/etc/d/.0.conf", "x=y"),
        ("/etc/d/note", "x=y"),
    ];
    let conf = parse(Path::new("/etc/p"), &mut Disk(&disk), &[]).unwrap();
    assert_eq!(listen(&conf), ["[::1]:3"]);
    let files: Vec<_> = conf
        .files
        .iter()
        .map(|it| it.display().to_string())
        .collect();
    assert_eq!(files, ["/etc/p", "/etc/d/1.conf", "/etc/d/2.conf"]);
}

#[test]
fn every_slip_is_reported_with_its_place() {
    refused(
        "launch=gmysql\n local-adress=::1\nlocal-port=x\nlocal-address=127.0.0.1 nosuch\n\
         allow-axfr-ips=10.0.0.0/40\nsetuid+=x\ninclude-dir=/nosuch\nbind-check-interval=5s\nnosuch",
        &[
            "pdns.conf:2:2: unknown setting `local-adress`, did you mean `local-address`?",
            "pdns.conf:6:1: `setuid+=` adds to a setting that is not set",
            "pdns.conf:9:1: unknown setting `nosuch`",
            "pdns.conf:7:1: cannot read /nosuch: entity not found",
            "pdns.conf:1:1: `launch=bind` is missing: only the bind backend's zones are served",
            "`bind-config` is missing: it names the zone list",
            "pdns.conf:3:1: `local-port` takes a number, not `x`",
            "pdns.conf:4:1: `local-address` takes addresses, not `nosuch`",
            "pdns.conf:8:1: `bind-check-interval` takes a number, not `5s`",
            "pdns.conf:5:1: `allow-axfr-ips` takes networks, not `10.0.0.0/40`",
        ],
    );
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
fn a_missing_file_is_refused() {
    let rejected = parse(Path::new("/p"), &mut Disk(&[]), &[]).unwrap_err();
    assert!(
        rejected
            .to_string()
            .starts_with("cannot read /p: entity not found\n")
    );
}

#[test]
fn garbage_never_panics() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % u64::try_from(below).unwrap()).unwrap()
    };
    let words = [
        "launch",
        "=",
        "+=",
        "bind",
        "\n",
        " ",
        "#",
        "\\",
        "local-address",
        "::1",
        "99999",
        "bind-config",
        "b",
        "\u{fc}",
        "include-dir",
        "enable-lua-records",
        "allow-axfr-ips",
        "-1",
        ",",
    ];
    for _ in 0..2_000 {
        let text: String = (0..random(30))
            .map(|_| words[random(words.len())])
            .collect();
        drop(parse_bytes(text.as_bytes()));
    }
}
