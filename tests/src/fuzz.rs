//! What is fuzzed: one function for each kind of bytes that come from outside, and a smoke run.
//!
//! The functions are what `tests/fuzz` hands to libFuzzer; they return normally or panic. The
//! smoke run feeds them the corpus and seeded mutations of it, for a bounded number of steps, on
//! any toolchain: it finds what is shallow, and shows that the corpus and the targets still fit.

mod bundle;
mod chrony_conf;
mod chrony_keys;
mod client_hello;
mod cmdmon;
mod handover;
mod haproxy_cfg;
mod health;
mod image_archive;
mod install_config;
mod keepalived_conf;
mod mutate;
mod named_conf;
mod ntp_packet;
mod ntp_request;
mod proxy_header;
mod ptp_management;
mod ptp_message;
mod query;
mod refclock;
mod registry_archive;
mod registry_journal;
mod registry_manifest;
mod registry_names;
mod registry_range;
mod registry_wire;
mod response;
mod settings;
mod site_file;
mod vrrp;
mod zone;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use crate::binaries::checkout;
use mutate::Mutator;

/// Something to fuzz.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: that of its corpus and of its binary.
    pub name: &'static str,
    /// Runs on any bytes, and panics if something is wrong.
    pub body: fn(&[u8]),
    /// Words that mutations put in.
    words: &'static [&'static str],
}

/// Messages to a DNS server.
pub const QUERY: Target = Target {
    name: "query",
    body: query::body,
    words: &[],
};

/// Files of chronyd.
pub const CHRONY_CONF: Target = Target {
    name: "chrony_conf",
    body: chrony_conf::body,
    words: chrony_conf::WORDS,
};

/// Files of keys.
pub const CHRONY_KEYS: Target = Target {
    name: "chrony_keys",
    body: chrony_keys::body,
    words: chrony_keys::WORDS,
};

/// Packets of chronyc and to it.
pub const CMDMON: Target = Target {
    name: "cmdmon",
    body: cmdmon::body,
    words: &[],
};

/// Master files.
pub const ZONE: Target = Target {
    name: "zone",
    body: zone::body,
    words: zone::WORDS,
};

/// Lists of zones as BIND's named.conf has them.
pub const NAMED_CONF: Target = Target {
    name: "named_conf",
    body: named_conf::body,
    words: named_conf::WORDS,
};

/// Messages between healthd and its subscribers.
pub const HEALTH: Target = Target {
    name: "health",
    body: health::body,
    words: &[],
};

/// Messages between an lb-proxy and its successor.
pub const HANDOVER: Target = Target {
    name: "handover",
    body: handover::body,
    words: &["OLBH"],
};

/// Responses of upstreams.
pub const RESPONSE: Target = Target {
    name: "response",
    body: response::body,
    words: &[],
};

/// PowerDNS's configuration files.
pub const SETTINGS: Target = Target {
    name: "settings",
    body: settings::body,
    words: settings::WORDS,
};

/// Beginnings of connections that may be TLS.
pub const CLIENT_HELLO: Target = Target {
    name: "client_hello",
    body: client_hello::body,
    words: &[],
};

/// HAProxy's configuration files.
pub const HAPROXY_CFG: Target = Target {
    name: "haproxy_cfg",
    body: haproxy_cfg::body,
    words: haproxy_cfg::WORDS,
};

/// keepalived's configuration files.
pub const KEEPALIVED_CONF: Target = Target {
    name: "keepalived_conf",
    body: keepalived_conf::body,
    words: keepalived_conf::WORDS,
};

/// Beginnings of connections that may have a PROXY header.
pub const PROXY_HEADER: Target = Target {
    name: "proxy_header",
    body: proxy_header::body,
    words: &[
        "PROXY TCP4 ",
        "192.0.2.1 ",
        "443\r\n",
        "\r\n\r\n\0\r\nQUIT\n!",
    ],
};

/// VRRP advertisements.
pub const VRRP: Target = Target {
    name: "vrrp",
    body: vrrp::body,
    words: &[],
};

/// Archives of images.
pub const REGISTRY_ARCHIVE: Target = Target {
    name: "registry_archive",
    body: registry_archive::body,
    words: registry_archive::WORDS,
};

/// Archives of the services' own images, and what comes with them.
pub const IMAGE_ARCHIVE: Target = Target {
    name: "image_archive",
    body: image_archive::body,
    words: image_archive::WORDS,
};

/// Bundles of a site.
pub const BUNDLE: Target = Target {
    name: "bundle",
    body: bundle::body,
    words: bundle::WORDS,
};

/// What names content in a registry.
pub const REGISTRY_NAMES: Target = Target {
    name: "registry_names",
    body: registry_names::body,
    words: registry_names::WORDS,
};

/// Ranges of pulls and pushes.
pub const REGISTRY_RANGE: Target = Target {
    name: "registry_range",
    body: registry_range::body,
    words: registry_range::WORDS,
};

/// Manifests of images and indexes.
pub const REGISTRY_MANIFEST: Target = Target {
    name: "registry_manifest",
    body: registry_manifest::body,
    words: registry_manifest::WORDS,
};

/// Segments of the registry's journal.
pub const REGISTRY_JOURNAL: Target = Target {
    name: "registry_journal",
    body: registry_journal::body,
    words: &["ocp4/release", "sha256:", "master-0"],
};

/// Packets of NTP.
pub const NTP_PACKET: Target = Target {
    name: "ntp_packet",
    body: ntp_packet::body,
    words: &[],
};

/// What clients send to an NTP server.
pub const NTP_REQUEST: Target = Target {
    name: "ntp_request",
    body: ntp_request::body,
    words: &[],
};

/// Messages of PTP.
pub const PTP_MESSAGE: Target = Target {
    name: "ptp_message",
    body: ptp_message::body,
    words: &[],
};

/// Answers of ptp4l.
pub const PTP_MANAGEMENT: Target = Target {
    name: "ptp_management",
    body: ptp_management::body,
    words: &[],
};

/// What reference clocks leave.
pub const REFCLOCK: Target = Target {
    name: "refclock",
    body: refclock::body,
    words: &[],
};

/// Messages between the nodes of a registry.
pub const REGISTRY_WIRE: Target = Target {
    name: "registry_wire",
    body: registry_wire::body,
    words: &["ocp4/release", "sha256:", "master-0", "master-1"],
};

/// Files that describe a site.
pub const SITE_FILE: Target = Target {
    name: "site_file",
    body: site_file::body,
    words: site_file::WORDS,
};

/// OpenShift's descriptions of a cluster and of its machines.
pub const INSTALL_CONFIG: Target = Target {
    name: "install_config",
    body: install_config::body,
    words: install_config::WORDS,
};

impl Target {
    /// The files of the corpus.
    ///
    /// # Panics
    ///
    /// Panics if there are none.
    #[must_use]
    pub fn corpus(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let directory = checkout().join("tests/fuzz/corpus").join(self.name);
        let entries = std::fs::read_dir(&directory)
            .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        assert!(!paths.is_empty(), "{} is empty", directory.display());
        let read = |path: PathBuf| {
            let bytes = std::fs::read(&path).expect("the corpus is readable");
            (path, bytes)
        };
        paths.into_iter().map(read).collect()
    }

    /// Runs the corpus, and then `steps` mutations of it.
    ///
    /// # Panics
    ///
    /// Panics with the seed, the step and the file that has the input that failed.
    pub fn smoke(&self, seed: u64, steps: usize) {
        let corpus = self.corpus();
        for (path, bytes) in &corpus {
            self.run(bytes, &path.display().to_string());
        }
        let seeds: Vec<Vec<u8>> = corpus.into_iter().map(|(_, bytes)| bytes).collect();
        let mut mutator = Mutator::new(seed, self.words, &seeds);
        for step in 0..steps {
            let bytes = mutator.next();
            self.run(&bytes, &format!("seed {seed} step {step}"));
        }
    }

    fn run(&self, bytes: &[u8], origin: &str) {
        let result = catch_unwind(AssertUnwindSafe(|| (self.body)(bytes)));
        if result.is_err() {
            let name = format!("outpost-fuzz-{}-{}", self.name, std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::write(&path, bytes).expect("the directory for temporary files is writable");
            panic!(
                "{}: {origin}; the input is in {}",
                self.name,
                path.display()
            );
        }
    }
}
