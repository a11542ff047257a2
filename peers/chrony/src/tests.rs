#![expect(clippy::float_cmp, reason = "numbers come back as they were written")]

mod lines;
mod whole;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::*;
use config::timesync_agent::*;

/// Files by name; a directory holds the files whose names begin with its.
struct Tree(BTreeMap<PathBuf, Vec<u8>>);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let files = files.iter();
        Self(
            files
                .map(|(name, text)| (name.into(), text.as_bytes().to_vec()))
                .collect(),
        )
    }
}

impl Files for Tree {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        self.0
            .get(path)
            .cloned()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let mut entries: Vec<PathBuf> = self
            .0
            .keys()
            .filter_map(|file| file.strip_prefix(directory).ok())
            .filter_map(|rest| rest.components().next())
            .map(|first| directory.join(first))
            .collect();
        entries.dedup();
        entries.reverse();
        Ok(entries)
    }
}

fn settings(text: &str) -> TimesyncAgent {
    let conf = parse_bytes(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
    conf.draft.config
}

fn quiet(text: &str) -> TimesyncAgent {
    let conf = parse_bytes(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(conf.draft.notes, [], "{text}");
    conf.draft.config
}

/// The notes as a log shows them.
fn said(notes: &[config::Note]) -> Vec<String> {
    notes.iter().map(ToString::to_string).collect()
}

fn problem(text: &str) -> String {
    parse_bytes(text.as_bytes()).expect_err(text).to_string()
}

fn server(host: &str) -> Source {
    Source::new(host)
}

//--- Directives

#[test]
fn every_option_of_a_server_is_taken() {
    let settings = quiet(
        "server 192.0.2.1 port 124 minpoll -2 maxpoll 3 polltarget 20 iburst burst presend 9 xleave version 3 key 7 \
         auto_offline maxdelay 0.5 maxdelayratio 4 maxdelaydevratio 5 maxdelayquant 0.2 mindelay 1e-4 asymmetry -0.5 \
         offset -5e-5 filter 4 minsamples 8 maxsamples 16 prefer noselect trust require copy ipv4 minstratum 5 maxunreach 8 \
         certset 1 ntsport 4460\n\
         server 2001:db8::1 offline ipv6 filter 0 maxsamples 0 maxdelayratio 0\n",
    );
    let expected = Source {
        host: Host::parse("192.0.2.1"),
        maxsources: None,
        port: 124,
        minpoll: -2,
        maxpoll: 3,
        polltarget: 20,
        iburst: true,
        burst: true,
        presend: Some(9),
        xleave: true,
        version: Some(3),
        key: Some(7),
        offline: false,
        auto_offline: true,
        max_delay: 0.5,
        max_delay_ratio: Some(4.0),
        max_delay_deviation_ratio: 5.0,
        max_delay_quantile: Some(0.2),
        min_delay: Some(1e-4),
        asymmetry: Some(-0.5),
        offset: -5e-5,
        filter: Some(4),
        min_samples: Some(8),
        max_samples: Some(16),
        noselect: true,
        prefer: true,
        trust: true,
        require: true,
        copy: true,
        family: Some(Family::V4),
        min_stratum: 5,
        max_unreach: 8,
    };
    assert_eq!(settings.server[0], expected);
    let mut second = server("2001:db8::1");
    second.offline = true;
    second.family = Some(Family::V6);
    assert_eq!(settings.server[1], second);
}

#[test]
fn access_lists_keep_their_order() {
    let settings = quiet(
        "allow 1.2.3.4\ndeny 3.4.5\nallow 1.2.0.0/16\nallow all 10/8\nallow 2001:db8::1/32\nallow 0/0\ndeny ::/0\n\
         deny all\nallow\nallow client.example.org\ncmdallow 192.168\ncmddeny all\n",
    );
    let rules: Vec<String> = settings
        .serve
        .access
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        rules,
        [
            "allow 1.2.3.4/32",
            "deny 3.4.5.0/24",
            "allow 1.2.0.0/16",
            "allow all 10.0.0.0/8",
            "allow 2001:db8::/32",
            "allow 0.0.0.0/0",
            "deny ::/0",
            "deny all",
            "allow",
            "allow client.example.org",
        ]
    );
    assert_eq!(settings.commands.access.len(), 2);
    assert!(!TimesyncAgent::default().serve.is_open());
    assert!(!quiet("deny all\n").serve.is_open());
    assert!(!quiet("allow\nport 0\n").serve.is_open());
}

#[test]
fn reference_clocks_have_their_drivers() {
    let settings = quiet(
        "refclock PHC /dev/ptp0 poll 0 dpoll -2 offset -37\n\
         refclock phc /dev/ptp1:nocrossts:extpps:pin=1:channel=2:clear width 0.2 poll 2 tai local\n\
         refclock SHM 0:perm=0644 refid NMEA noselect delay 0.2 precision 1e-3 maxdispersion 0.1\n\
         refclock SOCK /run/chrony.ttyS0.sock stratum 1 filter 16 minsamples 4 maxsamples 8 prefer\n\
         refclock PPS /dev/pps0:clear lock NMEA rate 5 maxlockage 3 refid PPS pps trust require maxunreach 2\n\
         refclock PTP4L -:domain=24 refid PTP\n",
    );
    let clocks: Vec<RefclockSettings> = settings
        .refclock
        .iter()
        .enumerate()
        .map(|(index, clock)| RefclockSettings::of(clock, index).unwrap())
        .collect();
    let drivers: Vec<RefclockDriver> = clocks.iter().map(|clock| clock.driver.clone()).collect();
    let pulses = ExternalPulses {
        pin: 1,
        channel: 2,
        clear: true,
    };
    assert_eq!(
        drivers,
        [
            RefclockDriver::Phc {
                device: "/dev/ptp0".into(),
                options: PhcOptions::default()
            },
            RefclockDriver::Phc {
                device: "/dev/ptp1".into(),
                options: PhcOptions {
                    no_cross: true,
                    external_pulses: Some(pulses)
                }
            },
            RefclockDriver::Shm {
                segment: 0,
                mode: 0o644
            },
            RefclockDriver::Sock {
                path: "/run/chrony.ttyS0.sock".into()
            },
            RefclockDriver::Pps {
                device: "/dev/pps0".into(),
                clear: true
            },
            RefclockDriver::Ptp4l {
                socket: DEFAULT_PTP_SOCKET.into(),
                domain: 24
            },
        ]
    );
    let ids: Vec<String> = clocks
        .iter()
        .map(|clock| reference_id_text(clock.reference_id))
        .collect();
    assert_eq!(ids, ["PHC0", "PHC1", "NMEA", "SOC3", "PPS", "PTP"]);
    assert_eq!(settings.refclock[0].driver_poll, -2);
    assert_eq!(settings.refclock[0].offset, -37.0);
    assert_eq!(settings.refclock[4].lock, reference_id("NMEA"));
}

#[test]
fn the_last_of_several_lines_counts() {
    let settings = quiet(
        "driftfile a\ndriftfile b interval 60\nbindaddress 1.2.3.4\nbindaddress ::1\nbindaddress 127.0.0.1\n\
         bindcmdaddress /run/x.sock\nbindcmdaddress /\nmakestep 1 3\nmakestep 0.1 -1\nfallbackdrift 16 19\n\
         fallbackdrift 0 0\ntempcomp /t 30 26000 0.0 0.000183 0.0\nsmoothtime 400 0.001 leaponly\nmaxchange 1000 1 -1\n",
    );
    assert_eq!(settings.clock.drift_file, Some("b".into()));
    assert_eq!(settings.clock.drift_file_interval, 60.0);
    let addresses: Vec<String> = settings
        .serve
        .bind_addresses
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(addresses, ["::1", "127.0.0.1"]);
    assert_eq!(settings.commands.socket, CommandSocket(None));
    assert_eq!(
        settings.clock.makestep,
        Some(MakeStep {
            threshold: 0.1,
            limit: None
        })
    );
    assert_eq!(settings.clock.fallback_drift, None);
    assert_eq!(settings.clock.max_change.unwrap().ignore, None);
    assert!(settings.clock.smoothtime.unwrap().leap_only);
    assert!(settings.clock.temperature.is_some());
    assert_eq!(quiet("makestep 1 0").clock.makestep, None);
}

#[test]
fn an_address_of_one_family_leaves_the_other_one_open_to_those_who_may_ask() {
    for (lines, expected) in [
        ("bindaddress 192.0.2.7\nallow", "192.0.2.7 ::"),
        ("allow\nbindaddress ::1", "::1 0.0.0.0"),
        (
            "bindaddress 192.0.2.7\nallow ntp.example.org",
            "192.0.2.7 ::",
        ),
        ("bindaddress 192.0.2.7\nallow 2001:db8::/32", "192.0.2.7 ::"),
        (
            "bindaddress 192.0.2.7\nallow 192.0.2.0/24\ndeny ::/0",
            "192.0.2.7",
        ),
        ("bindaddress 192.0.2.7", "192.0.2.7"),
        ("allow", ""),
    ] {
        let addresses = quiet(lines).serve.bind_addresses;
        let written: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        assert_eq!(written.join(" "), expected, "{lines}");
    }
}

#[test]
fn what_does_nothing_here_says_why() {
    for text in [
        "broadcast 32 192.0.2.255",
        "user chrony",
        "ntsservercert x",
        "rtcfile x",
        "log rtc",
        "server a extfield F323",
        "server a:123",
        "initstepslew 1 a",
        "dumpdir /x",
        "server a\nserver a",
    ] {
        let conf = parse_bytes(text.as_bytes()).unwrap();
        let notes = conf.draft.notes;
        assert_eq!(notes.len(), 1, "{text}: {notes:?}");
    }
    // As in chronyd, an access list decides on clients alone.
    let of_peer = quiet("peer a key 7");
    assert_eq!((of_peer.server, of_peer.peer.len()), (Vec::new(), 1));
    assert_eq!(of_peer.peer[0].key, Some(7));
    assert!(of_peer.serve.access.is_empty());
    assert_eq!(settings("server a\nserver a").server, [server("a")]);
    assert_eq!(
        settings("initstepslew 30 a").clock.makestep,
        Some(MakeStep {
            threshold: 30.0,
            limit: Some(1)
        })
    );
}

#[test]
fn directives_are_known_once_and_in_order() {
    let names: Vec<&str> = names().collect();
    assert!(names.is_sorted_by(|a, b| a < b));
}

//--- Files

#[test]
fn files_are_included_in_order_and_once_a_name() {
    let mut files = Tree::new(&[
        (
            "/c",
            "include /i/*.conf\nconfdir /over /d\nserver last\ninclude /no/*.conf\n",
        ),
        ("/i/2.conf", "server two"),
        ("/i/1.conf", "server one"),
        ("/i/.0.conf", "server hidden"),
        ("/i/3.conf.bak", "server backup"),
        ("/d/b.conf", "server b"),
        ("/d/a.conf", "server a"),
        ("/d/a.sources", "server no"),
        ("/over/b.conf", "server B"),
    ]);
    let conf = parse(Path::new("/c"), &mut files).unwrap();
    let hosts: Vec<String> = conf
        .draft
        .config
        .server
        .iter()
        .map(|s| s.host.to_string())
        .collect();
    assert_eq!(hosts, ["one", "two", "a", "B", "last"]);
    assert_eq!(conf.draft.notes.len(), 1);
    assert_eq!(conf.files.len(), 5);
    let mut nested = Tree::new(&[
        ("/x", "include /s*/[ab]?.conf"),
        ("/s1/a1.conf", "server a1"),
        ("/s2/b2.conf", "server b2"),
        ("/s2/c3.conf", "server c3"),
    ]);
    let conf = parse(Path::new("/x"), &mut nested).unwrap();
    assert_eq!(conf.draft.config.server, [server("a1"), server("b2")]);
}

#[test]
fn files_that_include_themselves_come_to_an_end() {
    let mut files = Tree::new(&[("/c", "include /c\n")]);
    let rejected = parse(Path::new("/c"), &mut files).unwrap_err().to_string();
    assert_eq!(
        rejected,
        "/c:1:9: files include each other more than 10 deep"
    );
    let mut files = Tree::new(&[("/c", "include /c\ninclude /c\n")]);
    let rejected = parse(Path::new("/c"), &mut files).unwrap_err();
    assert!(rejected.problems.0.len() <= 100);
}
