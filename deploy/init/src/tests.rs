use super::*;
use site::{Site, VipRole};

const INSTALL: &str = include_str!("../../../tests/fuzz/corpus/install_config/install-config.yaml");

const AGENT: &str = include_str!("../../../tests/fuzz/corpus/install_config/agent-config.yaml");

fn draft_of(texts: &[&str]) -> Draft {
    let mut draft = Draft::default();
    for text in texts {
        let document = Document::inline("in.yaml", *text);
        openshift::import(&document, &mut draft).unwrap();
    }
    draft.settle();
    draft
}

pub(crate) fn site_of(text: &str) -> Site {
    let read = site_file::parse(&Document::inline("site.toml", text));
    read.site
        .unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

/// The site of the example: its nodes, and its virtual IPs.
#[track_caller]
pub(crate) fn check_example(site: &Site) {
    assert_eq!(
        (site.name.as_str(), site.domain.as_str()),
        ("ocp4", "ocp4.redhat.ren")
    );
    let nodes: Vec<String> = site
        .nodes
        .iter()
        .map(|node| format!("{} {:?} {}", node.name, node.role, node.address()))
        .collect();
    assert_eq!(
        nodes,
        [
            "master-0 Master 192.168.7.13",
            "master-1 Master 192.168.7.14",
            "master-2 Master 192.168.7.15",
            "worker-0 Worker 192.168.7.16",
            "worker-1 Worker 192.168.7.17",
        ]
    );
    let vips: Vec<(VipRole, String)> = site
        .vips
        .iter()
        .map(|vip| (vip.role, vip.addresses[0].to_string()))
        .collect();
    assert_eq!(
        vips,
        [
            (VipRole::Api, "192.168.7.100/24".to_owned()),
            (VipRole::Ingress, "192.168.7.101/24".to_owned())
        ]
    );
}

#[test]
fn openshifts_own_files_make_a_whole_site() {
    let mut draft = draft_of(&[INSTALL, AGENT]);
    draft.openshift = Some("4.18".to_owned());
    assert_eq!(draft.missing(), [""; 0]);
    let text = draft.to_string();
    let site = site_of(&text);
    check_example(&site);
    assert_eq!(site.time.servers, ["192.168.7.1", "ntp.example.com"]);
    assert_eq!(site.upstreams[0].to_string(), "192.168.7.1:53");
    assert_eq!(site.clients[0].to_string(), "10.132.0.0/14");
    assert_eq!(site.registry.names, ["quay"]);
    for note in [
        "# additionalTrustBundle: add pki/ca.crt",
        "# not carried: the mirror mirror.example.com/x",
        "# OpenShift's own keepalived holds",
    ] {
        assert!(text.contains(note), "{note}\n{text}");
    }
    assert!(!text.contains("auths") && !text.contains("AAAA"), "{text}");
}

#[test]
fn old_keys_are_known_too() {
    let text = "baseDomain: b.c\nmetadata: {name: a}\nplatform: {vsphere: {apiVIP: 192.0.2.5, ingressVIP: 192.0.2.6}}\n\
                networking: {machineCIDR: 192.0.2.0/24}\nimageContentSources: [{mirrors: ['hub.a.b.c:8443']}]\n";
    let draft = draft_of(&[text]);
    assert_eq!(draft.api_vips.len() + draft.ingress_vips.len(), 2);
    assert_eq!(draft.networks[0].to_string(), "192.0.2.0/24");
    assert_eq!(
        (draft.registry_names[0].as_str(), draft.registry_port),
        ("hub", Some(8443))
    );
}

#[test]
fn what_is_wrong_in_a_file_is_said_where_it_stands() {
    for (text, said) in [
        ("a: [\n", "in.yaml:1:4: "),
        (
            "baseDomain: a\nbaseDomain: b\n",
            "in.yaml:2:1: duplicate mapping key",
        ),
        (
            "networking:\n  machineNetwork:\n  - cidr: 192.0.2\n",
            "in.yaml:3:11: `192.0.2` is not a network",
        ),
        (
            "rendezvousIP: here\n",
            "in.yaml:1:15: `here` is not an IP address",
        ),
        ("controlPlane:\n  replicas: many\n", "in.yaml:2:13: "),
    ] {
        let mut draft = Draft::default();
        let problems = openshift::import(&Document::inline("in.yaml", text), &mut draft);
        let problems = problems.unwrap_err().to_string();
        assert!(problems.starts_with(said), "{text}: {problems}");
        assert!(!problems.contains(" at line "), "{problems}");
    }
}

#[test]
fn a_file_without_end_is_refused_at_once() {
    for text in [
        format!("additionalNTPSources: [{}]", "a, ".repeat(50_000)),
        format!("x: {}", "[".repeat(5_000)),
        "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\n\
         c: &c [*b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c]\n\
         hosts: [*d, *d, *d, *d, *d, *d, *d, *d]\n"
            .to_owned(),
    ] {
        let document = Document::inline("in.yaml", text);
        assert!(openshift::import(&document, &mut Draft::default()).is_err());
    }
}

#[test]
fn what_is_missing_is_named_as_flags() {
    let draft = draft_of(&[
        "metadata: {name: a}\ncontrolPlane: {replicas: 1}\nhosts: [{hostname: w, role: worker}]\n",
    ]);
    assert_eq!(
        draft.missing(),
        [
            "--domain DOMAIN",
            "--network CIDR",
            "--master master-0=ADDRESS",
            "--worker w=ADDRESS"
        ]
    );
}

/// What comes of answers, one a line, and what was shown.
fn answered(draft: Draft, answers: &str) -> (Option<Draft>, String) {
    let mut draft = draft;
    let mut shown = Vec::new();
    let result = Asker::new(answers.as_bytes(), &mut shown).fill(&mut draft);
    (
        result.is_ok().then_some(draft),
        String::from_utf8(shown).unwrap(),
    )
}

#[test]
fn a_site_comes_of_pressing_enter() {
    let (draft, shown) = answered(Draft::default(), &"\n".repeat(40));
    let text = draft.unwrap().to_string();
    let site = site_of(&text);
    assert_eq!(site.domain, "ocp4.example.com");
    let addresses: Vec<String> = site
        .nodes
        .iter()
        .map(|node| node.address().to_string())
        .collect();
    assert_eq!(addresses, ["192.168.7.13", "192.168.7.14", "192.168.7.15"]);
    assert!(
        shown.contains("Address of master-1 [192.168.7.14]: "),
        "{shown}"
    );
}

#[test]
fn a_wrong_answer_is_asked_for_again_with_the_reason() {
    let answers = "North\nnorth\n\n10.0.0\n10.0.0.0/24\n2\n1\n1\n\n10.0.0.13\n10.0.0.20\n10.0.0.100\n10.0.0.101\nx\n10.0.0.1\n\n\nnone\n\n";
    let (draft, shown) = answered(Draft::default(), answers);
    let draft = draft.unwrap_or_else(|| panic!("{shown}"));
    for reason in [
        "`North` has capital letters",
        "`10.0.0` is not a network",
        "etcd survives the loss of no more with 2 than with 1",
        "10.0.0.13 is the address of another node",
        "`x` is not an IP address, with or without a port",
    ] {
        assert!(shown.contains(reason), "{reason}\n{shown}");
    }
    let site = site_of(&draft.to_string());
    assert_eq!((site.nodes.len(), site.vips.len()), (2, 2));
    assert_eq!(site.interface, "eth0");
}

#[test]
fn answers_that_end_early_make_no_site() {
    let (draft, _) = answered(Draft::default(), "north\n");
    assert_eq!(draft, None);
}

#[test]
fn proposals_never_leave_the_network() {
    let draft = Draft {
        name: Some("n".to_owned()),
        domain: Some("n.example".to_owned()),
        networks: vec!["2001:db8::/126".parse().unwrap()],
        masters: 3,
        workers: 1,
        ..Draft::default()
    };
    let (_, shown) = answered(draft, "2001:db8::1\n\n\n\n");
    assert!(shown.contains("Address of master-0: "), "{shown}");
    assert!(
        shown.contains("Address of master-2 [2001:db8::3]: "),
        "{shown}"
    );
    assert!(shown.contains("Address of worker-0: "), "{shown}");
}

#[test]
fn a_host_in_both_files_is_one_node() {
    let install = "metadata: {name: a}\nbaseDomain: b.c\nplatform: {baremetal: {hosts: [{name: n, role: master}]}}\n";
    let agent = "hosts: [{hostname: n, networkConfig: {interfaces: [{ipv4: {address: [{ip: 192.0.2.2, prefix-length: 24}]}}]}}]\n";
    let draft = draft_of(&[install, agent]);
    assert_eq!(draft.nodes.len(), 1, "{draft:?}");
    assert_eq!(draft.nodes[0].addresses[0].to_string(), "192.0.2.2");
    assert_eq!(draft.networks[0].to_string(), "192.0.2.0/24");
}

#[test]
fn an_address_that_no_machine_has_is_named() {
    let draft = draft_of(&["rendezvousIP: 192.0.2.9\nhosts: [{hostname: n, role: worker}]\n"]);
    assert_eq!(
        draft.notes,
        ["not carried: rendezvousIP 192.0.2.9, which no host has"]
    );
}
