//! Counts what would leave the site.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::daemon::run;

/// Counters of packets for addresses outside the site, in network namespaces.
#[derive(Debug, Default)]
pub struct Outside {
    namespaces: Vec<String>,
}

impl Outside {
    /// Counts in a namespace what is sent to, or arrives for, an address that is neither of `site` nor of
    /// the link nor of the machine itself.
    ///
    /// # Panics
    ///
    /// Panics if nft is not installed, or refuses.
    pub fn watch(&mut self, namespace: &str, site: &str) {
        let rules = format!(
            "table inet {TABLE} {{\n\
               counter outside {{ }}\n\
               chain sent {{ type filter hook output priority -400; jump judge; }}\n\
               chain arrived {{ type filter hook prerouting priority -400; jump judge; }}\n\
               chain judge {{\n\
                 ip daddr != {{ {site}, 127.0.0.0/8, 224.0.0.0/4, 255.255.255.255 }} counter name outside\n\
                 ip6 daddr != {{ ::1, fe80::/10, ff00::/8 }} counter name outside\n\
               }}\n\
             }}\n"
        );
        let mut child = Command::new("ip")
            .args(["netns", "exec", namespace, "nft", "-f", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("iproute2 is installed");
        let mut stdin = child.stdin.take().expect("stdin is piped");
        stdin.write_all(rules.as_bytes()).expect("nft reads");
        drop(stdin);
        let status = child.wait().expect("own child");
        assert!(status.success(), "nft in {namespace}: {status}");
        self.namespaces.push(namespace.to_owned());
    }

    /// The packets so far, in all namespaces.
    ///
    /// # Panics
    ///
    /// Panics if a counter is gone.
    #[must_use]
    pub fn n_packets(&self) -> u64 {
        self.namespaces.iter().map(|name| count(name)).sum()
    }
}

fn count(namespace: &str) -> u64 {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace, "nft", "list", "counter", "inet"]);
    command.args([TABLE, "outside"]);
    let (status, text, complaint) = run(command);
    assert!(status.success(), "nft in {namespace}: {complaint}");
    let packets = text.split("packets ").nth(1);
    let packets = packets.and_then(|rest| rest.split(' ').next()?.parse().ok());
    packets.unwrap_or_else(|| panic!("nft says {text}"))
}

/// A table of our own, so that no other rules are touched.
const TABLE: &str = "outpost_test_outside";
