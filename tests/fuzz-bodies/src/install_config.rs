//! Any bytes as install-config.yaml or agent-config.yaml, and as manifests of a cluster that a site is learned from.

use daemon::config::Document;

/// Whatever the bytes say stays a value or a comment in the file that comes of them.
fn site_file_of(text: String) {
    let parsed: Result<toml::Table, _> = toml::from_str(&text);
    let table = parsed.unwrap_or_else(|error| panic!("{error}\n{text}"));
    for key in table.keys() {
        assert!(KEYS.contains(&key.as_str()), "{key}\n{text}");
    }
    // It may lack something, and is read without a panic.
    drop(site_file::parse(&Document::inline("site.toml", text)));
}

pub(super) fn body(data: &[u8]) {
    match site_init::import_bytes(data) {
        Ok(text) => site_file_of(text),
        Err(problems) => {
            assert!(!problems.0.is_empty(), "a refusal says why");
            for problem in problems {
                assert!(!problem.message.is_empty(), "a problem says what it is");
            }
        }
    }
    if let Ok(text) = site_init::learn_bytes(data) {
        site_file_of(text);
    }
}

/// Tables and keys that a site file from there has.
const KEYS: &[&str] = &[
    "version", "name", "domain", "networks", "gateways", "clients", "node", "dns", "time", "vip",
    "registry", "platform", "cluster", "publish",
];

/// Pieces of such files.
pub(super) const WORDS: &[&str] = &[
    "\nmetadata:\n  name: a\n",
    "\nbaseDomain: b.c\n",
    "\ncontrolPlane: {replicas: 3}\n",
    "\ncompute: [{replicas: 4294967295}]\n",
    "\nnetworking: {machineNetwork: [{cidr: 192.0.2.0/24}]}\n",
    "\nplatform: {baremetal: {apiVIPs: [192.0.2.1], ingressVIPs: ['::1']}}\n",
    "\nhosts: [{hostname: h, role: master}]\n",
    "\n  networkConfig: {interfaces: [{ipv4: {address: [{ip: 192.0.2.2, prefix-length: 255}]}}]}\n",
    "\nimageDigestSources: [{mirrors: ['r.a.b.c:5443/x']}]\n",
    "\nrendezvousIP: 192.0.2.3\n",
    "additionalNTPSources: [\"a\\\"b\\n]\"]",
    "\n---\napiVersion: v1\nkind: Node\nmetadata: {name: a, labels: {node-role.kubernetes.io/master: ''}}\nstatus: {addresses: [{type: InternalIP, address: 192.0.2.1}]}\n",
    "\n  annotations: {projectcalico.org/IPv4Address: 192.0.2.1/24}\n",
    "\n---\napiVersion: config.openshift.io/v1\nkind: Infrastructure\nmetadata: {name: cluster}\n",
    "\nstatus: {platformStatus: {baremetal: {apiServerInternalIPs: [192.0.2.9], machineNetworks: [192.0.2.0/24]}}}\n",
    "\n---\napiVersion: config.openshift.io/v1\nkind: DNS\nmetadata: {name: cluster}\nspec: {baseDomain: \"a\\nb\"}\n",
    "\n---\napiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nspec: {addresses: ['192.0.2.3-192.0.2.9']}\n",
    "&a ",
    "*a",
    "<<: *a",
    "!!binary ",
    "? ",
    "|\n",
    "---\n",
    "\t",
    "'\"",
    "\"\\u0007\\n[x]\"",
];
