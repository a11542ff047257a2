//! Any bytes as haproxy.cfg.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use peer_haproxy::{HostInfo, import};

pub(super) fn body(data: &[u8]) {
    let n_lines = data.split(|&byte| byte == b'\n').count();
    let path = Path::new("haproxy.cfg");
    let problems = match import(&[(path, data)], &Machine) {
        Ok(draft) => {
            let written = toml_edit::ser::to_string(&draft.config);
            let written = written.expect("every value has a form in TOML");
            let toml: Result<toml::Table, _> = written.parse();
            assert!(toml.is_ok(), "{:?}\n{written}", toml.err());
            draft.notes.iter().map(config::Note::problem).collect()
        }
        Err(problems) => {
            assert!(!problems.is_empty(), "a refusal says why");
            problems
        }
    };
    for problem in problems {
        let at = problem.position.expect("what is said has a place");
        assert!((1..=n_lines).contains(&at.line) && at.column >= 1, "{at}");
    }
}

/// Knows one variable and one host.
struct Machine;

impl HostInfo for Machine {
    fn variable(&self, name: &str) -> Option<String> {
        (name == "A").then(|| "a b \" # \\".to_owned())
    }

    fn resolve(&self, host: &str) -> Vec<IpAddr> {
        let known = host == "a";
        known
            .then_some(Ipv4Addr::LOCALHOST.into())
            .into_iter()
            .collect()
    }

    fn nameservers(&self) -> Vec<IpAddr> {
        vec![Ipv4Addr::LOCALHOST.into()]
    }
}

/// Pieces of such files.
pub(super) const WORDS: &[&str] = &[
    "\nglobal\n",
    "\ndefaults d from d\n",
    "\nfrontend f\n bind :1\n",
    "\nbackend b\n",
    "\nlisten l\n",
    " server s 192.0.2.1:1 check\n",
    " server s a:+1 ssl verify none\n",
    " default-server inter 1s weight 256\n",
    " default_backend b\n",
    "\nresolvers r\n nameserver a 192.0.2.1:53\n hold nx 5s\n parse-resolv-conf\n",
    " server-template t 1-5 _http._tcp.x resolvers r resolve-prefer ipv4\n",
    " use_backend b if { req.ssl_sni -m end .x }\n",
    " acl x src 10.0.0.0/8\n",
    " tcp-request connection reject unless x\n",
    " option httpchk GET / HTTP/1.1\\r\\nHost:\\ x\n",
    " http-check send hdr a \"b\"\n",
    " timeout client 1m\n",
    " balance source\n",
    " bind [::]:80-90,*:443 accept-proxy\n",
    "\n.if 1\n",
    "\n.endif\n",
    "\"${A[*]}\"",
    "\"$A\"",
    "${B-c}",
    "\\x0a",
    "'",
    "\"",
    "#",
    "4294967296",
    "0",
    "-1",
];
