//! The configuration of healthd, as the program sees it.
//!
//! | value | on reload |
//! | --- | --- |
//! | listeners, state directory | fixed for the life of the process |
//! | targets, limits, metrics | taken up as a whole |
//!
//! The file `config/v1.rs` holds what people write.

mod v1;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use daemon::config::{Common, Document, Problem, Problems};
use proto::health::Target;

use health_probe::check_authorities;
use liveness::monitor::Limits;

/// The default address of the admin listener.
pub const DEFAULT_ADMIN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9401);

/// The default socket for subscribers.
pub const DEFAULT_SOCKET: &str = "/run/outpost/healthd.sock";

/// The default directory of the state.
pub const DEFAULT_STATE: &str = "/var/lib/outpost/healthd";

/// Everything that can be configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The part that every daemon has.
    pub common: Common,
    /// The listeners for subscribers.
    pub listen: Vec<Listen>,
    /// The directory of the state.
    pub state: PathBuf,
    /// The bounds of the work.
    pub limits: Limits,
    /// Targets that have metrics of their own, at most.
    pub max_series: usize,
    /// Targets that are probed also without a subscriber.
    pub targets: Vec<Target>,
}

/// A listener for subscribers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listen {
    /// A Unix socket.
    Unix(PathBuf),
    /// A loopback address: the contract has no authentication, so it does not leave the node.
    Tcp(SocketAddr),
}

impl Default for Config {
    fn default() -> Self {
        Self {
            common: Common::with_admin(DEFAULT_ADMIN),
            listen: vec![Listen::Unix(DEFAULT_SOCKET.into())],
            state: DEFAULT_STATE.into(),
            limits: Limits {
                in_flight: 1024,
                targets: 16_384,
                grace: Duration::from_mins(1),
            },
            max_series: 1000,
            targets: Vec::new(),
        }
    }
}

/// The keys that the command line may set; it wins over the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Overrides {
    /// Unix socket to listen on, in place of all configured listeners
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Directory for the state that a restart continues from
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,

    /// Address of the admin listener
    #[arg(long, value_name = "IP:PORT")]
    pub admin: Option<SocketAddr>,
}

impl Config {
    /// Reads a configuration file; without one, everything has its default.
    ///
    /// # Errors
    /// Everything that is wrong with the file.
    pub fn load(path: Option<&Path>, overrides: &Overrides) -> Result<Self, Problems> {
        let config = match path {
            Some(path) => Self::from_document(&Document::read(path)?)?,
            None => Self::default(),
        };
        Ok(config.with(overrides))
    }

    /// Parses the text of a configuration file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn from_document(document: &Document) -> Result<Self, Problems> {
        document.parse::<v1::Spec>()?.into_config(document)
    }

    /// Reads the files that targets name. A daemon reads them again for each probe, and does not end for one
    /// that is not there yet.
    ///
    /// # Errors
    /// Those that are of no use.
    pub fn with_files(self) -> Result<Self, Problems> {
        let wrong = self.targets.iter().filter_map(|target| {
            let words = check_authorities(target).err()?;
            Some(Problem::new(format!("{target}: {words}")))
        });
        wrong.collect::<Problems>().unless_empty(self)
    }

    fn with(mut self, overrides: &Overrides) -> Self {
        if let Some(socket) = &overrides.socket {
            self.listen = vec![Listen::Unix(socket.clone())];
        }
        if let Some(directory) = &overrides.state_dir {
            self.state.clone_from(directory);
        }
        if overrides.admin.is_some() {
            self.common.admin = overrides.admin;
        }
        self
    }
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "http://{address}"),
        }
    }
}

#[cfg(test)]
mod tests;
