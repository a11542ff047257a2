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
            whom: ClientMatch::Everybody
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
