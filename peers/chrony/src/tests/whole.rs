//! Whole files, as they are found on nodes.

use super::*;

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
fn the_file_of_an_openshift_node_is_read_as_it_is() {
    let settings = quiet(SEED);
    let pool = |name: &str| Source {
        iburst: true,
        ..Source::new(name)
    };
    assert_eq!(
        settings.pool,
        [pool("0.tw.pool.ntp.org"), pool("3.tw.pool.ntp.org")]
    );
    let expected = TimesyncAgent {
        pool: settings.pool.clone(),
        clock: Clock {
            drift_file: Some("/var/lib/chrony/drift".into()),
            makestep: Some(MakeStep {
                threshold: 1.0,
                limit: Some(3),
            }),
            rtcsync: true,
            ..Clock::default()
        },
        key_file: Some("/etc/chrony.keys".into()),
        leap: Leap {
            time_zone: Some("right/UTC".to_owned()),
            ..Leap::default()
        },
        logs: Logs {
            directory: Some("/var/log/chrony".into()),
            ..Logs::default()
        },
        ..TimesyncAgent::default()
    };
    assert_eq!(settings, expected);
}

#[test]
fn the_file_of_a_disconnected_control_plane_is_read_as_it_is() {
    let conf = parse_bytes(DISCONNECTED.as_bytes()).unwrap();
    assert_eq!(
        said(&conf.draft.notes),
        [
            "chrony.conf:16:1: cosmetic: `commandkey` is not carried over: chrony does not know it either any more",
            "chrony.conf:17:1: cosmetic: `generatecommandkey` is not carried over: chrony does not know it either any more",
        ]
    );
    let settings = conf.draft.config;
    assert_eq!(settings.server.len(), 3);
    assert!(settings.server.iter().all(|source| source.iburst));
    assert_eq!(settings.selection.stratum_weight, 0.0);
    assert_eq!(settings.clock.log_change, 0.5);
    assert!(settings.serve.no_client_log && settings.serve.is_open());
    assert_eq!(
        settings.serve.access,
        [AccessRule {
            allow: true,
            all: true,
            clients: ClientMatch::Everybody
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
    let config = conf.draft.config;
    let more = parse_source_directories(&config.source_directories, &mut files);
    let hosts: Vec<String> = config
        .pool
        .iter()
        .chain(&more.config.server)
        .map(|s| s.host.to_string())
        .collect();
    assert_eq!(hosts, ["2.debian.pool.ntp.org", "ntp.example.org"]);
    assert_eq!(
        said(&[conf.draft.notes, more.notes.clone()].concat()),
        [
            "/etc/chrony/chrony.conf:7:1: `ntsdumpdir` is not carried over: NTS is not spoken here",
            "/etc/chrony/sources.d/site.sources:2:1: left out: only `server`, `pool` and `peer` stand in such a file",
            "/etc/chrony/sources.d/site.sources:3:7: left out: `server` names no host",
            "/etc/chrony/sources.d/site.sources:5:21: left out: `key` has no value",
        ]
    );
    assert_eq!((more.config.server.len(), more.notes.len()), (1, 3));
}
