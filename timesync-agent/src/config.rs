//! What the agent does, as parsed: every value in it is legal.
//!
//! Fixed for the life of the process are the addresses that clients are answered at, whether the clock is corrected, and where
//! healthd is; sources, access, `local` and everything else is taken up on reload.

pub mod v1;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use daemon_base::config::{Common, Document, Problems};
use proto::endpoint::Endpoint;

use crate::args::{ConfigArgs, DEFAULT_CONFIG};
use crate::settings::Settings;

/// Where the admin listener is unless the configuration says otherwise.
pub const DEFAULT_ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9406);

/// The configuration of one agent.
#[derive(Clone, Debug)]
pub struct Config {
    /// Log, admin listener, drain.
    pub common: Common,
    /// The name that healthd shows and metrics carry; the host's unless given.
    pub node: String,
    /// Whether the clock is corrected.
    pub corrects_clock: bool,
    /// Where healthd is, if it is told.
    pub health: Option<Endpoint>,
    /// Sources, the clock, clients, and everything that chrony.conf has a word for.
    pub settings: Settings,
    /// What is legal, but odd.
    pub warnings: Vec<String>,
}

impl Config {
    /// The configuration in a few words, for the log.
    #[must_use]
    pub fn summary(&self) -> String {
        let settings = &self.settings;
        let serves = match (settings.server.is_open(), &settings.local) {
            (true, Some(_)) => "clients, on an island too",
            (true, None) => "clients",
            (false, _) => "no clients",
        };
        format!(
            "{} sources, {} reference clocks, {serves}",
            settings.sources.len(),
            settings.refclocks.len()
        )
    }
}

/// Reads the configuration that the arguments name, with what they say themselves.
///
/// # Errors
///
/// Every problem, with its place.
pub fn read(args: &ConfigArgs) -> Result<Config, Problems> {
    let path = args.config.clone();
    let path = path.unwrap_or_else(|| DEFAULT_CONFIG.into());
    let mut config = v1::parse(&Document::read(path)?)?;
    if args.no_clock {
        config.corrects_clock = false;
    }
    if let Some(healthd) = &args.healthd {
        config.health.clone_from(&healthd.0);
    }
    if args.admin.is_some() {
        config.common.admin = args.admin;
    }
    Ok(config)
}

/// The name of this host, without its domain.
#[must_use]
pub fn host_name() -> String {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy();
    let first = name.split('.').next().unwrap_or_default();
    match first {
        "" => "localhost".to_owned(),
        first => first
            .chars()
            .filter(|letter| !letter.is_control())
            .collect(),
    }
}
