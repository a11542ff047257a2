//! Takes the steps of a swap on this node.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};

use super::canary::{self, Before, Life};
use super::machine::{Action, With};
use super::manager::{self, Unit};
use super::places::Places;
use super::process::{AskError, Process};
use super::record::{self, Filling, Record};
use super::slot::Slot;
use crate::image::args::ImagePlace;
use crate::image::load::{Rack, bring};
use crate::image::shelf::Shelf;
use crate::image_format::archive::{self, Image};
use crate::service::Service;

/// Between two looks at a process that is to serve.
const LOOK: Duration = Duration::from_millis(50);

/// What takes the steps.
#[derive(Debug)]
pub(crate) struct Hands {
    pub(crate) places: Places,
    pub(crate) service: Service,
    /// What is brought, for a swap.
    pub(crate) archive: Option<PathBuf>,
    pub(crate) life: Life,
    /// Where the node keeps its images.
    images: ImagePlace,
    /// The slot on record at the beginning.
    pub(crate) old: Slot,
    pub(crate) with: With,
    image: Option<Image>,
    /// What the service was like before it was touched.
    pub(crate) before: Before,
}

impl Hands {
    /// Hands for a service; nothing is looked at yet.
    pub(crate) fn new(
        places: Places,
        service: Service,
        with: With,
        archive: Option<PathBuf>,
        life: Life,
        images: ImagePlace,
    ) -> Self {
        let old = record::live(&places, service);
        Self {
            places,
            service,
            archive,
            life,
            images,
            old,
            with,
            image: None,
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
                let (places, before) = (&self.places, &self.before);
                canary::watch(places, self.service, slot, before, self.life).await
            }
            Action::Record(slot) => self.put_on_record(slot),
            Action::Forbid(slot) => self.forbid(slot).await,
        }
    }

    async fn verify(&mut self) -> anyhow::Result<String> {
        let new = self.old.other();
        for slot in Slot::ALL {
            let unit = slot.unit(self.service);
            if !manager::show(&unit).await?.is_known() {
                bail!("there is no {unit} on this node");
            }
        }
        self.before = Before::look(&self.places, self.service, self.old).await;
        let Some(path) = &self.archive else {
            let record = Record::read(&self.places, self.service);
            let has = record.slots.get(new.name());
            let Some(has) = has.filter(|has| has.has_served) else {
                bail!("slot {new} has nothing that has served, and so nothing to go back to");
            };
            return Ok(format!("slot {new} has {} ({})", has.version, has.revision));
        };
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
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
        self.image = Some(image);
        Ok(told)
    }

    /// Makes sure that a slot serves, and goes on to.
    async fn serve(&self, slot: Slot) -> anyhow::Result<String> {
        let unit = slot.unit(self.service);
        let begun = now();
        let mut n_starts = 0_u32;
        loop {
            let seen = manager::show(&unit).await?;
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
            let started = manager::start(&unit, left).await;
            if let Err(error) = started {
                let seen = manager::show(&unit).await?;
                return Err(error.context(format!("{unit} is {}", seen.describe())));
            }
        }
    }

    /// Whether the process of an active unit serves, and is not about to end. One without a socket of
    /// its own is believed.
    async fn is_serving(&self, slot: Slot) -> bool {
        let socket = self.places.admin_socket(self.service, slot);
        if !socket.exists() {
            return true;
        }
        match Process::at(socket).status().await {
            Ok(status) => status.get("state").is_none_or(|state| state != "draining"),
            Err(AskError::Nobody(_)) => false,
            Err(_) => true,
        }
    }

    async fn stop(&self, slot: Slot) -> anyhow::Result<String> {
        let unit = slot.unit(self.service);
        let seen = manager::show(&unit).await?;
        if seen.get("ActiveState") == "inactive" {
            return Ok("it does not run".to_owned());
        }
        let begun = now();
        manager::stop(&unit).await?;
        Ok(format!("stopped in {:.1} s", begun.elapsed().as_secs_f64()))
    }

    async fn load(&self, slot: Slot) -> anyhow::Result<String> {
        let (Some(path), Some(image)) = (self.archive.clone(), &self.image) else {
            bail!("there is nothing to load");
        };
        let mut place = self.images.clone();
        let unit = manager::show(&slot.unit(self.service)).await?;
        place.native = !unit.is_container();
        let filling = Filling {
            version: image.version.clone(),
            revision: image.revision.clone(),
            image: Some(image.image_id.to_oci()),
            loaded: Some(wall()),
            has_served: false,
        };
        // From here on the slot holds nothing to go back to, whatever comes of the load.
        let mut record = Record::read(&self.places, self.service);
        record.slots.insert(slot.name().to_owned(), filling);
        record.write(&self.places, self.service)?;
        let (service, id) = (self.service, image.image_id.short());
        let loading = tokio::task::spawn_blocking(move || {
            let shelf = Shelf::new(&place.archives);
            let _held = shelf.hold()?;
            let mut rack = Rack::open(&place)?;
            let kept = shelf.keep(&path, service, Some(slot))?;
            bring(&shelf, &mut rack, (service, slot), &kept)
        });
        loading.await??;
        Ok(format!("slot {slot} has image {id}"))
    }

    fn permit(&self, slot: Slot) -> anyhow::Result<String> {
        let permit = self.places.permit(self.service, slot);
        fs::create_dir_all(self.places.permits())
            .and_then(|()| fs::write(&permit, ""))
            .with_context(|| format!("cannot write {}", permit.display()))?;
        Ok("beside the other one".to_owned())
    }

    async fn forbid(&self, slot: Slot) -> anyhow::Result<String> {
        let permit = self.places.permit(self.service, slot);
        // A version that was tried and is gone does not leave the node degraded.
        for idle in Slot::ALL {
            if idle != record::live(&self.places, self.service) {
                manager::forget_failure(&idle.unit(self.service)).await;
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
        let begun = now();
        let started = manager::start(&unit, self.life.patience).await;
        let seen: Unit = manager::show(&unit).await?;
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
        let put = record::put(&self.places, self.service, slot);
        put.with_context(|| format!("cannot put slot {slot} on record"))?;
        Ok("it starts after a power cut, too".to_owned())
    }
}

/// Seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the shell reads the clock")]
pub(super) fn wall() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[expect(clippy::disallowed_methods, reason = "the shell reads the clock")]
fn now() -> Instant {
    Instant::now()
}
