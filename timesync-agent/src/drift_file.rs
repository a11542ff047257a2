//! The drift file: the frequency, kept between runs in chrony's form. Two numbers in parts per million: by how much the clock gains,
//! and a bound on the error of that.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use config_text::{Position, Problem};
use daemon::disk;
use durable::Rights;

use timekeeper::Drift;

/// The longest file that is read: two numbers, however they are written.
const LONGEST: usize = 256;
/// No crystal has a frequency above this, in parts per million.
const MOST: f64 = 500_000.0;

/// Reads the file; returns nothing for a missing or damaged file, which is worth a line and no more.
#[must_use]
pub fn read(path: &Path) -> Option<Drift> {
    look(path).unwrap_or_else(|problem| {
        tracing::warn!(%problem, "The drift file is not used");
        None
    })
}

/// Reads the file; returns nothing if there is none.
///
/// # Errors
///
/// It cannot be read, or is damaged.
pub fn look(path: &Path) -> Result<Option<Drift>, Problem> {
    let text = match disk::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let message = format!("cannot read the drift file {}: {error}", path.display());
            return Err(Problem::new(message));
        }
    };
    let damaged = || {
        let start = Position {
            file: path.into(),
            line: 1,
            column: 1,
        };
        let message = "two numbers in parts per million are expected, and the second one is a bound: the frequency is learned again";
        Problem::at(start, message)
    };
    parse(&text).map(Some).ok_or_else(damaged)
}

fn parse(text: &[u8]) -> Option<Drift> {
    let text = std::str::from_utf8(text.get(..text.len().min(LONGEST))?).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<f64>);
    let ppm = numbers.next()?.ok()?;
    let skew = numbers.next()?.ok()?;
    let is_sane = ppm.abs() <= MOST && (0.0..=MOST).contains(&skew);
    is_sane.then_some(Drift { ppm, skew })
}

fn format(drift: Drift) -> String {
    format!("{:20.6} {:20.6}\n", drift.ppm, drift.skew)
}

/// Writes the file as a whole or not at all: a reader finds the old one or the new one, after a loss of power, too.
///
/// # Errors
///
/// The directory is not there or may not be written to.
pub fn write(path: &Path, drift: Drift) -> io::Result<()> {
    durable::replace(path, Rights::PUBLIC, |file| {
        file.write_all(format(drift).as_bytes())
    })
    .map(drop)
}

/// The same for contents that are worthless after a loss of power: does not wait for the disk.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let (temporary, mut file) = create(path)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&temporary, path)
}

/// A new file, to be named as the one that it replaces.
fn create(path: &Path) -> io::Result<(PathBuf, fs::File)> {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    let temporary = PathBuf::from(name);
    // Removes a file of an earlier run, and never follows a link.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create_new(true).open(&temporary)?;
    Ok((temporary, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_chrony_writes_them() {
        for (text, expected) in [
            (
                "           -11.292375             0.110417\n",
                Some((-11.292_375, 0.110_417)),
            ),
            ("1 2", Some((1.0, 2.0))),
            ("1", None),
            ("", None),
            ("a b\n", None),
            ("1 -1\n", None),
            ("nan 1\n", None),
            ("600000 1\n", None),
            ("\u{fffd}", None),
        ] {
            let drift = parse(text.as_bytes()).map(|drift| (drift.ppm, drift.skew));
            assert_eq!(drift, expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let path = directory.join("drift");
        assert_eq!(read(&path), None, "there is none");
        let drifts = [(-11.292_375, 0.110_417), (7.0, 1000.0)];
        let read_again: Vec<Option<(f64, f64)>> = drifts
            .iter()
            .map(|(ppm, skew)| {
                let (ppm, skew) = (*ppm, *skew);
                write(&path, Drift { ppm, skew }).unwrap();
                read(&path).map(|drift| (drift.ppm, drift.skew))
            })
            .collect();
        let text = fs::read_to_string(&path).unwrap();
        let names = fs::read_dir(directory).unwrap().count();
        assert_eq!(read_again, drifts.map(Some));
        assert_eq!(text, "            7.000000          1000.000000\n");
        assert_eq!(names, 1, "nothing is left beside it");
    }

    #[test]
    fn a_link_that_somebody_laid_is_not_written_through() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let other = directory.join("other");
        fs::write(&other, "precious").unwrap();
        std::os::unix::fs::symlink(&other, directory.join("drift.tmp")).unwrap();
        write(&directory.join("drift"), Drift::default()).unwrap();
        let precious = fs::read_to_string(&other).unwrap();
        assert_eq!(precious, "precious");
    }
}
