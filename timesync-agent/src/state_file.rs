//! The state that a process leaves to its successor, beside the drift file: see [`SavedState`]. It is read once and removed.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::drift_file;
use timekeeper::SavedState;

/// The suffix of the file's name after that of the drift file.
const EXTENSION: &str = ".reference";
/// The kernel's identifier of a boot: the raw clock starts again with each.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// The longest file that is read; one is a third of this.
const LONGEST: u64 = 4096;

/// The path of a process's state.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
    boot: String,
}

/// The contents.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum FileContents {
    V1 {
        boot: String,
        #[serde(rename = "estate")]
        state: SavedState,
    },
}

impl StateFile {
    /// The file beside a drift file; none where the kernel has no identifier of the boot.
    #[must_use]
    pub fn beside(drift_file: &Path) -> Option<Self> {
        let boot = match fs::read_to_string(BOOT) {
            Ok(boot) => boot.trim().to_owned(),
            Err(error) => {
                tracing::debug!(%error, "Nothing is left to a successor");
                return None;
            }
        };
        let mut path = drift_file.as_os_str().to_owned();
        path.push(EXTENSION);
        Some(Self {
            path: path.into(),
            boot,
        })
    }

    /// Reads and removes the state that was left since the machine started, so that no two processes use it.
    #[must_use]
    pub fn take(&self) -> Option<SavedState> {
        let text = match self.read() {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::debug!(path = %self.path.display(), %error, "Nothing is taken over");
                return None;
            }
        };
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "Nothing is taken over");
            return None;
        }
        match serde_json::from_str(&text) {
            Ok(FileContents::V1 { boot, state }) => (boot == self.boot).then_some(state),
            // Another version leaves what it likes.
            Err(error) => {
                tracing::debug!(path = %self.path.display(), %error, "Nothing is taken over");
                None
            }
        }
    }

    fn read(&self) -> io::Result<String> {
        let mut text = String::new();
        File::open(&self.path)?
            .take(LONGEST)
            .read_to_string(&mut text)?;
        Ok(text)
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves this.
    ///
    /// # Errors
    ///
    /// The directory is not there or may not be written to.
    pub fn leave(&self, state: SavedState) -> io::Result<()> {
        let kept = FileContents::V1 {
            boot: self.boot.clone(),
            state,
        };
        let text = serde_json::to_string(&kept).map_err(io::Error::from)?;
        drift_file::replace(&self.path, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time_model::settings::{Local, Settings};
    use time_model::time::{RawTime, Reading, SECOND, UnixTime};
    use timekeeper::Timekeeper;

    fn state() -> SavedState {
        let settings = Settings {
            local: Some(Local::default()),
            ..Settings::default()
        };
        let now = Reading {
            raw: RawTime(SECOND),
            wall: UnixTime(1_800_000_000 * SECOND + 1),
        };
        let timekeeper = Timekeeper::new(&settings, None, now);
        timekeeper.saved_state(now).expect("the own time is given")
    }

    #[test]
    fn what_is_left_is_taken_once_and_only_on_the_same_start_of_the_machine() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let file = StateFile::beside(&directory.join("drift")).unwrap();
        assert_eq!(file.take(), None, "there is none");
        file.leave(state()).unwrap();
        let names: Vec<_> = fs::read_dir(directory).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        let taken = [file.take(), file.take()];
        let other = StateFile {
            boot: "another".to_owned(),
            ..file.clone()
        };
        other.leave(state()).unwrap();
        let of_another = [file.take(), other.take()];
        let odd: Vec<Option<SavedState>> = ["", "{", "{\"v2\":{}}", "{\"v1\":{\"boot\":\"\"}}"]
            .iter()
            .map(|text| {
                fs::write(file.path(), text).unwrap();
                file.take()
            })
            .collect();
        assert_eq!(taken, [Some(state()), None]);
        assert_eq!(of_another, [None, None], "and whoever reads it removes it");
        assert_eq!(odd, [None; 4]);
    }
}
