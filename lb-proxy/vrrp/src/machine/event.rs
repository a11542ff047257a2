//! Inputs, actions and events of a machine.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::packet::{Advertisement, Datagram, Refusal};
use crate::settings::{RouterSettings, VirtualAddress};

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// Begin. Faults, the source and the eligibility come before it.
    Startup(Start),
    /// End. The machine has ended with [`Action::Stopped`].
    Shutdown(Departure),
    /// A datagram of protocol 112, from the router's interface. All that have arrived come before a `Deadline`.
    Datagram(Datagram<'a>),
    /// Something keeps this node from being active.
    FaultFound(Fault),
    /// It does not any more.
    FaultCleared(Fault),
    /// The address that advertisements come from; `None`: the interface has none.
    Source(Option<IpAddr>),
    /// The ability of this node.
    Eligibility(Eligibility),
    /// The lease of the addresses. It comes before `Startup` where one is needed.
    Lease(Lease),
    /// Other settings of the same virtual router.
    Reconfigured(Arc<RouterSettings>),
    /// While this node holds an address, or probes for it, another node says to have it.
    DuplicateSeen {
        /// The address.
        address: IpAddr,
        /// The link-layer address of who said it.
        by: [u8; 6],
    },
    /// [`Machine::next_deadline`](super::Machine::next_deadline) has come.
    Deadline,
    /// Every member of the group would become active.
    GroupClaims,
    /// A member of the group has yielded.
    GroupYields,
}

/// The lease of the addresses, which a majority of the nodes grants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lease {
    /// Advertisements decide.
    #[default]
    Unneeded,
    /// It is unknown yet whether leases decide.
    Awaited,
    /// Leases decide, and this node is cut off from most others.
    Withheld,
    /// No node has it.
    Free,
    /// Another node has it.
    Other {
        /// The priority of the holder.
        priority: u8,
    },
    /// This node has it.
    Own {
        /// The end, by this node's clock.
        until: Instant,
        /// The highest priority of a node that is to preempt this one; 0 without any.
        preempting: u8,
    },
}

impl Lease {
    /// Whether another one means the same to a router that waits.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Own { .. }, Self::Own { .. }) => true,
            (one, other) => one == other,
        }
    }
}

impl fmt::Display for Lease {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Unneeded => "unneeded",
            Self::Awaited => "awaited",
            Self::Withheld => "withheld",
            Self::Free => "free",
            Self::Other { .. } => "other",
            Self::Own { .. } => "own",
        })
    }
}

/// The demand of a router for the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Nothing yet. A process before this one may have left the lease to it.
    Wait,
    /// To have it, and to keep it.
    Ask {
        /// Whether a holder of a lower priority is to give it up.
        preempts: bool,
    },
    /// Not to have it. The addresses are gone, or wait for another router to announce them.
    Drop,
}

impl Demand {
    /// To have it when it is free.
    pub const ASK: Self = Self::Ask { preempts: false };

    /// To have it from a holder of a lower priority.
    pub const PREEMPT: Self = Self::Ask { preempts: true };
}

/// How a machine begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// As backup. Addresses that a process before has left are removed.
    Fresh,
    /// As active: a process before has just handed over the addresses, which are on the interface.
    Resume,
}

/// How a machine ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// At once: the next router takes over after its skew time.
    Release,
    /// When the next router has taken over.
    HandOver,
    /// Addresses stay: the process that comes after holds them.
    Swap,
}

/// Why a router cannot be active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The interface is down or has no carrier.
    Link,
    /// The interface has no address to advertise from.
    Source,
    /// Unicast, and no peer to send to.
    PeersUnknown,
    /// This node's proxy cannot serve.
    Unable,
    /// The kernel refuses the addresses.
    Kernel,
    /// Another member of the group has a fault.
    Group,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Link => "the link is down",
            Self::Source => "the interface has no address",
            Self::PeersUnknown => "the peers are unknown",
            Self::Unable => "the proxy cannot serve",
            Self::Kernel => "the kernel refuses the addresses",
            Self::Group => "another member of the group has a fault",
        })
    }
}

/// The ability of this node to be active for a virtual router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eligibility {
    /// Be active, with this priority, 1 to 255.
    Able(u8),
    /// Not be active, whatever others can do.
    Unable,
}

/// Something to do. Actions are done in the order they come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this.
    Send {
        /// The message.
        advertisement: Advertisement,
        /// The destination.
        to: Audience,
    },
    /// Put these on the interface. They may be there.
    AddAddresses(Vec<VirtualAddress>),
    /// Take these off the interface. They may not be there.
    RemoveAddresses(Vec<VirtualAddress>),
    /// Send this many gratuitous ARP packets, or unsolicited neighbour advertisements, for each.
    Announce {
        /// These addresses.
        addresses: Vec<IpAddr>,
        /// For each.
        count: u8,
    },
    /// Ask who has these: an ARP probe, or a neighbour solicitation, for each.
    Probe(Vec<IpAddr>),
    /// End every connection that came to these, with a reset, while the addresses are still there.
    ResetFlows(Vec<IpAddr>),
    /// Another state; addresses and advertisements have been dealt with.
    StateChanged {
        /// Before.
        from: State,
        /// Since then.
        to: State,
        /// The cause of the state.
        reason: Reason,
    },
    /// For the log and for the operator.
    Report(Event),
    /// Would become active, if the group does: [`Input::GroupClaims`].
    WouldClaim,
    /// This is what the router wants of the lease from now on.
    Lease(Demand),
    /// The machine has ended; nothing follows.
    Stopped,
}

/// The receivers of an advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// The multicast group, or all unicast peers.
    All,
    /// A router that is not among the unicast peers and has advertised nevertheless.
    One(IpAddr),
}

/// The state of a router (RFC 9568 §6.4), and `Fault` as keepalived has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Not started, or ended.
    #[default]
    Initialize,
    /// Listens for the active router.
    Backup,
    /// Holds the addresses.
    Active,
    /// Could not hold the addresses.
    Fault,
}

impl State {
    /// keepalived's word, as `keepalived_exporter` and notify scripts have it.
    #[must_use]
    pub fn keepalived(self) -> &'static str {
        match self {
            Self::Initialize => "INIT",
            Self::Backup => "BACKUP",
            Self::Active => "MASTER",
            Self::Fault => "FAULT",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Initialize => "initialize",
            Self::Backup => "backup",
            Self::Active => "active",
            Self::Fault => "fault",
        })
    }
}

/// Why a state changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was started.
    Started,
    /// It was started with the addresses of the process before.
    Resumed,
    /// The addresses are this node's own.
    Owner,
    /// No active router was heard.
    NobodyHeard,
    /// The active router said that it stops.
    ActiveStopped,
    /// The active router has a lower priority.
    Preempted,
    /// This router has a higher priority, or the same and a higher address.
    HigherHeard(IpAddr),
    /// It was handed over to this router.
    HandedOver(IpAddr),
    /// Advertisements were not sent in time: another may be active.
    Paused,
    /// This came up.
    Fault(Fault),
    /// It has the lease of the addresses.
    Leased,
    /// Its lease has ended, or another node has it.
    LeaseEnded,
    /// The last fault went.
    FaultsCleared,
    /// The group moved.
    Group,
    /// It was stopped.
    Stopped,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => formatter.write_str("started"),
            Self::Resumed => formatter.write_str("resumed"),
            Self::Owner => formatter.write_str("owns the addresses"),
            Self::NobodyHeard => formatter.write_str("no active router was heard"),
            Self::ActiveStopped => formatter.write_str("the active router stopped"),
            Self::Preempted => formatter.write_str("the active router has a lower priority"),
            Self::HigherHeard(by) => write!(formatter, "{by} has a higher priority"),
            Self::HandedOver(to) => write!(formatter, "handed over to {to}"),
            Self::Paused => formatter.write_str("was paused"),
            Self::Fault(fault) => fault.fmt(formatter),
            Self::Leased => formatter.write_str("has the lease"),
            Self::LeaseEnded => formatter.write_str("its lease has ended"),
            Self::FaultsCleared => formatter.write_str("faults cleared"),
            Self::Group => formatter.write_str("the group moved"),
            Self::Stopped => formatter.write_str("stopped"),
        }
    }
}

/// Something an operator would want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A datagram was refused. The first of its kind in a minute.
    Refused {
        /// The sender.
        source: IpAddr,
        /// Why.
        refusal: Refusal,
    },
    /// The sender has some of the addresses only, or more: an edit is under way or was forgotten.
    AddressesDiffer {
        /// The sender.
        source: IpAddr,
        /// The advertised value.
        addresses: Vec<IpAddr>,
    },
    /// The sender sums version 3 over IPv4 in the other form, and may not accept ours.
    ChecksumDiffers {
        /// The other router.
        source: IpAddr,
    },
    /// Advertises without being among the peers: they do not send to it.
    UnknownPeer {
        /// The other router.
        source: IpAddr,
    },
    /// Two routers own the addresses (RFC 9568 erratum 8298).
    TwoOwners {
        /// The other.
        source: IpAddr,
    },
    /// Another was active besides; it yields.
    LowerHeard {
        /// The sender.
        source: IpAddr,
        /// Its priority.
        priority: u8,
    },
    /// Another router advertises, and this node has the lease.
    Overruled {
        /// The sender.
        source: IpAddr,
        /// Its priority.
        priority: u8,
    },
    /// Another node has the address that this node holds.
    Duplicate {
        /// The address.
        address: IpAddr,
        /// Their link-layer address.
        by: [u8; 6],
    },
    /// A node has the address, and no router advertises it.
    AddressTaken {
        /// The address.
        address: IpAddr,
        /// Their link-layer address.
        by: [u8; 6],
        /// Or it has been waited for long enough, and the address is taken.
        is_waited_for: bool,
    },
    /// The timer of this node was this late: it did not run.
    Paused {
        /// Since it should have.
        late: Duration,
    },
    /// The next router is to take over.
    HandOverStarted,
    /// No router took over in time.
    HandOverTimedOut,
    /// No router took over, and none was ever heard.
    LeftAlone,
    /// Active routers advertise at another interval.
    IntervalLearnt {
        /// The other router.
        source: IpAddr,
        /// Theirs.
        interval: Duration,
    },
}
