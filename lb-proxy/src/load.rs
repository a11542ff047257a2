//! The files to serve from: this proxy's own, or those of HAProxy and keepalived as they are.

use std::path::PathBuf;

use ::config::lb_proxy::LbProxy;
use ::config::{Document, Draft, Note};
use daemon::config::{self, Problem, Problems};

use crate::config::Config;
use crate::import;

/// The files to serve from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// This proxy's own.
    Toml(PathBuf),
    /// Those of the peers.
    Peers(Peers),
}

/// Files of HAProxy and keepalived; at least one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// HAProxy's, in its order.
    pub haproxy: Vec<PathBuf>,
    /// keepalived's.
    pub keepalived: Option<PathBuf>,
    /// The id of this machine in keepalived's file.
    pub config_id: Option<String>,
    /// Whether restrictions that have no counterpart are done without.
    pub accept_open: bool,
}

impl Source {
    /// Reads the configuration.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(&self) -> Result<Config, Problems> {
        match self {
            Self::Toml(path) => Config::from_document(&config::read(path)?),
            Self::Peers(peers) => peers.read(),
        }
    }
}

impl Peers {
    fn read(&self) -> Result<Config, Problems> {
        let draft = self.draft()?;
        let name = format!("{}, as TOML", self.names());
        let written = draft
            .written("")
            .map_err(|error| Problems::from(Problem::new(format!("{}: {error}", self.names()))))?;
        let mut config = Config::from_document(&Document::inline(name, written.to_string()))?;
        // The notes have the places in the files themselves.
        let notes = draft
            .notes
            .iter()
            .map(|note| Note::problem(note).to_string());
        config.warnings.splice(0..0, notes);
        Ok(config)
    }

    /// All files together, with the problems of each.
    fn draft(&self) -> Result<Draft<LbProxy>, Problems> {
        let haproxy = match self.haproxy.as_slice() {
            [] => Ok(None),
            files => checked(import::haproxy(files), self.accept_open).map(Some),
        };
        let keepalived = match &self.keepalived {
            None => Ok(None),
            Some(file) => {
                let imported = import::keepalived(file, self.config_id.as_deref());
                checked(imported, self.accept_open).map(Some)
            }
        };
        match (haproxy, keepalived) {
            (Ok(haproxy), Ok(keepalived)) => Ok(joined(haproxy, keepalived)),
            (Err(mut problems), Err(more)) => {
                problems.0.extend(more.0);
                Err(problems)
            }
            (Err(problems), Ok(_)) | (Ok(_), Err(problems)) => Err(problems),
        }
    }

    fn names(&self) -> String {
        let all = self.haproxy.iter().chain(&self.keepalived);
        let names: Vec<String> = all.map(|path| path.display().to_string()).collect();
        names.join(", ")
    }
}

fn checked(
    imported: Result<Draft<LbProxy>, Problems>,
    accept_open: bool,
) -> Result<Draft<LbProxy>, Problems> {
    import::checked(imported?, accept_open).map_err(|refused| refused.problems)
}

/// Addresses and servers of both; the rest is HAProxy's, which alone has it.
fn joined(haproxy: Option<Draft<LbProxy>>, keepalived: Option<Draft<LbProxy>>) -> Draft<LbProxy> {
    let empty = || Draft {
        config: LbProxy::default(),
        notes: Vec::new(),
    };
    let mut all = haproxy.unwrap_or_else(empty);
    let more = keepalived.unwrap_or_else(empty);
    all.config.frontend.extend(more.config.frontend);
    all.config.backend.extend(more.config.backend);
    all.config.vip.extend(more.config.vip);
    all.notes.extend(more.notes);
    all
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    const LISTEN: &str = "listen l\nbind 127.0.0.1:7000\nserver s 127.0.0.2:7001\n";

    const VIP: &str =
        "vrrp_instance v {\ninterface e\nvirtual_router_id 7\nvirtual_ipaddress { 192.0.2.1 }\n}\n";

    fn peers(directory: &Path, haproxy: Option<&str>, keepalived: Option<&str>) -> Peers {
        let written = |name: &str, text: &str| {
            let path = directory.join(name);
            fs::write(&path, text).unwrap();
            path
        };
        Peers {
            haproxy: haproxy
                .map(|text| written("haproxy.cfg", text))
                .into_iter()
                .collect(),
            keepalived: keepalived.map(|text| written("keepalived.conf", text)),
            ..Peers::default()
        }
    }

    #[test]
    fn both_files_make_one_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let haproxy = format!("{LISTEN}cookie x\n");
        let peers = peers(directory.path(), Some(&haproxy), Some(VIP));
        let config = Source::Peers(peers).read().unwrap();
        assert_eq!(
            config.summary(),
            "1 frontend for l, 1 server in 1 backend, 1 virtual IP: v"
        );
        let said: Vec<&String> = config
            .warnings
            .iter()
            .filter(|warning| warning.contains("cookie"))
            .collect();
        assert_eq!(said.len(), 1, "{:?}", config.warnings);
        assert!(said[0].contains("haproxy.cfg:4:1: "), "{said:?}");
    }

    #[test]
    fn one_file_alone_is_enough() {
        let directory = tempfile::tempdir().unwrap();
        let haproxy = peers(directory.path(), Some(LISTEN), None);
        let config = Source::Peers(haproxy).read().unwrap();
        assert!(config.vips.is_empty() && !config.frontends.is_empty());
        let keepalived = peers(directory.path(), None, Some(VIP));
        let config = Source::Peers(keepalived).read().unwrap();
        assert!(config.frontends.is_empty() && !config.vips.is_empty());
    }

    #[test]
    fn errors_of_both_are_told_with_their_places() {
        let directory = tempfile::tempdir().unwrap();
        let open = format!("{LISTEN}tcp-request connection reject unless {{ src -f /x }}\n");
        let broken = "vrrp_instance v {\n";
        let refused = peers(directory.path(), Some(&open), Some(broken));
        let problems = Source::Peers(refused).read().unwrap_err().to_string();
        assert!(problems.contains("haproxy.cfg:4:1: "), "{problems}");
        assert!(problems.contains("keepalived.conf:1:"), "{problems}");
        let accepted = Peers {
            accept_open: true,
            ..peers(directory.path(), Some(&open), None)
        };
        let config = Source::Peers(accepted).read().unwrap();
        assert!(config.warnings.iter().any(|it| it.contains("security: ")));
    }

    #[test]
    fn a_configuration_that_cannot_be_served_is_told_with_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let twice = format!("{LISTEN}listen l\nbind 127.0.0.1:7002\nserver s 127.0.0.2:7001\n");
        let peers = peers(directory.path(), Some(&twice), None);
        let problems = Source::Peers(peers).read().unwrap_err().to_string();
        assert!(problems.contains("haproxy.cfg, as TOML:"), "{problems}");
    }
}
