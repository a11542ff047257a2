use super::*;

fn check(list: &str, inside: &[&str], outside: &[&str]) {
    let cidrs = Cidrs::parse(list).unwrap();
    for address in inside {
        assert!(
            cidrs.contains(address.parse().unwrap()),
            "{address} in {list}"
        );
    }
    for address in outside {
        assert!(
            !cidrs.contains(address.parse().unwrap()),
            "{address} not in {list}"
        );
    }
}

#[test]
fn an_address_is_on_the_list_of_its_network() {
    check(
        "127.0.0.0/8, 192.168.7.0/24 ::1 fd00::/8",
        &[
            "127.255.0.1",
            "192.168.7.0",
            "192.168.7.255",
            "::1",
            "fdff::1",
        ],
        &[
            "128.0.0.1",
            "192.168.6.255",
            "192.168.8.0",
            "::2",
            "fe00::1",
        ],
    );
    check("10.0.0.1", &["10.0.0.1"], &["10.0.0.0", "10.0.0.2"]);
    check("", &[], &["0.0.0.0", "::"]);
}

#[test]
fn the_ends_of_the_address_space_are_handled() {
    check("0.0.0.0/0", &["0.0.0.0", "255.255.255.255"], &["::", "::1"]);
    check("::/0", &["::", "ffff::ffff"], &["1.2.3.4"]);
    check(
        "0.0.0.0/0 !255.255.255.255 !0.0.0.0",
        &["0.0.0.1", "255.255.255.254"],
        &["0.0.0.0", "255.255.255.255"],
    );
    let any = Cidrs::any();
    assert!(any.contains("1.2.3.4".parse().unwrap()) && any.contains("::1".parse().unwrap()));
    assert!(Cidrs::none().is_empty() && !any.is_empty());
}

#[test]
fn a_mapped_address_is_the_ipv4_address() {
    check(
        "10.0.0.0/8",
        &["::ffff:10.1.2.3"],
        &["::ffff:11.0.0.1", "::a01:203"],
    );
    check(
        "::ffff:10.0.0.0/104",
        &["10.1.2.3", "::ffff:10.1.2.3"],
        &["11.0.0.1"],
    );
}

#[test]
fn the_most_specific_entry_decides_in_any_order() {
    for list in [
        "10.0.0.0/8 !10.1.0.0/16 10.1.2.0/24",
        "10.1.2.0/24 !10.1.0.0/16 10.0.0.0/8",
    ] {
        check(
            list,
            &["10.0.0.1", "10.1.2.3", "10.2.0.0"],
            &["10.1.1.1", "10.1.3.0", "9.9.9.9"],
        );
    }
}

#[test]
fn bits_beyond_the_prefix_are_a_warning() {
    let cidrs = Cidrs::parse("192.168.7.13/24, 10.0.0.0/8").unwrap();
    assert!(cidrs.contains("192.168.7.200".parse().unwrap()));
    assert_eq!(
        cidrs.warnings(),
        ["`192.168.7.13/24` has bits beyond its prefix and is read as 192.168.7.0/24"]
    );
    assert_eq!(cidrs.to_string(), "192.168.7.0/24, 10.0.0.0/8");
}

#[test]
fn what_is_no_network_is_refused_by_name() {
    for list in ["10.0.0.0/33", "10.0.0/8", "site", "!", "::/129", "1.2.3.4/"] {
        let error = Cidrs::parse(list).unwrap_err();
        assert_eq!(error.0, list);
    }
}

#[test]
fn a_long_list_answers_as_its_entries_do() {
    let networks: Vec<IpNet> = (0..2_000_u32)
        .map(|index| {
            let bits = index.wrapping_mul(2_654_435_761);
            let length = u8::try_from(8 + index % 25).unwrap();
            IpNet::new(std::net::Ipv4Addr::from_bits(bits).into(), length)
                .unwrap()
                .trunc()
        })
        .collect();
    let cidrs: Cidrs = networks.iter().copied().collect();
    for probe in 0..5_000_u32 {
        let address = IpAddr::from(std::net::Ipv4Addr::from_bits(probe.wrapping_mul(858_993)));
        let expected = networks.iter().any(|network| network.contains(&address));
        assert_eq!(cidrs.contains(address), expected, "{address}");
    }
}
