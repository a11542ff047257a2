use super::*;
use site::{Podman, Runtime, VipRole};

/// Three masters of a site that needs nothing else, and where a test adds to it.
const BASE: &str = r#"version = "v1"
name = "north"
domain = "north.example.org"
networks = ["192.0.2.0/24"]
TOP
[time]
servers = ["192.0.2.9"]
[[node]]
name = "master-0"
role = "master"
address = "192.0.2.13"
NODE
[[node]]
name = "master-1"
role = "master"
address = "192.0.2.14"
[[node]]
name = "master-2"
role = "master"
address = "192.0.2.15"
END
"#;

pub(super) fn document(top: &str, node: &str, end: &str) -> Document {
    let text = BASE
        .replace("TOP", top)
        .replace("NODE", node)
        .replace("END", end);
    Document::inline("site.toml", text)
}

pub(super) fn site(top: &str, node: &str, end: &str) -> Site {
    let document = document(top, node, end);
    parse(&document)
        .site
        .unwrap_or_else(|problems| panic!("{problems}\n{}", document.text))
}

/// Everything that is said of a document.
fn said(document: &Document) -> Vec<String> {
    let read = parse(document);
    let problems = read.site.err().unwrap_or_default();
    let problems = problems.into_iter().map(|problem| problem.to_string());
    problems
        .chain(read.remarks.iter().map(ToString::to_string))
        .collect()
}

/// One thing is said, and it begins like this.
pub(super) fn check(document: &Document, begins: &str) {
    let said = said(document);
    assert!(
        matches!(said.as_slice(), [one] if one.starts_with(&format!("site.toml:{begins}"))
            && (one.contains(": note: ") || remedy(one).is_some())),
        "wanted {begins}\nsaid {said:#?}\nof {}",
        document.text
    );
}

#[test]
fn a_small_site_is_good_and_has_what_sites_have() {
    let site = site("", "", "");
    assert_eq!(said(&document("", "", "")), [""; 0]);
    assert_eq!(site.nodes.len(), 3);
    assert_eq!(site.registry.names, ["registry"]);
    assert_eq!(site.platform.runtime, Runtime::Quadlet(Podman::V4_4));
    assert_eq!(site.zone.minimum, "3M");
    let servers: Vec<String> = site
        .zone
        .name_servers
        .iter()
        .map(|host| format!("{} {}", host.name, host.address))
        .collect();
    assert_eq!(
        servers,
        ["ns1 192.0.2.13", "ns2 192.0.2.14", "ns3 192.0.2.15"]
    );
    // Without OpenShift nobody has an API server.
    let published: Vec<&str> = site.published.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(published, ["registry"]);
}

/// The template that people start from.
const TEMPLATE: &str = include_str!("../../config/site.toml");

#[test]
fn the_template_is_the_example_site() {
    let document = Document::inline("site.toml", TEMPLATE);
    let read = parse(&document);
    assert_eq!(read.site, Ok(Site::example()));
    let remarks: Vec<String> = read.remarks.iter().map(ToString::to_string).collect();
    assert_eq!(
        remarks,
        [
            "site.toml:13:8: note: no [time] servers: the nodes agree on a time, which may be wrong together"
        ]
    );
}

/// Every key that the template has in a comment is one, and its value is good.
#[test]
fn the_template_is_good_with_everything_that_it_comments_out() {
    let mut text = String::new();
    for line in TEMPLATE.lines() {
        let key = line.strip_prefix('#').filter(|rest| {
            let word = rest.split([' ', '=']).next().unwrap_or_default();
            rest.starts_with('[')
                || rest.contains(" = ")
                    && !word.is_empty()
                    && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')
        });
        text.push_str(key.unwrap_or(line));
        text.push('\n');
    }
    assert!(
        text.matches("[[").count() > TEMPLATE.matches("\n[[").count() + 4,
        "{text}"
    );
    let document = Document::inline("site.toml", text);
    let read = parse(&document);
    let site = read
        .site
        .unwrap_or_else(|problems| panic!("{problems}\n{}", document.text));
    assert_eq!(site.vips.len(), 1);
    assert_eq!(site.records.len(), 1);
    assert_eq!(read.named.len(), 5, "{:?}", read.named);
    assert!(site.cluster.is_some());
    assert_eq!(
        (site.registry.quotas.len(), site.registry.mirrors.len()),
        (1, 1)
    );
    assert_eq!(site.published.len(), 6);
}

/// What stands in the head of the file, and what is said.
const WRONG_VALUES: &[(&str, &str)] = &[
    (
        "nmae = \"x\"",
        "5:1: unknown key `nmae`, did you mean `name`?",
    ),
    ("interface = \"a/b\"", "5:13: `a/b` is no interface"),
    (
        "gateways = [\"192.0.2\"]",
        "5:13: `192.0.2` is no IP address",
    ),
    (
        "clients = [\"10.0.0.0/8\", \"10.0.0.1/8\"]",
        "5:26: `10.0.0.1/8` is an address in a network; the network is 10.0.0.0/8",
    ),
    (
        "platform.openshift = \"3.11\"",
        "5:22: `3.11` is no release of OpenShift",
    ),
    (
        "platform.podman = \"new\"",
        "5:19: `new` is no release of podman",
    ),
    ("dns.ttl = 4000000000", "5:11: a TTL is at most"),
    ("dns.refresh = \"3 H\"", "5:15: `3 H` is no span of time"),
    ("dns.contact = \"a@b\"", "5:15: `a@b` is no host name"),
    (
        "dns.upstreams = [\"ns.example\"]",
        "5:18: `ns.example` is not an address, as in \"192.168.7.1\", \"192.168.7.1:5300\"",
    ),
    (
        "dns.upstreams = [\"192.0.2.14\"]",
        "5:18: 192.0.2.14:53 is a node of the site itself",
    ),
    (
        "dns.upstreams = [\"192.0.2.1\", \"192.0.2.1:53\"]",
        "5:31: 192.0.2.1:53 is given twice",
    ),
    (
        "dns.forward = [{ zone = \".\", upstreams = [\"192.0.2.1\"] }]",
        "5:25: `.` is every name outside: its servers stand in `dns.upstreams`",
    ),
    (
        "dns.forward = [{ zone = \"a..b\", upstreams = [\"192.0.2.1\"] }]",
        "5:25: `a..b` is an empty name, or has an empty part",
    ),
    (
        "dns.forward = [{ zone = \"north.example.org\", upstreams = [\"192.0.2.1\"] }]",
        "5:25: `north.example.org` is the zone of this site",
    ),
    (
        "dns.forward = [{ zone = \"2.0.192.in-addr.arpa\", upstreams = [\"192.0.2.1\"] }]",
        "5:25: `2.0.192.in-addr.arpa` has addresses of `networks`",
    ),
    (
        "dns.forward = [{ zone = \"a\", upstreams = [] }]",
        "5:42: `a` has no servers",
    ),
    (
        "dns.forward = [{ zone = \"a\", upstreams = [\"192.0.2.14\"] }]",
        "5:43: 192.0.2.14:53 is a node of the site itself",
    ),
    (
        "dns.forward = [{ zone = \"a\", upstreams = [\"192.0.2.1\"] }, { zone = \"a\", upstreams = [\"192.0.2.1\"] }]",
        "5:68: `a` is given twice",
    ),
    (
        "dns.name-servers = []",
        "1:1: no server answers for north.example.org",
    ),
    ("registry.port = 0", "5:17: 0 is no port"),
    (
        "registry.port = 5301",
        "5:17: port 5301 for registry is the port of dns-authd already",
    ),
    (
        "registry.cluster-port = 9405",
        "5:25: port 9405 for the nodes of the registry is the port of registry-svc's admin",
    ),
    (
        "registry.names = [\"Quay\"]",
        "5:19: `Quay` has capital letters",
    ),
    (
        "registry.names = [\"q\", \"q\"]",
        "5:24: `q` is a name of registry already",
    ),
    (
        "registry.names = [\"master-1\"]",
        "5:19: `master-1` is node master-1 already",
    ),
    (
        "registry.names = [\"ns1\"]",
        "5:19: `ns1` is the name server on master-0 already",
    ),
];

#[test]
fn what_a_value_has_to_be_is_said_where_it_stands() {
    for (top, begins) in WRONG_VALUES {
        check(&document(top, "", ""), begins);
    }
}

/// What stands at the end of the file, and what is said.
const MISFITS: &[(&str, &str)] = &[
    (
        "[[node]]\nname = \"w\"\nrole = \"worker\"\naddress = \"192.0.2.14\"",
        "24:11: 192.0.2.14 is the address of node master-1 already",
    ),
    (
        "[[node]]\nname = \"w\"\nrole = \"worker\"\naddress = \"192.0.3.14\"",
        "24:11: 192.0.3.14 is outside the site's networks (192.0.2.0/24)",
    ),
    (
        "[[node]]\nname = \"w\"\nrole = \"worker\"\naddress = \"192.0.2.255\"",
        "24:11: 192.0.2.255 is the broadcast address of 192.0.2.0/24",
    ),
    (
        "[[node]]\nname = \"w\"\nrole = \"worker\"\naddress = \"192.0.2.0\"",
        "24:11: 192.0.2.0 is the network 192.0.2.0/24 itself",
    ),
    (
        "[[node]]\nname = \"w\"\nrole = \"worker\"\naddress = \"127.0.0.1\"",
        "24:11: 127.0.0.1 cannot be the address of a machine",
    ),
    (
        "[[node]]\nname = \"w\"\nrole = \"worker\"",
        "22:8: `w` has no `address`",
    ),
    (
        "[[node]]\nname = \"w\"\nrole = \"worker\"\naddresses = [\"192.0.2.20\", \"192.0.2.21\"]",
        "24:28: `w` has an IPv4 address already",
    ),
    (
        "[[node]]\nname = \"w\"\nrole = \"wroker\"\naddress = \"192.0.2.20\"",
        "23:8: unknown value `wroker`, did you mean `worker`?",
    ),
    (
        "[[node]]\nname = \"master-1\"\nrole = \"worker\"\naddress = \"192.0.2.20\"",
        "22:8: `master-1` is node master-1 already",
    ),
    (
        "[[node]]\nname = \"w\"\nrole = \"worker\"\naddress = \"192.0.2.20\"\nservices = [\"helathd\"]",
        "25:13: unknown service `helathd`, did you mean `healthd`?",
    ),
    (
        "[[node]]\nname = \"w\"\nrole = \"worker\"\naddress = \"192.0.2.20\"\nservices = [\"lb-proxy\"]",
        "22:8: `w` runs lb-proxy without healthd",
    ),
    (
        "[[node]]\nname = \"w\"\nrole = \"worker\"\naddress = \"192.0.2.20\"\nservices = [\"healthd\", \"healthd\"]",
        "25:24: `healthd` is given twice",
    ),
    (
        "[[record]]\nname = \"master-1\"\naddress = \"192.0.2.20\"",
        "22:8: `master-1` is node master-1 already",
    ),
    (
        "[[record]]\nname = \"registry\"\naddress = \"192.0.2.20\"",
        "22:8: `registry` is a name of registry already",
    ),
    (
        "[[record]]\nname = \"a\"\naddress = \"192.0.2.20\"\n[[record]]\nname = \"a\"\naddress = \"192.0.2.20\"",
        "25:8: `a` has 192.0.2.20 already",
    ),
    (
        "[[record]]\nname = \"a\"\naddress = \"192.0.2.20\"\n[[record]]\nname = \"A\"\ntype = \"cname\"\nvalue = \"b\"",
        "25:8: `A` is the record a already",
    ),
    ("[[record]]\nname = \"a\"", "22:8: `a` has no `address`"),
    (
        "[[record]]\nname = \"a\"\ntype = \"TXT\"",
        "22:8: `a` has either `address`",
    ),
    (
        "[[record]]\nname = \"a\"\naddress = \"192.0.2.20\"\nvalue = \"x\"",
        "22:8: `a` has either `address`",
    ),
    (
        "[[record]]\nname = \"a\"\ntype = \"A\"\nvalue = \"192.0.2.300\"",
        "24:9: ",
    ),
    (
        "[[record]]\nname = \"a.\"\ntype = \"A\"\nvalue = \"192.0.2.30\"",
        "22:8: `a.` is an empty name",
    ),
    (
        "[[vip]]\nname = \"v\"\naddress = \"192.0.2.100\"",
        "22:8: no interface for virtual IPs on master-0, master-1, master-2",
    ),
    ("[[publish]]\nname = \"web\"", "22:8: `web` has no `port`"),
    (
        "[[publish]]\nname = \"web\"\nport = 53",
        "23:8: port 53 for web is the port of dns-recursor already",
    ),
    (
        "[[publish]]\nname = \"web\"\nport = 80\nproxy-port = 80",
        "24:14: port 80 for lb-proxy for web is the port of web already",
    ),
    (
        "[[publish]]\nname = \"web\"\nport = 80\nvip = \"v\"",
        "24:7: there is no [[vip]] `v`",
    ),
    (
        "[[publish]]\nname = \"web\"\nport = 80\nnames = [\"www\", \"master-0\"]",
        "24:17: `master-0` is node master-0 already",
    ),
];

#[test]
fn what_does_not_fit_together_is_said_where_it_stands() {
    for (end, begins) in MISFITS {
        check(&document("", "", end), begins);
    }
}

#[test]
fn members_of_etcd_have_names_where_there_is_openshift() {
    let record = "[[record]]\nname = \"etcd-0\"\naddress = \"192.0.2.20\"";
    assert_eq!(said(&document("", "", record)), [""; 0]);
    let top = "platform.openshift = \"4.18\"";
    check(
        &document(top, "", record),
        "22:8: `etcd-0` is the etcd of master-0 already",
    );
}

#[test]
fn virtual_ips_lie_where_somebody_can_hold_them() {
    let vip = |lines: &str| {
        format!("[[vip]]\nname = \"one\"\nrole = \"api\"\naddress = \"192.0.2.100\"\n{lines}")
    };
    for (end, begins) in [
        (
            "[[vip]]\nname = \"two\"\naddress = \"192.0.2.100\"",
            "28:11: 192.0.2.100 is the address of virtual IP one already",
        ),
        (
            "[[vip]]\nname = \"two\"\naddress = \"192.0.2.13\"",
            "28:11: 192.0.2.13 is the address of node master-0 already",
        ),
        (
            "[[vip]]\nname = \"two\"\naddress = \"192.0.2.1\"",
            "28:11: 192.0.2.1 is the address of the gateway already",
        ),
        (
            "[[vip]]\nname = \"two\"\naddress = \"198.51.100.1\"",
            "28:11: 198.51.100.1 is outside the site's networks",
        ),
        (
            "[[vip]]\nname = \"one\"\naddress = \"192.0.2.101\"\nrouter-id = 7",
            "27:8: there is a [[vip]] `one` already",
        ),
        (
            "[[vip]]\nname = \"two\"\nrole = \"api\"\naddress = \"192.0.2.101\"\nrouter-id = 7",
            "28:8: `one` is the virtual IP of this role already",
        ),
        (
            "[[vip]]\nname = \"two\"\naddress = \"192.0.2.101\"\nrouter-id = 0",
            "29:13: the number of a virtual router is 1 to 255",
        ),
        (
            "router-id = 9\n[[vip]]\nname = \"two\"\naddress = \"192.0.2.101\"\nrouter-id = 9",
            "30:13: `one` and `two` are both virtual router 9",
        ),
    ] {
        let top = "interface = \"eth0\"\ngateways = [\"192.0.2.1\"]";
        check(&document(top, "", &vip(end)), begins);
    }
    // Of two families they do not meet, and nobody can hold what is not of its family.
    let both = "[[vip]]\nname = \"two\"\naddress = \"2001:db8::100\"\nrouter-id = 9";
    let text = document(
        "interface = \"eth0\"",
        "",
        &vip(&format!("router-id = 9\n{both}")),
    );
    let text = text.text.replace("/24\"]", "/24\", \"2001:db8::/64\"]");
    let alone = Document::inline("site.toml", text.as_str());
    check(
        &alone,
        "27:8: 2001:db8::100 cannot be held by node master-0, which has no IPv6 address",
    );
    let mut text = text;
    for last in [13, 14, 15] {
        text = text.replace(
            &format!("address = \"192.0.2.{last}\""),
            &format!("addresses = [\"192.0.2.{last}\", \"2001:db8::{last}\"]"),
        );
    }
    let site = parse(&Document::inline("site.toml", text)).site.unwrap();
    assert_eq!(site.vips[0].addresses[0].to_string(), "192.0.2.100/24");
    assert_eq!(site.vips[1].addresses[0].to_string(), "2001:db8::100/64");
}

#[test]
fn zones_of_other_servers_are_those_that_the_site_does_not_have() {
    let top = "dns.forward = [\
        { zone = \"corp.example.com\", upstreams = [\"192.0.2.1\", \"192.0.2.2:5353\"] }, \
        { zone = \"0.192.in-addr.arpa\", upstreams = [\"192.0.2.1\"], recursive = true }, \
        { zone = \"_msdcs.example.com\", upstreams = [\"192.0.2.1\"] }, \
        { zone = \"8.b.d.0.1.0.0.2.ip6.arpa\", upstreams = [\"192.0.2.1\"] }]";
    let read = |server: &str| {
        let text = document(top, "", "").text.replace("192.0.2.9", server);
        parse(&Document::inline("site.toml", text))
    };
    let found = read("time.corp.example.com");
    let remarks: Vec<String> = found
        .remarks
        .iter()
        .map(|it| it.problem.to_string())
        .collect();
    assert!(
        !remarks.iter().any(|it| it.contains("cannot be resolved")),
        "{remarks:?}"
    );
    let site = found.site.unwrap();
    let zones: Vec<(&str, usize, bool)> = site
        .forwards
        .iter()
        .map(|it| (it.zone.as_str(), it.upstreams.len(), it.recursive))
        .collect();
    assert_eq!(
        zones,
        [
            ("corp.example.com", 2, false),
            ("0.192.in-addr.arpa", 1, true),
            ("_msdcs.example.com", 1, false),
            ("8.b.d.0.1.0.0.2.ip6.arpa", 1, false),
        ]
    );
    let elsewhere = read("time.example.com");
    let mut remarks = elsewhere.remarks.iter().map(|it| it.problem.to_string());
    assert!(remarks.any(|it| it.contains("cannot be resolved")));
}

#[test]
fn names_lead_to_the_virtual_ip_of_their_role() {
    let top = "platform.openshift = \"4.16\"\ndns.upstreams = [\"192.0.2.1\"]";
    let end = "[[vip]]\nname = \"in\"\nrole = \"ingress\"\naddress = \"192.0.2.101\"\n\
               [[vip]]\nname = \"web\"\naddress = \"192.0.2.102\"\n\
               [[publish]]\nname = \"API\"\noffered-by = [\"worker\"]\n\
               [[publish]]\nname = \"web\"\nport = 8080\nproxy-port = 9081\nnames = [\"www\"]\nvip = \"web\"";
    let text = document(top, "", end).text;
    let text = text.replace("\"north.example.org\"", "\"north.example\"");
    let site = parse(&Document::inline("site.toml", text)).site.unwrap();
    let published: Vec<(&str, u16, Option<&str>)> = site
        .published
        .iter()
        .map(|one| (one.what.as_str(), one.port, one.vip.as_deref()))
        .collect();
    assert_eq!(
        published,
        [
            ("API", 6443, None),
            ("machine-config", 22623, None),
            ("ingress", 443, Some("in")),
            ("ingress-http", 80, Some("in")),
            ("registry", 5443, None),
            ("web", 8080, Some("web")),
        ]
    );
    assert_eq!(site.interface, "br-ex");
    assert_eq!(site.vips[0].role, VipRole::Ingress);
    assert_eq!(site.vips[0].router_id, None);
    assert!(site.vips[1].router_id.is_some());
    assert_eq!(site.clients[0].to_string(), "10.128.0.0/14");
    assert_eq!(site.platform.runtime, Runtime::Quadlet(Podman::V4_9));
}

#[test]
fn what_is_odd_is_said_and_passes() {
    for (top, end, begins) in [
        ("time.servers = []", "", "2:8: note: no [time] servers"),
        (
            "time.servers = [\"ntp.example.com\"]",
            "",
            "5:17: warning: `ntp.example.com` cannot be resolved",
        ),
        (
            "platform.openshift = \"4.18\"",
            "",
            "3:10: warning: OpenShift's domain of a cluster south begins with south.",
        ),
        (
            "",
            "[[node]]\nname = \"master-3\"\nrole = \"master\"\naddress = \"192.0.2.16\"",
            "22:8: warning: 4 masters",
        ),
    ] {
        let text = document(top, "", end).text;
        let text = if top.starts_with("time") {
            text.replace("[time]\nservers = [\"192.0.2.9\"]\n", "\n\n")
        } else if top.starts_with("platform") {
            text.replace("\"north\"", "\"south\"")
        } else {
            text
        };
        let document = Document::inline("site.toml", text);
        check(&document, begins);
        assert!(parse(&document).site.is_ok());
    }
}

#[test]
fn a_time_server_inside_the_site_has_to_be_there() {
    let with = |server: &str| {
        let text = document(
            "",
            "",
            "[[record]]\nname = \"ntp\"\naddress = \"192.0.2.9\"",
        )
        .text;
        Document::inline(
            "site.toml",
            text.replace("\"192.0.2.9\"]", &format!("\"{server}\"]")),
        )
    };
    assert_eq!(said(&with("ntp.north.example.org")), [""; 0]);
    check(
        &with("ntq.north.example.org"),
        "7:12: `ntq.north.example.org` is a name of this site that nothing has",
    );
}

#[test]
fn podmans_are_told_apart_by_what_their_quadlets_understand() {
    for (key, runtime) in [
        ("openshift = \"4.12\"", Runtime::NoQuadlet),
        ("openshift = \"4.14\"", Runtime::Quadlet(Podman::V4_4)),
        ("openshift = \"4.18\"", Runtime::Quadlet(Podman::V5_2)),
        ("openshift = \"4.20\"", Runtime::Quadlet(Podman::V5_2)),
        ("podman = \"3.0.1\"", Runtime::NoQuadlet),
        ("podman = \"4.3\"", Runtime::NoQuadlet),
        ("podman = \"4.6.2\"", Runtime::Quadlet(Podman::V4_4)),
        ("podman = \"5.0\"", Runtime::Quadlet(Podman::V4_9)),
        ("podman = \"5.4\"", Runtime::Quadlet(Podman::V5_4)),
        ("podman = \"6.1\"", Runtime::Quadlet(Podman::V5_4)),
        ("podman = \"none\"", Runtime::Native),
        (
            "openshift = \"4.18\"\nplatform.podman = \"none\"",
            Runtime::Native,
        ),
    ] {
        let site = site(&format!("platform.{key}"), "", "");
        assert_eq!(site.platform.runtime, runtime, "{key}");
    }
}

#[test]
fn more_than_a_site_has_is_told_once() {
    let end: String = (0..150)
        .map(|n| format!("[[publish]]\nname = \"p{n}\"\nport = {}\n", 10_000 + n))
        .collect();
    check(
        &document("", "", &end),
        "322:8: no site has more than 100 of these",
    );
    let end: String = (0..120)
        .map(|n| {
            let address = format!("192.0.2.{}", 100 + n);
            format!("[[node]]\nname = \"w{n}\"\nrole = \"worker\"\naddress = \"{address}\"\n")
        })
        .collect();
    check(
        &document("", "", &end),
        "410:8: more than 100 nodes are no site of one link",
    );
}

#[test]
fn no_node_and_no_network_are_told() {
    let text = "version = \"v1\"\nname = \"n\"\ndomain = \"n.example\"\nnetworks = []\n";
    assert_eq!(
        said(&Document::inline("site.toml", text)),
        [
            "site.toml:1:1: no server answers for n.example: no node runs dns-recursor, and [dns] has no `name-servers`; add one or the other",
            "site.toml:4:12: no network; write the one that the nodes are in, as in networks = [\"192.168.7.0/24\"]",
            "site.toml:4:12: no [[node]] of role \"master\": no node runs the services of the site; make one, or three, of this role",
            "site.toml:2:8: note: no [time] servers: the nodes agree on a time, which may be wrong together",
        ]
    );
}

#[test]
fn wrong_values_and_broken_rules_are_told_together_without_their_consequences() {
    let text = "version = \"v1\"\nname = \"n\"\ndomain = \"n.example\"\nnetworks = [\"192.0.2.0/24\", \"192.0.3\"]\n\
        [[node]]\nname = \"a\"\nrole = \"mister\"\naddress = \"192.0.2.10\"\n\
        [[node]]\nname = \"b\"\nrole = \"worker\"\naddress = \"192.0.2\"\n\
        [[node]]\nname = \"b\"\nrole = \"worker\"\naddress = \"192.0.3.11\"\n\
        [[vip]]\nname = \"v\"\nadress = \"192.0.2.9\"\n\
        [[publish]]\nname = \"web\"\nport = \"80\"\nvip = \"v\"\n\
        [[record]]\nname = \"r\"\naddresses = [7]\n\
        [[record]]\nname = \"q\"\ntype = 1\nvalue = \"x\"\n\
        [time]\nservers = [\"a.n.example\"]\n[platform]\nopenshift = \"3\"\n";
    let document = Document::inline("site.toml", text);
    let problems = parse(&document).site.unwrap_err();
    let problems: Vec<String> = problems.into_iter().map(|one| one.to_string()).collect();
    assert_eq!(
        problems,
        [
            "site.toml:4:29: `192.0.3` is not a network, as in \"192.168.7.0/24\"",
            "site.toml:7:8: unknown value `mister`, did you mean `master`?",
            "site.toml:12:11: `192.0.2` is no IP address, as in \"192.0.2.1\" or \"2001:db8::1\"",
            "site.toml:14:8: `b` is node b already; choose another name",
            "site.toml:19:1: unknown key `adress`, did you mean `address`?",
            "site.toml:22:8: invalid type: string \"80\", expected a whole number; write digits alone, without quotes",
            "site.toml:26:14: invalid type: integer `7`, expected a string; put the text into quotes",
            "site.toml:29:8: invalid type: integer `1`, expected a string; put the text into quotes",
            "site.toml:34:13: `3` is no release of OpenShift from 4.7 on, as in \"4.18\"",
        ]
    );
}

#[test]
fn the_ingress_leads_to_the_nodes_that_run_routers() {
    let worker = "[[node]]\nname = \"w\"\nrole = \"worker\"\naddress = \"192.0.2.20\"\n";
    let vip = "[[vip]]\nname = \"in\"\nrole = \"ingress\"\naddress = \"192.0.2.101\"\n";
    let chosen = "[[publish]]\nname = \"ingress\"\noffered-by = [\"master\", \"worker\"]\n";
    let masters = ["master-0", "master-1", "master-2"];
    let all = ["master-0", "master-1", "master-2", "w"];
    for (end, routers, http) in [
        (String::new(), &masters[..], &masters[..]),
        (worker.to_owned(), &["w"], &["w"]),
        (format!("{worker}{vip}"), &["w"], &["w"]),
        (format!("{worker}{chosen}"), &all, &["w"]),
    ] {
        let site = site("platform.openshift = \"4.18\"", "", &end);
        let offering = |what: &str| -> Vec<&str> {
            let one = site.published.iter().find(|one| one.what == what).unwrap();
            site.offering(one).map(|node| node.name.as_str()).collect()
        };
        assert_eq!(offering("ingress"), routers, "{end}");
        assert_eq!(offering("ingress-http"), http, "{end}");
        assert_eq!(offering("API"), masters, "{end}");
    }
}

#[test]
fn what_leads_nowhere_or_to_the_site_itself_is_a_warning() {
    let vip = |role: &str| {
        format!("[[vip]]\nname = \"v\"\nrole = \"{role}\"\naddress = \"192.0.2.100\"\n")
    };
    let port = |key: &str| format!("[[publish]]\nname = \"web\"\nport = 8080\n{key}");
    let interface = "interface = \"eth0\"";
    for (role, publish, remedy) in [
        ("api", "", Some("set `openshift` in [platform]")),
        ("plain", "", Some("name it in a [[publish]]")),
        ("ingress", "role = \"api\"", Some("set `openshift`")),
        ("api", "role = \"api\"", None),
        ("plain", "vip = \"v\"", None),
    ] {
        let end = format!("{}{}", vip(role), port(publish));
        let document = document(interface, "", &end);
        match remedy {
            Some(remedy) => {
                check(&document, "22:8: warning: the virtual IP `v` leads nowhere");
                assert!(said(&document)[0].contains(remedy), "{remedy}");
            }
            None => assert_eq!(said(&document), [""; 0], "{}", document.text),
        }
        assert!(parse(&document).site.is_ok());
    }
    let with_server = |server: &str| {
        let text = document("", "", "").text;
        Document::inline("site.toml", text.replace("192.0.2.9", server))
    };
    for server in ["192.0.2.14", "master-1.north.example.org"] {
        let begins = format!("7:12: warning: `{server}` is node master-1 of the site itself");
        check(&with_server(server), &begins);
    }
    let text = document("", "", "").text;
    let text = text.replace("north.example.org", "north.local");
    let document = Document::inline("site.toml", text);
    check(
        &document,
        "3:10: warning: `north.local` is below `local`, the domain of multicast DNS",
    );
}

#[test]
fn an_open_registry_is_said_and_never_one_with_users() {
    assert!(!site("", "", "").registry.open);
    let open = document(
        "clients = [\"10.128.0.0/14\"]",
        "",
        "[registry]\nopen = true\n",
    );
    assert!(parse(&open).site.unwrap().registry.open);
    let said = said(&open);
    assert!(
        said[0].contains(
            "warning: every host that reaches a node, and every pod (10.128.0.0/14), may overwrite"
        ),
        "{said:?}"
    );
    let both = document("", "", "[registry]\nopen = true\nusers = \"users\"\n");
    let problems = parse(&both).site.unwrap_err().to_string();
    assert!(
        problems.contains("a registry with `users` is not open"),
        "{problems}"
    );
}

#[test]
fn a_page_has_a_login_or_is_said_to_be_open() {
    let remarks = |end: &str| -> Vec<String> {
        let read = parse(&document("", "", end));
        assert!(read.site.is_ok(), "{end}: {:?}", read.site);
        let about = read.remarks.iter().map(|remark| remark.problem.to_string());
        about.filter(|text| text.contains("page")).collect()
    };
    assert_eq!(remarks("[page]\nusers = \"users\"\n"), [""; 0]);
    assert_eq!(remarks("[page]\nclient-ca = \"ca.crt\"\n"), [""; 0]);
    let open = remarks("[page]\nopen = true\n");
    assert_eq!(open.len(), 1, "{open:?}");
    assert!(open[0].contains("without a login"), "{open:?}");
    let misfits = [
        ("[page]\n", "21:1: no client could log in to the page"),
        (
            "[page]\nopen = true\nusers = \"users\"\n",
            "22:8: a page that is `open` asks for no login",
        ),
        (
            "[page]\nusers = \"users\"\nport = 5443\n",
            "23:8: port 5443 for page is the port of registry already",
        ),
        (
            "[page]\nusers = \"users\"\nnames = [\"registry\"]\n",
            "23:10: `registry` is a name of registry already",
        ),
    ];
    for (end, begins) in misfits {
        check(&document("", "", end), begins);
    }
    let text = document("", "", "[page]\nusers = \"users\"\n").text;
    let few = "role = \"master\"\nservices = [\"timesync-agent\"]";
    let none = Document::inline("site.toml", text.replace("role = \"master\"", few));
    let said = said(&none);
    assert!(
        said.iter()
            .any(|one| one.contains("no node publishes the page")),
        "{said:?}"
    );
}

#[test]
fn the_names_of_a_page_lead_to_the_nodes_that_publish_it() {
    let site = site(
        "",
        "",
        "[page]\nusers = \"users\"\nnames = [\"overview\"]\nport = 8443\n",
    );
    let page = site.published.iter().find(|one| one.what == "page");
    let page = page.expect("the page is published");
    assert_eq!(
        (page.port, page.names.as_slice()),
        (8443, &["overview".to_owned()][..])
    );
    let nodes: Vec<&str> = site.offering(page).map(|node| node.name.as_str()).collect();
    assert_eq!(nodes, ["master-0", "master-1", "master-2"]);
}
