//! How a session ended, in the two letters that readers of HAProxy's logs know
//! (its configuration.txt, "Session state at disconnection").

use std::fmt;

/// The end of a session: its cause, and how far the session had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Termination {
    /// The first letter.
    pub cause: Cause,
    /// The second letter.
    pub phase: Phase,
}

/// The cause of a session's end: the first letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// `-`: both sides closed it in the usual way.
    Normal,
    /// `C`: the client reset the connection, or gave up while it waited.
    Client,
    /// `S`: the server reset the connection, or refused it.
    Server,
    /// `P`: the proxy did, by a rule or a limit, or because the client sent what it must not.
    Proxy,
    /// `R`: a resource of the proxy was exhausted: memory, descriptors, ports.
    Resource,
    /// `I`: the proxy found itself in a state that cannot be.
    Internal,
    /// `D`: the server went down, or into maintenance, and its sessions were ended for that.
    Down,
    /// `U`: a backup server's session was ended because a server of the first choice came up.
    Up,
    /// `K`: an operator ended it.
    Killed,
    /// `c`: the client let a timeout pass.
    ClientTimeout,
    /// `s`: the server let a timeout pass.
    ServerTimeout,
}

/// How far a session had come: the second letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// `-`: all the way.
    Done,
    /// `R`: the client's first octets were awaited, a PROXY header or a ClientHello.
    Request,
    /// `Q`: it waited for a server with room.
    Queue,
    /// `C`: the connection to the server was being made.
    Connect,
    /// `D`: data was passed.
    Data,
    /// `L`: the server had closed its side, and the last of its data was on its way to the client.
    Last,
}

impl Termination {
    /// `--`: both sides closed.
    pub const NORMAL: Self = Self::new(Cause::Normal, Phase::Done);
    /// `CR`: the client went away before it had sent what was awaited.
    pub const CLIENT_REQUEST: Self = Self::new(Cause::Client, Phase::Request);
    /// `CQ`: the client went away while it waited for a server with room.
    pub const CLIENT_QUEUE: Self = Self::new(Cause::Client, Phase::Queue);
    /// `CC`: the client went away before a server was connected.
    pub const CLIENT_CONNECT: Self = Self::new(Cause::Client, Phase::Connect);
    /// `CD`: the client reset the connection while data was passed.
    pub const CLIENT_DATA: Self = Self::new(Cause::Client, Phase::Data);
    /// `CL`: the client reset the connection after the server had closed its side.
    pub const CLIENT_LAST: Self = Self::new(Cause::Client, Phase::Last);
    /// `cR`: the client did not send what was awaited in time.
    pub const CLIENT_TIMEOUT_REQUEST: Self = Self::new(Cause::ClientTimeout, Phase::Request);
    /// `cD`: the client neither sent nor read anything for too long.
    pub const CLIENT_TIMEOUT_DATA: Self = Self::new(Cause::ClientTimeout, Phase::Data);
    /// `cL`: the client did not close its side for too long after the server had.
    pub const CLIENT_TIMEOUT_LAST: Self = Self::new(Cause::ClientTimeout, Phase::Last);
    /// `SC`: no server accepted the connection, or there is no server that could.
    pub const SERVER_CONNECT: Self = Self::new(Cause::Server, Phase::Connect);
    /// `SD`: the server reset the connection while data was passed.
    pub const SERVER_DATA: Self = Self::new(Cause::Server, Phase::Data);
    /// `sQ`: it waited for a server with room for too long.
    pub const SERVER_TIMEOUT_QUEUE: Self = Self::new(Cause::ServerTimeout, Phase::Queue);
    /// `sC`: no server answered in time.
    pub const SERVER_TIMEOUT_CONNECT: Self = Self::new(Cause::ServerTimeout, Phase::Connect);
    /// `sD`: the server neither sent nor read anything for too long.
    pub const SERVER_TIMEOUT_DATA: Self = Self::new(Cause::ServerTimeout, Phase::Data);
    /// `PR`: the source is not admitted, what the client sent is broken, or no route fits.
    pub const PROXY_REQUEST: Self = Self::new(Cause::Proxy, Phase::Request);
    /// `PQ`: the queue is full.
    pub const PROXY_QUEUE: Self = Self::new(Cause::Proxy, Phase::Queue);
    /// `PC`: the proxy refused to make the connection, for a limit of its own.
    pub const PROXY_CONNECT: Self = Self::new(Cause::Proxy, Phase::Connect);
    /// `PD`: the proxy stopped before the session was over.
    pub const PROXY_DATA: Self = Self::new(Cause::Proxy, Phase::Data);
    /// `RC`: no descriptor or port was left to connect with.
    pub const RESOURCE_CONNECT: Self = Self::new(Cause::Resource, Phase::Connect);
    /// `DC`: the server went down while it was being connected to.
    pub const DOWN_CONNECT: Self = Self::new(Cause::Down, Phase::Connect);
    /// `DD`: the server went down while data was passed.
    pub const DOWN_DATA: Self = Self::new(Cause::Down, Phase::Data);
    /// `KD`: an operator ended it while data was passed.
    pub const KILLED_DATA: Self = Self::new(Cause::Killed, Phase::Data);

    /// The code for two letters.
    #[must_use]
    pub const fn new(cause: Cause, phase: Phase) -> Self {
        Self { cause, phase }
    }

    /// The two letters.
    #[must_use]
    pub const fn letters(self) -> [char; 2] {
        [self.cause.letter(), self.phase.letter()]
    }
}

impl fmt::Display for Termination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [cause, phase] = self.letters();
        write!(f, "{cause}{phase}")
    }
}

impl Cause {
    const fn letter(self) -> char {
        match self {
            Self::Normal => '-',
            Self::Client => 'C',
            Self::Server => 'S',
            Self::Proxy => 'P',
            Self::Resource => 'R',
            Self::Internal => 'I',
            Self::Down => 'D',
            Self::Up => 'U',
            Self::Killed => 'K',
            Self::ClientTimeout => 'c',
            Self::ServerTimeout => 's',
        }
    }
}

impl Phase {
    const fn letter(self) -> char {
        match self {
            Self::Done => '-',
            Self::Request => 'R',
            Self::Queue => 'Q',
            Self::Connect => 'C',
            Self::Data => 'D',
            Self::Last => 'L',
        }
    }
}
