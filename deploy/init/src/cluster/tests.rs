use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use super::source::SourceError;
use super::*;
use crate::tests::{check_example, site_of};

fn data(name: &str) -> PathBuf {
    let clusters = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/clusters");
    clusters.join(name)
}

fn objects(name: &str) -> Objects {
    let read = source::manifests(&data(name));
    read.unwrap_or_else(|error| panic!("{}", daemon::exit::chain(&error)))
}

/// The draft of objects, with what flags say before.
fn learned(objects: &Objects, given: Draft) -> Draft {
    let mut draft = given;
    learn(objects, &mut draft);
    draft.settle();
    draft
}

fn has_note(draft: &Draft, note: &str) -> bool {
    draft.notes.iter().any(|line| line.contains(note))
}

#[test]
fn a_cluster_of_openshift_is_a_whole_site() {
    let draft = learned(&objects("openshift"), Draft::default());
    assert_eq!(draft.missing(), [""; 0], "{:?}", draft.notes);
    let text = draft.to_string();
    let site = site_of(&text);
    check_example(&site);
    let cluster = site.cluster.unwrap();
    assert_eq!(cluster.domain.as_deref(), Some("cluster.local"));
    assert_eq!(
        cluster.follow,
        [ClusterNodes::Masters, ClusterNodes::Ingress]
    );
    assert!(cluster.forwards && cluster.addresses.is_empty());
    for line in [
        "networks = [\"192.168.7.0/24\"]",
        "gateways = [\"192.168.7.1\"]",
        "clients = [\"10.132.0.0/14\"]",
        "reverse = [\"172.22.0.0/16\", \"10.132.0.0/14\"]",
        "upstreams = [\"192.168.7.1:5353\"]",
        "servers = [\"ntp.example.com\"]",
        "names = [\"quay\"]",
        "openshift = \"4.16\"",
        // The routers of this cluster run on masters.
        "offered-by = [\"master\"]",
        "# follow-addresses = [\"192.168.7.32/27\"]",
        "# kubeconfig = \"clusterd.kubeconfig\"",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    for note in [
        "not carried: the node far-0: it is away from the site",
        "OpenShift's own keepalived holds these virtual IPs",
    ] {
        assert!(has_note(&draft, note), "{note}: {:?}", draft.notes);
    }
    assert!(!text.contains("s3cret") && !text.contains("AAAA"), "{text}");
}

#[test]
fn proposals_take_effect_without_their_sign() {
    let text = learned(&objects("openshift"), Draft::default()).to_string();
    let proposed = text.replace("# follow-addresses", "follow-addresses");
    let cluster = site_of(&proposed).cluster.unwrap();
    let range: config::lb_proxy::AddressRange = "192.168.7.32/27".parse().unwrap();
    assert_eq!(cluster.follow_addresses, [range]);
}

#[test]
fn a_cluster_of_kubeadm_is_a_site_without_openshift() {
    let draft = learned(&objects("kubeadm"), Draft::default());
    assert_eq!(draft.missing(), [""; 0], "{:?}", draft.notes);
    let text = draft.to_string();
    let site = site_of(&text);
    assert_eq!(
        (site.name.as_str(), site.domain.as_str()),
        ("edge", "edge.example.org")
    );
    assert_eq!(site.platform.openshift, None);
    let addresses: Vec<String> = site
        .nodes
        .iter()
        .map(|node| format!("{} {:?}", node.name, node.addresses))
        .collect();
    assert_eq!(
        addresses,
        [
            "m0 [192.0.2.10, 2001:db8::10]",
            "w0 [192.0.2.20, 2001:db8::20]"
        ]
    );
    let cluster = site.cluster.unwrap();
    assert_eq!(cluster.domain.as_deref(), Some("edge.local"));
    assert_eq!(cluster.follow, [ClusterNodes::Masters]);
    let api = site.published.iter().find(|one| one.what == "api").unwrap();
    assert_eq!((api.port, api.proxy_port), (6443, Some(9445)));
    assert!(text.contains("# addresses = [\"192.0.2.200-192.0.2.220\"]\n"));
    for note in [
        "not carried: the node win0: it runs windows",
        "not learned: the machine at 192.0.2.11: an API server answers there",
        "not learned: time servers: ",
        "not learned: DNS servers outside the site: ",
        "not learned: addresses of routers: ",
        "not learned: names of the registry: ",
    ] {
        assert!(has_note(&draft, note), "{note}: {:?}", draft.notes);
        assert!(text.contains(&format!("# {note}")), "{text}");
    }
}

#[test]
fn what_a_flag_says_counts() {
    let given = Draft {
        name: Some("north".to_owned()),
        domain: Some("north.example.org".to_owned()),
        api_vips: vec!["192.168.7.110".parse().unwrap()],
        openshift: Some("4.18".to_owned()),
        nodes: vec![crate::draft::DraftNode {
            name: "first".to_owned(),
            role: Some(site::Role::Master),
            addresses: vec!["192.168.7.13".parse().unwrap()],
        }],
        ..Draft::default()
    };
    let draft = learned(&objects("openshift"), given);
    assert_eq!(draft.name.as_deref(), Some("north"));
    assert_eq!(draft.openshift.as_deref(), Some("4.18"));
    assert_eq!(draft.api_vips.len(), 1);
    assert_eq!(draft.ingress_vips, [] as [IpAddr; 0]);
    assert_eq!(draft.nodes.len(), 5, "{:?}", draft.nodes);
    assert_eq!(draft.nodes[0].name, "first");
}

#[test]
fn a_cluster_that_says_nothing_lacks_what_flags_give() {
    let draft = learned(&Objects::default(), Draft::default());
    assert_eq!(
        draft.missing(),
        [
            "--name NAME",
            "--domain DOMAIN",
            "--network CIDR",
            "--master NAME=ADDRESS"
        ]
    );
    for note in [
        "the domain of the site",
        "the network of the nodes",
        "masters",
    ] {
        assert!(has_note(&draft, note), "{note}: {:?}", draft.notes);
    }
}

#[test]
fn nodes_without_the_length_of_their_network_want_a_flag() {
    let node = serde_json::json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "m0", "labels": {"node-role.kubernetes.io/control-plane": ""}},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.10"}]},
    });
    let objects = Objects {
        values: vec![node],
        server: Some("https://api.edge.example.org:6443".to_owned()),
        ..Objects::default()
    };
    let draft = learned(&objects, Draft::default());
    assert_eq!(draft.missing(), ["--network CIDR"]);
    let given = Draft {
        networks: vec!["192.0.2.0/24".parse().unwrap()],
        ..Draft::default()
    };
    let text = learned(&objects, given).to_string();
    assert_eq!(site_of(&text).nodes[0].address().to_string(), "192.0.2.10");
    // No object has the domain of Services: the usual one is a proposal.
    assert!(text.contains("# domain = \"cluster.local\"\n"), "{text}");
}

#[test]
fn the_virtual_ip_of_kubeadm_wants_an_interface() {
    let mut objects = objects("kubeadm");
    for value in &mut objects.values {
        if let Some(text) = value.pointer_mut("/data/ClusterConfiguration") {
            let with_vip = text.as_str().unwrap();
            let with_vip = with_vip.replace("api.edge.example.org:6443", "192.0.2.100:6443");
            *text = with_vip.into();
        }
    }
    let given = |interface: Option<&str>| Draft {
        domain: Some("edge.example.org".to_owned()),
        interface: interface.map(str::to_owned),
        ..Draft::default()
    };
    let draft = learned(&objects, given(None));
    assert!(has_note(&draft, "the virtual IP 192.0.2.100 of the API"));
    assert_eq!(site_of(&draft.to_string()).vips, []);
    let draft = learned(&objects, given(Some("eth0")));
    let site = site_of(&draft.to_string());
    assert_eq!(site.vips[0].addresses[0].to_string(), "192.0.2.100/24");
}

#[test]
fn hosts_of_urls_are_found() {
    for (url, host) in [
        ("https://api.a.example:6443", "api.a.example"),
        ("https://192.0.2.1:6443/", "192.0.2.1"),
        ("api.a.example:6443", "api.a.example"),
        ("https://[2001:db8::1]:6443", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("", ""),
    ] {
        assert_eq!(host_of(url), host, "{url}");
    }
}

//--- The API

/// Answers requests from objects, with a page for each node, until the process ends. The kubeconfig of it.
fn serve(objects: Objects, refused: u16) -> (tempfile::TempDir, PathBuf) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            answer(&stream.unwrap(), &objects, refused);
        }
    });
    kubeconfig(&format!("http://{address}"))
}

/// A kubeconfig of a server.
fn kubeconfig(server: &str) -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("kubeconfig");
    let text = format!(
        "current-context: a\nclusters: [{{name: a, cluster: {{server: '{server}'}}}}]\n\
         contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\nusers: [{{name: a, user: {{token: t}}}}]\n"
    );
    std::fs::write(&path, text).unwrap();
    (place, path)
}

fn answer(stream: &TcpStream, objects: &Objects, refused: u16) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header).unwrap_or(0) <= 2 {
            break;
        }
    }
    let (code, body) = response(&target, objects, refused);
    let head = format!(
        "HTTP/1.1 {code} X\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    // A client may go away before.
    let mut writer = stream;
    drop(writer.write_all(format!("{head}{body}").as_bytes()));
}

fn response(target: &str, objects: &Objects, refused: u16) -> (u16, String) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if path.ends_with("/configmaps/cluster-config-v1") {
        let message = format!("{{\"kind\":\"Status\",\"code\":{refused},\"message\":\"no\"}}");
        return (refused, message);
    }
    if path == "/api/v1/nodes" {
        let nodes: Vec<Value> = objects.all("", "Node").cloned().collect();
        let place: usize = query
            .rsplit_once("continue=")
            .map_or(0, |(_, token)| token.parse().unwrap());
        let next = match place + 1 < nodes.len() {
            true => (place + 1).to_string(),
            false => String::new(),
        };
        let page = serde_json::json!({
            "metadata": {"resourceVersion": "1", "continue": next},
            "items": [nodes[place]],
        });
        return (200, page.to_string());
    }
    let kinds = [
        (
            "/apis/config.openshift.io/v1/infrastructures/cluster",
            CONFIG,
            "Infrastructure",
        ),
        ("/apis/config.openshift.io/v1/dnses/cluster", CONFIG, "DNS"),
        (
            "/apis/operator.openshift.io/v1/dnses/default",
            OPERATOR,
            "DNS",
        ),
    ];
    let found = kinds.iter().find(|(known, ..)| *known == path);
    let found = found.and_then(|(_, group, kind)| objects.all(group, kind).next());
    match found {
        Some(object) => (200, object.to_string()),
        None if path == "/api/v1/services" => (200, "{\"metadata\":{},\"items\":null}".to_owned()),
        None => (404, "{\"kind\":\"Status\",\"code\":404}".to_owned()),
    }
}

#[test]
fn the_api_says_the_same_as_its_objects() {
    let (_place, kubeconfig) = serve(objects("openshift"), 403);
    let read = source::api(&kubeconfig).unwrap();
    assert_eq!(read.all("", "Node").count(), 6);
    let unread: Vec<&str> = read.unread.iter().map(|(what, _)| what.as_str()).collect();
    assert_eq!(unread, ["the settings of OpenShift's installer"]);
    let draft = learned(&read, Draft::default());
    let site = site_of(&draft.to_string());
    assert_eq!((site.nodes.len(), site.vips.len()), (5, 2));
    for note in [
        "learned from the cluster at http://127.0.0.1:",
        "not learned: the settings of OpenShift's installer: 403 no",
        "not learned: the release of OpenShift",
        "not learned: the networks of pods and Services",
    ] {
        assert!(has_note(&draft, note), "{note}: {:?}", draft.notes);
    }
}

#[test]
fn credentials_that_are_refused_and_servers_that_are_away_end_it() {
    let (_place, kubeconfig) = serve(objects("openshift"), 401);
    let error = source::api(&kubeconfig).unwrap_err();
    assert!(matches!(error, SourceError::Asked { .. }), "{error:?}");
    assert_eq!(error.code(), daemon::exit::UNAVAILABLE);
    // Nothing listens on the discard port of this address.
    let (place, path) = self::kubeconfig("http://127.0.0.9:9");
    let error = source::api(&path).unwrap_err();
    assert!(
        daemon::exit::chain(&error).contains("127.0.0.9:9"),
        "{error:?}"
    );
    assert!(source::api(&place.path().join("none")).is_err());
    assert!(source::manifests(&place.path().join("none")).is_err());
}
