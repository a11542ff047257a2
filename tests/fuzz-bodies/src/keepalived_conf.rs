//! Any bytes as keepalived.conf.

use std::path::Path;

use config_text::OneFile;
use peer_keepalived::import;

pub(super) fn body(data: &[u8]) {
    let path = Path::new("keepalived.conf");
    let n_lines = data.split(|&byte| byte == b'\n').count();
    for id in [None, Some("main")] {
        // The parser reports a file that includes itself.
        let problems = match import(path, &mut OneFile(data), id) {
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
}

/// Pieces of such files.
pub(super) const WORDS: &[&str] = &[
    "\nglobal_defs {\n",
    "\nvrrp_instance V {\n",
    "\nvrrp_sync_group G {\n group {\n V\n }\n}\n",
    "\nvrrp_script S { script x\n weight -20\n}\n",
    "\n virtual_ipaddress {\n 192.0.2.1/24 dev eth0 label x\n }\n",
    "\n virtual_ipaddress_excluded { 2001:db8::1 }\n",
    "\n interface eth0\n virtual_router_id 51\n",
    "\n unicast_peer { 192.0.2.2 }\n",
    "\n track_script { S weight 5 }\n",
    "\n authentication { auth_type PASS\n auth_pass secret }\n",
    "\n advert_int 0.25\n",
    "\n version 3\n",
    "\n}\n",
    "\n$A=${B}\n",
    "\n$B= \\\n",
    "${A}",
    "$B ",
    "\n@main ",
    "\n@^main ",
    "\ninclude x\n",
    "include *\n",
    "~SEQ(",
    "{",
    "}",
    "\"",
    "'",
    "\\",
    "#",
    "!",
    "256",
    "-1",
    "99999999999",
];
