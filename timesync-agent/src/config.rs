//! The configuration: the file, and the settings of the program that follow from it.
//!
//! The keys are in [`::config::timesync_agent`]. Here is the parsed configuration, and the rules between
//! keys are in `rules`. A chrony.conf becomes the same struct ([`import`]); with `chrony-conf` the file's own keys override it.

pub mod files;
mod lint;
mod rules;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ::config::timesync_agent::{ADMIN_PORT, TimesyncAgent};
use ::config::{Address, Draft, Note};
use config_text::{Files, counted};
use daemon::config::{Common, Document, Problem, Problems};
use daemon::disk::Disk;
use serde::Deserialize as _;
use serde_json::Value;

use crate::args::{ConfigArgs, DEFAULT_CONFIG};
use crate::last_known;
use peer_chrony::{ChronyConf, parse_source_directories};
use time_model::settings::{Settings, SourceSettings, sources};

pub use lint::unused;

/// The default address of the admin listener.
pub const DEFAULT_ADMIN: SocketAddr = Address::loopback(ADMIN_PORT).0;

/// The configuration of one agent.
#[derive(Clone, Debug)]
pub struct Config {
    /// Log, admin listener, drain.
    pub common: Common,
    /// The file, with the chrony.conf that it names and the command line's values in it.
    pub file: TimesyncAgent,
    /// The settings of the program.
    pub settings: Settings,
    /// Warnings: odd, but understood.
    pub warnings: Vec<Problem>,
    /// All sources were left out, and so there is nothing to have the time from.
    pub lacks_source: bool,
}

impl Config {
    /// Parses the text of a configuration file; `files` are for the chrony.conf and the directories that it may name.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with its place.
    pub fn from_document(document: &Document, files: &mut dyn Files) -> Result<Self, Problems> {
        let mut base = Draft {
            config: TimesyncAgent::default(),
            notes: Vec::new(),
        };
        let mut own_sources = Vec::new();
        let mut file = document.parse_with(|file: &TimesyncAgent, check| {
            if let Some(path) = &file.chrony_conf {
                match peer_chrony::parse(path, files) {
                    Ok(conf) => base = conf.draft,
                    Err(refused) => check.extend(refused.problems),
                }
            }
            rules::check(file, &base.config, check);
            own_sources = rules::sources_in_order(file, check);
        })?;
        let mut settings_sources = sources(&base.config);
        settings_sources.extend(own_sources);
        if file.chrony_conf.is_some() {
            file = on_top_of(&base.config, document)?;
        }
        Ok(Self::of(file, settings_sources, &base.notes, files))
    }

    /// The configuration of a chrony.conf, and nothing else.
    ///
    /// # Errors
    /// A value without a form in TOML: a mistake in the import itself.
    pub fn of_chrony(
        path: &Path,
        draft: &Draft<TimesyncAgent>,
        files: &mut dyn Files,
    ) -> Result<Self, Problems> {
        let name = format!("{}, as TOML", path.display());
        let written = draft
            .written("")
            .map_err(|error| Problems::from(Problem::new(format!("{name}: {error}"))))?;
        let document = Document::inline(name, written.to_string());
        let mut config = Self::from_document(&document, files)?;
        // The notes have the places in the file itself.
        let notes = draft.notes.iter().map(Note::problem);
        config.warnings.splice(0..0, notes);
        Ok(config)
    }

    fn of(
        file: TimesyncAgent,
        sources: Vec<SourceSettings>,
        notes: &[Note],
        files: &mut dyn Files,
    ) -> Self {
        let mut settings = Settings::new(&file);
        settings.sources = sources;
        let more = parse_source_directories(&file.source_directories, files);
        settings
            .sources
            .extend(time_model::settings::sources(&more.config));
        let warnings = notes.iter().chain(&more.notes).map(Note::problem);
        let lacks_source =
            settings.sources.is_empty() && settings.refclocks.is_empty() && !more.notes.is_empty();
        Self {
            common: Common::of(file.log, file.admin, file.drain),
            settings,
            lacks_source,
            warnings: warnings.collect(),
            file,
        }
    }

    /// The name that healthd shows and metrics carry.
    #[must_use]
    pub fn node(&self) -> String {
        self.file.node.clone().unwrap_or_else(host_name)
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
                None if source.is_peer => format!("{} (peer)", source.host),
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

/// Lists that a file adds to those of its chrony.conf, by their tables; other values replace those of the chrony.conf.
const ADDED: [(&str, &str); 9] = [
    ("", "server"),
    ("", "pool"),
    ("", "peer"),
    ("", "refclock"),
    ("", "source-directories"),
    ("client", "hwtimestamp"),
    ("serve", "access"),
    ("commands", "access"),
    ("logs", "write"),
];

/// Tables whose keys replace those of the chrony.conf one by one.
const MERGED: [&str; 7] = [
    "client",
    "clock",
    "commands",
    "leap",
    "logs",
    "selection",
    "serve",
];

/// The keys of a document, which was checked, on top of those of a chrony.conf.
fn on_top_of(base: &TimesyncAgent, document: &Document) -> Result<TimesyncAgent, Problems> {
    let failed = |error: &dyn std::fmt::Display| {
        let path = document.path.display();
        Problems::from(Problem::new(format!("{path} on its chrony.conf: {error}")))
    };
    let mut merged = serde_json::to_value(base).map_err(|error| failed(&error))?;
    let own: Value = toml::from_str(&document.text).map_err(|error| failed(&error))?;
    overlay("", &mut merged, own);
    if let Some(merged) = merged.as_object_mut() {
        // The version is the format's; the struct has none.
        merged.remove("version");
    }
    TimesyncAgent::deserialize(merged).map_err(|error| failed(&error))
}

fn overlay(table: &str, below: &mut Value, above: Value) {
    let (Value::Object(below), Value::Object(above)) = (below, above) else {
        return;
    };
    for (key, value) in above {
        let is_added = ADDED.contains(&(table, key.as_str()));
        match (below.get_mut(&key), value) {
            (Some(Value::Array(below)), Value::Array(above)) if is_added => below.extend(above),
            (Some(below), above) if table.is_empty() && MERGED.contains(&key.as_str()) => {
                overlay(&key, below, above);
            }
            (_, value) => {
                below.insert(key, value);
            }
        }
    }
}

/// Reads the configuration that the arguments name, with what they say themselves.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read(args: &ConfigArgs) -> Result<Config, Problems> {
    let mut config = match &args.chrony_conf {
        Some(path) => {
            let conf = import(path).map_err(|refused| refused.problems)?;
            Config::of_chrony(path, &conf.draft, &mut Disk)?
        }
        None => {
            let default = || PathBuf::from(DEFAULT_CONFIG);
            let path = args.config.clone().unwrap_or_else(default);
            Config::from_document(&daemon::config::read(path)?, &mut Disk)?
        }
    };
    let healthd = &mut config.file.health.endpoint;
    args.overrides.apply(healthd, &mut config.common);
    config.file.correct_clock &= !args.no_clock;
    config.settings.bounds = last_known::bounds(&config.settings);
    let unused = unused(&config.settings).into_iter().map(Problem::new);
    config.warnings.extend(unused);
    files::problems(&config.settings).unless_empty(config)
}

/// Reads a chrony.conf and what it includes.
///
/// # Errors
/// Everything that is wrong with it, and the notes on the rest.
pub fn import(path: &Path) -> Result<ChronyConf, ::config::Refused> {
    peer_chrony::parse(path, &mut Disk)
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
