//! The last answers for names of servers, on disk: a proxy that starts while no resolver answers has the servers that it or its
//! predecessor had.
//!
//! The file is written when servers become others, by a thread of its own; one that cannot be written is logged, and the
//! servers hold all the same. Its content is the text of [`Names::kept`], and it counts whole or not at all
//! ([`durable::state`]): a digit that the disk has changed would be the address of another server.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use daemon::clock;
use daemon::disk;
use durable::Rights;
use durable::state::{Format, StateError};
use parking_lot::Mutex;
use server_names::names::Names;

/// The name of the file.
const NAME: &str = "names";

const FORMAT: Format = Format {
    service: "lb-proxy-names",
    version: 1,
    checksum: crc32c::crc32c,
    max_size: disk::MAX_FILE_SIZE,
};

/// Begins with the answers that a directory has. A file that cannot be read is logged and left alone.
pub fn restore(directory: &Path, names: &mut Names) {
    let path = directory.join(NAME);
    let octets = match disk::read(&path) {
        Ok(octets) => octets,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => return refused(&path, &error.to_string()),
    };
    let text = match content(&octets) {
        Ok(text) => text,
        Err(error) => return refused(&path, &error.to_string()),
    };
    match names.restore(text, clock::now()) {
        Ok(()) => {
            let servers = names.all().len();
            if servers > 0 {
                tracing::info!(servers, "Names of servers begin with their last answers");
            }
        }
        Err(line) => refused(&path, &format!("line {line} is no record")),
    }
}

fn content(octets: &[u8]) -> Result<&str, StateError> {
    str::from_utf8(FORMAT.content(octets)?).map_err(|_| StateError::Damaged)
}

fn refused(path: &Path, error: &str) {
    let path = path.display();
    tracing::warn!(%path, error, "The last answers for names of servers cannot be read");
}

/// Writes answers.
#[derive(Debug)]
pub struct AnswersFile {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// The newest answers.
    newest: Mutex<String>,
    /// Those on disk, if this process has written them. One write at a time.
    written: Mutex<Option<String>>,
}

impl AnswersFile {
    /// Writes into this directory, which is made when there is something to write.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self {
            inner: Arc::new(Inner {
                path: directory.join(NAME),
                newest: Mutex::default(),
                written: Mutex::default(),
            }),
        }
    }

    /// Writes [`Names::kept`] soon, if it is not what was written last.
    pub fn keep(&self, answers: String) {
        {
            let mut newest = self.inner.newest.lock();
            if *newest == answers {
                return;
            }
            *newest = answers;
        }
        let inner = Arc::clone(&self.inner);
        let thread = thread::Builder::new().name("kept-names".to_owned());
        let result = thread.spawn(move || {
            if let Err(error) = inner.write() {
                inner.failed(&error);
            }
        });
        if let Err(error) = result {
            self.inner.failed(&error);
        }
    }
}

impl Inner {
    fn write(&self) -> io::Result<()> {
        let mut written = self.written.lock();
        let answers = self.newest.lock().clone();
        if written.as_ref() == Some(&answers) {
            return Ok(());
        }
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory)?;
        }
        // A predecessor in a swap may write too.
        let beside = format!(".{NAME}.{}", std::process::id());
        let rights = Rights::new(0o640);
        durable::replace_by(&beside, &self.path, rights, |file| {
            file.write_all(&FORMAT.encode(answers.as_bytes()))
        })?;
        *written = Some(answers);
        Ok(())
    }

    fn failed(&self, error: &io::Error) {
        let path = self.path.display();
        tracing::warn!(%path, %error, "The last answers for names of servers cannot be written");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dns_wire::Name;
    use durable::testing::damages;
    use server_names::Settings;
    use server_names::names::{Entry, Families, Family, Source};

    use super::*;

    fn names() -> Names {
        let settings = Settings {
            timeout_resolve: Duration::from_secs(1),
            hold_valid: Duration::from_secs(10),
            hold_nx: Duration::from_secs(30),
            hold_obsolete: Duration::ZERO,
        };
        let entry = Entry {
            backend: "b".into(),
            server: "s".into(),
            source: Source::Host(Name::parse("www.example").unwrap(), 80),
            most: 1,
            families: Families::Only(Family::V4),
        };
        Names::new(settings, vec![entry], clock::now())
    }

    #[track_caller]
    fn wait_for(path: &Path, text: &str) {
        for _ in 0..12_000 {
            if fs::read(path).is_ok_and(|octets| content(&octets) == Ok(text)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("{text:?} is not there");
    }

    #[test]
    fn what_is_written_is_there_at_the_next_start() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("state");
        let file = AnswersFile::new(&directory);
        file.keep(String::new());
        assert!(!directory.exists(), "there is nothing to keep");
        for last in ["192.0.2.1", "192.0.2.2"] {
            file.keep(format!("www.example. A {last}\n"));
        }
        wait_for(&directory.join(NAME), "www.example. A 192.0.2.2\n");
        let mut names = names();
        restore(&directory, &mut names);
        assert_eq!(names.kept(), "www.example. A 192.0.2.2\n");
        assert_eq!(names.all().len(), 1);
        // What is gone does not come back.
        file.keep(String::new());
        wait_for(&directory.join(NAME), "");
        let left: Vec<_> = fs::read_dir(&directory).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn a_file_that_cannot_be_read_changes_nothing() {
        let home = tempfile::tempdir().unwrap();
        let mut names = names();
        restore(home.path(), &mut names);
        let damaged = FORMAT.encode(b"www.example. A 192.0.2.1\nnonsense\n");
        let no_text = FORMAT.encode(b"\xff\xfe");
        // As earlier versions wrote it: the next answers replace it.
        let bare = b"www.example. A 192.0.2.1\n";
        for octets in [&damaged[..], &no_text, bare, b""] {
            fs::write(home.path().join(NAME), octets).unwrap();
            restore(home.path(), &mut names);
            assert!(names.all().is_empty());
        }
    }

    /// One digit that is another is the address of a server that is none.
    #[test]
    fn no_bit_of_the_file_may_be_another() {
        let home = tempfile::tempdir().unwrap();
        let whole = FORMAT.encode(b"www.example. A 192.0.2.1\n");
        for (words, bad) in damages(&whole) {
            fs::write(home.path().join(NAME), &bad).unwrap();
            let mut names = names();
            restore(home.path(), &mut names);
            assert!(names.all().is_empty(), "{words}");
        }
        fs::write(home.path().join(NAME), &whole).unwrap();
        let mut names = names();
        restore(home.path(), &mut names);
        assert_eq!(names.all().len(), 1);
    }
}
