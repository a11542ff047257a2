//! The parsed configuration of the agent: every value in it is legal.
//!
//! Fixed for the life of the process are the admin listener, where healthd is, the node's name, whether the clock is touched, the
//! sandbox, threads, where clients and chronyc are answered, and how much is remembered of clients; everything else is taken up on
//! reload, except that a sandbox keeps no privilege for the first cards that are to stamp and the first PTP over Ethernet.

pub mod files;
mod lint;
pub mod v1;
mod write;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use config_text::counted;
use daemon::config::{Common, Problems};
use daemon::disk::Disk;
use proto::endpoint::Endpoint;

use crate::args::{ConfigArgs, DEFAULT_CONFIG};
use peer_chrony::{self, ChronyConf};
use time_model::settings::Settings;

pub use lint::unused;
pub use write::toml;

/// The default address of the admin listener.
pub const DEFAULT_ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9406);

/// The configuration of one agent.
#[derive(Clone, Debug)]
pub struct Config {
    /// Log, admin listener, drain.
    pub common: Common,
    /// The settings of the program.
    pub settings: Settings,
    /// The address of healthd, if one is configured.
    pub health: Option<Endpoint>,
    /// The name that healthd shows and metrics carry; the host's unless given.
    pub node: String,
    /// Whether the clock is corrected; without, as `chronyd -x`.
    pub corrects_clock: bool,
    /// Whether system calls that are not needed are given up, once everything is open.
    pub sandbox: bool,
    /// Whether requests are answered by threads of their own, many at a time; without, by the thread that asks servers, one at a time.
    pub batch: bool,
    /// Those threads; one for each processor unless given.
    pub threads: Option<usize>,
    /// Warnings: odd, but understood.
    pub warnings: Vec<String>,
}

impl Config {
    /// The settings of a chrony.conf, and nothing else.
    #[must_use]
    pub fn of_chrony(conf: ChronyConf) -> Self {
        Self {
            common: Common::with_admin(DEFAULT_ADMIN),
            settings: conf.settings,
            health: Some(Endpoint::default()),
            node: host_name(),
            corrects_clock: true,
            sandbox: true,
            batch: true,
            threads: None,
            warnings: conf.warnings.iter().map(ToString::to_string).collect(),
        }
    }

    /// One line that says what is configured.
    #[must_use]
    pub fn summary(&self) -> String {
        let settings = &self.settings;
        let names: Vec<String> = settings
            .sources
            .iter()
            .map(|source| match source.pool {
                Some(n) => format!("{} (pool of {n})", source.host),
                None => source.host.to_string(),
            })
            .collect();
        let mut text = match names.as_slice() {
            [] => "no server".to_owned(),
            names => format!("{}: {}", counted(names.len(), "server"), names.join(" ")),
        };
        match settings.refclocks.len() {
            0 => {}
            n => text.push_str(&format!(", {}", counted(n, "reference clock"))),
        }
        if let Some(local) = &settings.local {
            let orphan = if local.orphan { " orphan" } else { "" };
            text.push_str(&format!(", local stratum {}{orphan}", local.stratum));
        }
        text.push_str(if settings.server.is_open() {
            ", serves clients"
        } else {
            ", serves no client"
        });
        text
    }
}

/// Reads the configuration that the arguments name, with what they say themselves.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read(args: &ConfigArgs) -> Result<Config, Problems> {
    let mut config = match &args.chrony_conf {
        Some(path) => Config::of_chrony(chrony(path)?),
        None => {
            let default = || PathBuf::from(DEFAULT_CONFIG);
            let path = args.config.clone().unwrap_or_else(default);
            v1::parse(&daemon::config::read(path)?, &mut Disk)?
        }
    };
    if let Some(healthd) = &args.healthd {
        config.health.clone_from(&healthd.0);
    }
    if args.admin.is_some() {
        config.common.admin = args.admin;
    }
    config.corrects_clock &= !args.no_clock;
    config.warnings.extend(unused(&config.settings));
    files::problems(&config.settings).unless_empty(config)
}

/// Reads a chrony.conf and what it includes.
///
/// # Errors
/// Everything that is wrong with it.
pub fn chrony(path: &Path) -> Result<ChronyConf, Problems> {
    Ok(peer_chrony::parse(path, &mut Disk)?)
}

/// A chrony.conf as this program's TOML, and what is to be known of it.
///
/// # Errors
/// Everything that is wrong with it.
pub fn import(path: &Path) -> Result<(String, Vec<String>), Problems> {
    let conf = chrony(path)?;
    let mut text = String::new();
    for warning in &conf.warnings {
        let place = warning.position.as_ref().map(|position| position.line);
        let place = place.map_or_else(String::new, |line| format!("line {line}: "));
        text.push_str(&format!("# not carried: {place}{}\n", warning.message));
    }
    text.push_str(&toml(&conf.settings));
    let remarks = conf.warnings.iter().map(ToString::to_string).collect();
    Ok((text, remarks))
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

#[cfg(test)]
mod tests;
