//! Any bytes as `pdns.conf` and as `recursor.conf`.

use std::path::Path;

pub(super) fn body(data: &[u8]) {
    let n_lines = data.split(|&byte| byte == b'\n').count();
    let places: Vec<(usize, usize, bool)> = match peer_pdns::parse_bytes(data) {
        Ok(conf) => {
            assert!(!conf.listen.is_empty(), "a server listens somewhere");
            let dropped = conf
                .dropped
                .iter()
                .filter_map(|dropped| dropped.position.as_ref());
            dropped
                .map(|at| (at.line, at.column, *at.file == *Path::new("pdns.conf")))
                .collect()
        }
        Err(rejected) => {
            assert!(!rejected.problems.is_empty(), "a refusal says why");
            let places = rejected
                .problems
                .iter()
                .filter_map(|problem| problem.position.as_ref());
            places
                .map(|at| (at.line, at.column, *at.file == *Path::new("pdns.conf")))
                .collect()
        }
    };
    for (line, column, is_ours) in places {
        assert!(
            !is_ours || (1..=n_lines).contains(&line) && column >= 1,
            "{line}:{column}"
        );
    }
    if let Err(rejected) = peer_recursor_conf::parse_bytes(data) {
        assert!(!rejected.problems.is_empty(), "a refusal says why");
    }
}

/// Pieces of such files.
pub(super) const WORDS: &[&str] = &[
    "launch=bind\n",
    "local-address=",
    "0.0.0.0 ::",
    "127.0.0.1:53,[::1]:5300",
    "local-port=5301\n",
    "bind-config=/etc/x\n",
    "enable-lua-records=",
    "yes\n",
    "no\n",
    "shared\n",
    "+=",
    "=",
    "\\\n",
    "#",
    " #",
    "allow-from=",
    "192.168.7.0/0",
    "!10.0.0.0/8,",
    "forward-zones=",
    "a.example=127.0.0.1:5301;[::1]:53",
    "forward-zones-recurse=",
    ".=",
    "forward-zones-file=x\n",
    "include-dir=/etc\n",
    "dnssec=off\n",
    "setuid=pdns\n",
    "max-cache-ttl=86400\n",
    "\n",
    "\0",
    "99999999999999999999",
    "-1",
    ",",
    ";",
];
