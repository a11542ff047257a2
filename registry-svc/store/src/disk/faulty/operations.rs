//! What the disk does when it is asked, as far as it still works.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::{Change, Content, FaultyDisk, Kind, Lie, Medium, Write};
use crate::disk::{Access, Disk, File, FileSystem, Room, Status};

impl Disk for FaultyDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let mut medium = self.begin(Kind::Write)?;
        let parent = path.parent().unwrap_or(path);
        if !medium.names.directories.contains(parent) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if medium.names.files.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = medium.next_file;
        medium.next_file += 1;
        let modified = medium.clock;
        let content = Content {
            modified,
            ..Content::default()
        };
        medium.files.insert(file, content);
        medium.change(Change::Set(path.to_owned(), file));
        Ok(Box::new(FaultyFile {
            disk: self.clone(),
            file,
        }))
    }

    fn open(&self, path: &Path, _: Access) -> io::Result<Box<dyn File>> {
        let medium = self.begin(Kind::Look)?;
        let file = medium.find(path)?;
        Ok(Box::new(FaultyFile {
            disk: self.clone(),
            file,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut medium = self.begin(Kind::Change)?;
        let file = medium.find(from)?;
        medium.change(Change::Rename(from.to_owned(), to.to_owned(), file));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut medium = self.begin(Kind::Change)?;
        medium.find(path)?;
        medium.change(Change::Remove(path.to_owned()));
        Ok(())
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        if self.medium().is_read_only_with(path) {
            return self.begin(Kind::Look).map(drop);
        }
        let mut medium = self.begin(Kind::Change)?;
        if !medium.names.directories.contains(path) {
            medium.change(Change::Directory(path.to_owned()));
        }
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut medium = self.begin(Kind::Change)?;
        medium.n_syncs += 1;
        if medium.faults.lie == Some(Lie::Directories) {
            return Ok(());
        }
        let (synced, rest) = std::mem::take(&mut medium.changes)
            .into_iter()
            .partition::<Vec<_>, _>(|change| change.is_in(path));
        medium.changes = rest;
        for change in synced {
            change.apply(&mut medium.durable);
        }
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Option<Vec<String>>> {
        let medium = self.begin(Kind::List)?;
        if !medium.names.directories.contains(path) {
            return Ok(None);
        }
        let name = |file: &PathBuf| file.file_name().unwrap().to_str().unwrap().to_owned();
        // Names sort by their directories.
        let files = medium.names.files.range(path.to_owned()..);
        let below = files.take_while(|(file, _)| file.starts_with(path));
        let directly = below.filter(|(file, _)| file.parent() == Some(path));
        Ok(Some(directly.map(|(file, _)| name(file)).collect()))
    }

    fn status(&self, path: &Path) -> io::Result<Option<Status>> {
        let mut medium = self.begin(Kind::Look)?;
        let Ok(file) = medium.find(path) else {
            return Ok(None);
        };
        Ok(Some(medium.status(file)))
    }

    fn touch(&self, path: &Path) -> io::Result<()> {
        let mut medium = self.begin(Kind::Change)?;
        let file = medium.find(path)?;
        let now = medium.clock;
        medium.content(file).modified = now;
        Ok(())
    }

    fn room(&self, _: &Path) -> io::Result<Room> {
        drop(self.begin(Kind::Look)?);
        Ok(Room {
            total: 1 << 40,
            free: 1 << 39,
        })
    }

    fn file_system(&self, _: &Path) -> io::Result<Option<Box<dyn FileSystem>>> {
        drop(self.begin(Kind::Look)?);
        Ok(Some(Box::new(FaultyFileSystem(self.clone()))))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn fmt::Debug + Send + Sync>> {
        let mut medium = self.begin(Kind::Look)?;
        if medium.faults.read_only {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        if !medium.locks.insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(Lock {
            disk: self.clone(),
            path: path.to_owned(),
        }))
    }
}

impl Medium {
    /// Whether it is read-only and has a directory: making that again changes nothing.
    fn is_read_only_with(&self, directory: &Path) -> bool {
        self.faults.read_only && self.names.directories.contains(directory)
    }

    fn status(&mut self, file: u64) -> Status {
        let content = self.content(file);
        Status {
            inode: file,
            size: content.octets.len() as u64,
            modified: SystemTime::UNIX_EPOCH + Duration::from_millis(content.modified),
        }
    }
}

impl fmt::Debug for FaultyDisk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FaultyDisk")
            .field("life", &self.life)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Lock {
    disk: FaultyDisk,
    path: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        let mut medium = self.disk.medium();
        if medium.life == self.disk.life {
            medium.locks.remove(&self.path);
        }
    }
}

#[derive(Debug)]
struct FaultyFileSystem(FaultyDisk);

impl FileSystem for FaultyFileSystem {
    fn sync(&self) -> io::Result<()> {
        let mut medium = self.0.medium();
        let result = medium.begin(self.0.life, Kind::Sync);
        if medium.life != self.0.life || medium.is_over {
            return result;
        }
        let lie = medium.faults.lie;
        if lie != Some(Lie::Files) {
            for content in medium.files.values_mut() {
                for write in std::mem::take(&mut content.writes) {
                    if result.is_ok() {
                        write.apply(&mut content.durable);
                    }
                }
            }
        }
        if result.is_ok() {
            medium.n_syncs += 1;
            if lie != Some(Lie::Directories) {
                for change in std::mem::take(&mut medium.changes) {
                    change.apply(&mut medium.durable);
                }
            }
        }
        result
    }
}

#[derive(Debug)]
struct FaultyFile {
    disk: FaultyDisk,
    file: u64,
}

impl FaultyFile {
    fn write(&self, medium: &mut Medium, write: Write) {
        let now = medium.clock;
        let content = medium.content(self.file);
        write.apply(&mut content.octets);
        content.writes.push(write);
        content.modified = now;
    }
}

impl File for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let mut medium = self.disk.begin(Kind::Look)?;
        if medium.unreadable.contains(&self.file) {
            return Err(io::Error::from_raw_os_error(5));
        }
        let octets = &medium.content(self.file).octets;
        let at = usize::try_from(at).map_err(io::Error::other)?;
        let rest = octets.get(at..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    fn write_at(&self, pieces: &[Bytes], at: u64) -> io::Result<()> {
        let octets = pieces.concat();
        let mut medium = self.disk.medium();
        let was_over = medium.is_over || medium.life != self.disk.life;
        let result = medium.begin(self.disk.life, Kind::Write);
        if was_over {
            return result;
        }
        let written = match &result {
            Ok(()) => octets,
            // What fails, or is cut off, has been done in part, or whole all the same.
            Err(_) if medium.chance.permille(250) => octets,
            Err(_) => {
                let length = medium.chance.below(octets.len() as u64 + 1);
                octets[..usize::try_from(length).map_err(io::Error::other)?].to_vec()
            }
        };
        self.write(&mut medium, Write::At(at, written));
        result
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        self.disk.begin(Kind::Write).map(drop)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        let mut medium = self.disk.begin(Kind::Change)?;
        self.write(&mut medium, Write::Truncate(length));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut medium = self.disk.medium();
        let result = medium.begin(self.disk.life, Kind::Sync);
        let is_over = medium.life != self.disk.life || medium.is_over;
        if is_over || medium.faults.lie == Some(Lie::Files) {
            return result;
        }
        let content = medium.content(self.file);
        let writes = std::mem::take(&mut content.writes);
        if result.is_ok() {
            medium.n_syncs += 1;
            let content = medium.content(self.file);
            for write in writes {
                write.apply(&mut content.durable);
            }
        }
        result
    }

    fn seal(&self) -> io::Result<()> {
        self.disk.begin(Kind::Change).map(drop)
    }

    fn status(&self) -> io::Result<Status> {
        let mut medium = self.disk.begin(Kind::Look)?;
        Ok(medium.status(self.file))
    }
}
