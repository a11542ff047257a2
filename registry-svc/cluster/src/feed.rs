//! Following the journals of the other nodes, and applying what comes.
//!
//! One task for each peer reads its stream and passes the records to the one [`Intake`]. Other
//! tasks do what the intake requests: they fetch content and apply records. Each task reports its
//! result to the intake and does what it requests next.
//!
//! The tasks that hold streams are cancelled with the cluster. Those that apply are not: a record that
//! is being written is written.

mod content;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use daemon::Backoff;
use oci::digest::Digest;
use parking_lot::{Mutex, MutexGuard};
use registry_facts::name::NodeName;
use registry_facts::record::{NodeId, Record, RecordError, Vector};
use registry_proto as wire;
use registry_store::{Store, StoreError};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};

use super::counters::Counters;
use super::fetch::Fetcher;
use super::members::Members;
use super::pace::{BEAT, milliseconds};
use super::peer::Peer;
use registry_cluster_core::clocks::{Clocks, Fault};
use registry_cluster_core::intake::{Intake, Limits, Output, Receipt};
use registry_cluster_core::members::{Claim, Reception};
use registry_cluster_core::wire as form;

/// A peer whose stream is silent for so long is taken for dead: it says what it holds every second.
const SILENCE: Duration = Duration::from_secs(5);

/// Requests on their way to a peer. Each replaces the one before, so few ever wait.
const REQUESTS: usize = 2;

/// Between two attempts to follow a peer.
const RECONNECT: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));

/// Between two beginnings of a stream that were asked for: a queue that overflows again and again
/// must not make the peers read their journals all the time.
const RESTART_PAUSE: Duration = Duration::from_secs(2);

/// The largest manifest that is read for what it refers to. The limit on pushes is lower.
const LARGEST_MANIFEST: u64 = 64 << 20;

/// Origins that are named in the log because their stamps are ahead: nodes of a site in all their
/// incarnations are fewer.
const MOST_AHEAD: usize = 256;

/// Follows the peers.
#[derive(Clone, Debug)]
pub(super) struct Feed(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    fetcher: Fetcher,
    members: Members,
    counters: Counters,
    clocks: Mutex<Clocks>,
    intake: Mutex<Intake>,
    /// Counts how often the streams were asked to begin again.
    restarts: watch::Sender<u64>,
    /// Counts what was applied ahead of others: the peers are to hear of it at once.
    gone_ahead: watch::Sender<u64>,
    /// Origins whose stamps were ahead of the time here.
    ahead: Mutex<BTreeSet<NodeId>>,
}

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum FeedError {
    #[error("{}", .0.message())]
    Status(#[from] tonic::Status),
    #[error("the peer sent what is no journal")]
    Form(#[from] RecordError),
    #[error("the peer ended the stream")]
    Ended,
    #[error("the peer is silent")]
    Silent,
    #[error("the peer calls itself {0}")]
    OtherName(String),
    #[error("the peer has this node's own name in another life: two nodes have one name")]
    Twin,
    #[error("the peer has forgotten this node, which begins again")]
    Refused,
    #[error("the peer was forgotten; it is followed once it has begun again")]
    Forgotten,
    #[error(
        "this node begins and takes nothing yet: the peer has been apart from most nodes for as long as deletions are \
         remembered, and may bring back what was deleted"
    )]
    Apart,
    #[error("the disk cannot note the statement of the peer about this node")]
    Note(#[from] StoreError),
}

impl Feed {
    pub(super) fn new(
        store: Store,
        fetcher: Fetcher,
        members: Members,
        counters: Counters,
        clock_bound: Duration,
        limits: Limits,
    ) -> Self {
        Self(Arc::new(Inner {
            intake: Mutex::new(Intake::new(limits, store.vector())),
            store,
            fetcher,
            members,
            counters,
            clocks: Mutex::new(Clocks::new(clock_bound)),
            restarts: watch::Sender::new(0),
            gone_ahead: watch::Sender::new(0),
            ahead: Mutex::default(),
        }))
    }

    /// Follows a peer for ever.
    pub(super) async fn follow(self, peer: Arc<Peer>) {
        let mut failures = 0;
        loop {
            let begun = Instant::now();
            let error = match self.stream(&peer).await {
                Ok(()) => {
                    // Asked to begin again.
                    tokio::time::sleep_until(begun + RESTART_PAUSE).await;
                    continue;
                }
                Err(error) => error,
            };
            self.lost(&peer, &error);
            // A stream that lived is no reason to wait long for the next.
            failures = match Instant::now() > begun + RECONNECT.longest() {
                true => 1,
                false => failures + 1,
            };
            tokio::time::sleep(RECONNECT.after(failures, f64::from(spread()) / 256.0)).await;
        }
    }

    /// Looks at what waits, every second.
    pub(super) async fn beat(self) {
        let mut beat = tokio::time::interval(BEAT);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            beat.tick().await;
            self.step(Intake::tick);
            self.leave_stamps_ahead().await;
        }
    }

    /// Hands over registers that another node has and this one has not.
    pub(super) fn repair(&self, from: &NodeName, records: Vec<Record>) -> usize {
        let mut n_taken = 0;
        for record in records {
            let receipt = self.step(|intake, _| intake.repair(from, record));
            n_taken += usize::from(receipt == Receipt::Taken);
        }
        n_taken
    }

    /// How many records wait, and what could not be had.
    pub(super) fn waiting(&self) -> (usize, Vec<(Digest, u32)>) {
        /// As many as an operator looks at.
        const SHOWN: usize = 16;
        let intake = self.lock();
        let missing = intake.missing().take(SHOWN);
        let missing = missing.map(|(digest, tries)| (*digest, tries)).collect();
        (intake.n_waiting(), missing)
    }

    //--- One stream

    /// One stream, until it fails or has to begin again.
    async fn stream(&self, peer: &Arc<Peer>) -> Result<(), FeedError> {
        let mut restarts = self.0.restarts.subscribe();
        restarts.mark_unchanged();
        let (requests, queue) = mpsc::channel(REQUESTS);
        let from = self.lock().expected();
        let mut gone_ahead = self.0.gone_ahead.subscribe();
        let mut first = self.statement(peer);
        first.from = Some(form::vector(&from));
        // There is room for it.
        drop(requests.send(first).await);
        let mut client = peer.control();
        let opening = client.journal(ReceiverStream::new(queue));
        let opened = tokio::time::timeout(SILENCE, opening).await;
        let opened = opened.map_err(|_| FeedError::Silent)?;
        if let Err(status) = &opened
            && status.code() == Code::FailedPrecondition
        {
            self.0.members.refused_by(&peer.name);
            return Err(FeedError::Refused);
        }
        let mut responses = opened?.into_inner();
        let mut changes = self.0.store.changes();
        let mut beat = tokio::time::interval(BEAT);
        let mut is_new = true;
        loop {
            tokio::select! {
                response = next(&mut responses) => {
                    let response = response?;
                    self.receive(peer, &response).await?;
                    self.heard(peer, &response, is_new)?;
                    self.find_lost_records(peer).await;
                    is_new = false;
                    self.take(&peer.name, response.entries)?;
                }
                changed = changes.changed() => match changed {
                    Ok(()) => self.state(peer, &requests),
                    // The store is closed.
                    Err(_) => return Err(FeedError::Ended),
                },
                _ = gone_ahead.changed() => self.state(peer, &requests),
                _ = beat.tick() => self.state(peer, &requests),
                _ = restarts.changed() => return Ok(()),
            }
        }
    }

    /// Says what is held. A request that still waits says nearly the same.
    fn state(&self, peer: &Peer, requests: &mpsc::Sender<wire::JournalRequest>) {
        drop(requests.try_send(self.statement(peer)));
    }

    fn statement(&self, peer: &Peer) -> wire::JournalRequest {
        let origin = peer.known().node;
        // Before what is held: a record that takes its place meanwhile is in one of them.
        let (waiting, ahead) = {
            let intake = self.lock();
            let ahead = origin.and_then(|origin| intake.ahead(&origin));
            (intake.n_waiting(), ahead)
        };
        let claim = self.0.members.claim();
        wire::JournalRequest {
            node: Some((&self.0.store.origin()).into()),
            holds: Some(form::vector(&self.0.store.vector())),
            waiting: waiting as u64,
            from: None,
            began: claim.began,
            taken_in: claim.is_taken_in,
            ahead: ahead.as_ref().map(form::ahead),
        }
    }

    /// Whether this node may take what a peer sends, and notes before when it was forgotten itself.
    async fn receive(
        &self,
        peer: &Peer,
        response: &wire::JournalResponse,
    ) -> Result<(), FeedError> {
        let members = &self.0.members;
        members.taken_by(&peer.name, response.forgotten).await?;
        let holds = form::read_vector(response.holds.clone())?;
        let claim = Claim {
            began: response.began,
            is_taken_in: response.taken_in,
        };
        match members.receive(&peer.name, claim, &holds) {
            Reception::Member => {}
            // It notes when it was forgotten when it follows this node.
            Reception::Beginner | Reception::Refused => return Err(FeedError::Forgotten),
        }
        // Both times are of the peer's clock; one of an earlier version has neither.
        match members
            .takes_from(&peer.name, response.together, response.time)
            .await?
        {
            true => Ok(()),
            false => Err(FeedError::Apart),
        }
    }

    /// Takes note of what a peer says of itself.
    fn heard(
        &self,
        peer: &Peer,
        response: &wire::JournalResponse,
        is_new: bool,
    ) -> Result<(), FeedError> {
        let node = response.node.clone().map(NodeId::try_from).transpose()?;
        if let Some(node) = &node {
            if node.name == self.0.store.origin().name {
                return Err(FeedError::Twin);
            }
            if node.name != peer.name {
                return Err(FeedError::OtherName(node.to_string()));
            }
        }
        let holds = match &response.holds {
            Some(holds) => Some(form::read_vector(Some(holds.clone()))?),
            None => None,
        };
        let now = Instant::now().into_std();
        // A node of an earlier version does not say its time.
        if response.time != 0 {
            self.0
                .clocks
                .lock()
                .heard(peer.name.clone(), response.time, now);
            let ahead = self.clock_of(&peer.name).unwrap_or_default();
            self.0.counters.clock(&peer.name, ahead / 1000);
            self.bound_time();
        }
        let lag = holds
            .as_ref()
            .map(|holds| behind(&self.0.store.vector(), holds));
        if let Some(lag) = lag {
            self.0.counters.lag(&peer.name, lag);
        }
        let before = peer.known().node;
        if let (Some(before), Some(node)) = (&before, &node)
            && before != node
        {
            // Before its denials count: the fetcher compares them with what is noted here.
            self.step(|intake, _| intake.sender_renewed(&peer.name));
        }
        peer.learn(|known| {
            known.node = node.or_else(|| known.node.take());
            if let Some(holds) = holds {
                known.holds = holds;
            }
            known.together = response.together;
            match lag {
                Some(0) => known.behind_since = None,
                Some(_) => known.behind_since = known.behind_since.or(Some(now)),
                None => {}
            }
            known.heard = Some(now);
            known.error.clear();
        });
        if is_new {
            tracing::info!(
                peer = peer.name.as_str(),
                address = peer.address(),
                "Following the journal of a peer"
            );
            peer.set_connected(true);
            self.0.counters.connected(&peer.name, true);
            self.step(|intake, _| intake.reached());
        }
        Ok(())
    }

    fn lost(&self, peer: &Peer, error: &FeedError) {
        let text = error.to_string();
        let was = peer.is_connected();
        peer.set_connected(false);
        self.0.counters.connected(&peer.name, false);
        let mut is_news = was;
        peer.learn(|known| {
            is_news |= known.error != text;
            known.error.clone_from(&text);
        });
        if is_news {
            tracing::warn!(
                peer = peer.name.as_str(),
                address = peer.address(),
                error = text,
                "The journal of a peer is not followed"
            );
        }
    }

    /// Hands records to the intake.
    fn take(&self, from: &NodeName, entries: Vec<wire::JournalEntry>) -> Result<(), FeedError> {
        for entry in entries {
            let record = entry.record.ok_or(RecordError::Field("record"))?;
            let record = Record::try_from(record)?;
            if record.sequence == 0 {
                return Err(RecordError::Field("sequence").into());
            }
            // The journal has the records of this incarnation already. Those of an earlier one may be
            // lost here.
            if record.origin == self.0.store.origin() {
                continue;
            }
            self.count_ahead(&record);
            self.step(|intake, _| intake.receive(from, record, entry.previous));
        }
        Ok(())
    }

    //--- Clocks and incarnations

    /// Has the store know when a peer has records of this node that the disk lacks.
    async fn find_lost_records(&self, peer: &Peer) {
        let store = &self.0.store;
        let origin = store.origin();
        let there = peer.known().holds.of(&origin);
        if there > store.vector().of(&origin) {
            learn_of_own_records(store, &peer.name, origin, there).await;
        }
    }

    /// Begins a new incarnation when the stamps of the present one are ahead of the clocks: nodes of an
    /// earlier version take nothing more of it.
    async fn leave_stamps_ahead(&self) {
        self.bound_time();
        let store = &self.0.store;
        let stamp = store.stamp();
        let here = milliseconds(store.stated_time());
        let is_ahead = {
            let clocks = self.0.clocks.lock();
            // Alone, this node does not know whether its clock was wrong or is.
            clocks.has_heard() && clocks.is_ahead(stamp, here)
        };
        if !is_ahead || store.is_on_read_only_disk() {
            return;
        }
        let ahead_seconds = stamp.milliseconds().saturating_sub(here) / 1000;
        tracing::warn!(
            ahead_seconds,
            "The clock of this node was ahead when it stated its last records"
        );
        if let Err(error) = store.renew().await {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "This node cannot begin a new incarnation"
            );
        }
    }

    /// Lets the store stamp with the times that the clocks of the peers allow.
    fn bound_time(&self) {
        let now = Instant::now().into_std();
        let range = self.0.clocks.lock().range(now);
        self.0.store.bound_time(range);
    }

    /// The fault of this node's clock.
    pub(super) fn clock_fault(&self) -> Option<Fault> {
        let here = milliseconds(self.0.store.wall());
        let now = Instant::now().into_std();
        self.0.clocks.lock().fault(here, now)
    }

    /// These alone are the site's: the clocks of others tell nothing.
    pub(super) fn keep(&self, peers: &[Arc<Peer>]) {
        let names = peers.iter().map(|peer| &peer.name).collect();
        self.0.clocks.lock().keep(&names);
    }

    /// How far the clock of a peer is ahead of this node's, in milliseconds.
    pub(super) fn clock_of(&self, peer: &NodeName) -> Option<i64> {
        let here = milliseconds(self.0.store.wall());
        let now = Instant::now().into_std();
        self.0.clocks.lock().difference(peer, here, now)
    }

    /// Whether two clocks differ by more than they may.
    pub(super) fn is_beyond(&self, difference: i64) -> bool {
        self.0.clocks.lock().is_beyond(difference)
    }

    /// Counts a record whose stamp is ahead of the time here. It is applied like any other.
    fn count_ahead(&self, record: &Record) {
        let here = milliseconds(self.0.store.stated_time());
        if !self.0.clocks.lock().is_ahead(record.stamp, here) {
            return;
        }
        self.0.counters.future.inc();
        let mut ahead = self.0.ahead.lock();
        if ahead.len() < MOST_AHEAD && ahead.insert(record.origin.clone()) {
            let ahead_seconds = record.stamp.milliseconds().saturating_sub(here) / 1000;
            tracing::warn!(
                origin = %record.origin,
                ahead_seconds,
                "A record is stamped ahead of the time here and is applied: the clock of its node was wrong, or this one is"
            );
        }
    }

    //--- The requests of the intake

    /// Tells the intake something, and does what it asks for then.
    fn step<R>(&self, tell: impl FnOnce(&mut Intake, std::time::Instant) -> R) -> R {
        let mut intake = self.lock();
        intake.advance(&self.0.store.vector());
        let result = tell(&mut intake, Instant::now().into_std());
        let mut outputs = Vec::new();
        while let Some(output) = intake.poll_output() {
            outputs.push(output);
        }
        let n_waiting = intake.n_waiting();
        drop(intake);
        self.0
            .counters
            .waiting
            .set(i64::try_from(n_waiting).unwrap_or(i64::MAX));
        for output in outputs {
            self.perform(output);
        }
        result
    }

    fn perform(&self, output: Output) {
        match output {
            Output::Ensure {
                digest,
                kind,
                class,
                from,
            } => {
                let feed = self.clone();
                tokio::spawn(async move {
                    let outcome = feed.ensure(&digest, kind, class, &from).await;
                    feed.step(|intake, now| intake.settle(&digest, outcome, spread(), now));
                });
            }
            Output::Look { digest } => {
                let feed = self.clone();
                tokio::spawn(async move {
                    if let Ok(None) = feed.0.store.held(&digest).await {
                        feed.step(|intake, _| intake.lost(&digest));
                    }
                });
            }
            Output::Apply { batch, records } => {
                let feed = self.clone();
                tokio::spawn(async move {
                    let n_records = records.len() as u64;
                    let applied = feed.apply(records).await;
                    match &applied {
                        Ok(()) => {
                            feed.0.counters.applied.inc_by(n_records);
                        }
                        // It is so until the next start, and said there.
                        Err(_) if feed.0.store.is_on_read_only_disk() => {}
                        Err(error) => {
                            tracing::error!(
                                error = error as &dyn std::error::Error,
                                "Records of a peer cannot be applied"
                            );
                        }
                    }
                    if feed.step(|intake, _| intake.applied(batch, applied.is_ok())) {
                        feed.0.gone_ahead.send_modify(|count| *count += 1);
                    }
                });
            }
            Output::SetAside { record, missing } => {
                self.0.counters.set_aside.inc();
                let repository = record
                    .facts
                    .first()
                    .and_then(|fact| fact.repository().map(ToString::to_string));
                tracing::error!(
                    origin = %record.origin,
                    sequence = record.sequence,
                    repository,
                    missing = ?missing.first(),
                    n_missing = missing.len(),
                    "No node has the content that a record refers to; it is set aside until one has"
                );
            }
            Output::Restart => self.0.restarts.send_modify(|restarts| *restarts += 1),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Intake> {
        self.0.intake.lock()
    }
}

/// The next message of a stream that must not be silent.
async fn next(
    responses: &mut Streaming<wire::JournalResponse>,
) -> Result<wire::JournalResponse, FeedError> {
    let message = tokio::time::timeout(SILENCE, responses.message()).await;
    message
        .map_err(|_| FeedError::Silent)??
        .ok_or(FeedError::Ended)
}

/// Has the store know the last record of one of its incarnations that a peer knows.
pub(super) async fn learn_of_own_records(
    store: &Store,
    peer: &NodeName,
    origin: NodeId,
    sequence: u64,
) {
    if store.is_on_read_only_disk() {
        return;
    }
    if let Err(error) = store.heard(peer.clone(), origin, sequence).await {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "This node cannot begin a new incarnation, so it states nothing"
        );
    }
}

/// How many records one vector has and another has not.
pub(super) fn behind(here: &Vector, there: &Vector) -> u64 {
    there
        .iter()
        .map(|(origin, sequence)| sequence.saturating_sub(here.of(origin)))
        .fold(0, u64::saturating_add)
}

/// Something by chance.
pub(super) fn spread() -> u8 {
    // The standard library seeds this hasher from the system, differently each time.
    let chance = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    u8::try_from(chance % 256).unwrap_or(0)
}
