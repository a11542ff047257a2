//! Any bytes as install-config.yaml or agent-config.yaml.

use daemon::config::Document;

pub(super) fn body(data: &[u8]) {
    match site_init::import_bytes(data) {
        // Whatever the file says stays a value or a comment in the file that comes of it.
        Ok(text) => {
            let parsed: Result<toml::Table, _> = toml::from_str(&text);
            let table = parsed.unwrap_or_else(|error| panic!("{error}\n{text}"));
            for key in table.keys() {
                assert!(KEYS.contains(&key.as_str()), "{key}\n{text}");
            }
            // It may lack something, and is read without a panic.
            drop(site_file::parse(&Document::inline("site.toml", text)));
        }
        Err(problems) => {
            assert!(!problems.0.is_empty(), "a refusal says why");
            for problem in problems {
                assert!(!problem.message.is_empty(), "a problem says what it is");
            }
        }
    }
}

/// Tables and keys that a site file from there has.
const KEYS: &[&str] = &[
    "version", "name", "domain", "networks", "gateways", "clients", "node", "dns", "time", "vip",
    "registry", "platform",
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
