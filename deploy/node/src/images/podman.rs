//! podman, as a program that is run: its store belongs to us alone (storage.conf), and no verb here
//! reaches a network.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use service_image::digest::Sha256;

/// podman with a store of its own.
#[derive(Clone, Debug)]
pub struct Podman {
    /// containers-storage.conf(5); none: whatever podman takes by itself.
    storage: Option<PathBuf>,
    /// The arguments before the verb.
    global: Vec<OsString>,
}

/// Why podman did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum PodmanError {
    /// It is not there.
    #[error("cannot run podman")]
    Start(#[source] std::io::Error),
    /// It says why.
    #[error("podman {verb}: {said}")]
    Refused {
        /// The verb.
        verb: String,
        /// The last line of what it says.
        said: String,
    },
}

impl Podman {
    /// podman with the store that a file describes.
    pub fn with_storage(config: &Path) -> Self {
        Self {
            storage: Some(config.to_owned()),
            global: Vec::new(),
        }
    }

    /// The same podman with an empty store somewhere else, to tell whether it works at all.
    pub fn elsewhere(&self, directory: &Path) -> Self {
        let root = directory.join("root").into_os_string();
        let run = directory.join("run").into_os_string();
        Self {
            storage: self.storage.clone(),
            // This driver mounts nothing, so that nothing is left of the trial.
            global: ["--storage-driver", "vfs", "--root"]
                .map(OsString::from)
                .into_iter()
                .chain([root, "--runroot".into(), run])
                .collect(),
        }
    }

    /// Runs it, and gives what it prints.
    ///
    /// # Errors
    ///
    /// When it cannot be started, or ends with anything but 0.
    pub fn run(&self, arguments: &[&str]) -> Result<String, PodmanError> {
        let mut command = Command::new("podman");
        command.args(&self.global).args(arguments);
        if let Some(storage) = &self.storage {
            command.env("CONTAINERS_STORAGE_CONF", storage);
        }
        command.stdin(Stdio::null());
        let output = command.output().map_err(PodmanError::Start)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().rfind(|line| !line.trim().is_empty());
        Err(PodmanError::Refused {
            verb: arguments.first().copied().unwrap_or_default().to_owned(),
            said: said.map_or_else(|| output.status.to_string(), str::to_owned),
        })
    }

    /// Every name in the store, and the image that it is of.
    pub fn names(&self) -> Result<BTreeMap<String, Sha256>, PodmanError> {
        let format = "{{.ID}} {{.Repository}}:{{.Tag}}";
        let listed = self.run(&["image", "list", "--all", "--no-trunc", "--format", format])?;
        Ok(parse_names(&listed))
    }

    /// The directory of the topmost layer of each image, for those that have one.
    pub fn directories(&self, images: &[Sha256]) -> BTreeMap<Sha256, PathBuf> {
        let format = "{{.Id}} {{.GraphDriver.Data.UpperDir}}";
        let ids: Vec<String> = images.iter().map(Sha256::to_string).collect();
        let ask = |ids: &[String]| {
            let mut arguments = vec!["image", "inspect", "--format", format];
            arguments.extend(ids.iter().map(String::as_str));
            self.run(&arguments).map(|said| parse_directories(&said))
        };
        // One image that podman cannot tell of must not hide the others.
        ask(&ids).unwrap_or_else(|_| {
            let one = |id: &String| ask(std::slice::from_ref(id)).unwrap_or_default();
            ids.iter().flat_map(one).collect()
        })
    }
}

fn parse_names(listed: &str) -> BTreeMap<String, Sha256> {
    let parse = |line: &str| {
        let (id, name) = line.trim().split_once(' ')?;
        let id = id.strip_prefix("sha256:").unwrap_or(id).parse().ok()?;
        Some((name.to_owned(), id))
    };
    listed.lines().filter_map(parse).collect()
}

fn parse_directories(said: &str) -> BTreeMap<Sha256, PathBuf> {
    let parse = |line: &str| {
        let (id, directory) = line.trim().split_once(' ')?;
        let id = id.parse().ok()?;
        directory.starts_with('/').then(|| (id, directory.into()))
    };
    said.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_podman_lists_is_understood() {
        let (one, two) = (Sha256::of(b"1"), Sha256::of(b"2"));
        let listed = format!(
            "sha256:{one} localhost/outpost/healthd:a\n{two} localhost/outpost/healthd:b\nsha256:{two} <none>:<none>\nnonsense\n"
        );
        let names = parse_names(&listed);
        assert_eq!(names.get("localhost/outpost/healthd:a"), Some(&one));
        assert_eq!(names.get("localhost/outpost/healthd:b"), Some(&two));
        let said = format!("{one} /var/lib/outpost/storage/overlay/x/diff\n{two} <no value>\n");
        assert_eq!(parse_directories(&said).len(), 1);
    }

    #[test]
    fn podman_is_quoted_when_it_refuses() {
        let error = PodmanError::Refused {
            verb: "load".to_owned(),
            said: "Error: no".to_owned(),
        };
        assert_eq!(error.to_string(), "podman load: Error: no");
    }
}
