use super::*;

fn router(addresses: &[&str]) -> RouterSettings {
    let entries = addresses.iter().map(|address| VirtualAddress {
        address: address.parse().unwrap(),
        prefix_length: 24,
    });
    RouterSettings::new("api", "eth0", 51, entries.collect())
}

fn faults_of(change: impl FnOnce(&mut RouterSettings)) -> Vec<SettingsFault> {
    let mut settings = router(&["192.168.7.100"]);
    change(&mut settings);
    settings.faults()
}

#[test]
fn each_wrong_setting_is_named() {
    let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
    assert_eq!(faults_of(|_| ()), []);
    let cases: Vec<(SettingsFault, Vec<SettingsFault>)> = vec![
        (SettingsFault::RouterId, faults_of(|s| s.router_id = 0)),
        (SettingsFault::NoAddress, faults_of(|s| s.addresses.clear())),
        (
            SettingsFault::TooManyAddresses,
            faults_of(|s| {
                let address = |n: u32| VirtualAddress {
                    address: std::net::Ipv4Addr::from_bits(n).into(),
                    prefix_length: 32,
                };
                s.addresses = (1..=256).map(address).collect();
            }),
        ),
        (
            SettingsFault::AddressTwice,
            faults_of(|s| s.addresses.push(s.addresses[0])),
        ),
        (
            SettingsFault::MixedFamilies,
            faults_of(|s| s.addresses.extend(router(&["fd00::1"]).addresses)),
        ),
        (
            SettingsFault::PrefixLength,
            faults_of(|s| s.addresses[0].prefix_length = 33),
        ),
        (SettingsFault::Priority, faults_of(|s| s.priority = 0)),
        (
            SettingsFault::Version2OverIpv6,
            faults_of(|s| {
                s.version = Version::V2;
                s.addresses = router(&["fd00::1"]).addresses;
            }),
        ),
        (
            SettingsFault::PasswordInVersion3,
            faults_of(|s| s.authentication = Authentication::password("a")),
        ),
        (
            SettingsFault::PeerFamily,
            faults_of(|s| s.peers = Peers::Unicast(vec![ip("fd00::2")])),
        ),
        (
            SettingsFault::SourceFamily,
            faults_of(|s| s.source = Some(ip("fd00::2"))),
        ),
    ];
    for (expected, found) in cases {
        assert_eq!(found, [expected]);
    }
}

#[test]
fn intervals_are_what_a_message_can_say() {
    let wrong = |version, milliseconds| {
        let found = faults_of(|settings| {
            settings.version = version;
            settings.interval = Duration::from_millis(milliseconds);
        });
        found == [SettingsFault::Interval]
    };
    for (version, milliseconds, is_wrong) in [
        (Version::V3, 0, true),
        (Version::V3, 5, true),
        (Version::V3, 10, false),
        (Version::V3, 15, true),
        (Version::V3, 40_950, false),
        (Version::V3, 40_960, true),
        (Version::V2, 500, true),
        (Version::V2, 1000, false),
        (Version::V2, 1500, true),
        (Version::V2, 255_000, false),
        (Version::V2, 256_000, true),
    ] {
        assert_eq!(
            wrong(version, milliseconds),
            is_wrong,
            "{version:?} {milliseconds}"
        );
    }
}

#[test]
fn advertisements_go_to_the_family_s_group_or_to_the_peers() {
    let four = router(&["192.168.7.100"]);
    assert_eq!(four.destinations(), [IpAddr::from(GROUP_V4)]);
    let six = router(&["fd00::1"]);
    assert_eq!(six.destinations(), [IpAddr::from(GROUP_V6)]);
    let mut unicast = four;
    let peer: IpAddr = "192.168.7.14".parse().unwrap();
    unicast.peers = Peers::Unicast(vec![peer]);
    assert_eq!(unicast.destinations(), [peer]);
}

#[test]
fn interface_number_and_family_make_a_router() {
    let settings = router(&["192.168.7.100"]);
    let other = |change: &dyn Fn(&mut RouterSettings)| {
        let mut other = settings.clone();
        change(&mut other);
        settings.is_same_router(&other)
    };
    assert!(other(&|s| s.priority = 7));
    assert!(other(&|s| s.version = Version::V2));
    assert!(other(&|s| s.addresses = router(&["192.168.7.9"]).addresses));
    assert!(!other(&|s| s.interface = "eth1".into()));
    assert!(!other(&|s| s.router_id = 52));
    assert!(!other(&|s| s.addresses = router(&["fd00::1"]).addresses));
}
