//! Reads files: the configuration, and zones.
//!
//! Parsers never open files themselves; this module does. It notes the state of each file before it reads
//! it, so that a change during the read is noticed later.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::config::Note;
use config_text::{Problem, Rejected};
use daemon::args::PACKAGE_VERSION;
use daemon::clock;
use daemon::config::Problems;
use daemon::disk::{Disk, Stamp};
use dns_wire::hash::Seed;
use dns_zone::Zone;
use dns_zone::parse::{self, LeftOut, Options, ZoneFile};
use dns_zone::record::RecordData;
use durable::Rights;
use peer_bind::{Dialect, NamedConf, ZoneDecl};
use peer_pdns::PdnsConf;
use tls_trust::Trust;

use crate::config::{Config, Declarations};

/// The largest zone file; a larger one is surely not a zone file.
const MAX_FILE_SIZE: u64 = 4 << 30;

//--- Configuration

/// The files of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// This server's own.
    Toml(PathBuf),
    /// `pdns_server`'s, with settings of its command line.
    Pdns {
        /// pdns.conf.
        path: PathBuf,
        /// Settings that override the file's.
        arguments: Vec<(String, String)>,
    },
}

impl Source {
    /// Reads the configuration and the zone list, but no zones.
    pub fn read(&self) -> Result<Config, Problems> {
        let host = host();
        match self {
            Self::Toml(path) => {
                let document = daemon::config::read(path)?;
                let home = path.parent();
                let mut config = Config::from_document(
                    &document,
                    &host,
                    |named| Ok(read_named_conf(&beside(home, named), Dialect::Bind)?),
                    &mut |secret| read_secret(home, secret),
                    &mut |ca, pins| {
                        let ca = ca.map(|ca| beside(home, ca));
                        Trust::strict(ca.as_deref(), pins)
                    },
                )?;
                config.answers.cookies = dns_serve::cookies::load(&config.file.cookies, home)?;
                Ok(config)
            }
            Self::Pdns { path, arguments } => {
                let (pdns, named) = read_pdns_conf(path, arguments)?;
                let draft = dns_import::pdns_conf(&pdns, &named, Some(PACKAGE_VERSION));
                let notes = draft.notes.iter().map(Note::problem).collect();
                let mut file = draft.config;
                // The zones have their places in the list.
                file.zone.clear();
                file.zones.directory = Some(named.directory);
                let mut served: Vec<ZoneDecl> = named.zones;
                served.retain(ZoneDecl::is_served);
                if !pdns.notify.enabled {
                    served.iter_mut().for_each(|zone| zone.also_notify.clear());
                }
                let declarations = Declarations {
                    zones: served,
                    ..Declarations::default()
                };
                Ok(Config::of(file, declarations, notes, &host))
            }
        }
    }
}

/// Reads a pdns.conf and the zone list that it names.
pub fn read_pdns_conf(
    path: &Path,
    arguments: &[(String, String)],
) -> Result<(PdnsConf, NamedConf), Rejected> {
    let pdns = peer_pdns::parse(path, &mut Disk, arguments)?;
    let named = read_named_conf(&pdns.bind_config, Dialect::PowerDns)?;
    Ok((pdns, named))
}

/// Reads a named.conf.
pub fn read_named_conf(path: &Path, dialect: Dialect) -> Result<NamedConf, Rejected> {
    // A directory that is gone leaves relative paths as they are.
    let working_directory = std::env::current_dir().unwrap_or_default();
    peer_bind::parse(path, dialect, &working_directory, &mut read)
}

/// A relative file is beside the configuration.
fn beside(home: Option<&Path>, file: &Path) -> PathBuf {
    home.map_or_else(|| file.to_owned(), |home| home.join(file))
}

/// Reads the secret of a key.
fn read_secret(home: Option<&Path>, file: &Path) -> io::Result<String> {
    let path = beside(home, file);
    let mut text = String::new();
    let file = fs::File::open(path)?;
    // A secret is one line of base 64.
    io::Read::read_to_string(&mut io::Read::take(file, 4096), &mut text)?;
    Ok(text)
}

fn host() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// Reads a zone or a list of zones.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(path)?;
    if metadata.len() > MAX_FILE_SIZE {
        return Err(io::Error::other("larger than any zone file"));
    }
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    // A pipe without a writer would hold up every other zone for ever.
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    fs::read(path)
}

//--- Zones

/// Writes the text of a zone into its file, whole or not at all; the file keeps its rights, and a link its place.
///
/// # Errors
/// When the system refuses; the file is then as before.
pub fn write_back(text: &str, file: &Path) -> Result<(), String> {
    let cannot =
        |error: &dyn std::fmt::Display| format!("cannot write {}: {error:#}", file.display());
    let place = fs::canonicalize(file).map_err(|error| cannot(&error))?;
    let metadata = fs::metadata(&place).map_err(|error| cannot(&error))?;
    let rights = Rights::new(metadata.permissions().mode() & 0o777);
    durable::write(&place, rights, text.as_bytes()).map_err(|error| cannot(&error))
}

/// A zone as its files have it now.
#[derive(Debug)]
pub struct Fresh {
    /// The zone.
    pub zone: Arc<Zone>,
    /// Oddities of its files.
    pub warnings: Vec<Problem>,
    /// The records that are left out.
    pub left_out: LeftOut,
}

/// A zone file after loading.
#[derive(Debug)]
pub struct Loaded {
    /// The zone, or its errors.
    pub result: Result<Fresh, Vec<Problem>>,
    /// The files that were read or searched for, with their states from before.
    pub files: Vec<(PathBuf, Stamp)>,
    /// The time that it took.
    pub took: Duration,
}

impl Loaded {
    /// The number of records that were read.
    #[must_use]
    pub fn n_records(&self) -> usize {
        self.result
            .as_ref()
            .map_or(0, |fresh| fresh.zone.n_records())
    }
}

/// Reads and compiles one zone. Without `lua`, its `LUA` records are left out.
#[must_use]
pub fn zone(declared: &ZoneDecl, options: &Options, seed: Seed, lua: bool) -> Loaded {
    let begun = clock::now();
    let mut files = Vec::new();
    let result = read_zone(declared, options, &mut files).and_then(|file| {
        let ZoneFile {
            mut records,
            mut warnings,
            left_out,
            ..
        } = file;
        if !lua {
            let programs =
                records.extract_if(.., |record| matches!(record.data, RecordData::Lua { .. }));
            warnings.extend(programs.map(|record| Problem {
                position: Some(record.position),
                message: "LUA records are not enabled: this one is left out".to_owned(),
            }));
        }
        let zone = Zone::build_of(&declared.name, records, seed)?;
        Ok(Fresh {
            zone: Arc::new(zone),
            warnings,
            left_out,
        })
    });
    Loaded {
        result,
        files,
        took: begun.elapsed(),
    }
}

/// Reads one zone; notes the files and their states.
pub fn read_zone(
    declared: &ZoneDecl,
    options: &Options,
    files: &mut Vec<(PathBuf, Stamp)>,
) -> Result<ZoneFile, Vec<Problem>> {
    let Some(path) = &declared.file else {
        return Err(vec![Problem {
            position: Some(declared.position.clone()),
            message: format!("zone {} has no file", declared.name),
        }]);
    };
    let mut seen = HashSet::new();
    let mut load = |path: &Path| {
        // A file that is included twice has its first state: a change between the two shows later.
        if seen.insert(path.to_owned()) {
            files.push((path.to_owned(), Stamp::of(path)));
        }
        read(path)
    };
    parse::parse(path, &declared.name, &mut load, options).map_err(|rejected| rejected.problems)
}
