//! Any bytes as a site file.

use daemon::config::Document;

pub(super) fn body(data: &[u8]) {
    let n_lines = String::from_utf8_lossy(data).split('\n').count();
    let text = String::from_utf8_lossy(data);
    let Err(problems) = site_file::parse(&Document::inline("site.toml", text)).site else {
        return;
    };
    assert!(!problems.0.is_empty(), "a refusal says why");
    for problem in problems {
        assert!(!problem.message.is_empty(), "a problem says what it is");
        let at = problem.position.expect("what is said has a place");
        assert!((1..=n_lines).contains(&at.line) && at.column >= 1, "{at}");
    }
}

/// Pieces of such files.
pub(super) const WORDS: &[&str] = &[
    "\n[[node]]\nname = \"n\"\nrole = \"master\"\naddress = \"192.0.2.7\"\n",
    "\n[[vip]]\nname = \"v\"\nrole = \"api\"\naddress = \"192.0.2.8\"\n",
    "\n[[record]]\nname = \"r\"\ntype = \"TXT\"\nvalue = \"\\\"x\\\"\"\n",
    "\n[[record]]\nname = \"@\"\naddress = \"2001:db8::1\"\n",
    "\n[[publish]]\nname = \"web\"\nport = 80\nproxy-port = 81\nnames = [\"*.x\"]\n",
    "\nnetworks = [\"192.0.2.0/24\", \"2001:db8::/64\", \"0.0.0.0/0\", \"192.0.2.1/32\"]\n",
    "\nservices = [\"healthd\", \"lb-proxy\", \"dns-recursor\", \"dns-authd\"]\n",
    "platform.openshift = \"4.255\"",
    "platform.podman = \"255.255.65535\"",
    "dns.refresh = \"4294967295W\"",
    "router-id = 255",
    "router-id = 0",
    "port = 0",
    "255.255.255.255",
    "::",
    "etcd-0",
    "ns1",
    "*.*",
    "\\u0000",
    "LUA",
    "A \\\"ifportup(1, {})\\\"",
];
