//! The configuration of clusterd: the file, and the source that it names.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use ::config::clusterd::{ADMIN_PORT, Clusterd};
use ::config::{Check, Document, Problem, Problems, at};
use cluster_client::access;
use daemon::config::Common;

use crate::addresses::AddressSettings;
use crate::api::settings::ApiSettings;

/// The default address of the admin listener.
pub const DEFAULT_ADMIN: SocketAddr =
    SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), ADMIN_PORT);

/// Everything that can be configured.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The part that every daemon has.
    pub common: Common,
    /// The file, with the command line's values in it.
    pub file: Clusterd,
    /// The source of the objects.
    pub source: Source,
}

/// The source of the objects.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// The Kubernetes API.
    Api(ApiSettings),
    /// A directory of manifests.
    Manifests(PathBuf),
}

/// The keys that the command line may set; it wins over the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Overrides {
    /// Unix socket to listen on
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Directory for the snapshot that a restart continues from
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,

    /// Directory of manifests, in place of the source of the file
    #[arg(long, value_name = "DIR")]
    pub manifests: Option<PathBuf>,

    /// Address of the admin listener
    #[arg(long, value_name = "IP:PORT")]
    pub admin: Option<SocketAddr>,
}

impl Config {
    /// Reads a configuration file; without one, everything has its default, and there is no source but that of the overrides.
    ///
    /// # Errors
    /// Everything that is wrong with the file.
    pub fn load(path: Option<&Path>, overrides: &Overrides) -> Result<Self, Problems> {
        let text = match path {
            Some(path) => daemon::config::read(path)?,
            None => Document::inline("the command line", "version = \"v1\"\n"),
        };
        Self::from_document(&text, overrides)
    }

    /// Parses the text of a configuration file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn from_document(document: &Document, overrides: &Overrides) -> Result<Self, Problems> {
        let mut settings = None;
        let mut file = document.parse_with(|file: &Clusterd, check| {
            check_pools(file, check);
            settings = file.api.as_ref().map(|api| {
                ApiSettings::of(api, |key, words| {
                    check.problem(&["api".into(), key.into()], words);
                })
            });
            if file.api.is_some() && file.manifests.is_some() && overrides.manifests.is_none() {
                check.problem(
                    &["manifests".into()],
                    "give `manifests` or `[api]`, not both",
                );
            }
        })?;
        if let Some(socket) = &overrides.socket {
            file.socket.clone_from(socket);
        }
        if let Some(directory) = &overrides.state_dir {
            file.state.clone_from(directory);
        }
        if overrides.manifests.is_some() {
            file.manifests.clone_from(&overrides.manifests);
        }
        if overrides.admin.is_some() {
            file.admin.listen = overrides.admin.into();
        }
        let source = match (&file.manifests, settings) {
            (Some(directory), _) => Source::Manifests(directory.clone()),
            (None, Some(settings)) => Source::Api(settings),
            (None, None) => {
                let words = "there is no source: give `manifests` or `[api]`";
                return Err(Problem::new(words).into());
            }
        };
        Ok(Self {
            common: Common::of(file.log, file.admin, file.drain),
            file,
            source,
        })
    }

    /// Reads the files that the source names. A daemon reads them again when they change, and does not end for one that is not
    /// there yet.
    ///
    /// # Errors
    /// Those that are of no use.
    pub fn with_files(self) -> Result<Self, Problems> {
        let problem = match &self.source {
            Source::Api(settings) => access::read(&settings.access)
                .err()
                .map(|error| daemon::exit::chain(&error)),
            Source::Manifests(directory) => crate::manifests::check(directory).err(),
        };
        match problem {
            None => Ok(self),
            Some(problem) => Err(Problem::new(problem).into()),
        }
    }
}

/// Refuses pools that a Service could not tell apart, or that would have an address twice.
fn check_pools(file: &Clusterd, check: &mut Check<'_>) {
    for (index, pool) in file.pool.iter().enumerate() {
        let mut before = file.pool.iter().take(index);
        if pool.name.is_empty() {
            check.problem(&at!["pool", index, "name"], "a pool needs a name");
        }
        if before.any(|other| other.name == pool.name) {
            let words = format!("there are two pools `{}`", pool.name);
            check.problem(&at!["pool", index, "name"], words);
        }
        if pool.addresses.is_empty() {
            let words = "a pool needs addresses";
            check.problem(&at!["pool", index, "addresses"], words);
        }
    }
    let pools = AddressSettings::of(file).given.pools;
    for (first, second) in cluster_addresses::overlaps(&pools) {
        let Some(index) = file.pool.iter().position(|pool| pool.name == second) else {
            continue;
        };
        let words = format!("pools `{first}` and `{second}` have an address in common");
        check.problem(&at!["pool", index, "addresses"], words);
    }
}

#[cfg(test)]
mod tests {
    use cluster_client::access::AccessSettings;

    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        let document = Document::inline("t", format!("version = \"v1\"\n{text}"));
        Config::from_document(&document, &Overrides::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_source_is_the_api_or_manifests() {
        let config = parse("manifests = \"/etc/outpost/clusterd/manifests\"").unwrap();
        assert_eq!(
            config.source,
            Source::Manifests("/etc/outpost/clusterd/manifests".into())
        );
        let config = parse("[api]\naddresses = [\"https://192.168.7.13:6443\"]").unwrap();
        match config.source {
            Source::Api(api) => {
                assert_eq!(
                    api.access.addresses[0].to_string(),
                    "https://192.168.7.13:6443"
                );
                assert!(
                    api.access
                        .ca_file
                        .is_some_and(|path| path.starts_with("/var/run/secrets"))
                );
            }
            other @ Source::Manifests(_) => panic!("{other:?}"),
        }
        let config = parse("[api]\nkubeconfig = \"/k\"").unwrap();
        assert!(matches!(
            config.source,
            Source::Api(ApiSettings {
                access: AccessSettings {
                    ca_file: None,
                    token_file: None,
                    ..
                },
                ..
            })
        ));
        for (text, problem) in [
            ("", "there is no source"),
            ("manifests = \"/a\"\n[api]\nkubeconfig = \"/k\"", "not both"),
            ("[api]\n", "give `addresses` or `kubeconfig`"),
            (
                "[api]\naddresses = [\"192.168.7.13\"]",
                "is no address of an API server",
            ),
            (
                "[api]\naddresses = [\"http://192.168.7.13:1\"]",
                "not encrypted",
            ),
            (
                "manifests = \"/a\"\n[[pool]]\nname = \"a\"\naddresses = [\"192.0.2.1\"]\n[[pool]]\nname = \"a\"\naddresses = [\"192.0.2.2\"]",
                "there are two pools `a`",
            ),
            (
                "manifests = \"/a\"\n[[pool]]\nname = \"a\"\naddresses = [\"192.0.2.0/24\"]\n[[pool]]\nname = \"b\"\naddresses = [\"192.0.2.2\"]",
                "pools `a` and `b` have an address in common",
            ),
            (
                "manifests = \"/a\"\n[[pool]]\nname = \"a\"\naddresses = []",
                "a pool needs addresses",
            ),
            (
                "[api]\nkubeconfig = \"/k\"\nserver-name = \"a b\"",
                "is no name of a server",
            ),
            (
                "[api]\nkubeconfig = \"/k\"\nwatch = \"1s\"",
                "from 10s to 10m",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn the_command_line_wins() {
        let document = Document::inline("t", "version = \"v1\"\n[api]\nkubeconfig = \"/k\"");
        let overrides = Overrides {
            socket: Some("/s".into()),
            state_dir: Some("/d".into()),
            manifests: Some("/m".into()),
            admin: None,
        };
        let config = Config::from_document(&document, &overrides).unwrap();
        assert_eq!(config.source, Source::Manifests("/m".into()));
        assert_eq!(
            (config.file.socket, config.file.state),
            ("/s".into(), "/d".into())
        );
    }
}
