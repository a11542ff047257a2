//! The other nodes, their findings, and whether this node is in contact with most of them.
//!
//! Messages of a peer come in streams that this node begins, each with a number of its own that grows. A message counts
//! if it is of the newest stream and is the next one there. So a message that is repeated, late or out of its order changes
//! nothing, whatever a peer sends.
//!
//! A peer that is silent for longer than [`Settings::silence`] has no opinion: neither up nor down.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use health::{Liveness, Target};

/// Peers that count. A site has a few nodes.
pub const MAX_PEERS: usize = 15;

/// For how many times the silence the answer of a machine counts whose healthd is away. Attempts to connect take their
/// time, so it answers less often than a healthd is heard.
const ANSWERS: u32 = 2;

/// The longest reason of a peer's finding that is kept, in characters.
const MAX_REASON: usize = 200;

/// The settings of the exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The name of this node.
    pub node: String,
    /// The names of the others; those beyond [`MAX_PEERS`] do not count.
    pub peers: Vec<String>,
    /// How long the findings of a peer count after it was last heard.
    pub silence: Duration,
    /// How long the last verdict of the site holds when nothing newer can be said.
    pub hold: Duration,
    /// Findings of one peer that are kept; further ones are ignored.
    pub max_findings: usize,
}

/// Names a peer by its place in [`Settings::peers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub usize);

/// Names a stream of messages that this node has begun; a newer one is larger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(u64);

/// The liveness that a node's own probes make of one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The target.
    pub target: Target,
    /// The liveness by rise and fall; unknown takes an earlier finding back.
    pub liveness: Liveness,
    /// The reason that the last probe gave.
    pub reason: String,
}

/// A message of a peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Its place in the stream, counted from 1.
    pub sequence: u64,
    /// Whether it has all findings of the peer.
    pub full: bool,
    /// The findings.
    pub findings: Vec<Finding>,
}

/// The effect of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It counts. These targets have another finding of the peer.
    Taken(Vec<Target>),
    /// It is of an earlier stream, or was there already.
    Ignored,
    /// A message before it is missing, or the stream does not begin with all findings: the stream is of no use.
    Gap,
}

/// Whether this node is in contact with the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contact {
    /// It has just started, and has not heard a majority yet.
    Joining,
    /// A majority is heard, this node included.
    Connected,
    /// No majority is heard, but a majority of machines answers: the other healthds are away.
    Alone,
    /// No majority answers at all.
    CutOff,
}

/// The kept part of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The liveness, up or down.
    pub liveness: Liveness,
    /// The reason.
    pub reason: String,
}

/// Another node.
#[derive(Debug)]
pub struct Peer {
    /// Its name.
    pub name: String,
    stream: StreamId,
    sequence: u64,
    heard: Option<Instant>,
    refused: Option<Instant>,
    rows: BTreeMap<Target, Row>,
    n_ignored: u64,
}

/// The other nodes.
#[derive(Debug)]
pub struct Members {
    settings: Settings,
    peers: Vec<Peer>,
    began: Instant,
    next_stream: u64,
    has_joined: bool,
    contact: Contact,
    since: Instant,
    fresh: Vec<bool>,
}

/// Whether the nodes of a site mean the same by this target. A loopback address is another one on each of
/// them, and a probe from an address of one node is no matter of the others.
#[must_use]
pub fn is_shared(target: &Target) -> bool {
    let address = target.address.ip().to_canonical();
    target.source.is_none() && !address.is_loopback() && !address.is_unspecified()
}

impl Members {
    /// None of them is heard yet.
    #[must_use]
    pub fn new(settings: Settings, now: Instant) -> Self {
        let names = settings.peers.iter().take(MAX_PEERS);
        let peers: Vec<Peer> = names
            .map(|name| Peer {
                name: name.clone(),
                stream: StreamId::default(),
                sequence: 0,
                heard: None,
                refused: None,
                rows: BTreeMap::new(),
                n_ignored: 0,
            })
            .collect();
        let fresh = vec![false; peers.len()];
        Self {
            settings,
            peers,
            began: now,
            next_stream: 1,
            has_joined: false,
            contact: Contact::Joining,
            since: now,
            fresh,
        }
    }

    /// The settings.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The peers, in the order of their numbers.
    #[must_use]
    pub fn peers(&self) -> &[Peer] {
        &self.peers
    }

    /// How many nodes the site has.
    #[must_use]
    pub const fn n_nodes(&self) -> usize {
        self.peers.len() + 1
    }

    /// How many nodes are more than half.
    #[must_use]
    pub const fn majority(&self) -> usize {
        self.n_nodes() / 2 + 1
    }

    /// Whether this node is in contact with the others, and since when.
    #[must_use]
    pub const fn contact(&self) -> (Contact, Instant) {
        (self.contact, self.since)
    }

    //--- Messages

    /// This node begins a stream of a peer's messages; those of earlier ones do not count any more.
    pub fn begin(&mut self, peer: PeerId) -> StreamId {
        let stream = StreamId(self.next_stream);
        self.next_stream += 1;
        if let Some(peer) = self.peers.get_mut(peer.0) {
            peer.stream = stream;
            peer.sequence = 0;
        }
        stream
    }

    /// Takes in a message of a peer.
    pub fn hear(
        &mut self,
        peer: PeerId,
        stream: StreamId,
        message: Message,
        now: Instant,
    ) -> Heard {
        let most = self.settings.max_findings;
        let Some(peer) = self.peers.get_mut(peer.0) else {
            return Heard::Ignored;
        };
        if stream != peer.stream || message.sequence <= peer.sequence {
            peer.n_ignored += 1;
            return Heard::Ignored;
        }
        let is_first = peer.sequence == 0;
        if message.sequence != peer.sequence + 1 || (is_first && !message.full) {
            return Heard::Gap;
        }
        peer.sequence = message.sequence;
        peer.heard = peer.heard.max(Some(now));
        peer.refused = None;
        Heard::Taken(peer.take(message, most))
    }

    /// The machine of a peer refused a connection: it lives and is reached, and its healthd is away.
    pub fn refused(&mut self, peer: PeerId, now: Instant) {
        if let Some(peer) = self.peers.get_mut(peer.0) {
            peer.refused = Some(now);
        }
    }

    //--- Time

    /// Looks who is heard now. Returns whether that is another set of peers, or another contact, than before.
    pub fn advance(&mut self, now: Instant) -> bool {
        let silence = self.settings.silence;
        for peer in &mut self.peers {
            if !peer.refuses(silence, now) {
                peer.refused = None;
            }
        }
        let fresh: Vec<bool> = self
            .peers
            .iter()
            .map(|peer| peer.is_heard(silence, now))
            .collect();
        let n_heard = fresh.iter().filter(|fresh| **fresh).count() + 1;
        let answers = |peer: &&Peer| peer.is_heard(silence, now) || peer.refused.is_some();
        let n_answering = self.peers.iter().filter(answers).count() + 1;
        let majority = self.majority();
        let is_joining = !self.has_joined && now < after(self.began, silence);
        let contact = if n_heard >= majority {
            self.has_joined = true;
            Contact::Connected
        } else if is_joining {
            Contact::Joining
        } else if n_answering >= majority || self.n_nodes() < MIN_NODES {
            Contact::Alone
        } else {
            Contact::CutOff
        };
        let moved = contact != self.contact;
        if moved {
            self.contact = contact;
            self.since = now;
        }
        let changed = fresh != self.fresh;
        self.fresh = fresh;
        moved || changed
    }

    /// When to look again although nothing happens.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let silence = self.settings.silence;
        let joined = (self.contact == Contact::Joining).then(|| after(self.began, silence));
        let fresh = self.peers.iter().zip(&self.fresh);
        let silent = fresh
            .filter(|(_, fresh)| **fresh)
            .filter_map(|(peer, _)| Some(after(peer.heard?, silence)));
        // A machine that has stopped to refuse may have gone.
        let refusing = self.peers.iter().filter_map(|peer| peer.refused);
        let refusing = refusing.map(|refused| after(refused, silence.saturating_mul(ANSWERS)));
        let refusing = refusing.filter(|_| self.contact == Contact::Alone);
        joined.into_iter().chain(silent).chain(refusing).min()
    }

    /// When the newest word of any peer ceases to count; `None` before the first.
    #[must_use]
    pub fn newest_end(&self) -> Option<Instant> {
        let heard = self.peers.iter().filter_map(|peer| peer.heard).max();
        heard.map(|heard| after(heard, self.settings.silence))
    }

    /// The findings of the peers that are heard about a target.
    pub fn findings<'a>(
        &'a self,
        target: &'a Target,
    ) -> impl Iterator<Item = (&'a str, &'a Row)> + Clone {
        let heard = self.peers.iter().zip(&self.fresh);
        let heard = heard.filter(|(_, fresh)| **fresh);
        heard.filter_map(|(peer, _)| Some((peer.name.as_str(), peer.rows.get(target)?)))
    }
}

/// A site with fewer nodes has no majority that means anything: the probes of each node decide.
pub const MIN_NODES: usize = 3;

impl Peer {
    /// Takes over the findings; returns the targets that have another one.
    fn take(&mut self, message: Message, most: usize) -> Vec<Target> {
        let mut before = match message.full {
            true => std::mem::take(&mut self.rows),
            false => BTreeMap::new(),
        };
        let mut changed = Vec::new();
        for finding in message.findings {
            let Finding {
                target,
                liveness,
                reason,
            } = finding;
            if !is_shared(&target) {
                self.n_ignored += 1;
                continue;
            }
            let old = before.remove(&target).or_else(|| self.rows.remove(&target));
            let was = old.map_or(Liveness::Unknown, |row| row.liveness);
            if was != liveness {
                changed.push(target.clone());
            }
            if liveness == Liveness::Unknown {
                continue;
            }
            if self.rows.len() >= most {
                self.n_ignored += 1;
                continue;
            }
            let reason = printable(&reason);
            self.rows.insert(target, Row { liveness, reason });
        }
        changed.extend(before.into_keys());
        changed
    }

    /// When it was last heard.
    #[must_use]
    pub const fn heard(&self) -> Option<Instant> {
        self.heard
    }

    /// How many findings of it are kept.
    #[must_use]
    pub fn n_findings(&self) -> usize {
        self.rows.len()
    }

    /// How many messages and findings of it were ignored.
    #[must_use]
    pub const fn n_ignored(&self) -> u64 {
        self.n_ignored
    }

    /// Whether what it said counts.
    #[must_use]
    pub fn is_heard(&self, silence: Duration, now: Instant) -> bool {
        self.heard.is_some_and(|heard| now < after(heard, silence))
    }

    /// Whether its machine answers, and its healthd does not.
    fn refuses(&self, silence: Duration, now: Instant) -> bool {
        let counts = silence.saturating_mul(ANSWERS);
        self.refused
            .is_some_and(|refused| now < after(refused, counts))
    }
}

fn after(instant: Instant, time: Duration) -> Instant {
    instant.checked_add(time).unwrap_or(instant)
}

/// A reason goes into logs and pages.
fn printable(reason: &str) -> String {
    let letters = reason.chars().filter(|letter| !letter.is_control());
    letters.take(MAX_REASON).collect()
}

#[cfg(test)]
mod tests;
