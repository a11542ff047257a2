//! Any bytes as a Corefile, a dnsmasq.conf, a resolv.conf and a recursor.yml.

use std::path::Path;

use config_text::{OneFile, Problem};

pub(super) fn body(data: &[u8]) {
    let n_lines = data.split(|&byte| byte == b'\n').count();
    let check = |problems: &[Problem], ours: &str| {
        assert!(!problems.is_empty(), "a refusal says why");
        let positions = problems.iter().filter_map(|it| it.position.as_ref());
        for position in positions.filter(|it| *it.file == *Path::new(ours)) {
            let exists = position.line >= 1 && position.column >= 1;
            // The end of a file is a place too.
            assert!(
                exists && position.line <= n_lines + 1,
                "{position} of {n_lines} lines"
            );
        }
    };
    let path = Path::new("file");
    if let Err(rejected) = peer_corefile::read(path, &mut OneFile(data)) {
        check(&rejected.problems, "file");
    }
    if let Err(rejected) = peer_dnsmasq::read(path, &mut OneFile(data)) {
        check(&rejected.problems, "file");
    }
    if let Err(rejected) = peer_forwarder::resolv_conf::read(path, &mut OneFile(data)) {
        check(&rejected.problems, "file");
    }
    match peer_recursor_conf::parse_yaml_bytes(data) {
        Err(rejected) => check(&rejected.problems, "recursor.yml"),
        Ok(conf) => {
            assert!(conf.is_yaml, "it is YAML");
            assert!(!conf.listen.is_empty(), "a server listens somewhere");
            for forward in &conf.forwards {
                assert!(!forward.upstreams.is_empty(), "a zone has a server");
            }
            for dropped in &conf.dropped {
                assert!(dropped.key.contains('.'), "{dropped:?} has a section");
                assert!(dropped.position.is_some(), "{dropped:?} has a place");
            }
        }
    }
}

/// Pieces of such files.
pub(super) const WORDS: &[&str] = &[
    ". {\n",
    "forward . 192.0.2.53 tls://192.0.2.54\n",
    "forward . /etc/resolv.conf {\n",
    "cache 30 {\n",
    "rewrite name suffix .a .b answer auto\n",
    "hosts {\n",
    "policy sequential\n",
    "}\n",
    "server=/a.example/192.0.2.1#5353\n",
    "address=/b.example/192.0.2.2\n",
    "cname=a,b\n",
    "listen-address=",
    "cache-size=",
    "conf-file=x\n",
    "nameserver 192.0.2.53\n",
    "options timeout:1 attempts:2\n",
    "recursor:\n",
    "incoming:\n",
    "outgoing:\n",
    "dnssec:\n",
    "  forward_zones:\n",
    "  - zone: a.example\n",
    "    forwarders: [192.0.2.1, '[::1]:53']\n",
    "  trustanchors:\n",
    "  - name: .\n    dsrecords: [1 13 2 00]\n",
    "  rpzs:\n  - name: x\n",
    "  allow_from: ['!10.0.0.0/8', ::/0]\n",
    "  listen:\n",
    "  threads: 4\n",
    "  quiet: true\n",
    "&a ",
    "*a",
    "- ",
    ": ",
    "{}",
    "[]",
    "|\n",
    "~",
    "\t",
    "\0",
];
