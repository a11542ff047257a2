//! The life-cycle of content on one node: one table of states and events.
//!
//! ```text
//!            octets come           all came, digest right
//!  absent ─────────────────► part ───────────────────────► leased ◄──────── linked
//!    ▲  ▲                     │                              │ ▲  a push       │
//!    │  └───they end early────┘                  the promise │ │ states it     │ the last manifest
//!    │                                                  ends │ │               │ and the grace end
//!    │                                                       ▼ │ wanted        ▼
//!    └──the second grace────── trashed ◄──the sweep──────── named ◄────────────┘
//!
//!  named, leased, linked, trashed ──its bytes have another digest──► quarantined ──put away──► remote
//!  remote ──fetched from another node──► part
//! ```
//!
//! A shell looks where the file lies and what is known of it ([`File`], [`Claim`]), which gives a [`State`]; it tells
//! what happens ([`Event`]), and [`step`] says which state follows and what is to be done. Presence (a `HEAD`, a mount,
//! the closure of a manifest), read-through, sweep, scrub, healing and the look at the start go by this table
//! alone, so none of them has an opinion of its own about content. The caller holds the digest's lock.
//!
//! The table does no I/O; the model beside it explores what some nodes may do by it.

#[cfg(test)]
mod model;
mod table;

pub use table::step;

/// The place where octets of some content lie; the first of these that is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum File {
    /// Under its digest, and nothing speaks against it.
    InPlace,
    /// Under its digest, and it must not be served: it has another size, could not be read, or has another digest.
    Refused,
    /// In the trash.
    InTrash,
    /// In the quarantine.
    InQuarantine,
    /// In a file for uploads.
    Part,
    /// Nowhere.
    None,
}

/// A reason why content is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Proof {
    /// A visible manifest refers to it, or may.
    Marked,
    /// A repository has it as a manifest.
    Manifest,
    /// A repository has linked it within the grace: its manifest may come.
    LateLink,
    /// More repositories have it than are looked through.
    ManyLinks,
    /// A client was promised it.
    Lease,
    /// Its file was written within the grace.
    Young,
    /// The journal has failed: a manifest that was refused may turn out to be there.
    JournalInDoubt,
}

impl Proof {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Marked,
        Self::Manifest,
        Self::LateLink,
        Self::ManyLinks,
        Self::Lease,
        Self::Young,
        Self::JournalInDoubt,
    ];

    /// The claim that it proves.
    #[must_use]
    pub fn claim(self) -> Claim {
        match self {
            Self::Marked | Self::Manifest | Self::LateLink | Self::ManyLinks => Claim::Linked,
            Self::Lease | Self::Young | Self::JournalInDoubt => Claim::Leased,
        }
    }
}

/// The claim on content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Claim {
    /// No client and no manifest needs it, as far as was looked.
    #[default]
    None,
    /// A client may rely on it for a while.
    Leased,
    /// A repository has it.
    Linked,
}

impl Claim {
    /// The claim that a proof gives, if there is one.
    #[must_use]
    pub fn of(proof: Option<Proof>) -> Self {
        proof.map_or(Self::None, Proof::claim)
    }
}

/// The state of content on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing of it is here, and no repository has it.
    Absent,
    /// It is on its way in, and no client sees it.
    Part,
    /// It has its name, and no client and no manifest needs it.
    Named,
    /// It has its name, and a client may rely on it for a while.
    Leased,
    /// It has its name, and a repository has it.
    Linked,
    /// The sweep has moved it; a request takes it back.
    Trashed,
    /// Its file is damaged, and kept from clients.
    Quarantined,
    /// A repository has it, and its octets are on other nodes at most.
    Remote,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Absent,
        Self::Part,
        Self::Named,
        Self::Leased,
        Self::Linked,
        Self::Trashed,
        Self::Quarantined,
        Self::Remote,
    ];

    /// The state of content whose octets lie there, with such a claim.
    #[must_use]
    pub fn of(file: File, claim: Claim) -> Self {
        match (file, claim) {
            (File::InPlace, Claim::None) => Self::Named,
            (File::InPlace, Claim::Leased) => Self::Leased,
            (File::InPlace, Claim::Linked) => Self::Linked,
            (File::Refused | File::InQuarantine, _) => Self::Quarantined,
            (File::InTrash, _) => Self::Trashed,
            (File::Part, _) => Self::Part,
            (File::None, Claim::Linked) => Self::Remote,
            (File::None, Claim::None | Claim::Leased) => Self::Absent,
        }
    }

    /// Whether its octets are here whole, so that a client can have them of this node alone.
    #[must_use]
    pub fn is_here(self) -> bool {
        match self {
            Self::Named | Self::Leased | Self::Linked | Self::Trashed => true,
            Self::Absent | Self::Part | Self::Quarantined | Self::Remote => false,
        }
    }
}

/// A visit of the sweep to content without a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Visit {
    /// It was moved there within the second grace.
    Early,
    /// Repositories have it, and another node may have referred to it without this one knowing.
    Unheard,
    /// It may go.
    Due,
}

impl Visit {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Early, Self::Unheard, Self::Due];

    /// The visit to content in the trash.
    #[must_use]
    pub fn to_trash(since: Since, holders: Holders) -> Self {
        match (since, holders) {
            (Since::WithinGrace, _) => Self::Early,
            (Since::Long, Holders::UnheardNodes) => Self::Unheard,
            (Since::Long, Holders::None | Holders::Heard) => Self::Due,
        }
    }
}

/// How long a file lies where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Since {
    /// No longer than the grace.
    WithinGrace,
    /// Longer.
    Long,
}

/// The repositories that have content which no manifest needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holders {
    /// No repository.
    None,
    /// Some, and this node knows all that the others have said of them.
    Heard,
    /// Some, and another node may have said more.
    UnheardNodes,
}

/// An event in the life of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Octets begin to come.
    Begun,
    /// They end early, or have another digest, or the process ends.
    Broken,
    /// All have come, and have the digest.
    Arrived,
    /// A client, a record or a manifest wants it.
    Wanted,
    /// The sweep looks at it.
    Swept(Visit),
    /// Its file has another size, or cannot be read: another look may find it whole.
    Doubted,
    /// Its bytes have another digest.
    Damaged,
    /// Its bytes were hashed and have its digest.
    Whole,
    /// Its file was not found.
    Lost,
    /// The process has begun, and looks at it.
    Started,
    /// It waits to be healed, and the next attempt is due.
    Due,
}

impl Event {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Begun,
        Self::Broken,
        Self::Arrived,
        Self::Wanted,
        Self::Swept(Visit::Early),
        Self::Swept(Visit::Unheard),
        Self::Swept(Visit::Due),
        Self::Doubted,
        Self::Damaged,
        Self::Whole,
        Self::Lost,
        Self::Started,
        Self::Due,
    ];
}

/// A duty of the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Duty {
    /// Sync the file, give it its name, and sync the directory.
    Place,
    /// Remove the part.
    Discard,
    /// Have the name durable before anything relies on it.
    SyncName,
    /// Promise it for the term of a lease.
    Lease,
    /// The promise, and what is kept in memory, end.
    EndLease,
    /// Move the file to the trash, as of now.
    MoveToTrash,
    /// Move the file back from the trash, durably.
    TakeBack,
    /// Take it from all repositories, as of a moment in the past; it is taken back instead if one holds.
    TakeLinksBack,
    /// Delete the file.
    Delete,
    /// Move the damaged file to the quarantine.
    PutAway,
    /// List it as content to be healed.
    Heal,
    /// Hash the file that is in its place.
    Judge,
    /// Fetch it from another node.
    Fetch,
    /// It waits no longer to be healed.
    Settle,
    /// Answer from another node that has it, or that there is none.
    AskOthers,
}

/// The outcome of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// The state that follows when the duties are done. The claim of a file that is in place may be another by then:
    /// the next event comes with it.
    pub next: State,
    /// The duties of the shell, in this order.
    pub duties: &'static [Duty],
}

impl Step {
    /// Whether something is to be done.
    #[must_use]
    pub fn asks_for(&self, duty: Duty) -> bool {
        self.duties.contains(&duty)
    }
}
