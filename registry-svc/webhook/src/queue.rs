//! Events that wait for one endpoint, on disk: those that were taken survive the process.
//!
//! One file of lines, each an event as JSON, and one with the number of delivered bytes. When all
//! are delivered, the file begins again. Lines are written at once, and the owner of the queue
//! syncs them now and then: a power cut may lose the last seconds' events, a crash of the process
//! none; and events whose delivery was not noted are delivered again.
//!
//! A full queue drops new events: a consumer that lists missing ones finds the beginning of the
//! gap.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// The most events that wait.
pub const MOST: usize = 10_000;

/// The most octets that wait.
const MOST_BYTES: u64 = 64 << 20;

/// A longer line is none of ours.
const LONGEST: usize = 1 << 20;

/// Once this much has been delivered, and more than waits, what waits is copied to a new file.
const WORTHWHILE: u64 = 1 << 20;

/// Events that wait.
#[derive(Debug)]
pub struct Queue {
    events: File,
    progress: File,
    path: std::path::PathBuf,
    /// The begin of the first waiting event, and the place of the next one.
    head: u64,
    tail: u64,
    waiting: usize,
}

impl Queue {
    /// Opens the queue in a directory, which is made if it is not there.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn open(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let path = directory.join("events");
        let file = |name: &Path| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(name)
        };
        let mut queue = Self {
            events: file(&path)?,
            progress: file(&directory.join("delivered"))?,
            path,
            head: 0,
            tail: 0,
            waiting: 0,
        };
        queue.recover()?;
        Ok(queue)
    }

    /// Finds out what waits; the piece of a line that a crash has left is cut off.
    fn recover(&mut self) -> io::Result<()> {
        let length = self.events.metadata()?.len();
        let mut noted = [0; 20];
        let n = self.progress.read_at(&mut noted, 0)?;
        let noted = std::str::from_utf8(noted.get(..n).unwrap_or_default());
        let head = noted.ok().and_then(|text| text.trim().parse().ok());
        // Beyond the end it is from before the file began again.
        self.head = head.filter(|head| *head <= length).unwrap_or(0);
        let mut at = self.head;
        let mut whole = self.head;
        let mut piece = vec![0; 64 << 10];
        loop {
            let n = self.events.read_at(&mut piece, at)?;
            let Some(read) = piece.get(..n).filter(|read| !read.is_empty()) else {
                break;
            };
            for (index, byte) in read.iter().enumerate() {
                if *byte == b'\n' {
                    self.waiting += 1;
                    whole = at + offset(index) + 1;
                }
            }
            at += offset(n);
        }
        self.tail = whole;
        self.events.set_len(whole)
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Takes an event; false when there is no room.
    ///
    /// # Errors
    /// When it cannot be written: it is not in the queue then.
    pub fn push(&mut self, event: &[u8]) -> io::Result<bool> {
        let is_full = self.waiting >= MOST || self.tail - self.head >= MOST_BYTES;
        if is_full || event.len() >= LONGEST || event.contains(&b'\n') {
            return Ok(false);
        }
        let mut line = Vec::with_capacity(event.len() + 1);
        line.extend_from_slice(event);
        line.push(b'\n');
        // A failed write leaves a piece that the next one overwrites.
        self.events.write_all_at(&line, self.tail)?;
        self.tail += offset(line.len());
        self.waiting += 1;
        Ok(true)
    }

    /// The first events that wait, as many as these and as fit into 1 MiB, with where the next begins.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn front(&self, most: usize) -> io::Result<(Vec<Vec<u8>>, u64)> {
        let length = usize::try_from(self.tail - self.head).unwrap_or(LONGEST);
        let mut text = vec![0; length.min(LONGEST)];
        self.events.read_exact_at(&mut text, self.head)?;
        let mut events = Vec::new();
        let mut end = self.head;
        let mut rest = text.as_slice();
        while events.len() < most
            && let Some(at) = rest.iter().position(|byte| *byte == b'\n')
        {
            let (event, after) = rest.split_at(at);
            events.push(event.to_vec());
            rest = after.get(1..).unwrap_or_default();
            end += offset(at) + 1;
        }
        Ok((events, end))
    }

    /// The events before `end` were delivered, `n` of them.
    ///
    /// # Errors
    /// When that cannot be noted: they are delivered again after a restart.
    pub fn delivered(&mut self, n: usize, end: u64) -> io::Result<()> {
        self.head = end.min(self.tail);
        self.waiting = self.waiting.saturating_sub(n);
        if self.head == self.tail {
            self.waiting = 0;
            if self.tail >= WORTHWHILE {
                self.events.set_len(0)?;
                (self.head, self.tail) = (0, 0);
            }
        } else if self.head >= WORTHWHILE && self.head > self.tail - self.head {
            self.compact()?;
        }
        self.note()
    }

    /// Makes what was taken survive a power cut.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn sync(&self) -> io::Result<()> {
        self.events.sync_data()?;
        self.progress.sync_data()
    }

    fn note(&self) -> io::Result<()> {
        self.progress
            .write_all_at(format!("{:<20}", self.head).as_bytes(), 0)
    }

    /// Copies what waits to a new file.
    fn compact(&mut self) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&new)?;
        let mut piece = vec![0; 64 << 10];
        let mut at = self.head;
        while at < self.tail {
            let n = self.events.read_at(&mut piece, at)?;
            file.write_all(piece.get(..n).unwrap_or_default())?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            at += offset(n);
        }
        file.sync_data()?;
        // Between the two a crash delivers again what was delivered, and loses nothing.
        self.progress.write_all_at(&[b' '; 20], 0)?;
        fs::rename(&new, &self.path)?;
        self.events = file;
        (self.head, self.tail) = (0, self.tail - self.head);
        Ok(())
    }
}

fn offset(n: usize) -> u64 {
    // A usize has at most 64 bits on every machine that this is built for.
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(queue: &Queue, most: usize) -> Vec<String> {
        let (events, _) = queue.front(most).unwrap();
        let text = |event: Vec<u8>| String::from_utf8(event).unwrap();
        events.into_iter().map(text).collect()
    }

    fn deliver(queue: &mut Queue, most: usize) -> usize {
        let (events, end) = queue.front(most).unwrap();
        queue.delivered(events.len(), end).unwrap();
        events.len()
    }

    #[test]
    fn what_waits_survives_a_restart() {
        let scratch = tempfile::tempdir().unwrap();
        let mut queue = Queue::open(scratch.path()).unwrap();
        for n in 0..5 {
            assert!(queue.push(format!("{{{n}}}").as_bytes()).unwrap());
        }
        assert_eq!(deliver(&mut queue, 2), 2);
        drop(queue);
        let mut queue = Queue::open(scratch.path()).unwrap();
        assert_eq!(queue.len(), 3);
        assert_eq!(texts(&queue, 10), ["{2}", "{3}", "{4}"]);
        assert_eq!(deliver(&mut queue, 10), 3);
        assert!(queue.is_empty());
        assert_eq!(deliver(&mut queue, 10), 0);
        queue.push(b"{5}").unwrap();
        queue.sync().unwrap();
        assert_eq!(texts(&Queue::open(scratch.path()).unwrap(), 10), ["{5}"]);
    }

    #[test]
    fn a_torn_line_is_cut_off() {
        let scratch = tempfile::tempdir().unwrap();
        let mut queue = Queue::open(scratch.path()).unwrap();
        queue.push(b"{1}").unwrap();
        drop(queue);
        let path = scratch.path().join("events");
        let mut text = fs::read(&path).unwrap();
        text.extend_from_slice(b"{\"half");
        fs::write(&path, text).unwrap();
        let mut queue = Queue::open(scratch.path()).unwrap();
        assert_eq!(queue.len(), 1);
        queue.push(b"{2}").unwrap();
        assert_eq!(texts(&queue, 10), ["{1}", "{2}"]);
        fs::write(scratch.path().join("delivered"), "nonsense").unwrap();
        assert_eq!(Queue::open(scratch.path()).unwrap().len(), 2);
    }

    #[test]
    fn a_full_queue_takes_no_more() {
        let scratch = tempfile::tempdir().unwrap();
        let mut queue = Queue::open(scratch.path()).unwrap();
        for _ in 0..MOST {
            assert!(queue.push(b"{}").unwrap());
        }
        assert!(!queue.push(b"{}").unwrap());
        deliver(&mut queue, 1);
        assert!(queue.push(b"{}").unwrap());
        assert!(!queue.push(b"{\n}").unwrap(), "two lines are no event");
    }

    #[test]
    fn the_file_does_not_grow_for_ever() {
        let scratch = tempfile::tempdir().unwrap();
        let mut queue = Queue::open(scratch.path()).unwrap();
        let event = vec![b'x'; 100_000];
        let mut last = 0;
        for n in 0..200_u32 {
            let mut event = event.clone();
            event.extend_from_slice(n.to_string().as_bytes());
            assert!(queue.push(&event).unwrap());
            if n % 2 == 1 {
                last += deliver(&mut queue, 2);
            }
        }
        assert_eq!(last, 200);
        for n in 0..60_u32 {
            queue
                .push(format!("{n}{}", "y".repeat(100_000)).as_bytes())
                .unwrap();
        }
        for _ in 0..4 {
            deliver(&mut queue, 10);
        }
        let length = fs::metadata(scratch.path().join("events")).unwrap().len();
        assert!(length < 4 << 20, "{length}");
        assert_eq!(queue.len(), 20);
        assert!(texts(&queue, 1)[0].starts_with("40y"));
        let again = Queue::open(scratch.path()).unwrap();
        assert_eq!(again.len(), 20);
        assert!(texts(&again, 1)[0].starts_with("40y"));
    }
}
