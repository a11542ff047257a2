//! Virtual routers beside the data path: the things they track, and their status.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use daemon::config::Problem;
use daemon::exit;
use daemon::latest::{Latest, Reader};
use daemon::run::StartError;
use l4::relay::Engine;
use proto::lease::Leases;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use vrrp::machine::Departure;
use vrrp_net::status::{Board, RouterStatus};
use vrrp_net::{Hooks, Observations, Prepared, Resetting, VirtualRouter, Vrrp};

use crate::config::Config;
use crate::kernel_path::KernelPath;
use crate::leases::VipLeases;
use crate::table_builder::TableBuilder;

/// How long the address of a client that got a probe of its window stays here: its answer is
/// refused where the address is.
const ANSWER_TIME: Duration = Duration::from_millis(20);

/// The virtual routers of this node; without any, nothing is opened for them.
#[derive(Debug)]
pub(crate) struct Vips {
    vrrp: Mutex<Option<Vrrp>>,
    board: watch::Sender<Option<Arc<Board>>>,
    hooks: Hooks,
    observations: Reader<Observations>,
    leases: VipLeases,
    follower: JoinHandle<()>,
}

impl Vips {
    /// Makes everything ready that can fail, while a predecessor still serves. `resumed` are those that
    /// it is active for.
    pub(crate) async fn prepare(
        config: &Config,
        resumed: BTreeSet<Arc<str>>,
        builder: &Arc<TableBuilder>,
        engine: &Arc<Engine>,
        kernel: &KernelPath,
        leases: VipLeases,
    ) -> Result<PreparedVips, StartError> {
        let flows = Flows {
            engine: Arc::clone(engine),
            kernel: kernel.clone(),
        };
        let hooks = Hooks {
            reset_flows: Arc::new(move |addresses| flows.reset(addresses)),
            demand: leases.demands(),
        };
        let mut views = builder.reader();
        let latest = Latest::new(views.get().abilities.clone());
        let observations = latest.reader();
        let follower = tokio::spawn(async move {
            loop {
                views.changed().await;
                latest.publish_if_changed(views.get().abilities.clone());
            }
        });
        let vips = Self {
            vrrp: Mutex::new(None),
            board: watch::Sender::new(None),
            hooks,
            observations,
            leases,
            follower,
        };
        let prepared = match config.vips.is_empty() {
            true => None,
            false => {
                let prepared = vips.prepare_routers(config, &resumed).await;
                Some(prepared.map_err(|error| StartError::new(error.code(), error))?)
            }
        };
        Ok(PreparedVips {
            vips,
            prepared,
            resumed,
        })
    }

    async fn prepare_routers(
        &self,
        config: &Config,
        resumed: &BTreeSet<Arc<str>>,
    ) -> Result<Prepared, vrrp_net::StartError> {
        let (observations, leases) = (self.observations.clone(), self.leases.reader());
        let hooks = self.hooks.clone();
        Prepared::new(routers(config), resumed, observations, leases, hooks).await
    }

    async fn begin(&self, prepared: Prepared, resumed: &BTreeSet<Arc<str>>) {
        let vrrp = prepared.begin(resumed).await;
        self.board.send_replace(Some(vrrp.board()));
        *self.vrrp.lock().await = Some(vrrp);
    }

    /// Opens what the first virtual routers need and may not get; nothing is changed by that.
    pub(crate) async fn prepare_first(&self, config: &Config) -> Result<Option<Prepared>, Problem> {
        if config.vips.is_empty() || self.vrrp.lock().await.is_some() {
            return Ok(None);
        }
        let prepared = self.prepare_routers(config, &BTreeSet::new()).await;
        let prepared = prepared.map_err(|error| Problem::new(exit::chain(&error)))?;
        Ok(Some(prepared))
    }

    /// Takes up another configuration in place; `first` is what has been prepared for it.
    pub(crate) async fn apply(&self, config: &Config, first: Option<Prepared>) {
        if let Some(prepared) = first {
            self.begin(prepared, &BTreeSet::new()).await;
        } else if let Some(vrrp) = &mut *self.vrrp.lock().await {
            vrrp.apply(routers(config)).await;
        }
    }

    /// The routers' status, once there have been any.
    pub(crate) fn board(&self) -> VipBoard {
        VipBoard(self.board.subscribe())
    }

    /// The leases, as healthd says.
    pub(crate) fn leases(&self) -> Reader<Leases> {
        self.leases.client()
    }

    /// The status of the routers.
    pub(crate) fn routers(&self) -> Vec<RouterStatus> {
        self.board().routers()
    }

    /// Ends them, and returns when the addresses are gone or another's.
    pub(crate) async fn shut_down(&self, departure: Departure) {
        if let Some(vrrp) = &mut *self.vrrp.lock().await {
            vrrp.shut_down(departure).await;
        }
    }
}

//--- Flows to addresses that go

/// The owners of flows to a virtual IP.
struct Flows {
    engine: Arc<Engine>,
    kernel: KernelPath,
}

impl Flows {
    /// Resets those to these addresses. Blocks for the milliseconds that workers need: their resets have
    /// to leave before the addresses do.
    fn reset(&self, addresses: &[IpAddr]) -> Resetting {
        let forwarded = self.reset_forwarded(addresses);
        let sessions = self.engine.reset_local(addresses);
        tracing::info!(
            ?addresses,
            sessions,
            "Sessions are reset: their address goes"
        );
        forwarded
    }

    /// Those that the kernel forwards, in a thread of its own: it may know a great many. Their frontend may
    /// have left the configuration with the address.
    fn reset_forwarded(&self, addresses: &[IpAddr]) -> Resetting {
        if !self.kernel.has_started() {
            return Box::pin(std::future::ready(()));
        }
        let (kernel, addresses) = (self.kernel.clone(), addresses.to_vec());
        let ended = tokio::task::spawn_blocking(move || {
            match netfilter::kill_to(&addresses, || kernel.pause()) {
                Ok(0) => false,
                Ok(sessions) => {
                    tracing::info!(
                        ?addresses,
                        sessions,
                        "Sessions that the kernel forwards are reset: their address goes"
                    );
                    true
                }
                Err(error) => {
                    tracing::warn!(%error, "The kernel does not end what it forwards");
                    false
                }
            }
        });
        Box::pin(async move {
            if ended.await.unwrap_or(false) {
                tokio::time::sleep(ANSWER_TIME).await;
            }
        })
    }
}

/// Virtual routers that only have to be told to begin, which does not fail.
#[derive(Debug)]
pub(crate) struct PreparedVips {
    vips: Vips,
    prepared: Option<Prepared>,
    resumed: BTreeSet<Arc<str>>,
}

impl PreparedVips {
    /// Starts them: a predecessor, if there was one, has left its addresses on the interfaces. `resumed`
    /// are those that it was active for at last, if it has said.
    pub(crate) async fn begin(self, resumed: Option<BTreeSet<Arc<str>>>) -> Vips {
        if let Some(prepared) = self.prepared {
            let resumed = resumed.unwrap_or(self.resumed);
            self.vips.begin(prepared, &resumed).await;
        }
        self.vips
    }
}

/// The status of virtual routers; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct VipBoard(watch::Receiver<Option<Arc<Board>>>);

impl VipBoard {
    /// The board; nothing while there are no routers.
    pub(crate) fn routers(&self) -> Vec<RouterStatus> {
        let board = self.0.borrow().clone();
        board.map(|board| board.routers()).unwrap_or_default()
    }
}

impl Drop for Vips {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

fn routers(config: &Config) -> Vec<VirtualRouter> {
    let vips = config.vips.iter();
    vips.map(|vip| VirtualRouter {
        settings: Arc::new(vip.router.clone()),
        priority: vip.priority.clone(),
        notify: vip.notify.clone(),
        lease: vip.lease.clone(),
    })
    .collect()
}
