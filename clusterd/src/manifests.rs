//! A directory of manifests as a source.
//!
//! A file counts when its writer is done with it: when inotify says so, or when it has been the same for a while. Until then,
//! and while it cannot be parsed, its earlier text counts. Files are read in the order of their names.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cluster::{Key, Kind, Object};
use cluster_objects::manifest::Manifests;
use daemon::clock;
use daemon::directory::{Change, Changes, Directory};
use daemon::disk::{self, Stamp};
use daemon::readiness::Readiness;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::addresses::{AddressSettings, AddressState};
use crate::metrics::Counters;
use crate::publisher::Publisher;

/// Changes this close together cause one reading.
const SETTLE: Duration = Duration::from_millis(100);
/// A file that has been the same for this long is complete, though no writer was seen to close it.
const QUIET: Duration = Duration::from_secs(2);
/// The interval of looks while a file is not complete, or the directory is not there.
const AGAIN: Duration = Duration::from_secs(1);
/// The interval of looks otherwise: events may be lost, and a directory may be replaced.
const RENEW: Duration = Duration::from_secs(60);
/// Files of the directory; more are a mistake.
const MAX_FILES: usize = 1000;
/// Bytes of all files together: tens of thousands of objects, and a bound on the memory that they take.
const MAX_BYTES: usize = 64 << 20;
/// Problems that are shown.
const MAX_PROBLEMS: usize = 20;

/// A directory as a source; its task ends when it is dropped.
#[derive(Debug)]
pub struct ManifestSource {
    problems: Arc<Mutex<Vec<String>>>,
    given: Arc<Given>,
    task: JoinHandle<()>,
}

/// How Services get addresses.
#[derive(Debug)]
struct Given {
    settings: Mutex<AddressSettings>,
    changed: Notify,
    state: Arc<Mutex<AddressState>>,
}

impl ManifestSource {
    /// Begins to follow a directory; needs a tokio runtime.
    #[must_use]
    pub fn start(
        directory: PathBuf,
        given: AddressSettings,
        state: Arc<Mutex<AddressState>>,
        publisher: Publisher,
        readiness: Readiness,
        counters: Counters,
    ) -> Self {
        let problems = Arc::default();
        let given = Arc::new(Given {
            settings: Mutex::new(given),
            changed: Notify::new(),
            state,
        });
        let task = Task {
            files: Files::new(directory),
            given: Arc::clone(&given),
            is_forced: false,
            publisher,
            readiness,
            counters,
            problems: Arc::clone(&problems),
        };
        Self {
            problems,
            given,
            task: tokio::spawn(task.run()),
        }
    }

    /// Takes up other pools.
    pub(crate) fn reload(&self, given: AddressSettings) {
        *self.given.settings.lock() = given;
        self.given.changed.notify_one();
    }

    /// The files and objects that cannot be read.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.problems.lock().clone()
    }
}

impl Drop for ManifestSource {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads a directory once.
///
/// # Errors
/// Everything that is wrong with it, a line each.
pub fn check(directory: &Path) -> Result<usize, String> {
    let mut files = Files::new(directory.to_owned());
    let read = files.read(&Changes {
        is_lossy: true,
        ..Changes::default()
    })?;
    match read.problems.is_empty() {
        true => Ok(read.objects.len()),
        false => Err(read.problems.join("\n")),
    }
}

struct Task {
    files: Files,
    given: Arc<Given>,
    /// Whether what is known is published again, though no file is other than before.
    is_forced: bool,
    publisher: Publisher,
    readiness: Readiness,
    counters: Counters,
    problems: Arc<Mutex<Vec<String>>>,
}

impl Task {
    async fn run(mut self) {
        let mut watch = Directory::watch(&self.files.directory).ok();
        let mut changes = Changes::default();
        loop {
            let read = self.read(std::mem::take(&mut changes)).await;
            if watch.is_none() {
                // Read again at once: a file may have come before the watch.
                watch = Directory::watch(&self.files.directory).ok();
                if watch.is_some() {
                    continue;
                }
            }
            let pause = match read && watch.is_some() {
                true => RENEW,
                false => AGAIN,
            };
            tokio::select! {
                found = next_changes(watch.as_ref()) => {
                    changes = found;
                    if changes.is_lossy {
                        watch = None;
                    }
                }
                () = self.given.changed.notified() => self.is_forced = true,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Reads the directory and publishes it; false when it has to be read again soon.
    async fn read(&mut self, changes: Changes) -> bool {
        let nothing = Files::new(PathBuf::new());
        let mut files = std::mem::replace(&mut self.files, nothing);
        let read = tokio::task::spawn_blocking(move || {
            let read = files.read(&changes);
            (files, read)
        });
        let Ok((files, read)) = read.await else {
            tracing::error!("The thread that reads manifests has panicked");
            return false;
        };
        self.files = files;
        let (problems, is_complete) = match read {
            Ok(read) => {
                let (problems, is_complete) = (read.problems.clone(), read.is_complete);
                if read.is_new || (self.is_forced && is_complete) {
                    self.is_forced = false;
                    self.publish(read);
                }
                (problems, is_complete)
            }
            Err(problem) => (vec![problem], false),
        };
        self.report(problems);
        is_complete
    }

    fn publish(&self, mut read: Read) {
        let settings = self.given.settings.lock().clone();
        let before = self.publisher.current();
        // Those that cannot be read stay as they were, with their addresses.
        let kept = read.kept.iter().filter_map(|key| before.get(key));
        let kept: Vec<_> = kept.cloned().collect();
        let decisions = settings.fill(&mut read.objects, &kept);
        self.given.state.lock().take(&decisions);
        let mut by_kind: BTreeMap<Kind, Vec<Object>> = BTreeMap::new();
        for object in read.objects {
            by_kind.entry(object.kind()).or_default().push(object);
        }
        for key in &read.kept {
            self.counters.unreadable(key.kind);
        }
        self.publisher.change(|picture| {
            for kind in Kind::ALL {
                let objects = by_kind.remove(&kind).unwrap_or_default();
                picture.replace(kind, objects, &read.kept);
            }
        });
    }

    fn report(&self, problems: Vec<String>) {
        let mut shown = self.problems.lock();
        if *shown != problems {
            for problem in problems.iter().filter(|problem| !shown.contains(problem)) {
                tracing::warn!(problem, "A manifest cannot be read");
            }
            let first = problems.first().map(|first| match problems.len() {
                1 => first.clone(),
                n => format!("{first}, and {} more", n - 1),
            });
            self.readiness.set_reason("manifests", first);
            *shown = problems;
        }
    }
}

async fn next_changes(watch: Option<&Directory>) -> Changes {
    match watch {
        Some(watch) => watch.changes(SETTLE).await.unwrap_or_else(|_| Changes {
            is_lossy: true,
            ..Changes::default()
        }),
        None => std::future::pending().await,
    }
}

/// The files of a directory as they were read last.
#[derive(Debug)]
struct Files {
    directory: PathBuf,
    known: BTreeMap<OsString, Known>,
    /// Whether the whole directory was read before: a file that is being written at the first reading holds it up, since its
    /// earlier text is unknown.
    is_read: bool,
}

/// A file.
#[derive(Debug, Default)]
struct Known {
    stamp: Stamp,
    /// The text that counts: the last one that could be parsed.
    text: String,
    problem: Option<String>,
}

/// The content of a directory.
#[derive(Debug)]
struct Read {
    objects: Vec<Object>,
    kept: BTreeSet<Key>,
    problems: Vec<String>,
    /// Whether anything is other than at the last reading.
    is_new: bool,
    /// Whether every file was complete.
    is_complete: bool,
}

impl Files {
    const fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            known: BTreeMap::new(),
            is_read: false,
        }
    }

    fn read(&mut self, changes: &Changes) -> Result<Read, String> {
        let shown = self.directory.display();
        let paths = disk::list(&self.directory);
        let paths = paths.map_err(|error| format!("{shown} cannot be read: {error}"))?;
        let names: BTreeSet<OsString> = paths
            .iter()
            .filter(|path| is_manifest(path))
            .filter_map(|path| path.file_name().map(ToOwned::to_owned))
            .collect();
        if names.len() > MAX_FILES {
            let n = names.len();
            return Err(format!(
                "{shown} has {n} manifests; {MAX_FILES} are the most"
            ));
        }
        let n_before = self.known.len();
        self.known.retain(|name, _| names.contains(name));
        let mut is_new = !self.is_read || self.known.len() != n_before;
        let mut unfinished = None;
        // A mounted ConfigMap is complete as a whole when its link is moved.
        let is_link_moved = changes
            .files
            .iter()
            .any(|(name, change)| name == "..data" && *change == Change::Complete);
        for name in names {
            let path = self.directory.join(&name);
            let stamp = Stamp::of(&path);
            if self
                .known
                .get(&name)
                .is_some_and(|known| known.stamp == stamp)
            {
                continue;
            }
            let is_closed = changes.files.get(&name) == Some(&Change::Complete);
            if is_closed || is_link_moved || changes.is_lossy || is_quiet(&path) {
                is_new = true;
                let others = self.known.iter().filter(|(other, _)| **other != name);
                let n_bytes: usize = others.map(|(_, known)| known.text.len()).sum();
                let known = self.known.entry(name).or_default();
                known.take(stamp, &path, MAX_BYTES.saturating_sub(n_bytes));
            } else {
                unfinished = Some(name);
            }
        }
        self.is_read |= unfinished.is_none();
        let mut read = self.collect(is_new && self.is_read, unfinished.is_none());
        if let Some(name) = unfinished.filter(|_| !self.is_read) {
            let problem = format!("{} is being written", name.to_string_lossy());
            read.problems.push(problem);
        }
        Ok(read)
    }

    fn collect(&self, is_new: bool, is_complete: bool) -> Read {
        let mut manifests = Manifests::default();
        let mut problems = Vec::new();
        for (name, known) in &self.known {
            let name = name.to_string_lossy();
            problems.extend(
                known
                    .problem
                    .iter()
                    .map(|problem| format!("{name}: {problem}")),
            );
            manifests.add(&name, &known.text);
        }
        problems.extend(manifests.problems.iter().map(ToString::to_string));
        problems.truncate(MAX_PROBLEMS);
        let kept = manifests
            .problems
            .iter()
            .filter_map(|problem| problem.key.clone());
        Read {
            kept: kept.collect(),
            objects: manifests.into_objects(),
            problems,
            is_new,
            is_complete,
        }
    }
}

impl Known {
    /// Takes up the text of the file, unless it cannot be parsed: then the earlier one still counts.
    fn take(&mut self, stamp: Stamp, path: &Path, room: usize) {
        self.stamp = stamp;
        let text = match stamp.length() > u64::try_from(room).unwrap_or(u64::MAX) {
            true => Err(format!(
                "all files together have more than {MAX_BYTES} bytes"
            )),
            false => disk::read(path).map_err(|error| error.to_string()),
        };
        let text = text.and_then(|octets| {
            String::from_utf8(octets).map_err(|_| "it is no text (UTF-8)".to_owned())
        });
        let parsed = text.and_then(|text| match cluster_objects::manifest::check(&text) {
            None => Ok(text),
            Some(problem) => Err(problem),
        });
        match parsed {
            Ok(text) => (self.text, self.problem) = (text, None),
            Err(problem) => self.problem = Some(problem),
        }
    }
}

fn is_manifest(path: &Path) -> bool {
    let is_hidden = path
        .file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    let extension = path.extension().and_then(|it| it.to_str());
    !is_hidden && matches!(extension, Some("yaml" | "yml" | "json")) && path.is_file()
}

/// Whether a file has been the same for a while, by its own time.
fn is_quiet(path: &Path) -> bool {
    let modified = path.metadata().and_then(|metadata| metadata.modified());
    // A file of the future is as good as an old one: the clock may have been set.
    modified.is_ok_and(|at| {
        let age = clock::wall().duration_since(at);
        age.is_err() || age.is_ok_and(|age| age >= QUIET)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn namespace(name: &str) -> String {
        format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")
    }

    fn closed(name: &str) -> Changes {
        Changes {
            files: BTreeMap::from([(name.into(), Change::Complete)]),
            is_lossy: false,
        }
    }

    fn names(read: &Read) -> Vec<&str> {
        read.objects
            .iter()
            .map(|object| object.meta().name.as_str())
            .collect()
    }

    #[test]
    fn a_file_counts_when_it_is_complete() {
        let place = tempfile::tempdir().unwrap();
        let mut files = Files::new(place.path().to_owned());
        fs::write(place.path().join("a.yaml"), namespace("a")).unwrap();
        fs::write(place.path().join("notes.txt"), "no manifest").unwrap();
        let read = files.read(&Changes::default()).unwrap();
        assert!(
            !read.is_new && !read.is_complete,
            "its writer may not be done"
        );
        assert_eq!(read.problems, ["a.yaml is being written"]);
        let read = files.read(&closed("a.yaml")).unwrap();
        assert_eq!((names(&read), read.is_complete), (vec!["a"], true));
        assert!(!files.read(&Changes::default()).unwrap().is_new);
        // A neighbour is closed; the half of this file does not count.
        fs::write(place.path().join("a.yaml"), namespace("a") + "---\napi").unwrap();
        fs::write(place.path().join("b.yml"), namespace("b")).unwrap();
        let read = files.read(&closed("b.yml")).unwrap();
        assert_eq!((names(&read), read.is_complete), (vec!["a", "b"], false));
        fs::remove_file(place.path().join("a.yaml")).unwrap();
        let read = files.read(&Changes::default()).unwrap();
        assert_eq!((names(&read), read.is_new), (vec!["b"], true));
    }

    #[test]
    fn a_file_that_cannot_be_parsed_keeps_its_earlier_text() {
        let place = tempfile::tempdir().unwrap();
        let mut files = Files::new(place.path().to_owned());
        let path = place.path().join("a.yaml");
        fs::write(&path, namespace("a")).unwrap();
        files.read(&closed("a.yaml")).unwrap();
        fs::write(&path, "a: [").unwrap();
        let read = files.read(&closed("a.yaml")).unwrap();
        assert_eq!(names(&read), ["a"]);
        assert!(
            read.problems[0].starts_with("a.yaml: "),
            "{:?}",
            read.problems
        );
        fs::write(&path, namespace("b")).unwrap();
        let read = files.read(&closed("a.yaml")).unwrap();
        assert_eq!((names(&read), read.problems.len()), (vec!["b"], 0));
    }

    #[test]
    fn a_directory_that_is_not_there_is_a_problem() {
        let error = check(Path::new("/nonexistent/manifests")).unwrap_err();
        assert!(
            error.contains("/nonexistent/manifests cannot be read"),
            "{error}"
        );
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("a.yaml"), namespace("a")).unwrap();
        assert_eq!(check(place.path()), Ok(1));
        fs::write(place.path().join("b.yaml"), "x: y").unwrap();
        assert!(check(place.path()).is_err());
    }
}
