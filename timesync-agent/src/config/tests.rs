use std::path::{Path, PathBuf};

use config_text::{Files, OneFile};

use super::*;
use crate::args::ConfigArgs;

fn v1(text: &str) -> Result<Config, Problems> {
    Config::from_document(&Document::inline("x.toml", text), &mut OneFile(b""))
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
    let draft = peer_chrony::parse_bytes(EVERYTHING.as_bytes())
        .unwrap()
        .draft;
    assert_eq!(draft.notes, []);
    let text = draft.written("").unwrap().to_string();
    let config = v1(&text).unwrap_or_else(|problems| panic!("{text}\n{problems}"));
    assert_eq!(config.file, draft.config, "{text}");
    assert_eq!(config.settings, Settings::new(&draft.config), "{text}");
    // Nothing but the version is written of what has its default.
    let nothing = Draft {
        config: TimesyncAgent::default(),
        notes: Vec::new(),
    };
    assert_eq!(
        nothing.written("").unwrap().to_string(),
        "version = \"v1\"\n"
    );
    let default = v1("version = \"v1\"").unwrap();
    assert_eq!(default.file, TimesyncAgent::default());
    assert_eq!(default.settings, Settings::default());
    assert!(default.file.correct_clock && default.file.batch);
}

#[test]
fn ptp_is_written_as_it_is_read() {
    let text = "version = \"v1\"\n\n[[ptp]]\ninterface = \"eth0\"\ntransport = \"ethernet\"\ntimestamps = \"software\"\n\
                domain = 24\ndelay = \"p2p\"\ndelay-interval = -2\nannounce-interval = -3\nannounce-timeout = 5\n\
                asymmetry = \"100ns\"\nutc-offset = 37\nrefid = \"PTP0\"\npoll = 0\nprefer = true\n";
    let config = v1(text).unwrap();
    let written = ::config::Written::new(&config.file).unwrap();
    assert_eq!(written.to_string(), text);
}

#[test]
fn what_the_toml_says_comes_on_top_of_the_chrony_conf() {
    let text = "version = \"v1\"\nchrony-conf = \"chrony.conf\"\ncorrect-clock = false\nnode = \"n0\"\nbatch = false\nthreads = 2\n\
                [[server]]\nhost = \"b\"\n[clock]\nmakestep = { threshold = 2 }\n[health]\nendpoint = \"none\"\n";
    let document = Document::inline("x.toml", text);
    let conf = b"server a\nrtcsync\nmakestep 1 3\nuser chrony\n";
    let config = Config::from_document(&document, &mut OneFile(conf)).unwrap();
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
    let file = &config.file;
    assert!(!file.correct_clock && !file.batch && file.health.endpoint.0.is_none());
    assert_eq!((file.threads, config.node().as_str()), (Some(2), "n0"));
    let refused = Config::from_document(&document, &mut OneFile(b"\nsrever a\n")).unwrap_err();
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
            "x.toml:4:11: 99 is out of range; `minpoll` is from -7 to 24",
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
            "x.toml:3:11: 16 is out of range; `stratum` is from 1 to 15",
        ),
        (
            "version = \"v1\"\n[selection]\nmaxdistance = \"-1s\"\n",
            "x.toml:3:15: -1 s is out of range; `maxdistance` is from 0 s to 1000000000 s",
        ),
        (
            "version = \"v1\"\n[selection]\nauthselectmode = \"x\"\n",
            "x.toml:3:18: unknown value `x`, known here: `require`, `prefer`, `mix`, `ignore`",
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
            "x.toml:3:10: unknown value `GPS`, ",
        ),
        (
            "version = \"v1\"\n[[refclock]]\ndriver = \"SHM\"\nsegment = 0\nlock = \"GPS\"\n",
            "x.toml:5:8: no reference clock has this refid",
        ),
        (
            "version = \"v1\"\n[logs]\nwrite = [\"rtc\"]\n",
            "x.toml:3:10: unknown value `rtc`, ",
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
fn lists_of_the_toml_follow_those_of_the_chrony_conf() {
    let conf = b"pool p\nserver a\nallow 10/8\ncmdallow 10/8\nlogdir /l\nlog tracking\nrefclock SHM 0 refid GPS\nmaxdistance 1\n\
                 hwtimestamp eth0\nsourcedir /a\nport 1123\nmakestep 1 3\nlocal stratum 3 orphan\n";
    let text = "version = \"v1\"\nchrony-conf = \"chrony.conf\"\nsource-directories = [\"/b\"]\n[[server]]\nhost = \"b\"\n\
                [[pool]]\nhost = \"q\"\n[[server]]\nhost = \"c\"\n[[refclock]]\ndriver = \"PPS\"\ndevice = \"/p\"\nlock = \"GPS\"\n\
                [serve]\naccess = [\"deny 10.1\"]\n[logs]\nwrite = [\"statistics\"]\n[selection]\nmaxdistance = \"3s\"\n\
                [[client.hwtimestamp]]\ninterface = \"eth1\"\n[local]\nstratum = 5\n";
    let document = Document::inline("x.toml", text);
    let config = Config::from_document(&document, &mut OneFile(conf)).unwrap();
    let settings = &config.settings;
    let hosts: Vec<String> = settings
        .sources
        .iter()
        .map(|source| source.host.to_string())
        .collect();
    assert_eq!(hosts, ["a", "p", "b", "q", "c"]);
    let access: Vec<String> = settings
        .server
        .access
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(access, ["allow 10.0.0.0/8", "deny 10.1.0.0/16"]);
    assert_eq!(settings.commands.access.len(), 1);
    assert_eq!(settings.logs.write.len(), 2);
    assert_eq!(settings.client.hardware_stamps.len(), 2);
    assert_eq!(settings.source_directories.len(), 2);
    assert_eq!(settings.refclocks.len(), 2);
    assert_eq!(settings.server.port, 1123);
    // A value that is given counts, even if it is the default; a table of its own replaces the other as a whole.
    assert!((settings.selection.max_distance - 3.0).abs() < 1e-9);
    let local = settings.local.unwrap();
    assert_eq!((local.stratum, local.orphan), (5, false));
    assert_eq!(settings.clock.makestep.unwrap().limit, Some(3));
}

#[test]
fn a_table_without_its_key_is_refused_in_its_place() {
    for (text, expected) in [
        (
            "[[server]]\niburst = true\n",
            "x.toml:2:1: missing key `host`",
        ),
        (
            "[[pool]]\nhost = \"\"\n",
            "x.toml:3:8: neither an address nor a name",
        ),
        (
            "[[refclock]]\npoll = 2\n",
            "x.toml:2:1: missing key `driver`",
        ),
        ("[[ptp]]\npoll = 2\n", "x.toml:2:1: missing key `interface`"),
        (
            "[clock]\nmakestep = { limit = 3 }\n",
            "x.toml:3:12: missing key `threshold`",
        ),
        (
            "[clock]\nfallbackdrift = { min = 9, max = 8 }\n",
            "x.toml:3:34: `max` is below `min`",
        ),
        (
            "[[refclock]]\ndriver = \"SHM\"\nsegment = 0\nrefid = \"GPS\"\n[[refclock]]\ndriver = \"SHM\"\nsegment = 1\nrefid = \"GPS\"\n",
            "x.toml:9:9: another reference clock has this refid",
        ),
    ] {
        let problem = problem(&format!("version = \"v1\"\n{text}"));
        assert!(problem.starts_with(expected), "{text}: {problem}");
    }
    // A known name of the host, and a longest interval that gives way.
    let text = "version = \"v1\"\n[[server]]\naddress = \"192.0.2.1\"\nminpoll = 12\n";
    let options = &v1(text).unwrap().settings.sources[0].options;
    assert_eq!((options.minpoll, options.maxpoll), (12, 12));
}

#[test]
fn an_import_says_what_is_not_carried_over() {
    let directory = tempfile::tempdir().unwrap();
    let path: PathBuf = directory.path().join("chrony.conf");
    std::fs::write(&path, "server ntp.example.org iburst\nuser chrony\n").unwrap();
    let conf = import(&path).unwrap();
    let text = conf.draft.written("").unwrap().to_string();
    let name = path.display();
    let expected = format!(
        "# not carried: {name}:2:1: cosmetic: user: the service manager sets it\n\
         version = \"v1\"\n\n[[server]]\nhost = \"ntp.example.org\"\niburst = true\n"
    );
    assert_eq!((text, conf.draft.notes.len()), (expected, 1));
    let args = ConfigArgs {
        chrony_conf: Some(path),
        no_clock: true,
        ..ConfigArgs::default()
    };
    let config = read(&args).unwrap();
    assert!(!config.file.correct_clock);
    assert_eq!(config.warnings.len(), 1, "{:?}", config.warnings);
    assert_eq!(
        config.summary(),
        "1 server: ntp.example.org, serves no client"
    );
}

//--- The template

const TEMPLATE: &str = include_str!("../../../deploy/config/timesync-agent.toml");

fn template(examples: bool) -> Config {
    let lines = TEMPLATE.lines().map(|line| match line.strip_prefix("#~ ") {
        // Its file is not there.
        Some(example) if examples && !example.starts_with("chrony-conf") => {
            format!("{example}\n")
        }
        _ => format!("{line}\n"),
    });
    let text: String = lines.collect();
    v1(&text).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

#[test]
fn the_template_is_the_default_configuration() {
    assert_eq!(template(false).file, TimesyncAgent::default());
}

#[test]
fn the_examples_of_the_template_can_be_used() {
    let shown = template(true);
    // A server, a pool and a peer.
    assert_eq!(shown.settings.sources.len(), 3);
    assert_eq!(shown.settings.refclocks.len(), 3);
    assert!(shown.settings.clock.temperature.is_some());
    assert_eq!(shown.settings.client.hardware_stamps.len(), 1);
}

#[test]
fn the_keys_that_need_a_restart_are_told_from_the_others() {
    let changed = |text: &str| {
        let other = v1(&format!("version = \"v1\"\n{text}")).unwrap();
        ::config::restart_needed(&TimesyncAgent::default(), &other.file)
    };
    assert_eq!(
        changed("node = \"a\"\nthreads = 2\n[serve]\nport = 1\n[admin]\nlisten = \"none\"\n"),
        ["node", "threads", "serve.port", "admin.listen"]
    );
    assert_eq!(
        changed("[commands]\nsocket = \"none\"\n[health]\nendpoint = \"none\"\n"),
        ["commands.socket", "health.endpoint"]
    );
    let taken_up =
        "[[server]]\nhost = \"a\"\n[serve]\naccess = [\"allow\"]\n[clock]\nrtcsync = true\n";
    assert!(changed(taken_up).is_empty());
}

#[test]
fn a_source_is_lacking_where_all_were_left_out() {
    /// A directory with one file of sources.
    struct Directory(&'static str);
    impl Files for Directory {
        fn read(&mut self, _: &Path) -> std::io::Result<Vec<u8>> {
            Ok(self.0.as_bytes().to_vec())
        }
        fn list(&mut self, directory: &Path) -> std::io::Result<Vec<PathBuf>> {
            Ok(vec![directory.join("dhcp.sources")])
        }
    }
    let lacks_source = |sources, more: &str| {
        let text = format!("version = \"v1\"\nsource-directories = [\"/d\"]\n{more}");
        let document = Document::inline("x.toml", text);
        let config = Config::from_document(&document, &mut Directory(sources)).unwrap();
        config.lacks_source
    };
    assert!(lacks_source("pool ntp.example.org iburst nts\n", ""));
    assert!(lacks_source("server a nts\nserver b nts\n", "[local]\n"));
    // One is left, or another may come.
    assert!(!lacks_source("server a nts\nserver b\n", ""));
    assert!(!lacks_source(
        "server a nts\n",
        "[[server]]\nhost = \"b\"\n"
    ));
    assert!(!lacks_source("", ""));
}
