//! Checks that a new process works: queries the process itself, systemd and healthd.
//!
//! First it has to become ready, which may take as long as the swap is given. From then on everything
//! has to stay well for as long as the canary is to live: the process is the one that was started and
//! was not started again, it says that it is ready and can do its own work, and everything of the service
//! that healthd found up before comes up, if it was away while it was taken over, and stays up.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use config_text::counted_as;
use daemon::clock;

use site::paths::admin;
use site::service::Service;
use site::slot::Slot;
use site_node::liveness::{self, Seen, Targets};
use site_node::paths::NodePaths;
use site_node::process::Process;
use site_node::systemd;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(200);

/// The service before the swap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Before {
    /// Whether the old process was ready. The new one needs no more.
    pub(crate) was_ready: bool,
    /// Whether it could do its own work.
    was_sound: bool,
    /// The version and the revision that served, if it said so.
    pub(crate) version: Option<(String, String)>,
    /// The targets that healthd found up.
    targets: Targets,
}

impl Before {
    /// Looks at the service as the old slot serves it. Whatever cannot be asked is not missed later.
    pub(crate) async fn look(paths: &NodePaths, service: Service, old: Slot) -> Self {
        let socket = paths.admin_socket(service, old);
        let process = Process::at_or(socket, admin(service));
        let was_ready = matches!(process.readiness().await, Ok(Ok(())));
        let was_sound = matches!(process.self_check().await, Ok(Ok(_)));
        let status = process.status().await.ok();
        let version = status.map(|status| (status.version, status.revision));
        let targets = match service {
            // It cannot tell of itself while it is swapped.
            Service::Healthd => Targets::default(),
            _ => known(paths, service, old).await.unwrap_or_default(),
        };
        Self {
            was_ready,
            was_sound,
            version,
            targets,
        }
    }
}

async fn known(paths: &NodePaths, service: Service, slot: Slot) -> anyhow::Result<Targets> {
    let mut ports = vec![admin(service).port()];
    let unit = systemd::show(&slot.unit(service)).await?;
    for socket in unit.sockets() {
        ports.extend(systemd::ports(socket).await?);
    }
    let listed = liveness::list(&paths.healthd()).await?;
    Ok(Targets::up_here(listed, &ports))
}

/// How a canary is to live.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    /// How long it may take to become ready.
    pub(crate) patience: Duration,
    /// How long it has to stay well.
    pub(crate) watch: Duration,
}

/// Watches the new slot; says what it did.
///
/// # Errors
/// What is wrong with it.
pub(crate) async fn watch(
    paths: &NodePaths,
    service: Service,
    slot: Slot,
    before: &Before,
    life: Life,
) -> anyhow::Result<String> {
    let unit = slot.unit(service);
    let process = Process::at(paths.admin_socket(service, slot));
    let begun = clock::now();
    let first = systemd::show(&unit).await?;
    if !first.is_active() {
        bail!("{unit} is {}", first.describe());
    }
    let did = until_ready(&process, before, life.patience).await?;
    // Evidence that contradicts what healthd knows makes it look at once.
    let healthd = paths.healthd();
    if !before.targets.is_empty()
        && let Err(error) = liveness::doubt(&healthd, &before.targets).await
    {
        return Err(error.context("healthd knew the service before"));
    }
    let ready = clock::now();
    let mut seen = Seen::default();
    loop {
        let unit_now = systemd::show(&unit).await?;
        if !unit_now.is_active() || unit_now.run() != first.run() {
            bail!("{unit} was ready and is {}", unit_now.describe());
        }
        if before.was_ready {
            let readiness = process.readiness().await?;
            readiness
                .map_err(anyhow::Error::msg)
                .context("it was ready and is not")?;
        }
        look(&healthd, &before.targets, ready, &mut seen).await;
        if let Some(lost) = &seen.lost {
            bail!("healthd says: {lost}");
        }
        match &seen.missing {
            None if ready.elapsed() >= life.watch => break,
            Some(missing) if ready.elapsed() >= life.watch.max(life.patience) => {
                bail!("healthd says: {missing}, and it does not come up");
            }
            _ => tokio::time::sleep(LOOK).await,
        }
    }
    checked(&process, before).await?;
    let n_targets = before.targets.len();
    let took = begun.elapsed().as_secs_f64();
    Ok(match n_targets {
        0 => format!("{did}; watched for {took:.1} s"),
        n => {
            let stay = counted_as(n, "target stays up", "targets stay up");
            format!("{did}; {stay}; watched for {took:.1} s")
        }
    })
}

/// Waits until it is as ready as the old one was and can do its own work.
async fn until_ready(
    process: &Process,
    before: &Before,
    patience: Duration,
) -> anyhow::Result<String> {
    let begun = clock::now();
    loop {
        let missing = match missing(process, before).await {
            Ok(did) => return Ok(did),
            Err(missing) => missing,
        };
        if begun.elapsed() >= patience {
            return Err(missing.context("it does not get as far as the old one was"));
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn missing(process: &Process, before: &Before) -> anyhow::Result<String> {
    let readiness = process.readiness().await?;
    if before.was_ready {
        readiness
            .map_err(anyhow::Error::msg)
            .context("it is not ready")?;
    }
    checked(process, before).await
}

/// Has it do its own work. A failure does not count against the new one if the old one had it too.
async fn checked(process: &Process, before: &Before) -> anyhow::Result<String> {
    match process.self_check().await? {
        Err(reason) if !before.was_sound => Ok(format!("not well, as before: {reason}")),
        checked => checked
            .map_err(anyhow::Error::msg)
            .context("its self-check"),
    }
}

/// Asks healthd again when it does not answer for a moment: it may be swapped at the same time.
async fn look(healthd: &Path, targets: &Targets, ready: Instant, seen: &mut Seen) {
    if !targets.is_empty()
        && let Ok(listed) = liveness::list(healthd).await
    {
        targets.look(&listed, ready.elapsed(), seen);
    }
}
