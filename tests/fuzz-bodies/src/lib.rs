//! Fuzz targets: one function for each kind of bytes that come from outside, and a smoke run.
//!
//! A body returns normally or panics. `tests/fuzz` gives it to libFuzzer. The smoke run gives it the corpus and seeded mutations of
//! the corpus, for a bounded number of steps, on any toolchain: it finds shallow mistakes, and shows that corpus and targets still fit.
//!
//! Each target is a feature of the same name, which brings the crates that its body calls.

#[cfg(feature = "bundle")]
mod bundle;
#[cfg(feature = "catalog")]
mod catalog;
#[cfg(feature = "chrony_conf")]
mod chrony_conf;
#[cfg(feature = "chrony_keys")]
mod chrony_keys;
#[cfg(feature = "client_hello")]
mod client_hello;
#[cfg(feature = "cmdmon")]
mod cmdmon;
#[cfg(feature = "cookie")]
mod cookie;
#[cfg(any(feature = "query", feature = "zone"))]
mod dns_world;
#[cfg(feature = "dnstap_reader")]
mod dnstap_reader;
#[cfg(feature = "forwarder_files")]
mod forwarder_files;
#[cfg(feature = "handover")]
mod handover;
#[cfg(feature = "haproxy_cfg")]
mod haproxy_cfg;
#[cfg(feature = "haproxy_cli")]
mod haproxy_cli;
#[cfg(feature = "health")]
mod health;
#[cfg(feature = "history")]
mod history;
#[cfg(feature = "image_archive")]
mod image_archive;
#[cfg(feature = "incoming")]
mod incoming;
#[cfg(feature = "install_config")]
mod install_config;
#[cfg(feature = "keepalived_conf")]
mod keepalived_conf;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod mutate;
#[cfg(feature = "name_files")]
mod name_files;
#[cfg(feature = "named_conf")]
mod named_conf;
#[cfg(feature = "ntp_packet")]
mod ntp_packet;
#[cfg(feature = "ntp_request")]
mod ntp_request;
#[cfg(feature = "proxy_header")]
mod proxy_header;
#[cfg(feature = "ptp_management")]
mod ptp_management;
#[cfg(feature = "ptp_message")]
mod ptp_message;
#[cfg(feature = "query")]
mod query;
#[cfg(feature = "recursor_state")]
mod recursor_state;
#[cfg(feature = "refclock")]
mod refclock;
#[cfg(feature = "registry_archive")]
mod registry_archive;
#[cfg(feature = "registry_journal")]
mod registry_journal;
#[cfg(feature = "registry_manifest")]
mod registry_manifest;
#[cfg(feature = "registry_names")]
mod registry_names;
#[cfg(feature = "registry_range")]
mod registry_range;
#[cfg(feature = "registry_requests")]
mod registry_requests;
#[cfg(feature = "registry_wire")]
mod registry_wire;
#[cfg(feature = "response")]
mod response;
#[cfg(feature = "server_names")]
mod server_names;
#[cfg(feature = "settings")]
mod settings;
#[cfg(feature = "signed_response")]
mod signed_response;
#[cfg(feature = "site_file")]
mod site_file;
#[cfg(feature = "tcp_check")]
mod tcp_check;
#[cfg(feature = "tsig")]
mod tsig;
#[cfg(feature = "update")]
mod update;
#[cfg(feature = "vrrp")]
mod vrrp;
#[cfg(feature = "zone")]
mod zone;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use mutate::Mutator;

/// A kind of bytes, and the function that reads them.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name: also of the feature and of the corpus.
    pub name: &'static str,
    /// Runs on any bytes, and panics if something is wrong.
    pub body: fn(&[u8]),
    /// Words that mutations put in.
    words: &'static [&'static str],
    /// The number of mutations in a smoke run: a second or two without optimization.
    steps: usize,
}

/// The targets whose features are on.
pub const TARGETS: &[Target] = &[
    #[cfg(feature = "bundle")]
    Target {
        name: "bundle",
        body: bundle::body,
        words: bundle::WORDS,
        steps: 4_000,
    },
    #[cfg(feature = "catalog")]
    Target {
        name: "catalog",
        body: catalog::body,
        words: catalog::WORDS,
        steps: 4_000,
    },
    #[cfg(feature = "chrony_conf")]
    Target {
        name: "chrony_conf",
        body: chrony_conf::body,
        words: chrony_conf::WORDS,
        steps: 2_000,
    },
    #[cfg(feature = "chrony_keys")]
    Target {
        name: "chrony_keys",
        body: chrony_keys::body,
        words: chrony_keys::WORDS,
        steps: 4_000,
    },
    #[cfg(feature = "client_hello")]
    Target {
        name: "client_hello",
        body: client_hello::body,
        words: &[],
        steps: 2_000,
    },
    #[cfg(feature = "cmdmon")]
    Target {
        name: "cmdmon",
        body: cmdmon::body,
        words: &[],
        steps: 10_000,
    },
    #[cfg(feature = "cookie")]
    Target {
        name: "cookie",
        body: cookie::body,
        words: &[],
        steps: 20_000,
    },
    #[cfg(feature = "dnstap_reader")]
    Target {
        name: "dnstap_reader",
        body: dnstap_reader::body,
        words: &["protobuf:dnstap.Dnstap"],
        steps: 20_000,
    },
    #[cfg(feature = "forwarder_files")]
    Target {
        name: "forwarder_files",
        body: forwarder_files::body,
        words: forwarder_files::WORDS,
        steps: 2_000,
    },
    #[cfg(feature = "handover")]
    Target {
        name: "handover",
        body: handover::body,
        words: &["OLBH"],
        steps: 40_000,
    },
    #[cfg(feature = "haproxy_cfg")]
    Target {
        name: "haproxy_cfg",
        body: haproxy_cfg::body,
        words: haproxy_cfg::WORDS,
        steps: 2_000,
    },
    #[cfg(feature = "haproxy_cli")]
    Target {
        name: "haproxy_cli",
        body: haproxy_cli::body,
        words: haproxy_cli::WORDS,
        steps: 10_000,
    },
    #[cfg(feature = "health")]
    Target {
        name: "health",
        body: health::body,
        words: &[],
        steps: 40_000,
    },
    #[cfg(feature = "history")]
    Target {
        name: "history",
        body: history::body,
        words: &["example", "com"],
        steps: 4_000,
    },
    #[cfg(feature = "image_archive")]
    Target {
        name: "image_archive",
        body: image_archive::body,
        words: image_archive::WORDS,
        steps: 4_000,
    },
    #[cfg(feature = "incoming")]
    Target {
        name: "incoming",
        body: incoming::body,
        words: &["test"],
        steps: 4_000,
    },
    #[cfg(feature = "install_config")]
    Target {
        name: "install_config",
        body: install_config::body,
        words: install_config::WORDS,
        steps: 1_000,
    },
    #[cfg(feature = "keepalived_conf")]
    Target {
        name: "keepalived_conf",
        body: keepalived_conf::body,
        words: keepalived_conf::WORDS,
        steps: 4_000,
    },
    #[cfg(feature = "kubernetes")]
    Target {
        name: "kubernetes",
        body: kubernetes::body,
        words: kubernetes::WORDS,
        steps: 2_000,
    },
    #[cfg(feature = "name_files")]
    Target {
        name: "name_files",
        body: name_files::body,
        words: name_files::WORDS,
        steps: 20_000,
    },
    #[cfg(feature = "named_conf")]
    Target {
        name: "named_conf",
        body: named_conf::body,
        words: named_conf::WORDS,
        steps: 20_000,
    },
    #[cfg(feature = "ntp_packet")]
    Target {
        name: "ntp_packet",
        body: ntp_packet::body,
        words: &[],
        steps: 40_000,
    },
    #[cfg(feature = "ntp_request")]
    Target {
        name: "ntp_request",
        body: ntp_request::body,
        words: &[],
        steps: 10_000,
    },
    #[cfg(feature = "proxy_header")]
    Target {
        name: "proxy_header",
        body: proxy_header::body,
        words: &[
            "PROXY TCP4 ",
            "192.0.2.1 ",
            "443\r\n",
            "\r\n\r\n\0\r\nQUIT\n!",
        ],
        steps: 4_000,
    },
    #[cfg(feature = "ptp_management")]
    Target {
        name: "ptp_management",
        body: ptp_management::body,
        words: &[],
        steps: 20_000,
    },
    #[cfg(feature = "ptp_message")]
    Target {
        name: "ptp_message",
        body: ptp_message::body,
        words: &[],
        steps: 20_000,
    },
    #[cfg(feature = "query")]
    Target {
        name: "query",
        body: query::body,
        words: &[],
        steps: 40_000,
    },
    #[cfg(feature = "recursor_state")]
    Target {
        name: "recursor_state",
        body: recursor_state::body,
        words: &["example", "www"],
        steps: 4_000,
    },
    #[cfg(feature = "refclock")]
    Target {
        name: "refclock",
        body: refclock::body,
        words: &[],
        steps: 20_000,
    },
    #[cfg(feature = "registry_archive")]
    Target {
        name: "registry_archive",
        body: registry_archive::body,
        words: registry_archive::WORDS,
        steps: 6_000,
    },
    #[cfg(feature = "registry_journal")]
    Target {
        name: "registry_journal",
        body: registry_journal::body,
        words: &["ocp4/release", "sha256:", "master-0"],
        steps: 20_000,
    },
    #[cfg(feature = "registry_manifest")]
    Target {
        name: "registry_manifest",
        body: registry_manifest::body,
        words: registry_manifest::WORDS,
        steps: 10_000,
    },
    #[cfg(feature = "registry_names")]
    Target {
        name: "registry_names",
        body: registry_names::body,
        words: registry_names::WORDS,
        steps: 40_000,
    },
    #[cfg(feature = "registry_range")]
    Target {
        name: "registry_range",
        body: registry_range::body,
        words: registry_range::WORDS,
        steps: 40_000,
    },
    #[cfg(feature = "registry_requests")]
    Target {
        name: "registry_requests",
        body: registry_requests::body,
        words: registry_requests::WORDS,
        steps: 100,
    },
    #[cfg(feature = "registry_wire")]
    Target {
        name: "registry_wire",
        body: registry_wire::body,
        words: &["ocp4/release", "sha256:", "master-0", "master-1"],
        steps: 20_000,
    },
    #[cfg(feature = "response")]
    Target {
        name: "response",
        body: response::body,
        words: response::WORDS,
        steps: 40_000,
    },
    #[cfg(feature = "signed_response")]
    Target {
        name: "signed_response",
        body: signed_response::body,
        words: signed_response::WORDS,
        steps: 5_000,
    },
    #[cfg(feature = "server_names")]
    Target {
        name: "server_names",
        body: server_names::body,
        words: &["\x03web\x07example", "\u{c}", "\u{5}_http"],
        steps: 20_000,
    },
    #[cfg(feature = "settings")]
    Target {
        name: "settings",
        body: settings::body,
        words: settings::WORDS,
        steps: 10_000,
    },
    #[cfg(feature = "site_file")]
    Target {
        name: "site_file",
        body: site_file::body,
        words: site_file::WORDS,
        steps: 1_500,
    },
    #[cfg(feature = "tcp_check")]
    Target {
        name: "tcp_check",
        body: tcp_check::body,
        words: tcp_check::WORDS,
        steps: 4_000,
    },
    #[cfg(feature = "tsig")]
    Target {
        name: "tsig",
        body: tsig::body,
        words: &["transfer", "hmac-sha256", "hmac-md5"],
        steps: 10_000,
    },
    #[cfg(feature = "update")]
    Target {
        name: "update",
        body: update::body,
        words: &["www", "test"],
        steps: 20_000,
    },
    #[cfg(feature = "vrrp")]
    Target {
        name: "vrrp",
        body: vrrp::body,
        words: &[],
        steps: 40_000,
    },
    #[cfg(feature = "zone")]
    Target {
        name: "zone",
        body: zone::body,
        words: zone::WORDS,
        steps: 4_000,
    },
];

/// Runs the smoke of the target `name`. `FUZZ_SEED` and `FUZZ_STEPS` replace the seed and the number of steps.
///
/// # Panics
///
/// Panics if a body does, or if the feature of that name is off.
pub fn smoke(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name);
    let target = target.unwrap_or_else(|| panic!("the feature {name} is off"));
    let number = |key| std::env::var(key).ok().and_then(|text| text.parse().ok());
    let seed = number("FUZZ_SEED").unwrap_or(17);
    let steps = number("FUZZ_STEPS").and_then(|steps| steps.try_into().ok());
    target.smoke(seed, steps.unwrap_or(target.steps));
}

impl Target {
    /// The files of the corpus.
    ///
    /// # Panics
    ///
    /// Panics if there are none.
    #[must_use]
    pub fn corpus(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let directory =
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus")).join(self.name);
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
