use std::time::Duration;

use balance::table::OnDown;
use daemon::config::{Document, Problems};
use vrrp::settings::Peers;

use super::*;
use crate::host;

fn parse(text: &str) -> Result<Config, Problems> {
    Config::from_document(&Document::inline(
        "x.toml",
        format!("version = \"v1\"\n{text}"),
    ))
}

fn problems(text: &str) -> Vec<String> {
    let problems = parse(text).unwrap_err();
    problems.0.iter().map(ToString::to_string).collect()
}

const TEMPLATE: &str = include_str!("../../../deploy/config/lb-proxy.toml");

const OWN: &str = r#"
[[frontend]]
name = "api"
listen = ["0.0.0.0:6443", "[::]:6443"]
role = "api"
backend = "api"
[[backend]]
name = "api"
[[backend.server]]
name = "master-0"
address = "192.168.7.13:6443"
[[backend.server]]
name = "master-1"
address = "192.168.7.14:6443"
[[backend.server]]
name = "master-2"
address = "192.168.7.15:6443"
"#;

fn template(examples: bool) -> Config {
    let lines = TEMPLATE.lines().map(|line| match line.strip_prefix("#~ ") {
        Some(example) if examples => format!("{example}\n"),
        _ => format!("{line}\n"),
    });
    let text: String = lines.collect();
    let document = Document::inline("template", text.as_str());
    Config::from_document(&document).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

#[test]
fn the_template_is_the_default_configuration() {
    let shown = template(false);
    assert_eq!(shown.file, LbProxy::default());
    assert_eq!(shown.warnings, [""; 0]);
    assert_eq!(parse("").unwrap().common.admin, Some(DEFAULT_ADMIN));
}

#[test]
fn every_example_of_the_template_is_legal() {
    let config = template(true);
    assert_eq!(config.frontends.len(), 6, "{:?}", config.summary());
    assert_eq!(config.vips.len(), 2);
    let service = config.services.first().unwrap();
    assert_eq!(
        service.addresses,
        ["192.168.7.200".parse::<IpAddr>().unwrap()]
    );
    assert_eq!(service.frontends, [Arc::from("demo/web:443")]);
}

#[test]
fn an_empty_file_is_a_proxy_of_nothing() {
    let config = parse("").unwrap();
    assert!(config.frontends.is_empty() && config.backends.is_empty());
    assert_eq!(config.summary(), "no frontend");
    assert_eq!(config.health(), Some(Endpoint::default()));
    assert!(config.workers() > 0 && !config.freebind());
}

#[test]
fn roles_set_what_openshift_asks_for() {
    let config = parse(OWN).unwrap();
    let api = &config.backends[0];
    assert_eq!(api.algorithm, Algorithm::LeastConnections);
    assert_eq!(api.policy.on_down, OnDown::Reset);
    assert_eq!(api.servers[0].slow_start, Duration::from_mins(1));
    let quick = OWN.replace(
        "name = \"api\"\n[[backend.server]]",
        "name = \"api\"\nslow-start = \"0s\"\n[[backend.server]]",
    );
    let quick = parse(&quick).unwrap();
    assert_eq!(quick.backends[0].servers[0].slow_start, Duration::ZERO);
    let targets = config.targets();
    let told: Vec<String> = targets.iter().map(ToString::to_string).collect();
    assert_eq!(told[0], "https 192.168.7.13:6443/readyz");
    assert!(targets[0].deviation.is_none(), "healthd's schedule");
    let plain = parse(&OWN.replace("role = \"api\"", "")).unwrap();
    let plain = &plain.backends[0];
    assert_eq!(plain.algorithm, Algorithm::RoundRobin);
    assert_eq!(plain.policy.on_down, OnDown::Finish);
    assert_eq!(plain.servers[0].slow_start, Duration::ZERO);
    assert_eq!(plain.check.as_ref().unwrap().kind, TargetKind::Tcp);
    let ingress = parse(&OWN.replace("\"api\"\nbackend", "\"ingress\"\nbackend")).unwrap();
    assert_eq!(ingress.backends[0].algorithm, Algorithm::Source);
    assert_eq!(ingress.backends[0].policy.on_down, OnDown::Finish);
}

#[test]
fn equal_checks_are_one_target() {
    let text = format!(
        "{OWN}\n{}",
        OWN.replace("\"api\"", "\"copy\"")
            .replace("6443\"]", "6444\"]")
    )
    .replace("role = \"copy\"", "role = \"api\"")
    .replace(
        "listen = [\"0.0.0.0:6443\", \"[::]:6444\"]",
        "listen = [\"0.0.0.0:6444\"]",
    );
    assert_eq!(parse(&text).unwrap().targets().len(), 3);
    let apart = text.replacen(
        "name = \"copy\"\n[[backend.server]]",
        "name = \"copy\"\ncheck = { kind = \"tcp\" }\n[[backend.server]]",
        1,
    );
    assert_eq!(parse(&apart).unwrap().targets().len(), 6);
}

#[test]
fn a_value_out_of_range_is_told_with_its_key() {
    let cases = [
        (
            "max-connections = 0",
            "x.toml:2:19: 0 is out of range; `max-connections` is at least 1",
        ),
        (
            "[[backend]]\nname = \"b\"\nconnect-timeout = \"0s\"",
            "x.toml:4:19: 0s is out of range; `connect-timeout` is at least 1ms",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(problems(text), [expected]);
    }
}

#[test]
fn mistakes_are_told_with_their_place() {
    let cases = [
        (
            "fronted = 1",
            "x.toml:2:1: unknown key `fronted`, did you mean `frontend`?",
        ),
        (
            "[[frontend]]\nname = \"a\"\nlisten = [\"0.0.0.0\"]\nbackend = \"b\"\n[[backend]]\nname = \"b\"",
            "x.toml:4:11: a port is missing in `0.0.0.0`; write an IP address and a port, as in \"0.0.0.0:53\"",
        ),
        (
            "[[frontend]]\nname = \"a\"\nlisten = [\"0.0.0.0:1\"]\nbackend = \"apo\"\n[[backend]]\nname = \"api\"",
            "x.toml:5:11: there is no backend `apo`, did you mean `api`?",
        ),
        (
            "[[frontend]]\nname = \"a\"\nlisten = [\"0.0.0.0:1\"]",
            "x.toml:3:8: a frontend needs a `backend` or a `route`",
        ),
        (
            "[[frontend]]\nname = \"a\"\nlisten = [\"0.0.0.0:1\"]\nbackend = \"b\"\npath = \"kernel\"\naccept-proxy = \"optional\"\n[[backend]]\nname = \"b\"",
            "x.toml:7:16: the kernel cannot do `accept-proxy`: use path = \"user\"",
        ),
        (
            "[[frontend]]\nname = \"a\"\nlisten = [\"0.0.0.0:1\"]\nbackend = \"b\"\nlimits = { rate = \"50/y\" }\n[[backend]]\nname = \"b\"",
            "x.toml:6:19: `50/y` is no rate, as in 50/s, 600/m or 100/10s; the period is 100ms at least",
        ),
        (
            "[[backend]]\nname = \"b\"\ncheck = { kind = \"tcp\", path = \"/\" }",
            "x.toml:4:32: a check of kind tcp has no `path`",
        ),
        (
            "[[backend]]\nname = \"b\"\ncheck = { kind = \"tcp\", paht = \"/\" }",
            "x.toml:4:25: unknown key `paht`, did you mean `path`?",
        ),
        (
            "[[backend]]\nname = \"b\"\n[[backend.server]]\nname = \"s\"\naddress = \"192.0.2.1:1\"\nweight = 257",
            "x.toml:7:10: 257 is out of range; `weight` is from 0 to 256",
        ),
        (
            "[[vip]]\nname = \"v\"\naddresses = [\"192.0.2.1\"]\ninterface = \"eth0\"",
            "x.toml:3:8: a virtual IP needs a `router-id`, or a `role` and [openshift] `cluster` to compute it from",
        ),
        (
            "[[vip]]\nname = \"v\"\naddresses = [\"192.0.2.1\"]\ninterface = \"eth0\"\nrouter-id = 1\ntrack = [\"frontend:x\"]",
            "x.toml:7:10: there is no frontend `x`",
        ),
        (
            "[[vip]]\nname = \"v\"\naddresses = [\"192.0.2.1\"]\ninterface = \"eth0\"\nrouter-id = 1\n[[service]]\nname = \"v\"",
            "x.toml:8:8: `v` is the name of a virtual IP already",
        ),
        (
            "[[service]]\nname = \"s\"",
            "x.toml:3:8: no address is left",
        ),
        (
            "[health]\nendpoint = \"x\"",
            "x.toml:3:12: \"x\" is no endpoint: write unix:/path or http://address:port",
        ),
    ];
    for (text, expected) in cases {
        assert!(
            problems(text).contains(&expected.to_owned()),
            "{text}\n{:?}",
            problems(text)
        );
    }
}

#[test]
fn a_wrong_value_hides_no_other_and_makes_none() {
    let text = "workers = -1\n\
         [[frontend]]\nname = \"a b\"\nlisten = [\"0.0.0.0\"]\nbackend = \"gone\"\n\
         [[backend]]\nname = \"b\"\nretries = 300\n\
         [[backend.server]]\nname = \"s\"\naddress = \"192.0.2.1:0\"\n\
         [[vip]]\nname = \"v\"\naddresses = [\"192.0.2.1/33\"]\ninterface = \"e\"\nrouter-id = 0\n";
    let places: Vec<String> = problems(text)
        .iter()
        .map(|problem| problem.split(": ").next().unwrap().to_owned())
        .collect();
    assert_eq!(
        places,
        [
            "x.toml:2:11",
            "x.toml:4:8",
            "x.toml:5:11",
            "x.toml:9:11",
            "x.toml:12:11",
            "x.toml:15:14",
            "x.toml:17:13"
        ],
        "{:#?}",
        problems(text)
    );
}

#[test]
fn two_frontends_on_one_address_are_refused() {
    let twice = "[[frontend]]\nname = \"x\"\nlisten = [\"0.0.0.0:6443\"]\nbackend = \"api\"\n";
    let found = problems(&format!("{OWN}{twice}"));
    assert!(
        found[0].ends_with("21:11: frontends api and x both listen on 0.0.0.0:6443"),
        "{found:?}"
    );
    let udp = format!("{OWN}{twice}protocol = \"udp\"\n");
    assert!(parse(&udp).is_ok());
}

#[test]
fn odd_configurations_are_warned_about() {
    let cases = [
        (
            OWN.replace("name = \"api\"\n[[backend.server]]", "name = \"api\"\ncheck = { interval = \"10s\", timeout = \"10s\", fall = 3 }\n[[backend.server]]"),
            "frontend api: a server of api may be chosen for 40s after /readyz has failed; OpenShift allows 30s",
        ),
        (
            OWN.replace("name = \"api\"\n[[backend.server]]", "name = \"api\"\ncheck = \"none\"\n[[backend.server]]"),
            "frontend api: the servers of api are not checked, so a failing /readyz takes none out",
        ),
        (
            "[[backend]]\nname = \"b\"".to_owned(),
            "backend b has no server",
        ),
        (
            OWN.replace("name = \"api\"\n[[backend.server]]", "name = \"api\"\nsend-proxy = \"v2\"\n[[backend.server]]"),
            "backend api: connections to master-0 begin with a PROXY header and probes do not: a server that insists on one is found down; probe another port, or with kind = \"tcp\"",
        ),
        (
            "[[vip]]\nname = \"v\"\naddresses = [\"192.168.7.1\"]\ninterface = \"eth0\"\nrouter-id = 1\npeers = []".to_owned(),
            "virtual IP v has an empty list of peers: it will not become active here",
        ),
        (
            "[[vip]]\nname = \"v\"\naddresses = [\"192.168.7.1\"]\ninterface = \"eth0\"\nrouter-id = 7\n[[vip]]\nname = \"w\"\naddresses = [\"192.168.7.2\"]\ninterface = \"eth0\"\nrouter-id = 7".to_owned(),
            "virtual IP v and w both have router id 7 on eth0",
        ),
    ];
    for (text, expected) in cases {
        let warnings = parse(&text).unwrap().warnings;
        assert!(
            warnings.contains(&expected.to_owned()),
            "{text}\n{warnings:?}"
        );
    }
}

#[test]
fn a_probe_that_says_nothing_or_goes_elsewhere_needs_no_header() {
    for check in [
        "\"none\"",
        "{ kind = \"tcp\" }",
        "{ kind = \"http\", port = 9 }",
    ] {
        let text = format!(
            "[[backend]]\nname = \"b\"\nsend-proxy = \"v1\"\ncheck = {check}\n\
             [[backend.server]]\nname = \"s\"\naddress = \"192.0.2.1:1\"\n"
        );
        let warnings = parse(&text).unwrap().warnings;
        assert_eq!(warnings, [""; 0], "{check}");
    }
}

#[test]
fn what_the_node_lacks_is_warned_about() {
    let text = format!(
        "max-connections = 1000\n{}\n[[vip]]\nname = \"api\"\naddresses = [\"192.168.7.100/24\"]\ninterface = \"eth0\"\nrouter-id = 1",
        OWN.replace("0.0.0.0:6443", "0.0.0.0:443")
    );
    let config = parse(&text).unwrap();
    let poor = host::Host {
        networks: vec!["10.0.0.0/8".parse().unwrap()],
        descriptors: Some(1024),
        first_open_port: Some(1024),
        capabilities: Some(0),
        ..host::Host::default()
    };
    assert_eq!(
        host::lacks(&config, &poor),
        [
            "frontend api: 0.0.0.0:443 takes CAP_NET_BIND_SERVICE, or a socket unit",
            "virtual IPs take CAP_NET_ADMIN and CAP_NET_RAW",
            "virtual IP api: 192.168.7.100 is in no network of this node",
            "max-connections = 1000 takes 2000 descriptors, and the system allows 1024: there will be fewer",
        ]
    );
    assert_eq!(host::lacks(&config, &host::Host::default()), [""; 0]);
}

#[test]
fn addresses_of_both_families_are_two_routers_that_move_together() {
    let text = "[[vip]]\nname = \"v\"\naddresses = [\"192.168.7.100/24\", \"fd00::100/64\"]\ninterface = \"eth0\"\nrouter-id = 9\npeers = [\"192.168.7.14\", \"fd00::14\"]";
    let config = parse(text).unwrap();
    let [four, six] = config.vips.as_slice() else {
        panic!("{:?}", config.vips);
    };
    assert_eq!((&*four.router.name, &*six.router.name), ("v", "v-ipv6"));
    assert_eq!(four.router.group, six.router.group);
    assert_eq!(
        four.router.peers,
        Peers::Unicast(vec!["192.168.7.14".parse().unwrap()])
    );
    assert_eq!(
        six.router.peers,
        Peers::Unicast(vec!["fd00::14".parse().unwrap()])
    );
}

#[test]
fn who_has_addresses_of_a_family_has_peers_of_it() {
    let cases = [
        (
            "[[vip]]\nname = \"v\"\naddresses = [\"192.0.2.1\", \"2001:db8::1\"]\ninterface = \"eth0\"\nrouter-id = 1\npeers = [\"192.0.2.2\", \"192.0.2.3\"]",
            "x.toml:7:10: no peer is of IPv6, so `v` would not become active, for its other addresses either: write the peers' addresses of IPv6 too, or a [[vip]] of its own for those of IPv6",
        ),
        (
            "[[pool]]\nname = \"p\"\naddresses = [\"2001:db8::/64\"]\ninterface = \"eth0\"\npeers = [\"192.0.2.2\"]\n[[service]]\nname = \"s\"\nfamily = \"ipv6\"",
            "x.toml:8:8: no peer of its pool is of IPv6, as its address is: it would not become active",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(problems(text), [expected]);
    }
}

#[test]
fn the_peers_of_a_pool_are_for_services_of_either_family() {
    let text = "[[pool]]\nname = \"p\"\naddresses = [\"192.0.2.16/28\", \"2001:db8::/64\"]\ninterface = \"eth0\"\npeers = [\"192.0.2.2\", \"2001:db8:1::2\"]\n[[service]]\nname = \"s\"\nfamily = \"ipv6\"\n[[service]]\nname = \"t\"";
    let config = parse(text).unwrap();
    let peers = config.vips.iter().map(|vip| vip.router.peers.clone());
    let expected = ["2001:db8:1::2", "192.0.2.2"];
    let expected = expected.map(|peer| Peers::Unicast(vec![peer.parse().unwrap()]));
    assert_eq!(peers.collect::<Vec<_>>(), expected);
}

#[test]
fn the_numbers_of_a_cluster_are_computed() {
    let text = "[openshift]\ncluster = \"oc2-yw674\"\n[[vip]]\nname = \"v\"\nrole = \"ingress\"\naddresses = [\"192.168.7.100\"]\ninterface = \"eth0\"";
    assert_eq!(parse(text).unwrap().vips[0].router.router_id, 223);
}
