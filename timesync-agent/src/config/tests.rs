use std::path::PathBuf;

use config_text::OneFile;
use daemon::config::Document;

use super::*;
use crate::args::ConfigArgs;

fn v1(text: &str) -> Result<Config, Problems> {
    v1::parse(&Document::inline("x.toml", text), &mut OneFile(b""))
}

fn problem(text: &str) -> String {
    v1(text).expect_err(text).to_string()
}

/// Every key of chrony.conf that means something here, none with its default.
const EVERYTHING: &str = "\
server 192.0.2.1 port 124 minpoll -2 maxpoll 3 polltarget 20 iburst burst presend 9 xleave version 3 key 7 auto_offline \
maxdelay 0.5 maxdelayratio 4 maxdelaydevratio 5 maxdelayquant 0.2 mindelay 1e-4 asymmetry -0.5 offset -5e-5 filter 4 \
minsamples 8 maxsamples 16 prefer noselect trust require copy ipv4 minstratum 5 maxunreach 8
pool pool.example.org maxsources 3
server ntp.example.org offline ipv6 minpoll 12
pool pool.example.net
refclock PHC /dev/ptp0 poll 0 dpoll -2 offset -37
refclock PHC /dev/ptp1:nocrossts:extpps:pin=1:channel=2:clear width 0.2 poll 2 tai local
refclock SHM 0:perm=0644 refid NMEA noselect delay 0.2 precision 1e-3 maxdispersion 0.1
refclock SOCK /run/chrony.ttyS0.sock stratum 1 filter 16 minsamples 4 maxsamples 8 prefer
refclock PPS /dev/pps0:clear lock NMEA rate 5 maxlockage 3 refid PPS pps trust require maxunreach 2
refclock PTP4L /run/ptp4l:domain=24 refid PTP
authselectmode require
minsources 2
maxdistance 1.5
maxjitter 0.3
combinelimit 0
reselectdist 1e-6
stratumweight 0
driftfile /var/lib/chrony/drift interval 60
makestep 0.1 -1
maxchange 1000 1 2
maxslewrate 500
maxdrift 100
maxupdateskew 10
maxclockerror 0.1
corrtimeratio 10
clockprecision 8e-9
rtcsync
fallbackdrift 16 19
smoothtime 400 0.001024 leaponly
tempcomp /sys/t 30 26000 0.0 0.000183 0.0
logchange 0.1
leapsectz right/UTC
leapseclist /usr/share/zoneinfo/leap-seconds.list
leapsecmode slew
local stratum 3 orphan distance 0.1 activate 0.5 waitsynced 60 waitunsynced 300
acquisitionport 1123
bindacqaddress 192.0.2.7
bindacqdevice eth0
dscp 46
minsamples 8
maxsamples 32
hwtimestamp eth0 minpoll -2 maxpoll 2 minsamples 4 maxsamples 32 precision 5e-8 txcomp 3e-7 rxcomp -6e-7 nocrossts rxfilter all
hwtimestamp *
port 11123
bindaddress 192.0.2.7
bindaddress ::1
binddevice eth1
allow all 192.168
deny 192.168.7.1
allow client.example.org
allow
ratelimit interval 1 burst 16 kod 2
clientloglimit 1048576
noclientlog
cmdport 11323
bindcmdaddress 127.0.0.2
bindcmdaddress /
bindcmddevice lo
cmdallow 127.0.0.0/8
cmdratelimit
opencommands tracking sources
keyfile /etc/chrony.keys
logdir /var/log/chrony
logbanner 0
log measurements rawmeasurements refclocks selection statistics tempcomp tracking
";

#[test]
fn a_chrony_conf_means_the_same_as_toml() {
    let conf = peer_chrony::parse_bytes(EVERYTHING.as_bytes()).unwrap();
    assert_eq!(conf.warnings, []);
    let text = toml(&conf.settings);
    let config = v1(&text).unwrap_or_else(|problems| panic!("{text}\n{problems}"));
    assert_eq!(config.settings, conf.settings, "{text}");
    // Nothing but the version is written of what has its default.
    assert_eq!(toml(&Settings::default()), "version = \"v1\"\n");
    let default = v1("version = \"v1\"").unwrap();
    assert_eq!(default.settings, Settings::default());
    assert!(default.corrects_clock && default.batch);
}

#[test]
fn ptp_is_written_as_it_is_read() {
    let text = "version = \"v1\"\n\n[[ptp]]\ninterface = \"eth0\"\ntransport = \"ethernet\"\ntimestamps = \"software\"\n\
                domain = 24\ndelay = \"p2p\"\ndelay-interval = -2\nannounce-interval = -3\nannounce-timeout = 5\n\
                asymmetry = \"100ns\"\nutc-offset = 37\nrefid = \"PTP0\"\npoll = 0\nprefer = true\n";
    let config = v1(text).unwrap();
    assert_eq!(toml(&config.settings), text);
}

#[test]
fn what_the_toml_says_comes_on_top_of_the_chrony_conf() {
    let text = "version = \"v1\"\nchrony-conf = \"chrony.conf\"\ncorrect-clock = false\nnode = \"n0\"\nbatch = false\nthreads = 2\n\
                [[server]]\nhost = \"b\"\n[clock]\nmakestep = { threshold = 2 }\n[health]\nendpoint = \"none\"\n";
    let document = Document::inline("x.toml", text);
    let conf = b"server a\nrtcsync\nmakestep 1 3\nuser chrony\n";
    let config = v1::parse(&document, &mut OneFile(conf)).unwrap();
    let hosts: Vec<String> = config
        .settings
        .sources
        .iter()
        .map(|s| s.host.to_string())
        .collect();
    assert_eq!(hosts, ["a", "b"]);
    let clock = &config.settings.clock;
    assert!(clock.rtcsync && clock.makestep.unwrap().limit.is_none());
    assert_eq!(config.warnings.len(), 1);
    assert!(!config.corrects_clock && !config.batch && config.health.is_none());
    assert_eq!((config.threads, config.node.as_str()), (Some(2), "n0"));
    let refused = v1::parse(&document, &mut OneFile(b"\nsrever a\n")).unwrap_err();
    assert!(
        refused.to_string().starts_with("chrony.conf:2:1: "),
        "{refused}"
    );
}

#[test]
fn every_problem_has_its_place() {
    for (text, expected) in [
        ("version = \"v1\"\n[clokc]\n", "x.toml:2:2: "),
        (
            "version = \"v1\"\n[[server]]\nhost = \"a\"\nminpol = 4\n",
            "x.toml:4:1: ",
        ),
        (
            "version = \"v1\"\n[[server]]\nhost = \"a\"\nminpoll = 99\n",
            "x.toml:4:11: is to be from -7 to 24",
        ),
        (
            "version = \"v1\"\n[[server]]\nhost = \"a\"\nminpoll = 8\nmaxpoll = 4",
            "x.toml:5:11: `maxpoll` is below `minpoll`",
        ),
        (
            "version = \"v1\"\n[[server]]\nhost = \"a\"\nmaxsources = 4\n",
            "x.toml:4:14: `maxsources` is for a `[[pool]]`",
        ),
        (
            "version = \"v1\"\n[[server]]\nhost = \"a b\"\n",
            "x.toml:3:8: neither an address nor a name",
        ),
        (
            "version = \"v1\"\n[local]\nstratum = 16\n",
            "x.toml:3:11: is to be from 1 to 15",
        ),
        (
            "version = \"v1\"\n[selection]\nmaxdistance = \"-1s\"\n",
            "x.toml:3:15: is to be from 0 s to 1000000000 s",
        ),
        (
            "version = \"v1\"\n[selection]\nauthselectmode = \"x\"\n",
            "x.toml:3:18: is one of `require`, `prefer`, `mix`, `ignore`",
        ),
        (
            "version = \"v1\"\n[serve]\naccess = [\"allow 1.2.3.4/40\"]\n",
            "x.toml:3:11: a prefix of 40 bits is too long for 1.2.3.4",
        ),
        (
            "version = \"v1\"\n[serve]\naccess = [\"permit all\"]\n",
            "x.toml:3:11: a line begins with `allow` or `deny`, as in \"allow 192.168.7.0/24\"",
        ),
        (
            "version = \"v1\"\n[[refclock]]\ndriver = \"PHC\"\n",
            "x.toml:3:10: a clock of driver PHC needs its `device`",
        ),
        (
            "version = \"v1\"\n[[refclock]]\ndriver = \"GPS\"\n",
            "x.toml:3:10: is one of `PHC`, `PPS`, `SHM`, `SOCK`, `PTP4L`",
        ),
        (
            "version = \"v1\"\n[[refclock]]\ndriver = \"SHM\"\nsegment = 0\nlock = \"GPS\"\n",
            "x.toml:5:8: no reference clock has this refid",
        ),
        (
            "version = \"v1\"\n[logs]\nwrite = [\"rtc\"]\n",
            "x.toml:3:10: there is no log `rtc`",
        ),
        (
            "version = \"v1\"\n[health]\nendpoint = \"x\"\n",
            "x.toml:3:12: ",
        ),
        ("version = \"v2\"\n", "x.toml:1:"),
    ] {
        let problem = problem(text);
        assert!(problem.starts_with(expected), "{text}: {problem}");
    }
}

#[test]
fn an_import_says_what_is_not_carried_over() {
    let directory = tempfile::tempdir().unwrap();
    let path: PathBuf = directory.path().join("chrony.conf");
    std::fs::write(&path, "server ntp.example.org iburst\nuser chrony\n").unwrap();
    let (text, remarks) = import(&path).unwrap();
    let expected = "# not carried: line 2: `user` does nothing: the service manager sets it\n\
                    version = \"v1\"\n\n[[server]]\nhost = \"ntp.example.org\"\niburst = true\n";
    assert_eq!((text.as_str(), remarks.len()), (expected, 1));
    let args = ConfigArgs {
        chrony_conf: Some(path),
        no_clock: true,
        ..ConfigArgs::default()
    };
    let config = read(&args).unwrap();
    assert!(!config.corrects_clock);
    assert_eq!(
        config.summary(),
        "1 server: ntp.example.org, serves no client"
    );
}

//--- The template

const TEMPLATE: &str = include_str!("../../../deploy/config/timesync-agent.toml");

/// The template with its keys, but for those that begin with one of these, and with its tables.
fn uncommented(with_tables: bool, without: &[&str]) -> String {
    let mut is_in_table = false;
    let mut text = String::new();
    for line in TEMPLATE.lines() {
        is_in_table = match line {
            _ if line.starts_with("#[") => true,
            _ if line.starts_with('[') => false,
            _ => is_in_table,
        };
        let code = line.strip_prefix('#').filter(|rest| {
            let is_table = rest.starts_with('[');
            let is_key = rest.starts_with(|c: char| c.is_ascii_lowercase());
            (is_table || is_key)
                && (with_tables || !is_in_table)
                && !without
                    .iter()
                    .any(|key| rest.starts_with(&format!("{key} =")))
        });
        text.push_str(code.unwrap_or(line));
        text.push('\n');
    }
    text
}

#[test]
fn the_template_is_the_default_configuration() {
    let template = v1(TEMPLATE).unwrap();
    let default = v1("version = \"v1\"").unwrap();
    assert_eq!(format!("{template:?}"), format!("{default:?}"));
}

#[test]
fn what_the_template_shows_as_defaults_are_the_defaults() {
    // Keys without a default, and tables as a whole, show an example.
    let examples = [
        "access",
        "addresses",
        "chrony-conf",
        "clockprecision",
        "device",
        "directory",
        "driftfile",
        "fallbackdrift",
        "hwtimestamp",
        "key-file",
        "list",
        "makestep",
        "maxchange",
        "maxsamples",
        "node",
        "ratelimit",
        "smoothtime",
        "source-directories",
        "tempcomp",
        "threads",
        "timezone",
        "write",
    ];
    let text = uncommented(false, &examples);
    assert!(text.contains("\nmaxdistance = \"3s\"\n"), "{text}");
    let shown = v1(&text).unwrap_or_else(|problems| panic!("{text}\n{problems}"));
    let mut default = v1("version = \"v1\"").unwrap();
    // Zero is none.
    default.settings.client.port = shown.settings.client.port.filter(|port| *port == 0);
    // One part in a thousand million apart, as decimal numbers are.
    default.settings.clock.max_slew_rate = shown.settings.clock.max_slew_rate;
    assert!((shown.settings.clock.max_slew_rate - 1e6 / 12.0).abs() < 1e-3);
    assert_eq!(format!("{shown:?}"), format!("{default:?}"));
}

#[test]
fn every_key_of_the_template_is_understood_and_every_key_is_in_it() {
    let text = uncommented(true, &["chrony-conf", "lock", "source-directories"]);
    let config = v1(&text).unwrap_or_else(|problems| panic!("{text}\n{problems}"));
    assert_eq!(config.settings.sources.len(), 2);
    assert_eq!(config.settings.refclocks.len(), 2);
    let keys = include_str!("v1/spec.rs").lines().filter_map(|line| {
        let field = line.trim().strip_prefix("pub(super) ")?;
        let (name, _) = field.split_once(": ")?;
        // The version of the protocol is `version`, as that of the file is.
        let is_key = name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        (is_key && name != "ntp_version").then(|| name.replace('_', "-"))
    });
    for key in keys {
        let is_there = [
            format!("#{key} ="),
            format!("[{key}]"),
            format!("{key} = "),
            format!("`{key}`"),
        ];
        assert!(
            is_there.iter().any(|form| TEMPLATE.contains(form)),
            "no {key} in the template"
        );
    }
}
