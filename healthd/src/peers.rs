//! The exchange of findings with the healthds of other nodes. The crate `exchange` decides; this carries messages.
//!
//! | task | does | ends |
//! | --- | --- | --- |
//! | starter, while the node's certificate cannot be read | tries again | when it can |
//! | [`follower`], one a peer | connects to the peer, hands its findings to the monitor | with the drain |
//! | [`listener`], one a socket | lets peers in by their certificates | with the drain |
//! | a session, one a peer | sends this node's findings, and a beat | with its connection, or when the peer begins another |
//! | reporter | logs whether this node is in contact with the others, and shows it on `/readyz` | with the drain |
//!
//! A healthd without its peers, or without a certificate, starts and continues: its own probes decide.

mod follower;
mod listener;
mod session;

use std::net::{IpAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use daemon::connections::Table;
use daemon::drain::Guard;
use daemon::exit;
use daemon::listen;
use daemon::node_tls::{Identity, TlsError};
use daemon::readiness::Readiness;
use daemon::run::{Context, StartError};
use exchange::members::{Contact, PeerId};
use node_certificate::{Renewal, RenewalCollector};
use proto::watch::MAX_MESSAGE;
use proto::wire;
use proto::wire::exchange_client::ExchangeClient;
use tonic::transport::Channel;

use crate::config::ExchangeConfig;
use crate::driver::Driver;
use crate::leases::LeaseTable;
use crate::page::nodes::NodeView;

/// The name of inherited sockets.
const SOCKET_NAME: &str = "exchange";

/// How long to wait before the files of a certificate are read again that could not be.
const AGAIN: Duration = Duration::from_secs(5);

/// The key of the detail on `/readyz`.
const DETAIL: &str = "exchange";

/// The node's certificate, as soon as it could be read; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeCertificate(Arc<OnceLock<Arc<Identity>>>);

impl NodeCertificate {
    /// Reads the files again, for new connections. If they cannot be used, the present certificate stays.
    ///
    /// # Errors
    /// When they cannot be used.
    pub(crate) fn reload(&self) -> Result<(), TlsError> {
        self.0.get().map_or(Ok(()), |identity| identity.reload())
    }
}

/// The exchange, with its sockets open.
pub(crate) struct Exchange {
    config: ExchangeConfig,
    listeners: Vec<TcpListener>,
    renewal: Option<Arc<Renewal>>,
}

impl Exchange {
    fn new(config: ExchangeConfig, listeners: Vec<TcpListener>) -> Self {
        let renewal = config.renewal.clone().map(|renewal| {
            let (node, ca) = (config.node.clone(), config.files.ca.clone());
            Arc::new(Renewal::new(node, ca, renewal))
        });
        Self {
            config,
            listeners,
            renewal,
        }
    }

    /// Opens the sockets, or takes those that systemd hands over.
    ///
    /// # Errors
    /// When one cannot be listened on.
    pub(crate) fn open(config: ExchangeConfig, context: &mut Context) -> Result<Self, StartError> {
        let listeners = listen::tcp(&mut context.inherited, SOCKET_NAME, &config.listen)?;
        let exchange = Self::new(config, listeners);
        if let Some(renewal) = exchange.renewal.clone() {
            let collector = Box::new(RenewalCollector(renewal));
            context.metrics.register_collector(collector);
        }
        Ok(exchange)
    }

    /// Exchanges findings until the drain begins. Call it before the driver runs: states from before a restart hold
    /// until a majority is heard.
    pub(crate) fn start(
        self,
        driver: &Driver,
        view: NodeView,
        context: &Context,
        guard: &Guard,
    ) -> NodeCertificate {
        let (readiness, table) = (context.readiness.clone(), context.connections.clone());
        let expiries = context.expiries.clone();
        let shown = (driver.clone(), view);
        let certificate = NodeCertificate::default();
        let found = certificate.clone();
        let take = move |identity| {
            let identity = Arc::clone(found.0.get_or_init(|| Arc::new(identity)));
            expiries.set("nodes", Arc::clone(&identity) as _);
            identity
        };
        match self.identity() {
            Ok(identity) => self.run(take(identity), shown, (readiness, table), guard.clone()),
            Err(error) => {
                say_unreadable(&error, &readiness);
                let mut guard = guard.clone();
                tokio::spawn(async move {
                    let identity = tokio::select! {
                        identity = self.wait_identity(&readiness) => identity,
                        () = guard.asked() => return,
                    };
                    readiness.set_reason(DETAIL, None);
                    self.run(take(identity), shown, (readiness, table), guard);
                });
            }
        }
        certificate
    }

    fn identity(&self) -> Result<Identity, TlsError> {
        Identity::read(&self.config.node, &self.config.files)
    }

    async fn wait_identity(&self, readiness: &Readiness) -> Identity {
        let mut said = String::new();
        loop {
            tokio::time::sleep(AGAIN).await;
            match self.identity() {
                Ok(identity) => return identity,
                Err(error) => {
                    let words = exit::chain(&error);
                    if words != said {
                        say_unreadable(&error, readiness);
                        said = words;
                    }
                }
            }
        }
    }

    fn run(
        self,
        identity: Arc<Identity>,
        (driver, view): (Driver, NodeView),
        (readiness, table): (Readiness, Table),
        guard: Guard,
    ) {
        let Self {
            config,
            listeners,
            renewal,
        } = self;
        let settings = config.settings.clone();
        driver.leases().begin(&settings);
        driver.step(|monitor, now| monitor.exchange(settings, now));
        let peers: Vec<_> = config.peers.iter().map(|peer| peer.name.clone()).collect();
        let addresses = config.peers.iter();
        let members: Vec<IpAddr> = addresses
            .filter_map(|peer| {
                let address: std::net::SocketAddr = peer.address.as_str().parse().ok()?;
                Some(address.ip().to_canonical())
            })
            .collect();
        let proofs = (Arc::clone(&identity), renewal.clone());
        let shown = (driver.clone(), view);
        let names: Vec<String> = peers.iter().map(ToString::to_string).collect();
        let server = listener::Server::new(shown, proofs, peers, members, &table);
        for listener in listeners {
            server.clone().serve(listener, &guard);
        }
        for (number, peer) in config.peers.into_iter().enumerate() {
            let follower = follower::Follower {
                id: PeerId(number),
                peer,
                silence: config.settings.silence,
                identity: Arc::clone(&identity),
                driver: driver.clone(),
            };
            let mut guard = guard.clone();
            tokio::spawn(async move {
                tokio::select! {
                    () = follower.run() => {}
                    () = guard.asked() => {}
                }
            });
        }
        if let Some(renewal) = renewal {
            let (leases, mut ending) = (driver.leases().clone(), guard.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = renew(&renewal, &names, &leases) => {}
                    () = ending.asked() => {}
                }
            });
        }
        let (leases, contacts) = (driver.leases().clone(), driver.contacts());
        let mut ending = guard.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = leases.run(contacts) => {}
                () = ending.asked() => {}
            }
        });
        let hold = config.settings.hold;
        tokio::spawn(async move {
            let mut guard = guard;
            tokio::select! {
                () = report(&driver, &readiness, hold) => {}
                () = identity.follow() => {}
                () = guard.asked() => {}
            }
        });
    }
}

/// Asks the other nodes that are connected for the certificate of this one when its end is near.
async fn renew(renewal: &Renewal, names: &[String], leases: &LeaseTable) {
    let others = || {
        let numbered = names.iter().enumerate();
        let connected = numbered
            .filter_map(|(number, name)| Some((name.clone(), leases.channel(PeerId(number))?)));
        connected.collect()
    };
    let ask = |channel: Channel| async move {
        let mut peer = ExchangeClient::new(channel);
        let given = peer.certificate(wire::CertificateRequest {});
        let given = given.await.map_err(|status| status.message().to_owned())?;
        Ok(given.into_inner().pem)
    };
    renewal.follow(others, ask).await;
}

/// Says whether this node is in contact with the others, whenever that changes.
async fn report(driver: &Driver, readiness: &Readiness, hold: Duration) {
    let mut contacts = driver.contacts();
    let mut before = Contact::Joining;
    loop {
        let contact = *contacts.borrow_and_update();
        if let Some(contact) = contact.filter(|contact| *contact != before) {
            let hold = daemon::config::HumanDuration(hold);
            let reason = match contact {
                Contact::Joining | Contact::Connected => None,
                Contact::Alone => Some(
                    "the healthds of most other nodes are away; the probes of this node decide"
                        .to_owned(),
                ),
                Contact::CutOff => Some(format!(
                    "this node is cut off: no majority of the nodes answers; the last verdict of the site holds for {hold}, \
                     then the probes of this node decide"
                )),
            };
            match contact {
                Contact::Joining => {}
                Contact::Connected => tracing::info!("A majority of the nodes is heard"),
                Contact::Alone => tracing::warn!(
                    "The healthds of most other nodes are away; the probes of this node decide"
                ),
                Contact::CutOff => tracing::warn!(
                    %hold,
                    "This node is cut off from the other nodes; the last verdict of the site holds for a while"
                ),
            }
            readiness.set_reason(DETAIL, reason);
            before = contact;
        }
        if contacts.changed().await.is_err() {
            return;
        }
    }
}

fn say_unreadable(error: &TlsError, readiness: &Readiness) {
    let error = exit::chain(error);
    tracing::error!(
        error,
        "The node's certificate cannot be used; no findings are exchanged"
    );
    let words = format!("no findings are exchanged with other nodes: {error}");
    readiness.set_reason(DETAIL, Some(words));
}

#[cfg(test)]
mod tests;
