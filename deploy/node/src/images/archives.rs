//! The archives that a node keeps, and which of them each slot runs.
//!
//! `SERVICE.tar` is what the node was installed with. `SERVICE-SLOT.tar`, where there is one, is
//! what that slot runs instead: a swap puts it there for the slot that it starts. `SHA256SUMS` lists
//! them all; an archive that it does not list is believed if it is whole in itself.
//!
//! `versions/SERVICE/SHA256.tar` are the archives of versions that have served, each under its digest: a way
//! back that no swap writes over. They are links to the archives of slots, and take no space while these exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rustix::fs::{FlockOperation, flock};

use durable::Rights;
use service_image::archive::{self, Image};
use service_image::digest::Sha256;
use service_image::sums::Sums;
use site::service::Service;
use site::slot::Slot;

/// A directory of archives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archives {
    directory: PathBuf,
}

/// Held while archives or the store are changed; another process waits.
#[derive(Debug)]
pub struct Held {
    _file: File,
}

/// The services whose images are not there yet. A process that waits for one of them continues when it is released,
/// and when this process ends.
#[derive(Debug)]
pub struct Awaited {
    held: BTreeMap<Service, Held>,
}

impl Awaited {
    /// The images of a service are as good as they will be.
    pub fn release(&mut self, service: Service) {
        self.held.remove(&service);
    }
}

impl Archives {
    /// The archives in this directory.
    pub fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
        }
    }

    /// Keeps other processes from changing anything here until it is dropped.
    ///
    /// # Errors
    ///
    /// When the directory cannot be written to.
    pub fn hold(&self) -> anyhow::Result<Held> {
        self.lock(&self.directory.join(".lock"))
    }

    /// Makes [`Self::wait_for`] wait for every service, until each is released.
    ///
    /// # Errors
    ///
    /// When the directory cannot be written to.
    pub fn await_all(&self) -> anyhow::Result<Awaited> {
        let held = Service::ALL.into_iter().map(|service| {
            let held = self.lock(&self.awaited(service))?;
            Ok((service, held))
        });
        let held = held.collect::<anyhow::Result<_>>()?;
        Ok(Awaited { held })
    }

    /// Waits until no process loads the images of a service.
    ///
    /// # Errors
    ///
    /// When its lock cannot be opened.
    pub fn wait_for(&self, service: Service) -> anyhow::Result<()> {
        let path = self.awaited(service);
        let waited =
            File::open(&path).and_then(|file| Ok(flock(&file, FlockOperation::LockShared)?));
        match waited {
            // Nothing was ever loaded here.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            waited => waited.with_context(|| format!("cannot wait for {}", path.display())),
        }
    }

    fn awaited(&self, service: Service) -> PathBuf {
        self.directory.join(format!(".loading-{service}"))
    }

    fn lock(&self, path: &Path) -> anyhow::Result<Held> {
        let taken = fs::create_dir_all(&self.directory)
            .and_then(|()| File::create(path))
            .and_then(|file| {
                flock(&file, FlockOperation::LockExclusive)?;
                Ok(file)
            });
        let file = taken.with_context(|| format!("cannot lock {}", path.display()))?;
        Ok(Held { _file: file })
    }

    /// The archive of a slot: its own if there is one, else the service's.
    pub fn archive(&self, service: Service, slot: Slot) -> Option<PathBuf> {
        let own = self.directory.join(own_name(service, slot));
        match own.is_file() {
            true => Some(own),
            false => self.installed(service),
        }
    }

    /// The archive that was installed.
    pub fn installed(&self, service: Service) -> Option<PathBuf> {
        let path = self.directory.join(name(service));
        path.is_file().then_some(path)
    }

    /// The digest that the list has for an archive; computed for one that is not listed.
    ///
    /// # Errors
    ///
    /// When the list or the archive cannot be read.
    pub fn digest(&self, archive: &Path) -> anyhow::Result<Sha256> {
        match self.listed(archive)? {
            Some(digest) => Ok(digest),
            None => digest_of(archive),
        }
    }

    /// The digest that the list has for an archive.
    pub fn listed(&self, archive: &Path) -> anyhow::Result<Option<Sha256>> {
        Ok(self.sums()?.of(&file_name(archive)))
    }

    /// Reads an archive, and checks it against the list and against itself.
    ///
    /// # Errors
    ///
    /// When it is damaged, or cannot be read.
    pub fn read(&self, archive: &Path) -> anyhow::Result<Image> {
        if let Some(listed) = self.listed(archive)? {
            let found = digest_of(archive)?;
            anyhow::ensure!(
                found == listed,
                "{} is damaged: it has not the digest that SHA256SUMS lists",
                archive.display()
            );
        }
        read(archive)
    }

    /// Puts an archive on the archives: for one slot of a service, or as what it was installed with.
    ///
    /// # Errors
    ///
    /// When it cannot be copied; the old file is still there.
    pub fn keep(
        &self,
        archive: &Path,
        service: Service,
        slot: Option<Slot>,
    ) -> anyhow::Result<PathBuf> {
        let (digest, file) = (digest_of(archive)?, open(archive)?);
        self.put(file, digest, service, slot)
    }

    /// The same for an archive that is read from elsewhere and is known to have this digest.
    pub fn put(
        &self,
        from: impl io::Read,
        digest: Sha256,
        service: Service,
        slot: Option<Slot>,
    ) -> anyhow::Result<PathBuf> {
        let name = slot.map_or_else(|| name(service), |slot| own_name(service, slot));
        let path = self.directory.join(&name);
        fs::create_dir_all(&self.directory)
            .with_context(|| format!("cannot make {}", self.directory.display()))?;
        // Not listed while it changes: a power cut in between leaves an archive that is believed
        // if it is whole, not one that the list calls damaged.
        self.relist(|sums| sums.remove(&name))?;
        durable::write(&path, Rights::PUBLIC, from)?;
        self.relist(|sums| sums.set(&name, digest))?;
        Ok(path)
    }

    //--- Versions

    /// The archive of a version that is kept.
    pub fn version(&self, service: Service, digest: Sha256) -> PathBuf {
        self.versions_of(service).join(format!("{digest}.tar"))
    }

    /// The digests of the versions of a service that are kept, in no order.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read.
    pub fn versions(&self, service: Service) -> anyhow::Result<BTreeSet<Sha256>> {
        let directory = self.versions_of(service);
        let unreadable = || format!("cannot read {}", directory.display());
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            other => other.with_context(unreadable)?,
        };
        let mut versions = BTreeSet::new();
        for entry in entries {
            let name = entry.with_context(unreadable)?.file_name();
            let stem = name.to_str().and_then(|name| name.strip_suffix(".tar"));
            versions.extend(stem.and_then(|stem| stem.parse::<Sha256>().ok()));
        }
        Ok(versions)
    }

    /// Keeps an archive of a slot as a version.
    ///
    /// # Errors
    ///
    /// When it has another digest, or the disk refuses.
    pub fn keep_version(
        &self,
        service: Service,
        archive: &Path,
        digest: Sha256,
    ) -> anyhow::Result<()> {
        let path = self.version(service, digest);
        if path.exists() {
            return Ok(());
        }
        anyhow::ensure!(
            digest_of(archive)? == digest,
            "{} is damaged: it has not the digest that SHA256SUMS lists",
            archive.display()
        );
        let directory = self.versions_of(service);
        fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        match fs::hard_link(archive, &path) {
            Ok(()) => durable::sync_directory_of(&path)
                .with_context(|| format!("cannot write {}", path.display())),
            // A file system without links.
            Err(_) => durable::write(&path, Rights::PUBLIC, open(archive)?),
        }
    }

    /// Keeps a version no longer.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub fn drop_version(&self, service: Service, digest: Sha256) -> anyhow::Result<()> {
        let path = self.version(service, digest);
        durable::remove(&path).with_context(|| format!("cannot remove {}", path.display()))
    }

    fn versions_of(&self, service: Service) -> PathBuf {
        self.directory.join("versions").join(service.name())
    }

    /// Removes the archive of a slot, so that the slot runs what the node was installed with.
    #[cfg(test)]
    fn drop_own(&self, service: Service, slot: Slot) -> anyhow::Result<()> {
        let name = own_name(service, slot);
        let path = self.directory.join(&name);
        durable::remove(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        self.relist(|sums| sums.remove(&name))
    }

    fn relist(&self, change: impl FnOnce(&mut Sums)) -> anyhow::Result<()> {
        let before = self.sums()?;
        let mut after = before.clone();
        change(&mut after);
        if after == before {
            return Ok(());
        }
        let path = self.directory.join(SUMS);
        durable::write(&path, Rights::PUBLIC, after.to_string().as_bytes())
    }

    fn sums(&self) -> anyhow::Result<Sums> {
        let path = self.directory.join(SUMS);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Sums::default()),
            other => other.with_context(|| format!("cannot read {}", path.display()))?,
        };
        Sums::parse(&text)
            .with_context(|| format!("{} is not a list of digests (SHA256SUMS)", path.display()))
    }
}

/// Reads an archive and checks it against itself.
///
/// # Errors
///
/// When it is damaged, or cannot be read.
pub fn read(archive: &Path) -> anyhow::Result<Image> {
    archive::read(BufReader::new(open(archive)?))
        .with_context(|| format!("{} is not an image archive", archive.display()))
}

/// The name of what a node was installed with.
pub fn name(service: Service) -> String {
    format!("{service}.tar")
}

fn own_name(service: Service, slot: Slot) -> String {
    format!("{service}-{slot}.tar")
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn open(archive: &Path) -> anyhow::Result<File> {
    File::open(archive).with_context(|| format!("cannot read {}", archive.display()))
}

/// The digest of a file.
///
/// # Errors
///
/// When it cannot be read.
pub fn digest_of(archive: &Path) -> anyhow::Result<Sha256> {
    let (digest, _) = Sha256::of_reader(open(archive)?)
        .with_context(|| format!("cannot read {}", archive.display()))?;
    Ok(digest)
}

/// The list of digests, as `sha256sum -c` checks it.
pub const SUMS: &str = "SHA256SUMS";

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn scratch() -> (TempDir, Archives) {
        let directory = tempfile::tempdir().unwrap();
        let archives = Archives::new(directory.path());
        (directory, archives)
    }

    fn put(archives: &Archives, bytes: &[u8], slot: Option<Slot>) -> PathBuf {
        let digest = Sha256::of(bytes);
        archives.put(bytes, digest, Service::Healthd, slot).unwrap()
    }

    #[test]
    fn a_slot_runs_its_own_archive_or_else_the_services() {
        let (_scratch, archives) = scratch();
        let service = Service::Healthd;
        assert_eq!(archives.archive(service, Slot::A), None);
        let installed = put(&archives, b"1", None);
        let own = put(&archives, b"2", Some(Slot::B));
        assert_eq!(archives.archive(service, Slot::A), Some(installed.clone()));
        assert_eq!(archives.archive(service, Slot::B), Some(own.clone()));
        assert_eq!(archives.digest(&own).unwrap(), Sha256::of(b"2"));
        let kept = archives.keep(&own, service, Some(Slot::A)).unwrap();
        assert_eq!(archives.archive(service, Slot::A), Some(kept));
        archives.drop_own(service, Slot::B).unwrap();
        assert_eq!(archives.archive(service, Slot::B), Some(installed));
        assert_eq!(archives.listed(&own).unwrap(), None);
    }

    #[test]
    fn a_version_outlives_what_a_slot_gets_next() {
        let (_scratch, archives) = scratch();
        let service = Service::Healthd;
        assert_eq!(archives.versions(service).unwrap(), BTreeSet::new());
        let own = put(&archives, b"1", Some(Slot::B));
        let (one, two) = (Sha256::of(b"1"), Sha256::of(b"2"));
        for _ in 0..2 {
            archives.keep_version(service, &own, one).unwrap();
        }
        put(&archives, b"2", Some(Slot::B));
        let kept = archives.version(service, one);
        assert_eq!(fs::read(&kept).unwrap(), b"1");
        assert_eq!(archives.versions(service).unwrap(), [one].into());
        assert_eq!(archives.versions(Service::LbProxy).unwrap(), [].into());
        // Only under its own digest.
        let error = archives.keep_version(service, &kept, two).unwrap_err();
        assert!(error.to_string().contains("is damaged"), "{error}");
        archives.drop_version(service, one).unwrap();
        assert_eq!(archives.versions(service).unwrap(), [].into());
    }

    #[test]
    fn each_service_is_waited_for_alone() {
        use std::sync::atomic::{AtomicBool, Ordering};

        let (_scratch, archives) = scratch();
        // Nothing was ever loaded: nothing to wait for.
        archives.wait_for(Service::Healthd).unwrap();
        let mut awaited = archives.await_all().unwrap();
        awaited.release(Service::Healthd);
        archives.wait_for(Service::Healthd).unwrap();
        let is_released = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                archives.wait_for(Service::DnsAuthd).unwrap();
                is_released.load(Ordering::SeqCst)
            });
            awaited.release(Service::LbProxy);
            std::thread::yield_now();
            is_released.store(true, Ordering::SeqCst);
            // A process that loads may also end without a word.
            drop(awaited);
            assert!(waiting.join().unwrap());
        });
    }

    #[test]
    fn an_archive_that_is_not_what_was_listed_is_refused() {
        let (scratch, archives) = scratch();
        let path = put(&archives, b"1", None);
        fs::write(&path, b"2").unwrap();
        let error = archives.read(&path).unwrap_err().to_string();
        assert!(error.contains("has not the digest"), "{error}");
        fs::write(scratch.path().join(SUMS), "nonsense\n").unwrap();
        assert!(archives.digest(&path).is_err());
        fs::remove_file(scratch.path().join(SUMS)).unwrap();
        assert_eq!(archives.digest(&path).unwrap(), Sha256::of(b"2"));
        let error = format!("{:#}", archives.read(&path).unwrap_err());
        assert!(error.contains("is not an image"), "{error}");
    }
}
