//! Files of OpenShift: each key is carried, says nothing about a site, or is named in the site file.
//!
//! The files in `tests/data/openshift` are always read. Those that OpenShift's installer tests itself with are read too
//! where `OPENSHIFT_INSTALLER` names the directory of its source. This prints each of them with what comes of it:
//!
//! ```text
//! cargo test -p site-init corpus -- --nocapture
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use daemon::config::Document;

use super::draft::Draft;
use super::{openshift, yaml};

/// A directory of `tests/data/openshift`, and what has to come of its files.
struct Case {
    /// The directory.
    name: &'static str,
    /// The flags that its files leave open.
    missing: &'static [&'static str],
    /// Lines of the site file.
    lines: &'static [&'static str],
    /// Keys that are not carried.
    lost: &'static [&'static str],
}

const CORPUS: &[Case] = &[
    Case {
        name: "compact",
        missing: &[],
        lines: &[
            "address = \"192.0.2.5\"",
            "address = \"192.0.2.6\"",
            "upstreams = [\"192.0.2.1:53\"]",
            "gateways = [\"192.0.2.1\"]",
        ],
        lost: &[
            "fips",
            "metadata.namespace",
            "hosts.interfaces",
            "hosts.rootDeviceHints",
            "hosts.networkConfig.dns-resolver.config.search",
        ],
    },
    Case {
        name: "helpernode",
        missing: &[
            "--network CIDR",
            "--master master-0=ADDRESS",
            "--master master-1=ADDRESS",
            "--master master-2=ADDRESS",
        ],
        lines: &["clients = [\"10.254.0.0/16\"]"],
        lost: &[],
    },
    Case {
        name: "single-node",
        missing: &[],
        lines: &[
            "name = \"master-0\"",
            "address = \"192.0.2.20\"",
            "servers = [\"0.fedora.pool.ntp.org\", \"192.0.2.1\"]",
        ],
        lost: &["bootstrapInPlace", "metadata.namespace"],
    },
    Case {
        name: "network-config-text",
        missing: &[],
        lines: &[
            "address = \"192.0.2.2\"",
            "upstreams = [\"192.0.2.1:53\"]",
            "gateways = [\"192.0.2.1\"]",
        ],
        lost: &[
            "hosts.networkConfig.ovn",
            "hosts.networkConfig.hostname",
            "hosts.interfaces",
        ],
    },
    Case {
        name: "fencing",
        missing: &[],
        lines: &[
            "address = \"192.0.2.5\"",
            "address = \"192.0.2.6\"",
            "address = \"192.0.2.20\"",
            "address = \"192.0.2.21\"",
        ],
        lost: &["controlPlane.fencing", "featureSet"],
    },
    Case {
        name: "dns-vip",
        missing: &[],
        lines: &["address = \"192.0.2.5\"", "address = \"192.0.2.30\""],
        lost: &[
            "platform.baremetal.dnsVIP",
            "platform.baremetal.provisioningNetwork",
            "platform.baremetal.hosts.bmc",
            "platform.baremetal.hosts.bootMACAddress",
            "networking.clusterNetworkMTU",
        ],
    },
    Case {
        name: "vsphere",
        missing: &["--master control-plane-0=ADDRESS"],
        lines: &["address = \"192.0.2.5\"", "address = \"192.0.2.6\""],
        lost: &[
            "platform.vsphere.vcenters",
            "platform.vsphere.hosts.networkDevice",
            "controlPlane.platform",
        ],
    },
];

/// Ways that a site file carries, in small letters. `PLATFORM` is each of [`PLATFORMS`], `HOSTS` each of [`HOSTS`].
const CARRIED: &[&str] = &[
    "metadata.name",
    "basedomain",
    "networking.machinenetwork.cidr",
    "networking.machinecidr",
    "networking.clusternetwork.cidr",
    "networking.clusternetworks.cidr",
    "controlplane.replicas",
    "compute.replicas",
    "PLATFORM.apivip",
    "PLATFORM.apivips",
    "PLATFORM.ingressvip",
    "PLATFORM.ingressvips",
    "PLATFORM.loadbalancer.type",
    "PLATFORM.additionalntpservers",
    "HOSTS.hostname",
    "HOSTS.name",
    "HOSTS.role",
    "HOSTS.networkconfig",
    "HOSTS.networkconfig.interfaces.ipv4.address.ip",
    "HOSTS.networkconfig.interfaces.ipv4.address.prefix-length",
    "HOSTS.networkconfig.interfaces.ipv6.address.ip",
    "HOSTS.networkconfig.interfaces.ipv6.address.prefix-length",
    "HOSTS.networkconfig.dns-resolver.config.server",
    "HOSTS.networkconfig.routes.config.destination",
    "HOSTS.networkconfig.routes.config.next-hop-address",
    "additionalntpsources",
    "rendezvousip",
    "additionaltrustbundle",
    "imagecontentsources.mirrors",
    "imagedigestsources.mirrors",
];

/// Ways that say nothing about a site, also those below them.
const QUIET: &[&str] = &[
    "apiversion",
    "kind",
    "pullsecret",
    "sshkey",
    "networking.networktype",
    "networking.servicenetwork",
    "networking.clusternetwork.hostprefix",
    "networking.clusternetworks.hostprefix",
    "networking.machinenetwork.hostprefix",
    "networking.clusternetwork.hostsubnetlength",
    "networking.clusternetworks.hostsubnetlength",
    "controlplane.name",
    "controlplane.architecture",
    "controlplane.hyperthreading",
    "compute.name",
    "compute.architecture",
    "compute.hyperthreading",
    "HOSTS.networkconfig.interfaces",
    "HOSTS.networkconfig.routes.config",
    "imagecontentsources.source",
    "imagedigestsources.source",
];

const PLATFORMS: [&str; 4] = [
    "platform.baremetal",
    "platform.vsphere",
    "platform.nutanix",
    "platform.openstack",
];

const HOSTS: [&str; 5] = [
    "hosts",
    "platform.baremetal.hosts",
    "platform.vsphere.hosts",
    "platform.nutanix.hosts",
    "platform.openstack.hosts",
];

/// Keys of which no value may be in a site file, and parts of such values.
const SECRETS: [&str; 3] = ["password", "pullsecret", "sshkey"];
const PARTS_OF_SECRETS: [&str; 4] = ["s3cret", "auths", "AAAA", "c2Vj"];

/// Keys of which each value has to be in the site file, or in one of its notes.
const ADDRESSES: [&str; 7] = [
    "apivip",
    "apivips",
    "ingressvip",
    "ingressvips",
    "rendezvousip",
    "additionalntpsources",
    "additionalntpservers",
];

/// A way of these patterns, in small letters.
fn ways(patterns: &[&str]) -> Vec<String> {
    let filled = |pattern: &&str| -> Vec<String> {
        let (word, all): (_, &[&str]) = match pattern.split('.').next() {
            Some(word @ "PLATFORM") => (word, &PLATFORMS),
            Some(word @ "HOSTS") => (word, &HOSTS),
            _ => return vec![(*pattern).to_owned()],
        };
        all.iter()
            .map(|one| pattern.replacen(word, one, 1))
            .collect()
    };
    patterns.iter().flat_map(filled).collect()
}

//--- One site

/// Files of one site, and what came of them.
struct Outcome {
    name: String,
    carried: Vec<String>,
    quiet: Vec<String>,
    /// Keys that are neither, nor named.
    dropped: Vec<String>,
    /// Every value, by its way.
    values: BTreeMap<String, Vec<String>>,
    draft: Draft,
    text: String,
    problem: Option<String>,
}

impl Outcome {
    /// Imports files with these names and texts.
    fn of(name: &str, files: &[(&str, String)]) -> Self {
        let (mut draft, mut problem) = (Draft::default(), None);
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (file, text) in files {
            let document = Document::inline(*file, text.as_str());
            if let Err(problems) = openshift::import(&document, &mut draft) {
                problem.get_or_insert_with(|| problems.to_string());
            }
            if let Ok(tree) = yaml::parse(&document) {
                for (way, value) in yaml::values(&tree) {
                    values.entry(way).or_default().push(value);
                }
            }
        }
        draft.settle();
        draft.openshift = Some("4.18".to_owned());
        let mut outcome = Self {
            name: name.to_owned(),
            carried: Vec::new(),
            quiet: Vec::new(),
            dropped: Vec::new(),
            values,
            text: draft.to_string(),
            draft,
            problem,
        };
        outcome.sort();
        outcome
    }

    /// Sorts the ways of its keys.
    fn sort(&mut self) {
        let (carried, quiet) = (ways(CARRIED), ways(QUIET));
        let is_below = |way: &str, above: &str| {
            let rest = way.strip_prefix(above);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let lost: Vec<String> = self
            .draft
            .lost
            .iter()
            .map(|way| way.to_ascii_lowercase())
            .collect();
        // These name a host as a whole.
        let notes = &self.draft.notes;
        let has_host = notes.iter().any(|note| {
            note.starts_with("not carried: a host ") || note.starts_with("not carried: the role ")
        });
        let hosts = HOSTS.iter().filter(|_| has_host);
        let hosts: Vec<&str> = hosts.copied().collect();
        for written in self.values.keys() {
            let list = match &written.to_ascii_lowercase() {
                way if carried.contains(way) => &mut self.carried,
                way if quiet.iter().any(|above| is_below(way, above)) => &mut self.quiet,
                way if lost.iter().any(|above| is_below(way, above)) => continue,
                way if hosts.iter().any(|above| is_below(way, above)) => continue,
                _ => &mut self.dropped,
            };
            list.push(written.clone());
        }
    }

    /// The values of keys with one of these names.
    fn named(&self, names: &'static [&'static str]) -> impl Iterator<Item = (&String, &String)> {
        let is_named = |way: &str| {
            let key = way.rsplit('.').next().unwrap_or(way);
            names.iter().any(|name| name.eq_ignore_ascii_case(key))
        };
        let found = self.values.iter().filter(move |(way, _)| is_named(way));
        found.flat_map(|(way, values)| values.iter().map(move |value| (way, value)))
    }

    /// Everything that is wrong with the outcome, whatever the files say.
    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut say = |words: String| wrong.push(format!("{}: {words}", self.name));
        if let Some(problem) = &self.problem {
            say(problem.clone());
            return wrong;
        }
        for way in &self.dropped {
            say(format!("{way} is dropped without a word"));
        }
        for (way, value) in self.named(&SECRETS) {
            if value.len() > 3 && self.text.contains(value.as_str()) {
                say(format!("the value of {way} is in the file"));
            }
        }
        for part in PARTS_OF_SECRETS {
            if self.text.contains(part) {
                say(format!("{part} is in the file"));
            }
        }
        for (way, value) in self.named(&ADDRESSES) {
            if !self.text.contains(value.as_str()) {
                say(format!("{value} of {way} is not in the file"));
            }
        }
        if self.draft.missing().is_empty() {
            let read = site_file::parse(&Document::inline("site.toml", self.text.as_str()));
            if let Err(problems) = read.site {
                say(format!("the file is refused: {problems}"));
            }
        }
        wrong
    }
}

/// The table's part of one site.
impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.name)?;
        let mut list = |title: &str, items: &[String]| match items {
            [] => Ok(()),
            items => writeln!(formatter, "    {title:<8} {}", items.join(", ")),
        };
        list("carried", &self.carried)?;
        list("quiet", &self.quiet)?;
        list("dropped", &self.dropped)?;
        list("missing", &self.draft.missing())?;
        for note in &self.draft.notes {
            list("said", std::slice::from_ref(note))?;
        }
        if let Some(problem) = &self.problem {
            return writeln!(formatter, "    refused  {}", problem.trim());
        }
        let lines = self
            .text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty());
        for line in lines {
            writeln!(formatter, "    | {line}")?;
        }
        Ok(())
    }
}

//--- Files of ours

#[test]
fn every_key_of_openshifts_files_is_carried_or_named() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/openshift");
    let mut wrong = Vec::new();
    for case in CORPUS {
        let files = ["install-config.yaml", "agent-config.yaml"];
        let files = files.into_iter().filter_map(|file| {
            let path = corpus.join(case.name).join(file);
            Some((file, std::fs::read_to_string(path).ok()?))
        });
        let outcome = Outcome::of(case.name, &files.collect::<Vec<_>>());
        print!("{outcome}");
        wrong.extend(outcome.wrong());
        wrong.extend(case.wrong(&outcome));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

impl Case {
    /// Everything that came out otherwise.
    fn wrong(&self, outcome: &Outcome) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut say = |words: String| wrong.push(format!("{}: {words}", self.name));
        if outcome.draft.missing() != self.missing {
            say(format!("missing {:?}", outcome.draft.missing()));
        }
        for line in self.lines {
            if !outcome.text.lines().any(|found| found == *line) {
                say(format!("no {line}\n{}", outcome.text));
            }
        }
        let notes = outcome.text.lines();
        let notes: Vec<&str> = notes
            .filter(|line| line.starts_with("# not carried: ") && line.contains(".yaml:"))
            .collect();
        for key in self.lost {
            let is_note = |line: &&&str| {
                line.ends_with(&format!(": {key}")) || line.contains(&format!(": {key}: "))
            };
            if notes.iter().filter(is_note).count() != 1 {
                say(format!("not one note of {key}: {notes:?}"));
            }
        }
        if notes.len() != self.lost.len() {
            say(format!("{} keys are named: {notes:?}", notes.len()));
        }
        wrong
    }
}

//--- Files of the installer

/// A script of the installer's own tests, with the files in it.
struct Script {
    path: PathBuf,
    /// Whether the installer has to refuse them.
    is_refused: bool,
    files: Vec<(&'static str, String)>,
}

impl Script {
    /// Reads the txtar format of Go: a script, then files, each behind a line `-- NAME --`.
    fn read(path: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(path).ok()?;
        let mut script = Self {
            path: path.to_owned(),
            is_refused: false,
            files: Vec::new(),
        };
        let (mut is_script, mut current) = (true, None);
        for line in text.lines() {
            let name = line
                .strip_prefix("-- ")
                .and_then(|rest| rest.strip_suffix(" --"));
            if let Some(name) = name {
                is_script = false;
                let file = name.rsplit('/').next().unwrap_or(name);
                let is_input = !name.starts_with("expected/");
                let mut known = ["install-config.yaml", "agent-config.yaml"].into_iter();
                current = known.find(|known| is_input && *known == file);
                script
                    .files
                    .extend(current.map(|name| (name, String::new())));
                continue;
            }
            script.is_refused |= is_script && line.starts_with("! exec ");
            if let (Some(_), Some((_, text))) = (current, script.files.last_mut()) {
                text.push_str(line);
                text.push('\n');
            }
        }
        (!script.files.is_empty()).then_some(script)
    }
}

/// The scripts below a directory, in the order of their names.
fn scripts(directory: &Path) -> Vec<Script> {
    let entries = std::fs::read_dir(directory);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    paths.sort();
    let of = |path: &PathBuf| match path.is_dir() {
        true => scripts(path),
        false => Script::read(path).into_iter().collect(),
    };
    paths.iter().flat_map(of).collect()
}

#[test]
fn the_installers_own_test_data_is_carried_or_named() {
    let Some(source) = std::env::var_os("OPENSHIFT_INSTALLER") else {
        println!("SKIPPED: OPENSHIFT_INSTALLER names no source of OpenShift's installer");
        return;
    };
    let data = Path::new(&source).join("cmd/openshift-install/testdata");
    let scripts = scripts(&data);
    assert!(!scripts.is_empty(), "no script in {}", data.display());
    let mut wrong = Vec::new();
    for script in &scripts {
        let name = script.path.strip_prefix(&data).unwrap_or(&script.path);
        let outcome = Outcome::of(&name.display().to_string(), &script.files);
        print!("{outcome}");
        if !script.is_refused {
            wrong.extend(outcome.wrong());
        }
    }
    println!("{} scripts", scripts.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
