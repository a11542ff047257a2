//! Reads configuration files. Parsers never open files themselves; this module does.

use std::fmt;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use ::config::Note;
use daemon::acl;
use daemon::config::{Document, Problem, Problems};
use daemon::disk::Disk;
use daemon::exit;
use daemon::tls::Certificates;
use dns_iterate::hints;
use dns_resolve::own_addresses::OwnAddresses;
use dns_serve::cookies;
use peer_recursor_conf::RecursorConf;

use crate::config::{self, Config};
use crate::import::{self, recursor_conf};
use crate::names::Contents;

/// The files to serve from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// This server's own.
    Toml(PathBuf),
    /// `pdns_recursor`'s, with settings of its command line.
    RecursorConf {
        /// recursor.conf.
        path: PathBuf,
        /// Settings that override the file's.
        arguments: Vec<(String, String)>,
        /// Settings for safety that the operator does without.
        without: Vec<String>,
    },
}

impl Source {
    /// Reads the configuration.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(&self) -> Result<Config, Problems> {
        match self {
            Self::Toml(path) => {
                let mut config = Config::from_document(&daemon::config::read(path)?)?;
                if let Some(hints) = &config.file.recursion.root_hints {
                    config.root = root_hints(hints)?;
                }
                config.cookies = cookies::load(&config.file.cookies, path.parent())?;
                config.contents = Contents::read(&config.names)?;
                config.servers = config::read_upstreams(&config.streams, config.source)?;
                Ok(config)
            }
            Self::RecursorConf {
                path,
                arguments,
                without,
            } => {
                let conf = read_recursor_conf(path, arguments)?;
                let draft = import::checked(recursor_conf::import(&conf), without)
                    .map_err(|refused| refused.problems)?;
                let name = format!("{}, as TOML", path.display());
                let written = draft.written("").map_err(|error| {
                    Problems::from(Problem::new(format!("{}: {error}", path.display())))
                })?;
                let mut config =
                    Config::from_document(&Document::inline(name, written.to_string()))?;
                // The notes have the places in the file itself.
                config.warnings = draft.notes.iter().map(Note::problem).collect();
                config.cookies = cookies::load(&config.file.cookies, None)?;
                config.contents = Contents::read(&config.names)?;
                config.servers = config::read_upstreams(&config.streams, config.source)?;
                Ok(config)
            }
        }
    }
}

/// Reads a recursor.conf and the files that it names.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read_recursor_conf(
    path: &Path,
    arguments: &[(String, String)],
) -> Result<RecursorConf, Problems> {
    let read = peer_recursor_conf::parse(path, &mut Disk, arguments);
    read.map_err(Problems::from)
}

/// Reads a file with the root's servers.
fn root_hints(path: &Path) -> Result<Vec<IpAddr>, Problems> {
    let wrong = |error: &dyn fmt::Display| {
        Problems::from(Problem::new(format!("{}: {error}", path.display())))
    };
    let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
    hints::parse(&text).map_err(|error| wrong(&error))
}

/// The addresses that reach this server: those it listens on, and those that the node has now.
#[must_use]
pub fn own_addresses(listening: &[SocketAddr]) -> OwnAddresses {
    OwnAddresses::new(listening.to_vec(), acl::own_addresses())
}

/// Finds upstreams that are this server itself, given the addresses that it listens on.
#[must_use]
pub fn forwards_to_itself(config: &Config, listening: &[SocketAddr]) -> Problems {
    let own = own_addresses(listening);
    let mut problems = Problems::default();
    for upstream in config.upstreams() {
        if own.contains(upstream) {
            problems.push(Problem::new(format!(
                "upstream {upstream} is this server itself: its queries would go in a circle"
            )));
        }
    }
    problems
}

/// Checks that the certificate's files can be used.
#[must_use]
pub fn certificate(config: &Config) -> Problems {
    let mut problems = Problems::default();
    if let Some(tls) = &config.file.tls
        && let Err(error) = Certificates::read(&[config::certificate(tls)])
    {
        problems.push(Problem::new(exit::chain(&error)));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(upstream: &str) -> Config {
        let text = format!(
            "version = \"v1\"\nlisten = [\"127.0.0.1:1\"]\n[[forward]]\nzone = \".\"\nupstreams = [\"{upstream}\"]"
        );
        Config::from_document(&Document::inline("x", text)).unwrap()
    }

    #[test]
    fn an_upstream_that_is_this_server_is_found_by_its_addresses() {
        let everywhere: SocketAddr = "0.0.0.0:5300".parse().unwrap();
        let own = |upstream: &str| {
            !forwards_to_itself(&config(upstream), &[everywhere])
                .0
                .is_empty()
        };
        assert!(own("127.0.0.1:5300"));
        assert!(own("127.0.0.9:5300"));
        assert!(!own("127.0.0.1:5301"));
        assert!(!own("[::1]:5300"));
    }

    #[test]
    fn a_certificate_that_cannot_be_used_is_told_with_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let [chain, key] = ["chain.pem", "key.pem"].map(|name| directory.path().join(name));
        let text = format!(
            "version = \"v1\"\n[tls]\nlisten = []\ncertificate = {chain:?}\nkey = {key:?}\n"
        );
        let config = Config::from_document(&Document::inline("x", text)).unwrap();
        let told = || certificate(&config).to_string();
        assert!(told().contains("chain.pem"), "{}", told());
        let made = rcgen::generate_simple_self_signed(["dns.example".to_owned()]).unwrap();
        fs::write(&chain, made.cert.pem()).unwrap();
        assert!(told().contains("key.pem"), "{}", told());
        fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        assert!(certificate(&config).0.is_empty());
    }

    #[test]
    fn hints_are_read_from_their_file() {
        let directory = tempfile::tempdir().unwrap();
        let [path, hints] = ["r.toml", "named.root"].map(|name| directory.path().join(name));
        let text = format!(
            "version = \"v1\"\n[recursion]\nroot-hints = {hints:?}\n[[forward]]\nzone = \".\"\nmode = \"recurse\"\n"
        );
        fs::write(&path, text).unwrap();
        let source = Source::Toml(path);
        let problems = source.read().unwrap_err().to_string();
        assert!(problems.contains("named.root: "), "{problems}");
        fs::write(&hints, ". NS a.test\na.test A\n").unwrap();
        let problems = source.read().unwrap_err().to_string();
        assert!(problems.contains("named.root: line 2: "), "{problems}");
        fs::write(&hints, ". NS a.test\na.test A 192.0.2.1\n").unwrap();
        let config = source.read().unwrap();
        let expected: IpAddr = "192.0.2.1".parse().unwrap();
        assert_eq!(config.table().root(), [expected]);
    }

    #[test]
    fn a_file_in_another_encoding_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r.conf");
        fs::write(&path, b"local-port=5300 # f\xfcr alle\n").unwrap();
        let source = Source::RecursorConf {
            path: path.clone(),
            arguments: vec![("threads".to_owned(), "2".to_owned())],
            without: Vec::new(),
        };
        let config = source.read().unwrap();
        assert_eq!((config.file.listen[0].port(), config.threads()), (5300, 2));
        fs::write(&path, "local-prot=1\n").unwrap();
        let problems = source.read().unwrap_err().to_string();
        assert!(problems.contains("r.conf:1:1: "), "{problems}");
    }

    #[test]
    fn a_setting_for_safety_that_cannot_be_honoured_stops_the_start_unless_it_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r.conf");
        let read = |text: &str, without: &[&str]| {
            fs::write(&path, text).unwrap();
            let source = Source::RecursorConf {
                path: path.clone(),
                arguments: Vec::new(),
                without: without.iter().copied().map(str::to_owned).collect(),
            };
            source.read().map_err(|problems| problems.to_string())
        };
        let forward = "forward-zones-recurse=.=192.0.2.53\n";
        for (setting, name) in [
            ("proxy-protocol-from=10.0.0.0/8", "proxy-protocol-from"),
            ("lua-dns-script=/etc/powerdns/block.lua", "lua-dns-script"),
        ] {
            let text = format!("{forward}{setting}\n");
            let problem = read(&text, &[]).unwrap_err();
            assert!(problem.contains("r.conf:2:1: `"), "{problem}");
            assert!(problem.contains(&format!("--without {name}`")), "{problem}");
            assert!(read(&text, &["other"]).is_err(), "{setting}");
            let config = read(&text, &[name]).unwrap();
            let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
            let said = |warning: &String| warning.contains("security: ") && warning.contains(name);
            assert_eq!(
                warnings.iter().filter(|it| said(it)).count(),
                1,
                "{warnings:?}"
            );
        }
        for setting in [
            "dnssec=off",
            "dnssec=process-no-validate",
            "dnssec=process",
            "dnssec=log-fail",
            "dnssec=validate",
            "dont-query=",
            "webserver-password=x",
        ] {
            read(&format!("{forward}{setting}\n"), &[]).unwrap();
        }
    }
}
