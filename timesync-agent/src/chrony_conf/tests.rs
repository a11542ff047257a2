#![expect(clippy::float_cmp, reason = "numbers come back as they were written")]

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::*;
use crate::settings::*;

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

fn settings(text: &str) -> Settings {
    let conf = parse_bytes(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
    conf.settings
}

fn quiet(text: &str) -> Settings {
    let conf = parse_bytes(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(conf.warnings, [], "{text}");
    conf.settings
}

fn problem(text: &str) -> String {
    parse_bytes(text.as_bytes()).expect_err(text).to_string()
}

fn server(host: &str) -> SourceSettings {
    SourceSettings {
        host: Host::parse(host),
        pool: None,
        options: SourceOptions::default(),
    }
}

//--- Whole files

const SEED: &str = "\
pool 0.tw.pool.ntp.org iburst
pool 3.tw.pool.ntp.org iburst
driftfile /var/lib/chrony/drift
makestep 1.0 3
rtcsync
keyfile /etc/chrony.keys
leapsectz right/UTC
logdir /var/log/chrony
";

#[test]
fn the_file_of_an_openshift_node_is_read_as_it_is() {
    let settings = quiet(SEED);
    let pool = |name: &str| SourceSettings {
        host: Host::Name(name.to_owned()),
        pool: Some(4),
        options: SourceOptions {
            iburst: true,
            ..SourceOptions::default()
        },
    };
    assert_eq!(
        settings.sources,
        [pool("0.tw.pool.ntp.org"), pool("3.tw.pool.ntp.org")]
    );
    let expected = Settings {
        sources: settings.sources.clone(),
        clock: ClockSettings {
            drift_file: Some("/var/lib/chrony/drift".into()),
            makestep: Some(MakeStep {
                threshold: 1.0,
                limit: Some(3),
            }),
            rtcsync: true,
            ..ClockSettings::default()
        },
        key_file: Some("/etc/chrony.keys".into()),
        leap: LeapSettings {
            time_zone: Some("right/UTC".to_owned()),
            ..LeapSettings::default()
        },
        logs: LogSettings {
            directory: Some("/var/log/chrony".into()),
            ..LogSettings::default()
        },
        ..Settings::default()
    };
    assert_eq!(settings, expected);
}

/// What the documentation of OpenShift gives to the control plane of a disconnected cluster.
const DISCONNECTED: &str = "\
# Use public servers from the pool.ntp.org project.
# Please consider joining the pool (https://www.pool.ntp.org/join.html).

# This file is managed by the machine config operator
server openshift-master-0.cluster.example.org iburst
server openshift-master-1.cluster.example.org iburst
server openshift-master-2.cluster.example.org iburst

stratumweight 0
driftfile /var/lib/chrony/drift
rtcsync
makestep 10 3
bindcmdaddress 127.0.0.1
bindcmdaddress ::1
keyfile /etc/chrony.keys
commandkey 1
generatecommandkey
noclientlog
logchange 0.5
logdir /var/log/chrony

# Configure the control plane nodes to serve as local NTP servers
# for all worker nodes, even if they are not in sync with an
# upstream NTP server.

# Allow NTP client access from the local network.
allow all
# Serve time even if not synchronized to a time source.
local stratum 3 orphan
";

#[test]
fn the_file_of_a_disconnected_control_plane_is_read_as_it_is() {
    let conf = parse_bytes(DISCONNECTED.as_bytes()).unwrap();
    let warnings: Vec<String> = conf.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "chrony.conf:16:1: `commandkey` does nothing: chrony does not know it either any more",
            "chrony.conf:17:1: `generatecommandkey` does nothing: chrony does not know it either any more",
        ]
    );
    let settings = conf.settings;
    assert_eq!(settings.sources.len(), 3);
    assert!(settings.sources.iter().all(|source| source.options.iburst));
    assert_eq!(settings.selection.stratum_weight, 0.0);
    assert_eq!(settings.clock.log_change, 0.5);
    assert!(settings.server.no_client_log && settings.server.is_open());
    assert_eq!(
        settings.server.access,
        [AccessRule {
            allow: true,
            all: true,
            whom: Whom::Everybody
        }]
    );
    let local = Local {
        stratum: 3,
        orphan: true,
        ..Local::default()
    };
    assert_eq!(settings.local, Some(local));
    let listen: Vec<String> = settings
        .commands
        .listen()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(listen, ["127.0.0.1:323", "[::1]:323"]);
}

#[test]
fn what_debian_installs_is_read_as_it_is() {
    let mut files = Tree::new(&[
        (
            "/etc/chrony/chrony.conf",
            "confdir /etc/chrony/conf.d\npool 2.debian.pool.ntp.org iburst\nsourcedir /run/chrony-dhcp\n\
             sourcedir /etc/chrony/sources.d\nkeyfile /etc/chrony/chrony.keys\n\
             driftfile /var/lib/chrony/chrony.drift\nntsdumpdir /var/lib/chrony\n\
             #log tracking measurements statistics\nlogdir /var/log/chrony\nmaxupdateskew 100.0\nrtcsync\n\
             makestep 1 3\nleapsectz right/UTC\n",
        ),
        ("/etc/chrony/conf.d/README", "server README"),
        ("/etc/chrony/sources.d/README", "server README"),
        (
            "/etc/chrony/sources.d/site.sources",
            "server ntp.example.org\nrtcsync\nserver\n# none\nserver 192.0.2.1 key\n",
        ),
    ]);
    let conf = parse(Path::new("/etc/chrony/chrony.conf"), &mut files).unwrap();
    let hosts: Vec<String> = conf
        .settings
        .sources
        .iter()
        .map(|s| s.host.to_string())
        .collect();
    assert_eq!(hosts, ["2.debian.pool.ntp.org", "ntp.example.org"]);
    let warnings: Vec<String> = conf.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "/etc/chrony/chrony.conf:7:1: `ntsdumpdir` does nothing: NTS is not spoken here",
            "/etc/chrony/sources.d/site.sources:2:1: left out: only `server`, `pool` and `peer` stand in such a file",
            "/etc/chrony/sources.d/site.sources:3:7: left out: `server` names no host",
            "/etc/chrony/sources.d/site.sources:5:21: left out: `key` has no value",
        ]
    );
    let (sources, warnings) =
        parse_source_directories(&conf.settings.source_directories, &mut files);
    assert_eq!((sources.len(), warnings.len()), (1, 3));
}

//--- Lines

#[test]
fn lines_are_taken_apart_as_chronyd_does() {
    let settings = quiet(
        "\t  SERVER\tNTP.Example.ORG \x0b IBurst MINPOLL\r 4  \n! a\n ; b\n#c\n  % d\n#\n\n  RtcSync  \n",
    );
    let source = settings.sources.first().unwrap();
    assert_eq!(source.host, Host::Name("NTP.Example.ORG".to_owned()));
    assert!(source.options.iburst && settings.clock.rtcsync);
    assert_eq!(source.options.minpoll, 4);
    // A comment behind a directive is none.
    assert_eq!(
        problem("rtcsync # always"),
        "chrony.conf:1:9: `rtcsync` has too many arguments; a comment stands on a line of its own"
    );
    // Another encoding in a comment harms nobody, nor does a last line without an end.
    assert!(
        parse_bytes(b"# f\xfcr alle\nrtcsync")
            .unwrap()
            .settings
            .clock
            .rtcsync
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn every_problem_has_its_place_and_the_nearest_word() {
    for (text, expected) in [
        (
            "rtcsinc",
            "chrony.conf:1:1: chrony knows no directive `rtcsinc`; did you mean `rtcsync`?",
        ),
        (
            "\nfrobnicate 1",
            "chrony.conf:2:1: chrony knows no directive `frobnicate`",
        ),
        ("server", "chrony.conf:1:7: `server` names no host"),
        (
            "server a ibrust",
            "chrony.conf:1:10: `server` has no option `ibrust`; did you mean `iburst`?",
        ),
        (
            "server a minpoll",
            "chrony.conf:1:17: `minpoll` has no value",
        ),
        (
            "server ä minpoll x",
            "chrony.conf:1:18: `x` is no whole number",
        ),
        (
            "server a key 0",
            "chrony.conf:1:14: `0` is no number of a key",
        ),
        (
            "server a port 70000",
            "chrony.conf:1:15: `70000` is no port, 0 to 65535",
        ),
        (
            "driftfile",
            "chrony.conf:1:10: `driftfile` has too few arguments",
        ),
        (
            "driftfile a b",
            "chrony.conf:1:13: `driftfile` has no option `b`",
        ),
        (
            "makestep 1",
            "chrony.conf:1:11: `makestep` has too few arguments",
        ),
        ("makestep 1 x", "chrony.conf:1:12: `x` is no whole number"),
        ("makestep nan 1", "chrony.conf:1:10: `nan` is no number"),
        (
            "local stratum 16",
            "chrony.conf:1:15: `16` is no stratum from 1 to 15",
        ),
        (
            "log traking",
            "chrony.conf:1:5: `log` has no option `traking`; did you mean `tracking`?",
        ),
        (
            "allow 1.2.3.4/33",
            "chrony.conf:1:7: a prefix of 33 bits is too long for 1.2.3.4",
        ),
        (
            "allow all example.org/8",
            "chrony.conf:1:11: `example.org/8` is no network",
        ),
        (
            "allow 1.2.3.4 b",
            "chrony.conf:1:15: `b` is one word too many",
        ),
        (
            "bindaddress example.org",
            "chrony.conf:1:13: `example.org` is no address",
        ),
        (
            "refclock PHC",
            "chrony.conf:1:13: `refclock` takes a driver and its parameter, as in `refclock PHC /dev/ptp0`",
        ),
        (
            "refclock PCH /dev/ptp0",
            "chrony.conf:1:10: no reference clock has the driver `PCH`; did you mean `PHC`?",
        ),
        (
            "refclock SHM x",
            "chrony.conf:1:14: `x` is no parameter of SHM",
        ),
        (
            "refclock PHC /dev/ptp0:pps",
            "chrony.conf:1:14: driver PHC has no option `pps`",
        ),
        (
            "refclock PHC /dev/ptp0 refid ABCDE",
            "chrony.conf:1:30: `ABCDE` is no refid, which has one to four letters",
        ),
        (
            "refclock PPS /dev/pps0 lock GPS",
            "chrony.conf:1:29: no reference clock has the refid `GPS`",
        ),
        (
            "leapsecmode smear",
            "chrony.conf:1:13: `smear` is none of `system`, `step`, `slew`, `ignore`",
        ),
        (
            "hwtimestamp eth0 rxfilter x",
            "chrony.conf:1:27: `x` is none of `none`, `ntp`, `ptp`, `all`",
        ),
        (
            "include /none",
            "chrony.conf:1:9: cannot read /none: entity not found",
        ),
        (
            "server a nts",
            "chrony.conf:1:10: NTS is not spoken here, and a source that is to be authenticated is not asked without: use `key`, or leave `nts` out",
        ),
    ] {
        let mut files = Tree::new(&[("chrony.conf", text)]);
        let rejected = parse(Path::new("chrony.conf"), &mut files).expect_err(text);
        assert_eq!(rejected.to_string(), expected, "{text}");
    }
    assert_eq!(
        parse_bytes(b"foo\nbar\n").unwrap_err().problems.len(),
        2,
        "all problems are told"
    );
}

#[test]
fn numbers_out_of_range_are_bent_and_told() {
    let conf = parse_bytes(
        b"server a minpoll 99\nserver b minpoll 8 maxpoll 3\nserver c minpoll 12\nserver d version 9\n\
          pool e maxsources 99\nratelimit interval -30 burst 0 leak 9\nminsources 0\nmaxslewrate 1e9\n",
    )
    .unwrap();
    let polls: Vec<(i8, i8)> = conf
        .settings
        .sources
        .iter()
        .map(|source| (source.options.minpoll, source.options.maxpoll))
        .collect();
    assert_eq!(polls, [(24, 24), (8, 8), (12, 12), (6, 10), (6, 10)]);
    assert_eq!(conf.settings.sources[3].options.version, Some(4));
    assert_eq!(conf.settings.sources[4].pool, Some(16));
    let limit = RateLimit {
        interval: -19,
        burst: 1,
        leak: 4,
        kod: 0,
    };
    assert_eq!(conf.settings.server.rate_limit, Some(limit));
    assert_eq!(conf.settings.selection.min_sources, 1);
    assert_eq!(conf.settings.clock.max_slew_rate, 100_000.0);
    assert_eq!(conf.warnings.len(), 9, "{:?}", conf.warnings);
}

//--- Directives

#[test]
fn every_option_of_a_server_is_taken() {
    let settings = quiet(
        "server 192.0.2.1 port 124 minpoll -2 maxpoll 3 polltarget 20 iburst burst presend 9 xleave version 3 key 7 \
         auto_offline maxdelay 0.5 maxdelayratio 4 maxdelaydevratio 5 maxdelayquant 0.2 mindelay 1e-4 asymmetry -0.5 \
         offset -5e-5 filter 4 minsamples 8 maxsamples 16 prefer noselect trust require copy ipv4 maxunreach 8 \
         certset 1 ntsport 4460\n\
         server 2001:db8::1 offline ipv6 filter 0 maxsamples 0 maxdelayratio 0\n",
    );
    let all = SelectOptions {
        noselect: true,
        prefer: true,
        trust: true,
        require: true,
    };
    let expected = SourceOptions {
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
        connectivity: Connectivity::AutoOffline,
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
        select: all,
        copy: true,
        family: Some(Family::V4),
        max_unreach: 8,
    };
    assert_eq!(settings.sources[0].options, expected);
    let mut second = server("2001:db8::1");
    second.options.connectivity = Connectivity::Offline;
    second.options.family = Some(Family::V6);
    assert_eq!(settings.sources[1], second);
}

#[test]
fn access_lists_keep_their_order() {
    let settings = quiet(
        "allow 1.2.3.4\ndeny 3.4.5\nallow 1.2.0.0/16\nallow all 10/8\nallow 2001:db8::1/32\nallow 0/0\ndeny ::/0\n\
         deny all\nallow\nallow client.example.org\ncmdallow 192.168\ncmddeny all\n",
    );
    let rules: Vec<String> = settings
        .server
        .access
        .iter()
        .map(|rule| {
            let word = if rule.allow { "allow" } else { "deny" };
            let all = if rule.all { " all" } else { "" };
            let whom = match &rule.whom {
                Whom::Everybody => String::new(),
                Whom::Network(network) => format!(" {network}"),
                Whom::Name(name) => format!(" {name}"),
            };
            format!("{word}{all}{whom}")
        })
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
    assert!(!Settings::default().server.is_open());
    assert!(!quiet("deny all\n").server.is_open());
    assert!(!quiet("allow\nport 0\n").server.is_open());
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
    let drivers: Vec<RefclockDriver> = settings
        .refclocks
        .iter()
        .map(|clock| clock.driver.clone())
        .collect();
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
    let ids: Vec<String> = settings
        .refclocks
        .iter()
        .map(|clock| reference_id_text(clock.options.reference_id))
        .collect();
    assert_eq!(ids, ["PHC0", "PHC1", "NMEA", "SOC3", "PPS", "PTP"]);
    assert_eq!(settings.refclocks[0].options.driver_poll, -2);
    assert_eq!(settings.refclocks[0].options.offset, -37.0);
    assert_eq!(settings.refclocks[4].options.lock, reference_id("NMEA"));
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
        .server
        .bind_addresses
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(addresses, ["::1", "127.0.0.1"]);
    assert_eq!(settings.commands.socket, None);
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
fn what_does_nothing_here_says_why() {
    for text in [
        "peer a",
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
        assert_eq!(conf.warnings.len(), 1, "{text}: {:?}", conf.warnings);
    }
    assert_eq!(settings("peer a").sources, [server("a")]);
    assert_eq!(settings("server a\nserver a").sources, [server("a")]);
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
        .settings
        .sources
        .iter()
        .map(|s| s.host.to_string())
        .collect();
    assert_eq!(hosts, ["one", "two", "a", "B", "last"]);
    assert_eq!(conf.warnings.len(), 1);
    assert_eq!(conf.files.len(), 5);
    let mut nested = Tree::new(&[
        ("/x", "include /s*/[ab]?.conf"),
        ("/s1/a1.conf", "server a1"),
        ("/s2/b2.conf", "server b2"),
        ("/s2/c3.conf", "server c3"),
    ]);
    let conf = parse(Path::new("/x"), &mut nested).unwrap();
    assert_eq!(conf.settings.sources, [server("a1"), server("b2")]);
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
    assert!(rejected.problems.len() <= 100);
}
