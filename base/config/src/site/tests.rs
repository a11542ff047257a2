use super::{Network, Node, Openshift, Port, Role, RouterId, Site, Vip, VipRole};
use crate::{Document, Ip, Written};

fn problems_of(text: &str) -> Vec<String> {
    let text =
        format!("version = \"v1\"\nname = \"n\"\ndomain = \"n.example\"\nnetworks = []\n{text}");
    match Document::inline("site.toml", text).parse::<Site>() {
        Ok(site) => vec![format!("{site:?}")],
        Err(problems) => problems.0.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn a_value_says_what_it_has_to_be() {
    for (text, expected) in [
        (
            "clients = [\"10.0.0.1/8\"]",
            "5:12: `10.0.0.1/8` is an address in a network; the network is 10.0.0.0/8",
        ),
        (
            "clients = [\"10.0.0.0\"]",
            "5:12: `10.0.0.0` is not a network, as in \"192.168.7.0/24\"",
        ),
        (
            "registry.port = 0",
            "5:17: 0 is no port to listen on; ports are 1 to 65535",
        ),
        (
            "registry.port = 65536",
            "5:17: 65536 is no port to listen on; ports are 1 to 65535",
        ),
        (
            "dns.ttl = -1",
            "5:11: a TTL is at most 2147483647 and not negative (RFC 2181 §8); this one is -1",
        ),
        (
            "platform.openshift = \"4.6\"",
            "5:22: `4.6` is no release of OpenShift from 4.7 on, as in \"4.18\"",
        ),
        (
            "[[node]]\nname = \"a\"\nrole = \"master\"\nservices = [\"healthd\", \"named\"]",
            "8:24: unknown service `named`, known are healthd, clusterd, dns-authd, dns-recursor, lb-proxy, registry-svc, timesync-agent",
        ),
        (
            "[[vip]]\nname = \"a\"\nrole = \"apii\"",
            "7:8: unknown value `apii`, did you mean `api`?",
        ),
    ] {
        assert_eq!(
            problems_of(text),
            [format!("site.toml:{expected}")],
            "{text}"
        );
    }
}

#[test]
fn a_written_site_has_what_differs_from_the_defaults_and_reads_back() {
    let ip = |text: &str| text.parse::<Ip>().unwrap();
    let mut site = Site::new("edge", "edge.example.org");
    site.networks = vec!["192.0.2.0/24".parse::<Network>().unwrap()];
    site.node.push(Node {
        name: "master-0".to_owned(),
        role: Role::Master,
        address: Some(ip("192.0.2.10")),
        addresses: Vec::new(),
        interface: None,
        services: None,
    });
    site.vip.push(Vip {
        name: "web".to_owned(),
        role: VipRole::Plain,
        address: None,
        addresses: vec![ip("192.0.2.100"), ip("2001:db8::100")],
        router_id: RouterId::new(7),
    });
    site.registry.port = Port::new(6000).unwrap();
    site.platform.openshift = Some(Openshift { minor: 18 });
    let written = Written::new(&site).unwrap().to_string();
    assert_eq!(
        written,
        r#"version = "v1"
name = "edge"
domain = "edge.example.org"
networks = ["192.0.2.0/24"]

[[node]]
name = "master-0"
role = "master"
address = "192.0.2.10"

[[vip]]
name = "web"
addresses = ["192.0.2.100", "2001:db8::100"]
router-id = 7

[registry]
port = 6000

[platform]
openshift = "4.18"
"#
    );
    let read: Site = Document::inline("site.toml", written).parse().unwrap();
    assert_eq!(read, site);
}
