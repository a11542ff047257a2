//! Takes the steps of a swap on this node.

use api::State;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use daemon::clock;

use super::canary::{self, Before, Life};
use crate::images::args::ImagePlace;
use service_image::archive::{self, Image};
use site::service::Service;
use site::slot::Slot;
use site_node::images::archives::Archives;
use site_node::images::load::{ImageStore, bring};
use site_node::images::versions::NodeVersions;
use site_node::paths::NodePaths;
use site_node::process::{Process, QueryError};
use site_node::record::{self, Filling, Record};
use site_node::systemd::{self, Log, Unit};
use slot_swap::Action;

/// Between two looks at a process that is to serve.
const LOOK: Duration = Duration::from_millis(50);

/// The source of a swap's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// An archive that is brought.
    Archive(PathBuf),
    /// The versions that the node keeps: the one that this names, or else the last good one.
    Kept(Option<String>),
    /// There is none: only an interrupted swap is resolved.
    None,
}

/// Takes the steps of a swap.
#[derive(Debug)]
pub(crate) struct Executor {
    pub(crate) paths: NodePaths,
    pub(crate) service: Service,
    source: Source,
    pub(crate) life: Life,
    /// The directories of the node's images.
    images: ImagePlace,
    /// The slot on record at the beginning.
    pub(crate) old: Slot,
    /// The archive to load and the image in it, once they were verified.
    pub(crate) verified: Option<(PathBuf, Image)>,
    /// When the swap began, in seconds since 1970: earlier lines of a process are not about it.
    begun: u64,
    /// The service before the swap.
    pub(crate) before: Before,
}

impl Executor {
    /// Makes the executor for a service; inspects nothing yet.
    pub(crate) fn new(
        paths: NodePaths,
        service: Service,
        source: Source,
        life: Life,
        images: ImagePlace,
    ) -> Self {
        let old = record::live(&paths, service);
        Self {
            paths,
            service,
            source,
            life,
            images,
            old,
            verified: None,
            begun: clock::since_1970().as_secs(),
            before: Before::default(),
        }
    }

    /// Takes a step; says what came of it.
    ///
    /// # Errors
    /// When it could not be taken, or only in part.
    pub(crate) async fn take(&mut self, action: Action) -> anyhow::Result<String> {
        match action {
            Action::Verify => self.verify().await,
            Action::Serve(slot) => self.serve(slot).await,
            Action::Stop(slot) => self.stop(slot).await,
            Action::Load(slot) => self.load(slot).await,
            Action::Permit(slot) => self.permit(slot),
            Action::Start(slot) => self.start(slot).await,
            Action::Watch(slot) => {
                let (paths, before) = (&self.paths, &self.before);
                canary::watch(paths, self.service, slot, before, self.life).await
            }
            Action::Record(slot) => self.put_on_record(slot),
            Action::Forbid(slot) => self.forbid(slot).await,
        }
    }

    async fn verify(&mut self) -> anyhow::Result<String> {
        for slot in Slot::ALL {
            let unit = slot.unit(self.service);
            if !systemd::show(&unit).await?.is_known() {
                bail!("there is no {unit} on this node");
            }
        }
        self.before = Before::look(&self.paths, self.service, self.old).await;
        let path = match self.source.clone() {
            Source::Archive(path) => path,
            Source::Kept(wanted) => self.choose(wanted.as_deref())?,
            Source::None => bail!("no version to verify"),
        };
        let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        let image = tokio::task::spawn_blocking(move || archive::read(file)).await?;
        let image = image.with_context(|| format!("{} is refused", path.display()))?;
        if image.service != self.service.name() {
            bail!(
                "{} holds {}, not {}",
                path.display(),
                image.service,
                self.service
            );
        }
        let told = format!("{} {} ({})", image.service, image.version, image.revision);
        self.verified = Some((path, image));
        Ok(told)
    }

    /// The archive of a version that the node keeps.
    fn choose(&self, wanted: Option<&str>) -> anyhow::Result<PathBuf> {
        let archives = Archives::new(&self.images.archives);
        let versions = self.versions(&archives);
        let listed = versions.list()?;
        versions.archive(listed.choose(wanted)?)
    }

    fn versions<'a>(&'a self, archives: &'a Archives) -> NodeVersions<'a> {
        NodeVersions {
            archives,
            paths: &self.paths,
            service: self.service,
        }
    }

    /// Keeps the versions that have served, so that none is lost with the slot that the next one gets.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub(crate) fn keep_versions(&self, now: Option<u64>) -> anyhow::Result<()> {
        let archives = Archives::new(&self.images.archives);
        let _held = archives.hold()?;
        let kept = self
            .versions(&archives)
            .keep(self.before.version.is_some(), now);
        kept.context("cannot keep the version that served")
    }

    /// The lines that the process in a slot wrote during this swap.
    pub(crate) async fn log(&self, slot: Slot) -> Log {
        systemd::log(&slot.unit(self.service), self.begun).await
    }

    /// Makes sure that a slot serves, and continues to.
    async fn serve(&self, slot: Slot) -> anyhow::Result<String> {
        let unit = slot.unit(self.service);
        let begun = clock::now();
        let mut n_starts = 0_u32;
        loop {
            let seen = systemd::show(&unit).await?;
            if seen.is_active() && self.is_serving(slot).await {
                return Ok(match n_starts {
                    0 => "it does".to_owned(),
                    _ => format!(
                        "it does again, after {:.1} s",
                        begun.elapsed().as_secs_f64()
                    ),
                });
            }
            let left = self.life.patience.saturating_sub(begun.elapsed());
            if left.is_zero() {
                bail!("{unit} is {}", seen.describe());
            }
            if seen.is_active() {
                // It may be on its way out, having given away what it had.
                tokio::time::sleep(LOOK).await;
                continue;
            }
            n_starts += 1;
            let started = systemd::start(&unit, left).await;
            if let Err(error) = started {
                let seen = systemd::show(&unit).await?;
                return Err(error.context(format!("{unit} is {}", seen.describe())));
            }
        }
    }

    /// Whether the process of an active unit serves, and is not about to end. One without a socket of
    /// its own is believed.
    async fn is_serving(&self, slot: Slot) -> bool {
        let socket = self.paths.admin_socket(self.service, slot);
        if !socket.exists() {
            return true;
        }
        match Process::at(socket).status().await {
            Ok(status) => status.state != State::Draining,
            Err(QueryError::Nobody(_)) => false,
            Err(_) => true,
        }
    }

    async fn stop(&self, slot: Slot) -> anyhow::Result<String> {
        let unit = slot.unit(self.service);
        let seen = systemd::show(&unit).await?;
        if seen.get("ActiveState") == "inactive" {
            return Ok("it does not run".to_owned());
        }
        let begun = clock::now();
        systemd::stop(&unit).await?;
        Ok(format!("stopped in {:.1} s", begun.elapsed().as_secs_f64()))
    }

    async fn load(&self, slot: Slot) -> anyhow::Result<String> {
        let Some((path, image)) = self.verified.clone() else {
            bail!("no archive to load");
        };
        self.keep_versions(None)?;
        let unit = systemd::show(&slot.unit(self.service)).await?;
        let place = self.images.paths(!unit.is_container());
        let filling = Filling {
            version: image.version.clone(),
            revision: image.revision.clone(),
            image: Some(image.image_id.to_oci()),
            loaded: Some(clock::since_1970().as_secs()),
            has_served: false,
        };
        // From here on the slot holds nothing to go back to, whatever comes of the load.
        let mut record = Record::read(&self.paths, self.service);
        record.slots.insert(slot.name().to_owned(), filling);
        record.write(&self.paths, self.service)?;
        let (service, id) = (self.service, image.image_id.short());
        let loading = tokio::task::spawn_blocking(move || {
            let archives = Archives::new(&place.archives);
            let _held = archives.hold()?;
            let mut images = ImageStore::open(&place)?;
            let kept = archives.keep(&path, service, Some(slot))?;
            bring(&archives, &mut images, (service, slot), &kept)
        });
        loading.await??;
        Ok(format!("slot {slot} has image {id}"))
    }

    fn permit(&self, slot: Slot) -> anyhow::Result<String> {
        let permit = self.paths.permit(self.service, slot);
        fs::create_dir_all(self.paths.permits())
            .and_then(|()| fs::write(&permit, ""))
            .with_context(|| format!("cannot write {}", permit.display()))?;
        Ok("beside the other one".to_owned())
    }

    async fn forbid(&self, slot: Slot) -> anyhow::Result<String> {
        let permit = self.paths.permit(self.service, slot);
        // A version that was tried and is gone does not leave the node degraded.
        for idle in Slot::ALL {
            if idle != record::live(&self.paths, self.service) {
                systemd::forget_failure(&idle.unit(self.service)).await;
            }
        }
        match fs::remove_file(&permit) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", permit.display()))
            }
            _ => Ok("the record alone decides".to_owned()),
        }
    }

    async fn start(&self, slot: Slot) -> anyhow::Result<String> {
        let unit = slot.unit(self.service);
        let begun = clock::now();
        let started = systemd::start(&unit, self.life.patience).await;
        let seen: Unit = systemd::show(&unit).await?;
        started.with_context(|| format!("{unit} is {}", seen.describe()))?;
        if !seen.is_active() {
            bail!("{unit} is {}", seen.describe());
        }
        Ok(format!(
            "ready after {:.2} s",
            begun.elapsed().as_secs_f64()
        ))
    }

    fn put_on_record(&self, slot: Slot) -> anyhow::Result<String> {
        let put = record::put(&self.paths, self.service, slot);
        put.with_context(|| format!("cannot put slot {slot} on record"))?;
        Ok("it starts after a power cut, too".to_owned())
    }
}
