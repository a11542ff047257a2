//! Any bytes as a file of keys.

use std::path::Path;

use ntp::key_file::parse;

pub(super) fn body(data: &[u8]) {
    let n_lines = data.split(|&byte| byte == b'\n').count();
    let (ring, problems) = parse(data, Path::new("chrony.keys"));
    assert!(ring.len() <= n_lines);
    for problem in problems {
        let at = problem.position.expect("what is said has a place");
        assert!((1..=n_lines).contains(&at.line), "{at}");
    }
    let mut digest = [0; 64];
    for (id, key) in ring.iter() {
        assert!(id > 0);
        let length = ring.sign(id, 4, data, &mut digest);
        assert!(length.is_some(), "{}", key.algorithm().name());
    }
}

/// Pieces of such files.
pub(super) const WORDS: &[&str] = &[
    "\n1 tulip",
    "\n4294967295 MD5 ASCII:crocus",
    "\n25 SHA1 HEX:933F62BE1D604E68A81B557F18CFA200483F5B70",
    "\n30 AES128 HEX:7EA62AE64D190114D46D5A082F948EC1",
    "\n31 AES256 HEX:37DDCBC67BB902BCB8E995977FAB4D2B5642F5B32EBCEEE421921D97E5CBFE39",
    "\n7 SHA3-512 x",
    "HEX:",
    "ASCII:",
];
