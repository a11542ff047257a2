//! What goes into the engine and what comes out of it.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use time_model::sample::{ClockSample, Stamp};
use time_model::settings::{Local, MakeStep, SourceSettings};
use time_model::time::UnixTime;
use time_model::view::{Leap, PacketView, SourceView, Tracking};
use timekeeper::Effect;

/// A socket that was opened for one request. Numbers are not used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u64);

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A datagram came to a socket that [`Output::Send`] opened.
    Datagram {
        /// Which one.
        socket: SocketId,
        /// What it was.
        octets: &'a [u8],
        /// When it came.
        stamp: Stamp,
    },
    /// The request of a socket has left. It may be told again when someone knows better.
    Sent {
        /// Which one.
        socket: SocketId,
        /// When.
        stamp: Stamp,
        /// From where.
        local: Option<IpAddr>,
    },
    /// The request of a socket could not be sent: the network has no way to the server.
    Failed {
        /// Which one.
        socket: SocketId,
    },
    /// It was sent, and the network says that nobody received it: the server may be starting again.
    Refused {
        /// Which one.
        socket: SocketId,
    },
    /// A name that was asked for with [`Output::Resolve`].
    Resolved {
        /// Which one.
        name: &'a str,
        /// What it stands for, in the resolver's order; nothing if that is not known.
        addresses: &'a [IpAddr],
    },
    /// The temperature was read (`tempcomp`).
    Temperature(timekeeper::tempcomp::Reading),
    /// A reference clock was polled.
    ReferenceClock {
        /// Its place in the configuration.
        index: usize,
        /// What it gave, if anything.
        made: Option<ClockSample>,
    },
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Open a socket of its own, send this from it, and listen for the answer.
    Send {
        /// What the socket is called from here on.
        socket: SocketId,
        /// To whom.
        to: SocketAddr,
        /// What.
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

/// What logs are written from.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A temperature, and what follows from it.
    Temperature(timekeeper::tempcomp::Reading),
    /// A valid response, and what was made of it.
    Measurement(Box<Measurement>),
    /// What selection made of a source; chrony's `selection`.
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
        /// Which one.
        address: IpAddr,
        /// Its code (RFC 5905 §7.4).
        code: [u8; 4],
    },
    /// A source took the place of another one.
    Replaced {
        /// By the configuration.
        name: String,
        /// Which one is gone.
        old: IpAddr,
        /// Which one came.
        new: IpAddr,
    },
    /// A name was resolved for the first time, or is not resolved.
    Resolved {
        /// Which one.
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
    /// Who answered.
    pub address: IpAddr,
    /// Own polling interval, as a power of two in seconds.
    pub poll: i8,
    /// What it said.
    pub packet: PacketView,
}

/// A sample of a reference clock, and what it says of the clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReferenceClockRecord {
    /// When it was taken, on the wall clock.
    pub at: UnixTime,
    /// Which clock.
    pub reference_id: u32,
    /// Leap second at hand.
    pub leap: Leap,
    /// In seconds; positive if the clock is slow.
    pub offset: f64,
    /// In seconds.
    pub dispersion: f64,
}

/// What chronyc, or whoever else, may want done.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Poll these sources.
    Online(Whom),
    /// Do not poll them.
    Offline(Whom),
    /// Ask these sources many times in a row.
    Burst {
        /// Good samples that are enough.
        good: u32,
        /// Requests at most.
        total: u32,
        /// Whom.
        whom: Whom,
    },
    /// Step the clock by all that is left to be corrected.
    MakeStep,
    /// From here on, step like this.
    SetMakeStep(Option<MakeStep>),
    /// What becomes of smooth time (`smoothtime`).
    SmoothTime(SmoothTime),
    /// Resolve names again and replace sources that are not what their names say.
    Refresh,
    /// Choose a source anew, without regard to the one that leads.
    Reselect,
    /// Forget all samples.
    ResetSources,
    /// Change the polling intervals of these sources.
    SetPolling {
        /// Whose.
        whom: Whom,
        /// `minpoll`, where it changes.
        minpoll: Option<i8>,
        /// `maxpoll`, where it changes.
        maxpoll: Option<i8>,
    },
    /// From here on, a frequency whose skew is above this is not used, in parts per million.
    SetMaxUpdateSkew(f64),
    /// From here on, give the own time when there is no other, or do not.
    SetLocal(Option<Local>),
    /// Ask this one, too.
    AddSource(Box<SourceSettings>),
    /// Do not ask the server of this address any more.
    DeleteSource(IpAddr),
}

/// Whom a command is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whom {
    /// Every source.
    #[default]
    All,
    /// Those of a network, or of one address.
    Network(IpNet),
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Done.
    Done,
    /// Done, and these are asked from here on.
    Sources(Vec<SourceSettings>),
    /// The server is asked already.
    AlreadyPresent,
    /// There are as many as can be.
    TooMany,
    /// There is no such source.
    NoSuchSource,
    /// It is not configured.
    NotEnabled,
    /// It makes no sense, or is out of range.
    Invalid,
    /// It could not be done.
    Failed,
}

/// What chronyc may want of smooth time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmoothTime {
    /// Serve the time as it is, and smooth what comes from here on.
    Reset,
    /// Smooth from here on, however well the frequency is known.
    Activate,
}
