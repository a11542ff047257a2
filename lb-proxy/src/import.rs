//! Peers' files off the disk: `lb-proxy import`.
//!
//! [`peer_haproxy`] and [`peer_keepalived`] understand the files; this module is the machine that
//! they refer to: files, the environment, and the resolver, which HAProxy asks when it starts.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use ::config::lb_proxy::LbProxy;
use ::config::{Class, Disposition, Draft, Note, Refused};
use daemon::config::{Problem, Problems};
use daemon::disk::{self, Disk};
use peer_haproxy::HostInfo;

/// haproxy.cfg: files one after the other, and of directories the files whose names end in `.cfg`.
///
/// # Errors
///
/// When a file cannot be read, or breaks HAProxy's syntax.
pub fn haproxy(paths: &[PathBuf]) -> Result<Draft<LbProxy>, Problems> {
    let mut files = Vec::new();
    for path in paths {
        for path in cfg_files(path)? {
            let octets = disk::read(&path).map_err(|error| unreadable(&path, &error))?;
            files.push((path, octets));
        }
    }
    let files: Vec<(&Path, &[u8])> = files
        .iter()
        .map(|(path, octets)| (path.as_path(), octets.as_slice()))
        .collect();
    peer_haproxy::import(&files, &Machine).map_err(|problems| problems.into_iter().collect())
}

/// Refuses a draft that lacks a restriction of the peer's file, unless the operator lets in the clients that it kept out.
///
/// # Errors
///
/// The restrictions, and all notes.
pub fn checked(draft: Draft<LbProxy>, accept_open: bool) -> Result<Draft<LbProxy>, Refused> {
    let is_vital = |note: &&Note| {
        note.class == Class::Security && note.disposition != Disposition::Odd && !accept_open
    };
    let mut problems = Problems::default();
    for note in draft.notes.iter().filter(is_vital) {
        problems.push(Problem {
            position: note.position.clone(),
            message: format!(
                "`{}` cannot be honoured: {}; to let in the clients that it kept out, pass `--accept-open`",
                note.what, note.reason
            ),
        });
    }
    match problems.0.is_empty() {
        true => Ok(draft),
        false => Err(Refused {
            problems,
            notes: draft.notes,
        }),
    }
}

/// keepalived.conf, with the files that it includes. `id` is what keepalived is given with `--config-id`;
/// without it, lines for some machines only are not carried over.
///
/// # Errors
///
/// When a file cannot be read, or breaks keepalived's syntax.
pub fn keepalived(path: &Path, id: Option<&str>) -> Result<Draft<LbProxy>, Problems> {
    let imported = peer_keepalived::import(path, &mut Disk, id);
    imported.map_err(|problems| problems.into_iter().collect())
}

/// A file, or the files of a directory in the order of their names.
fn cfg_files(path: &Path) -> Result<Vec<PathBuf>, Problems> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let listed = disk::list(path).map_err(|error| unreadable(path, &error))?;
    let is_cfg = |path: &PathBuf| {
        let is_hidden = path
            .file_name()
            .is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        path.extension().is_some_and(|extension| extension == "cfg") && !is_hidden
    };
    let mut files: Vec<PathBuf> = listed.into_iter().filter(is_cfg).collect();
    files.sort();
    if files.is_empty() {
        let message = format!("no file in {} ends in .cfg", path.display());
        return Err([Problem::new(message)].into_iter().collect());
    }
    Ok(files)
}

fn unreadable(path: &Path, error: &io::Error) -> Problems {
    let message = format!("cannot read {}: {error}", path.display());
    [Problem::new(message)].into_iter().collect()
}

/// This one.
struct Machine;

impl HostInfo for Machine {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn resolve(&self, host: &str) -> Vec<IpAddr> {
        // A port is wanted, and does not matter.
        let found = (host, 0).to_socket_addrs();
        found
            .into_iter()
            .flatten()
            .map(|address| address.ip())
            .collect()
    }

    fn nameservers(&self) -> Vec<IpAddr> {
        name_lookup::of_machine()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use config_text::OneFile;
    use daemon::config::Document;

    use super::*;
    use crate::config::Config;

    /// Files to import.
    struct Scratch(tempfile::TempDir);

    impl Scratch {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn file(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.path().join(name);
            fs::write(&path, text).unwrap();
            path
        }
    }

    #[test]
    fn a_directory_stands_for_its_files() {
        let scratch = Scratch::new();
        scratch.file("2.cfg", " server s localhost:1\n");
        scratch.file("1.cfg", "listen l\n bind :1\n");
        scratch.file("3.txt", "nonsense\n");
        scratch.file(".4.cfg", "nonsense\n");
        let imported = haproxy(&[scratch.0.path().to_owned()]).unwrap();
        let toml = toml(&imported);
        assert!(toml.contains("address = \"127.0.0.1:1\""), "{toml}");
        assert!(imported.notes.is_empty());
    }

    #[test]
    fn a_lost_restriction_refuses_the_import_unless_the_operator_accepts_it() {
        let scratch = Scratch::new();
        let rule = "tcp-request connection reject unless { src -f /etc/lan }";
        let text = format!("listen l\nbind :1\n{rule}\nserver s 192.0.2.1:1\n");
        let file = scratch.file("haproxy.cfg", &text);
        let draft = || haproxy(std::slice::from_ref(&file)).unwrap();
        let refused = checked(draft(), false).unwrap_err();
        let message = refused.problems.to_string();
        assert!(message.contains(":3:1: "), "{message}");
        assert!(message.contains(rule), "{message}");
        assert!(message.contains("`--accept-open`"), "{message}");
        assert_eq!(refused.problems.0.len(), 1);
        let accepted = checked(draft(), true).unwrap();
        assert_eq!(accepted.notes, draft().notes);
        // Notes of other weights refuse nothing.
        let file = scratch.file("other.cfg", &text.replace(rule, "cookie x"));
        let draft = haproxy(&[file]).unwrap();
        assert_eq!(draft.notes.len(), 1);
        checked(draft, false).unwrap();
    }

    #[test]
    fn files_that_are_not_there_are_told() {
        let scratch = Scratch::new();
        let problems = haproxy(&[scratch.0.path().join("gone.cfg")])
            .unwrap_err()
            .to_string();
        assert!(problems.starts_with("cannot read /"), "{problems}");
        let problems = haproxy(&[scratch.0.path().to_owned()])
            .unwrap_err()
            .to_string();
        assert!(problems.contains("ends in .cfg"), "{problems}");
        let problems = keepalived(&scratch.0.path().join("gone"), None)
            .unwrap_err()
            .to_string();
        assert!(problems.starts_with("cannot read /"), "{problems}");
    }

    #[test]
    fn included_files_are_read_from_beside_the_one_that_includes_them() {
        let scratch = Scratch::new();
        let main = scratch.file("keepalived.conf", "include vip*.conf\n");
        scratch.file(
            "vip1.conf",
            "vrrp_instance a {\ninterface e\nvirtual_router_id 1\nvirtual_ipaddress { 192.0.2.1 }\n}\n",
        );
        let imported = keepalived(&main, None).unwrap();
        let toml = toml(&imported);
        assert!(toml.contains("addresses = [\"192.0.2.1/32\"]"), "{toml}");
    }

    /// What is written is what the proxy takes.
    #[track_caller]
    fn check(draft: &Draft<LbProxy>) {
        let toml = toml(draft);
        let document = Document::inline("imported.toml", toml.as_str());
        match Config::from_document(&document) {
            Ok(config) => assert_eq!(config.file, draft.config, "{toml}"),
            Err(problems) => panic!("{problems}\n{toml}"),
        }
    }

    fn toml(draft: &Draft<LbProxy>) -> String {
        draft.written("").unwrap().to_string()
    }

    /// A machine with a resolver.
    struct Here;

    impl HostInfo for Here {
        fn variable(&self, _name: &str) -> Option<String> {
            None
        }

        fn resolve(&self, host: &str) -> Vec<IpAddr> {
            let last = match host.strip_suffix(".ocp4.redhat.ren") {
                Some("bootstrap") => 12,
                Some("master0") => 13,
                Some("master1") => 14,
                Some("master2") => 15,
                Some("compute0") => 16,
                Some("compute1") => 17,
                _ => return Vec::new(),
            };
            vec![[192, 168, 7, last].into()]
        }

        fn nameservers(&self) -> Vec<IpAddr> {
            Vec::new()
        }
    }

    #[test]
    fn what_comes_of_haproxy_cfg_passes_the_check() {
        for text in [
            include_str!("../../peers/haproxy/src/fixtures/helper-node.cfg"),
            include_str!("../../peers/haproxy/src/fixtures/upi-sample.cfg"),
            include_str!("../../peers/haproxy/src/fixtures/on-prem.cfg"),
            include_str!("../../peers/haproxy/src/fixtures/two-clusters.cfg"),
        ] {
            let files = [(Path::new("haproxy.cfg"), text.as_bytes())];
            check(&peer_haproxy::import(&files, &Here).unwrap());
        }
    }

    #[track_caller]
    fn check_keepalived(text: &str, id: Option<&str>) {
        let mut files = OneFile(text.as_bytes());
        let imported = peer_keepalived::import(Path::new("keepalived.conf"), &mut files, id);
        check(&imported.unwrap());
    }

    #[test]
    fn what_comes_of_keepalived_conf_passes_the_check() {
        let by_hand = include_str!("../../peers/keepalived/src/fixtures/by-hand.conf");
        check_keepalived(by_hand, Some("main"));
        check_keepalived(by_hand, Some("backup"));
        let on_prem = include_str!("../../peers/keepalived/src/fixtures/on-prem.conf");
        check_keepalived(on_prem, None);
        let both = "vrrp_sync_group g { group { V } }\n\
             vrrp_instance V {\ninterface eth0\nvirtual_router_id 7\nversion 3\nadvert_int 0.2\n\
             nopreempt\nunicast_src_ip 192.0.2.9\nunicast_peer {\n192.0.2.8\n2001:db8::8\n}\n\
             virtual_ipaddress_excluded { 192.0.2.1 }\nvirtual_ipaddress { 2001:db8::1 }\n\
             v3_checksum_as_v2\n}\n";
        check_keepalived(both, None);
    }

    #[test]
    fn scripts_and_services_of_keepalived_pass_the_check() {
        for command in [
            "/etc/chk.sh",
            "nc -z 127.0.0.1 80",
            "curl -sk https://[::1]/a",
            "pidof haproxy",
        ] {
            for weight in ["", "weight 5", "weight -5"] {
                let text = format!(
                    "vrrp_script a {{\nscript \"{command}\"\ninterval 1\ntimeout 1\nrise 2\nfall 3\n{weight}\n}}\n\
                     vrrp_instance V {{\ninterface eth0\nvirtual_router_id 7\nvirtual_ipaddress {{ 192.0.2.1 }}\n\
                     track_script {{ a }}\n}}\n"
                );
                check_keepalived(&text, None);
            }
        }
        let checks = [
            "TCP_CHECK { connect_port 9 }",
            "HTTP_GET { url { path /x } }",
            "SSL_GET { }",
            "DNS_CHECK { }",
            "MISC_CHECK { }",
            "",
        ];
        for check in checks {
            for (protocol, ip) in [("TCP", "192.0.2.1"), ("UDP", "2001:db8::1")] {
                let text = format!(
                    "virtual_server {ip} 80 {{\nprotocol {protocol}\nlb_algo lc\nlb_kind DR\ndelay_loop 6\n\
                     sorry_server {ip} 81\nreal_server {ip} 82 {{\nweight 999\n{check}\n}}\n}}\n"
                );
                check_keepalived(&text, None);
            }
        }
    }

    #[test]
    fn every_keyword_of_keepalived_passes_the_check() {
        for lines in [
            "",
            "version 3",
            "priority 255",
            "advert_int 3",
            "version 3\nadvert_int 0.05",
            "advert_int 1.5",
            "advert_int 0.5",
            "nopreempt",
            "nopreempt\nstate BACKUP",
            "nopreempt\nstate MASTER",
            "preempt_delay 300",
            "mcast_src_ip 192.0.2.9",
            "unicast_peer { }",
            "unicast_peer {\n192.0.2.8\nnobody\n}",
            "authentication {\nauth_pass secret\n}",
            "authentication {\nauth_type AH\nauth_pass x\n}",
            "authentication { auth_pass 1234567é }",
            "version 3\nauthentication { auth_pass x }",
            "version 3\nv3_checksum_as_v2",
            "notify /x/y",
            "notify \"/x/y z\"",
            "garp_master_refresh 10",
            "virtual_ipaddress_excluded { 2001:db8::1/64 }\nvirtual_ipaddress { 2001:db8::2 }\n\
             priority 150\nadvert_int 60\nunicast_peer { 192.0.2.8 }\n\
             authentication { auth_pass secret }\nnotify /x/y",
        ] {
            let text = format!(
                "vrrp_instance V {{\ninterface eth0\nvirtual_router_id 7\nvirtual_ipaddress {{ 192.0.2.1 }}\n{lines}\n}}\n"
            );
            check_keepalived(&text, None);
        }
    }
}
