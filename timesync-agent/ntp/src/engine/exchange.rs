//! The events and the actions of the engine.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::association::Tuning;
use time_model::sample::{ClockSample, Stamp};
use time_model::settings::{Local, MakeStep, SourceSettings};
use time_model::time::UnixTime;
use time_model::view::{Leap, PacketView, SourceView, Tracking};
use timekeeper::{Effect, Entered};

/// A socket that was opened for one request. Numbers are not used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u64);

/// Events.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A datagram came to a socket that [`Output::Send`] opened.
    Datagram {
        /// The source.
        socket: SocketId,
        /// The datagram.
        octets: &'a [u8],
        /// When it came.
        stamp: Stamp,
    },
    /// The request of a socket has left. It may be told again when someone knows better.
    Sent {
        /// The source.
        socket: SocketId,
        /// When.
        stamp: Stamp,
        /// From where.
        local: Option<IpAddr>,
    },
    /// The request of a socket could not be sent: the network has no way to the server.
    Failed {
        /// The source.
        socket: SocketId,
    },
    /// The network reports that the server did not receive it: the server may be starting again.
    Refused {
        /// The source.
        socket: SocketId,
    },
    /// A name that was asked for with [`Output::Resolve`].
    Resolved {
        /// The host.
        name: &'a str,
        /// Its addresses, in the resolver's order; empty if unknown.
        addresses: &'a [IpAddr],
    },
    /// The temperature was read (`tempcomp`).
    Temperature(timekeeper::tempcomp::Reading),
    /// A reference clock was polled.
    ReferenceClock {
        /// Its place in the configuration.
        index: usize,
        /// Its sample, if it gave one.
        made: Option<ClockSample>,
    },
}

/// Actions.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Open a socket of its own, send this from it, and listen for the answer. If that socket is open already, send from it again.
    Send {
        /// The number of the socket from now on.
        socket: SocketId,
        /// The server.
        to: SocketAddr,
        /// It is a peer: the socket has the port that clients ask, so that the peer's own packets come there, too.
        is_peer: bool,
        /// The datagram.
        octets: Vec<u8>,
    },
    /// Close a socket: its request was answered, or will not be.
    Close(SocketId),
    /// Look a name up.
    Resolve(String),
    /// Do this to the clock, and tell [`Engine::applied`](super::Engine::applied) of a rate.
    Clock(Effect),
    /// Write this to where it is wanted.
    Log(Record),
}

/// The records of the logs.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A temperature, and what follows from it.
    Temperature(timekeeper::tempcomp::Reading),
    /// A valid response, and what was made of it.
    Measurement(Box<Measurement>),
    /// The result of selection for a source; chrony's `selection`.
    Selection {
        /// The source.
        view: Box<SourceView>,
        /// How long ago its last sample was taken, in seconds; 0 if it has none.
        age: f64,
    },
    /// A source as a sample left it; chrony's `statistics`.
    Statistics(Box<SourceView>),
    /// The clock as a sample left it; chrony's `tracking`.
    Tracking(Box<Tracking>),
    /// A sample of a reference clock.
    ReferenceClock(Box<ReferenceClockRecord>),
    /// A source answered that it wants to be left alone.
    KissOfDeath {
        /// The source.
        address: IpAddr,
        /// Its code (RFC 5905 §7.4).
        code: [u8; 4],
    },
    /// A source took the place of another one.
    Replaced {
        /// By the configuration.
        name: String,
        /// The source that has gone.
        old: IpAddr,
        /// The source that replaces it.
        new: IpAddr,
    },
    /// A name was resolved for the first time, or is not resolved.
    Resolved {
        /// The source.
        name: String,
        /// How many addresses were found.
        n_addresses: usize,
    },
}

/// A valid response, and what was made of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// When the exchange took place, on the wall clock.
    pub at: UnixTime,
    /// The server that answered.
    pub address: IpAddr,
    /// Own polling interval, as a power of two in seconds.
    pub poll: i8,
    /// The measurement.
    pub packet: PacketView,
}

/// A sample of a reference clock, and what it says of the clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReferenceClockRecord {
    /// When it was taken, on the wall clock.
    pub at: UnixTime,
    /// The clock.
    pub reference_id: u32,
    /// Leap second at hand.
    pub leap: Leap,
    /// In seconds; positive if the clock is slow.
    pub offset: f64,
    /// In seconds.
    pub dispersion: f64,
}

/// The commands of chronyc and of other callers.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Poll these sources.
    Online(SourceMatch),
    /// Do not poll them.
    Offline(SourceMatch),
    /// Ask these sources many times in a row.
    Burst {
        /// Good samples that are enough.
        good: u32,
        /// Requests at most.
        total: u32,
        /// The sources.
        sources: SourceMatch,
    },
    /// Step the clock by all that is left to be corrected.
    MakeStep,
    /// From here on, step like this.
    SetMakeStep(Option<MakeStep>),
    /// A change of smooth time (`smoothtime`).
    SmoothTime(SmoothTime),
    /// Resolve names again and replace sources that are not what their names say.
    Refresh,
    /// Choose a source again, without preference for the system peer.
    Reselect,
    /// Forget all samples.
    ResetSources,
    /// Change the polling intervals of these sources.
    SetPolling {
        /// The sources.
        sources: SourceMatch,
        /// `minpoll`, where it changes.
        minpoll: Option<i8>,
        /// `maxpoll`, where it changes.
        maxpoll: Option<i8>,
    },
    /// Change one more of the settings of these sources.
    Tune {
        /// The sources.
        sources: SourceMatch,
        /// The change.
        tuning: Tuning,
    },
    /// From here on, another source is chosen only if it is nearer by this, in seconds (`reselectdist`).
    SetReselectDistance(f64),
    /// From here on, a frequency whose skew is above this is not used, in parts per million.
    SetMaxUpdateSkew(f64),
    /// From here on, give the own time when there is no other, or do not.
    SetLocal(Option<Local>),
    /// From here on, times that an operator enters are taken, or are not (`manual`).
    EnableManual(bool),
    /// Forget the times that were entered.
    ResetManual,
    /// Forget one of them, the oldest is 0, and set the clock by the others.
    DeleteManual(usize),
    /// This is the time (`settime`).
    EnterTime(UnixTime),
    /// The clock is faster than was believed, in parts per million (`dfreq`).
    ChangeFrequency(f64),
    /// The clock is faster than was believed, in seconds (`doffset`).
    ChangeOffset(f64),
    /// Ask this one, too.
    AddSource(Box<SourceSettings>),
    /// Do not ask the server of this address any more.
    DeleteSource(IpAddr),
}

/// The sources of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceMatch {
    /// Every source.
    #[default]
    All,
    /// Those of a network, or of one address.
    Network(IpNet),
    /// Reference clocks with this reference ID.
    Clock(u32),
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Done.
    Done,
    /// Done; these are polled from now on.
    Sources(Vec<SourceSettings>),
    /// The time was taken.
    Entered(Entered),
    /// The server is polled already.
    AlreadyPresent,
    /// There are as many as can be.
    TooMany,
    /// There is no such source.
    NoSuchSource,
    /// No time with this number was entered.
    NoSuchEntry,
    /// It is not configured.
    NotEnabled,
    /// It makes no sense, or is out of range.
    Invalid,
    /// It could not be done.
    Failed,
}

/// The commands of chronyc for smooth time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmoothTime {
    /// Serve the time as it is, and smooth what comes from here on.
    Reset,
    /// Smooth from here on, however well the frequency is known.
    Activate,
}
