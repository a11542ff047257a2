use super::name::plain;
use super::share::places_of_sources;
use super::*;

fn frontend(share: Share, servers: &[(&str, u16, bool)]) -> KernelFrontend {
    KernelFrontend {
        name: "api".into(),
        listen: vec!["192.0.2.100:6443".parse().unwrap()],
        protocol: Protocol::Tcp,
        allow: None,
        deny: Vec::new(),
        masquerade: true,
        reset_on_down: true,
        share,
        servers: servers
            .iter()
            .map(|(address, weight, in_use)| KernelServer {
                name: address.split([':', '.']).nth(3).unwrap().into(),
                address: address.parse().unwrap(),
                weight: *weight,
                in_use: *in_use,
                keeps: *in_use,
            })
            .collect(),
    }
}

fn ruleset(frontends: Vec<KernelFrontend>) -> Ruleset {
    Ruleset::new(TableName::default(), frontends, None)
}

/// How a number is drawn, and where it leads.
#[track_caller]
fn check_choice(frontend: &KernelFrontend, draw: &str, elements: &str) {
    let choice = Choice::new(frontend, Family::V4, None);
    assert_eq!(choice.draw.rule("m"), format!("{draw} vmap @m"));
    let found: Vec<String> = choice.elements().map(|element| element.text()).collect();
    assert_eq!(found.join(", "), elements);
}

#[test]
fn the_whole_table_is_made_in_one_transaction() {
    let servers = [("10.0.0.1:6443", 1, true), ("10.0.0.2:6443", 1, true)];
    let mut api = frontend(Share::RoundRobin, &servers);
    api.deny = vec!["198.51.100.0/24".parse().unwrap()];
    let mut dns = frontend(Share::Random, &[("10.0.0.3:53", 1, true)]);
    dns.name = "dns over udp".into();
    dns.protocol = Protocol::Udp;
    dns.listen = vec!["0.0.0.0:53".parse().unwrap(), "[::]:53".parse().unwrap()];
    dns.masquerade = false;
    let expected = include_str!("../../testdata/kernel.nft");
    assert_eq!(ruleset(vec![api, dns]).install(), expected);
}

#[test]
fn a_flow_table_is_part_of_the_transaction() {
    let (a, b) = ("10.0.0.1:1", "10.0.0.2:1");
    let api = frontend(Share::Random, &[(a, 1, true), (b, 1, false)]);
    let with = |devices| ruleset(vec![api.clone()]).with_flow_table(devices);
    let none = with(None);
    let one = with(Some(["eth0"].into()));
    let two = with(Some(["eth0", "eth0.100"].into()));
    let added = "table inet outpost_lb {
\tflowtable established {
\t\thook ingress priority 0
\t\tdevices = { \"eth0\", \"eth0.100\" }
\t\tcounter
\t}
\tset established/6443/v4 {
\t\ttype ipv4_addr . inet_proto . inet_service
\t\telements = { 10.0.0.1 . tcp . 1 }
\t}
\tchain established/6443 {
\t\tip daddr . meta l4proto . th dport @established/6443/v4 flow add @established
\t}
\tchain forward {
\t\ttype filter hook forward priority 300; policy accept;
\t\tct status and dnat != dnat return
\t\tct state != established return
\t\tmeta l4proto { tcp, udp } ct original proto-dst vmap { 6443 : goto established/6443 }
\t}
}
";
    assert_eq!(two.update(&none), added);
    let removed = "flush chain inet outpost_lb established/6443
flush chain inet outpost_lb forward
delete set inet outpost_lb established/6443/v4
delete chain inet outpost_lb established/6443
delete chain inet outpost_lb forward
delete flowtable inet outpost_lb established
";
    assert_eq!(none.update(&two), removed);
    assert_eq!(two.update(&two), "");
    // In one step, whatever was there goes.
    assert_eq!(two.update(&one), two.install());
    assert!(
        two.install()
            .contains("devices = { \"eth0\", \"eth0.100\" }")
    );
    // A server that goes gets nothing in any more; the flow table stays.
    let mut gone = two.frontends.clone();
    gone[0].servers[0].keeps = false;
    let update = two.followed_by(gone).update(&two);
    let expected = "delete element inet outpost_lb established/6443/v4 { 10.0.0.1 . tcp . 1 }\n";
    assert_eq!(update, expected);
}

/// However many frontends there are, a packet sees the same rules of the hook.
#[test]
fn the_way_into_the_flow_table_is_as_long_for_many_frontends_as_for_one() {
    let mut frontends = Vec::new();
    for (port, protocol, server) in [
        (6443, Protocol::Tcp, "10.0.0.1:1"),
        (53, Protocol::Tcp, "10.0.0.1:2"),
        (53, Protocol::Udp, "10.0.0.2:2"),
        (53, Protocol::Udp, "10.0.0.3:2"),
    ] {
        let mut one = frontend(Share::Random, &[(server, 1, true)]);
        one.protocol = protocol;
        one.listen = vec![SocketAddr::new("192.0.2.100".parse().unwrap(), port)];
        frontends.push(one);
    }
    let mut six = frontend(Share::Random, &[]);
    six.listen = vec!["[2001:db8::100]:53".parse().unwrap()];
    six.servers = vec![KernelServer {
        name: "six".into(),
        address: "[2001:db8::1]:2".parse().unwrap(),
        weight: 1,
        in_use: false,
        keeps: true,
    }];
    frontends.push(six);
    let mut chains: BTreeMap<_, _> = flow_table::chains(&frontends).into_iter().collect();
    let mut rules = |name: &str| chains.remove(name).unwrap();
    // A port of two protocols: each with its own servers.
    assert_eq!(
        rules("established/53"),
        "\t\tip daddr . meta l4proto . th dport @established/53/v4 flow add @established\n\
         \t\tip6 daddr . meta l4proto . th dport @established/53/v6 flow add @established\n"
    );
    assert_eq!(
        rules("established/6443"),
        "\t\tip daddr . meta l4proto . th dport @established/6443/v4 flow add @established\n"
    );
    let sets = flow_table::sets(&frontends).map(|(name, _, elements)| {
        let elements: Vec<String> = elements.iter().map(Element::text).collect();
        format!("{name}: {}", elements.join(", "))
    });
    let expected = [
        "established/53/v4: 10.0.0.1 . tcp . 2, 10.0.0.2 . udp . 2, 10.0.0.3 . udp . 2",
        "established/53/v6: 2001:db8::1 . tcp . 2",
        "established/6443/v4: 10.0.0.1 . tcp . 1",
    ];
    assert_eq!(sets.collect::<Vec<_>>(), expected);
    let hook = rules("forward");
    let lookup =
        "ct original proto-dst vmap { 53 : goto established/53, 6443 : goto established/6443 }";
    assert!(hook.contains(lookup), "{hook}");
    assert_eq!(hook.lines().count(), 4, "{hook}");
    assert!(chains.is_empty(), "{chains:?}");
}

fn check_update(before: &[&KernelFrontend], after: &[&KernelFrontend], expected: &[&str]) {
    let ruleset = |all: &[&KernelFrontend]| ruleset(all.iter().map(|it| (*it).clone()).collect());
    let text = ruleset(after).update(&ruleset(before));
    // Chains and commands, without rules.
    let touched = text.lines().filter(|line| {
        let is_rule = line.starts_with("\t\t") || matches!(line.trim(), "}");
        !is_rule && !line.starts_with("table ")
    });
    let touched: Vec<String> = touched
        .map(|line| line.replace(" inet outpost_lb", "").replace('\t', ""))
        .collect();
    assert_eq!(touched, expected);
}

#[test]
fn an_update_touches_what_changes() {
    let (a, b) = ("10.0.0.1:1", "10.0.0.2:1");
    let both = frontend(Share::Random, &[(a, 1, true), (b, 1, true)]);
    let down = frontend(Share::Random, &[(a, 1, true), (b, 1, false)]);
    let one = frontend(Share::Random, &[(a, 1, true)]);
    let mut other = frontend(Share::RoundRobin, &[(a, 1, true), (b, 1, true)]);
    other.name = "other".into();
    other.listen = vec!["192.0.2.100:443".parse().unwrap()];
    check_update(&[&both, &other], &[&both, &other], &[]);
    // The turns of the other frontend go on.
    let share = "flush chain share/api/v4";
    check_update(
        &[&both, &other],
        &[&down, &other],
        &[
            share,
            "delete element share/api/v4 { 1 : goto server/api/2 }",
            "chain share/api/v4 {",
        ],
    );
    check_update(
        &[&down, &other],
        &[&both, &other],
        &[
            share,
            "chain share/api/v4 {",
            "add element share/api/v4 { 1 : goto server/api/2 }",
        ],
    );
    check_update(
        &[&both],
        &[&one],
        &[
            share,
            "flush chain server/api/2",
            "delete element servers/api/v4 { 10.0.0.2 . 1 }",
            "delete element share/api/v4 { 1 : goto server/api/2 }",
            "delete chain server/api/2",
            "delete counter server/api/2",
            "chain share/api/v4 {",
        ],
    );
}

#[test]
fn a_frontend_comes_and_goes_with_all_that_is_its_own() {
    let (a, b) = ("10.0.0.1:1", "10.0.0.2:1");
    let one = frontend(Share::Random, &[(a, 1, true)]);
    let mut other = frontend(Share::RoundRobin, &[(a, 1, true), (b, 1, true)]);
    other.name = "other".into();
    other.listen = vec!["192.0.2.100:443".parse().unwrap()];
    check_update(
        &[&one],
        &[&one, &other],
        &[
            "flush chain services",
            "flush chain stray",
            "flush chain postrouting",
            "counter server/other/1 {",
            "counter server/other/2 {",
            "set servers/other/v4 {",
            "map share/other/v4 {",
            "chain server/other/1 {",
            "chain server/other/2 {",
            "chain share/other/v4 {",
            "chain frontend/other/v4 {",
            "chain services {",
            "chain stray {",
            "chain postrouting {",
        ],
    );
    check_update(
        &[&one, &other],
        &[&one],
        &[
            "flush chain services",
            "flush chain stray",
            "flush chain postrouting",
            "flush chain frontend/other/v4",
            "flush chain server/other/1",
            "flush chain server/other/2",
            "flush chain share/other/v4",
            "delete set servers/other/v4",
            "delete map share/other/v4",
            "delete chain frontend/other/v4",
            "delete chain server/other/1",
            "delete chain server/other/2",
            "delete chain share/other/v4",
            "delete counter server/other/1",
            "delete counter server/other/2",
            "chain services {",
            "chain stray {",
            "chain postrouting {",
        ],
    );
}

#[test]
fn a_server_that_goes_is_a_few_elements_among_any_number() {
    let addresses: Vec<String> = (0..1001_u32)
        .map(|n| format!("10.0.{}.{}:1", n / 250, n % 250 + 1))
        .collect();
    let with = |share: Share, down: usize, weight: u16| {
        let mut frontend = frontend(share, &[]);
        frontend.servers = addresses
            .iter()
            .enumerate()
            .map(|(index, address)| KernelServer {
                name: address.as_str().into(),
                address: address.parse().unwrap(),
                weight: if index == 7 { weight } else { 100 },
                in_use: index != down,
                keeps: index != down,
            })
            .collect();
        frontend
    };
    for share in [Share::RoundRobin, Share::Random, Share::Source] {
        let all = Ruleset::new(
            TableName::default(),
            vec![with(share, usize::MAX, 100)],
            Some(["eth0"].into()),
        );
        for (down, weight) in [(500, 100), (0, 100), (1000, 100), (usize::MAX, 37)] {
            let next = all.followed_by(vec![with(share, down, weight)]);
            let update = next.element_update(&all).unwrap();
            // A little weight less may be no place less.
            assert!(!update.is_empty() || weight == 37 && share == Share::Source);
            assert!(update.n_elements() <= 20, "{share:?}: {update:?}");
            assert_eq!(update.draws.len(), usize::from(share != Share::Source));
            let back = all.frontends.clone();
            let update = next.followed_by(back).element_update(&next).unwrap();
            assert!(update.n_elements() <= 20, "{share:?}: {update:?}");
        }
        // Another server, other sources, another way to share: that is more than elements.
        let mut more = with(share, usize::MAX, 100);
        more.servers.truncate(1000);
        let mut denied = with(share, usize::MAX, 100);
        denied.deny = vec!["198.51.100.0/24".parse().unwrap()];
        for other in [more, denied] {
            let next = all.followed_by(vec![other]);
            assert_eq!(next.element_update(&all), None);
        }
        let by_source = all.followed_by(vec![with(Share::Source, usize::MAX, 100)]);
        let is_other = share != Share::Source;
        assert_eq!(by_source.element_update(&all).is_none(), is_other);
    }
}

#[test]
fn servers_share_connections_by_weight() {
    let (a, b, c) = ("10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1");
    check_choice(
        &frontend(
            Share::RoundRobin,
            &[(a, 100, true), (b, 50, true), (c, 100, false)],
        ),
        "numgen inc mod 3",
        "0 : goto server/api/1, 1 : goto server/api/2, 2 : goto server/api/1",
    );
    check_choice(
        &frontend(
            Share::Random,
            &[(a, 100, true), (b, 50, true), (c, 1, true)],
        ),
        "numgen random mod 151",
        "0-99 : goto server/api/1, 100-149 : goto server/api/2, 150 : goto server/api/3",
    );
    // A round of turns that is too long is left to chance.
    check_choice(
        &frontend(Share::RoundRobin, &[(a, 255, true), (b, 256, true)]),
        "numgen random mod 511",
        "0-254 : goto server/api/1, 255-510 : goto server/api/2",
    );
    check_choice(
        &frontend(Share::RoundRobin, &[(a, 7, true), (b, 7, true)]),
        "numgen inc mod 2",
        "0 : goto server/api/1, 1 : goto server/api/2",
    );
    check_choice(
        &frontend(Share::Source, &[(a, 7, true), (b, 1, false)]),
        "jhash ip saddr mod 1021 seed 0x6f757470",
        "0-1020 : goto server/api/1",
    );
}

#[test]
fn with_no_server_to_choose_the_map_is_empty() {
    for servers in [
        &[][..],
        &[("10.0.0.1:1", 1, false)],
        &[("10.0.0.1:1", 0, true), ("10.0.0.2:1", 0, true)],
    ] {
        check_choice(&frontend(Share::Random, servers), "numgen random mod 1", "");
        check_choice(
            &frontend(Share::RoundRobin, servers),
            "numgen inc mod 1",
            "",
        );
    }
    let one = frontend(Share::Random, &[("10.0.0.1:1", 1, true)]);
    assert_eq!(Choice::new(&one, Family::V6, None).elements().count(), 0);
}

#[test]
fn a_source_stays_where_it_is_when_another_server_goes() {
    let all = [
        ("10.0.0.1:1", 100, true),
        ("10.0.0.2:1", 200, true),
        ("10.0.0.3:1", 100, true),
    ];
    let all = frontend(Share::Source, &all).servers;
    let places = places_of_sources(&all.iter().collect::<Vec<_>>());
    let n_places: Vec<usize> = (0..3)
        .map(|index| places.iter().filter(|place| **place == index).count())
        .collect();
    assert!((220..290).contains(&n_places[0]), "{n_places:?}");
    assert!((460..560).contains(&n_places[1]), "{n_places:?}");
    let fewer = places_of_sources(&all.iter().take(2).collect::<Vec<_>>());
    for (before, after) in places.iter().zip(&fewer) {
        assert!(before == after || *before == 2);
    }
}

#[test]
fn names_stay_apart() {
    let (long, longer) = ("x".repeat(100), "x".repeat(101));
    for (one, other) in [
        ("a b", "a_b"),
        ("a b", "a;b"),
        (long.as_str(), longer.as_str()),
        ("", "_"),
    ] {
        assert_ne!(plain(one), plain(other));
    }
    assert_eq!(plain("master-0.example"), "master-0.example");
    for name in ["", "1a", "a-b", "A", &long, "a b", "a;"] {
        assert!(name.parse::<TableName>().is_err(), "{name}");
    }
    assert!("outpost_lb_2".parse::<TableName>().is_ok());
}

#[test]
fn what_the_kernel_cannot_do_is_said() {
    let mut frontend = frontend(Share::Random, &[("10.0.0.1:1", 1, true)]);
    assert_eq!(frontend.faults(), Vec::<String>::new());
    frontend.listen = vec![
        "[2001:db8::1]:1".parse().unwrap(),
        "127.0.0.1:1".parse().unwrap(),
    ];
    frontend.servers[0].address = "127.0.0.2:1".parse().unwrap();
    assert_eq!(frontend.faults().len(), 3);
}

#[test]
fn sources_that_are_not_allowed_are_not_forwarded() {
    let mut frontend = frontend(Share::Random, &[("10.0.0.1:1", 1, true)]);
    frontend.allow = Some(vec![
        "10.0.0.0/9".parse().unwrap(),
        "10.128.0.0/9".parse().unwrap(),
    ]);
    frontend.deny = vec!["10.1.0.0/16".parse().unwrap(), "::/0".parse().unwrap()];
    assert_eq!(
        frontend_rules(&frontend, Family::V4),
        "\t\tip saddr { 10.1.0.0/16 } return\n\
         \t\tip saddr != { 10.0.0.0/8 } return\n\t\tgoto share/api/v4\n"
    );
    frontend.allow = Some(Vec::new());
    let rules = frontend_rules(&frontend, Family::V4);
    assert!(rules.contains("\t\treturn\n"));
}
