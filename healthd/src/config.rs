//! The configuration of healthd: the file, the targets that it names, and the schedules of all targets.

mod exchange;
mod page;
mod schedules;
mod targets;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ::config::healthd::{ADMIN_PORT, Healthd, Listen};
use ::config::{Document, Problem, Problems};
use daemon::config::Common;
use daemon::exit;
use daemon::node_tls::Identity;
use proto::health::Target;

use crate::page::published::Files as PageFiles;
use health_probe::check_authorities;
use liveness::monitor::Limits;
use liveness::schedules::Schedules;

pub use exchange::{ExchangeConfig, PeerAddress};

/// The default address of the admin listener.
pub const DEFAULT_ADMIN: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
    ADMIN_PORT,
);

/// Everything that can be configured.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The part that every daemon has.
    pub common: Common,
    /// The file, with the command line's values in it.
    pub file: Healthd,
    /// Targets that are probed also without a subscriber.
    pub targets: Vec<Target>,
    /// When targets are probed.
    pub schedules: Schedules,
    /// The other nodes, if there are some.
    pub exchange: Option<ExchangeConfig>,
}

impl Default for Config {
    fn default() -> Self {
        Self::of(Healthd::default(), Vec::new(), Schedules::default(), None)
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
            Some(path) => Self::from_document(&daemon::config::read(path)?)?,
            None => Self::default(),
        };
        Ok(config.with(overrides))
    }

    /// Parses the text of a configuration file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn from_document(document: &Document) -> Result<Self, Problems> {
        let (mut targets, mut schedules, mut exchange) = (Vec::new(), Schedules::default(), None);
        let file = document.parse_with(|file: &Healthd, check| {
            targets = targets::targets(file, check);
            schedules = schedules::schedules(file, check);
            exchange = exchange::exchange(file, check);
            page::check(file, check);
        })?;
        schedules.targets = targets.iter().cloned().collect();
        let targets = targets.into_iter().map(|(target, _)| target);
        Ok(Self::of(file, targets.collect(), schedules, exchange))
    }

    fn of(
        file: Healthd,
        targets: Vec<Target>,
        schedules: Schedules,
        exchange: Option<ExchangeConfig>,
    ) -> Self {
        Self {
            common: Common::of(file.log, file.admin, file.drain),
            file,
            targets,
            schedules,
            exchange,
        }
    }

    /// The bounds of the work.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits {
            in_flight: self.file.probes.in_flight.get(),
            targets: self.file.probes.targets.get(),
            grace: self.file.probes.grace.0,
        }
    }

    /// Reads the files that targets, the exchange and the page name. A daemon reads them again, and does not end for one that is
    /// not there yet.
    ///
    /// # Errors
    /// Those that are of no use.
    pub fn with_files(self) -> Result<Self, Problems> {
        let wrong = self.targets.iter().filter_map(|target| {
            let words = check_authorities(target).err()?;
            Some(Problem::new(format!("{target}: {words}")))
        });
        let exchange = self.exchange.as_ref();
        let identity = exchange.and_then(|exchange| {
            let error = Identity::read(&exchange.node, &exchange.files).err()?;
            Some(Problem::new(format!("exchange: {}", exit::chain(&error))))
        });
        let page = self.file.page.tls.as_ref().and_then(|tls| {
            let error = PageFiles::read(tls, self.file.renewal.as_ref()).err()?;
            Some(Problem::new(format!("page: {error}")))
        });
        let all = wrong.chain(identity).chain(page);
        all.collect::<Problems>().unless_empty(self)
    }

    fn with(mut self, overrides: &Overrides) -> Self {
        if let Some(socket) = &overrides.socket {
            self.file.listen = vec![Listen::Unix(socket.clone())];
        }
        if let Some(directory) = &overrides.state_dir {
            self.file.state.clone_from(directory);
        }
        if overrides.admin.is_some() {
            self.file.admin.listen = overrides.admin.into();
            self.common.admin = overrides.admin;
        }
        self
    }
}

#[cfg(test)]
mod tests;
