//! Sessions that the kernel forwards, as its table of connections has them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tracing::warn;

use super::conntrack::{self, Entry, Forgotten, Scope};
use super::is_at;
use super::reset::ChallengeSender;
use super::ruleset::{KernelFrontend, Protocol};

/// Numbers of protocols.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// How often, and at what distance, flows of a flow table that is gone are tried again: it is emptied
/// behind the back of the process that removed it, within milliseconds.
const RELEASE_TRIES: u32 = 100;
const RELEASE_STEP: Duration = Duration::from_millis(20);

/// The sessions of these frontends. Each question walks the kernel's table of connections, which takes
/// some 100 ms if it holds some 100,000.
#[derive(Debug)]
pub struct Sessions<'a> {
    frontends: &'a [KernelFrontend],
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarded {
    /// The frontend it came through.
    pub frontend: Arc<str>,
    /// The server; none when it has left the configuration.
    pub server: Option<Arc<str>>,
    /// The server's address.
    pub server_address: SocketAddr,
    /// The client.
    pub client: SocketAddr,
    /// The address it connected to.
    pub local: SocketAddr,
    /// How far it has come.
    pub state: SessionState,
}

/// How far a session has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// The handshake is not done.
    Connecting,
    /// Both sides may send.
    Established,
    /// One side has sent its last word.
    Closing,
    /// Datagrams.
    Flow,
}

impl SessionState {
    /// The session of an entry; none if it has ended, and the kernel only remembers its ports.
    fn of(entry: &Entry) -> Option<Self> {
        // `enum tcp_conntrack`: SYN sent by either or both, established, three ways to close, TIME-WAIT
        // and closed.
        match (entry.protocol, entry.tcp_state) {
            (TCP, Some(1 | 2 | 9)) => Some(Self::Connecting),
            (TCP, Some(3)) => Some(Self::Established),
            // Nothing else gets into a flow table.
            (TCP, None) if entry.is_offloaded => Some(Self::Established),
            (TCP, Some(4..=6)) => Some(Self::Closing),
            (UDP, _) => Some(Self::Flow),
            _ => None,
        }
    }

    /// The state in a word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Established => "established",
            Self::Closing => "closing",
            Self::Flow => "flow",
        }
    }
}

impl<'a> Sessions<'a> {
    /// Those of `frontends`.
    #[must_use]
    pub fn new(frontends: &'a [KernelFrontend]) -> Self {
        Self { frontends }
    }

    /// Sessions that `is_wanted` picks, at most `most`, in no order.
    ///
    /// # Errors
    ///
    /// The kernel's error: without the capability `NET_ADMIN` it refuses.
    pub fn list(
        &self,
        most: usize,
        is_wanted: impl Fn(&Forwarded) -> bool,
    ) -> io::Result<Vec<Forwarded>> {
        if self.frontends.is_empty() {
            return Ok(Vec::new());
        }
        let is_wanted = |entry: &Entry| self.read(entry).is_some_and(|session| is_wanted(&session));
        let entries = conntrack::list(Scope::Forwarded, most, is_wanted)?;
        Ok(entries
            .iter()
            .filter_map(|entry| self.read(entry))
            .collect())
    }

    /// Ends the sessions that `is_meant` picks; how many there were. Clients of TCP hear it at once.
    /// While it has the value that `pause` returns, there must be no flow table; it is called if one holds on
    /// to sessions.
    ///
    /// # Errors
    ///
    /// The kernel's error: without the capability `NET_ADMIN` it refuses.
    pub fn kill<P>(
        &self,
        is_meant: impl Fn(&Forwarded) -> bool,
        pause: impl FnOnce() -> P,
    ) -> io::Result<u64> {
        if self.frontends.is_empty() {
            return Ok(0);
        }
        let is_meant = |entry: &Entry| self.read(entry).is_some_and(|session| is_meant(&session));
        kill(is_meant, pause)
    }

    /// The session of an entry, if it is one of these.
    fn read(&self, entry: &Entry) -> Option<Forwarded> {
        if !entry.is_forwarded {
            return None;
        }
        let state = SessionState::of(entry)?;
        let protocol = match entry.protocol {
            TCP => Protocol::Tcp,
            _ => Protocol::Udp,
        };
        let frontend = self.frontends.iter().find(|frontend| {
            let mut listen = frontend.listen.iter();
            frontend.protocol == protocol && listen.any(|listen| is_at(*listen, entry.destination))
        })?;
        let mut servers = frontend.servers.iter();
        let server = servers.find(|server| server.address == entry.answers_from);
        Some(Forwarded {
            frontend: Arc::clone(&frontend.name),
            server: server.map(|server| Arc::clone(&server.name)),
            server_address: entry.answers_from,
            client: entry.client,
            local: entry.destination,
            state,
        })
    }
}

/// Ends sessions as [`Sessions::kill`] does: those to `addresses`, whatever frontend they came through.
///
/// # Errors
///
/// The kernel's error: without the capability `NET_ADMIN` it refuses.
pub fn kill_to<P>(addresses: &[IpAddr], pause: impl FnOnce() -> P) -> io::Result<u64> {
    kill(|entry| is_to(addresses, entry), pause)
}

fn is_to(addresses: &[IpAddr], entry: &Entry) -> bool {
    entry.is_forwarded
        && SessionState::of(entry).is_some()
        && addresses.contains(&entry.destination.ip())
}

fn kill<P>(is_meant: impl Fn(&Entry) -> bool, pause: impl FnOnce() -> P) -> io::Result<u64> {
    let mut ended = forget(Scope::Forwarded, &is_meant)?;
    if ended.n_held > 0 {
        let _paused = pause();
        let more = forget_held(Scope::Forwarded, &is_meant)?;
        ended.n_forgotten += more.n_forgotten;
    }
    Ok(ended.n_forgotten)
}

/// Forgets flows that a flow table held on to, which was removed: the kernel lets go of them a moment
/// later.
pub(super) fn forget_held(scope: Scope, is_gone: impl Fn(&Entry) -> bool) -> io::Result<Forgotten> {
    let mut result = Forgotten::default();
    for _ in 0..RELEASE_TRIES {
        let more = forget(scope, &is_gone)?;
        result.n_forgotten += more.n_forgotten;
        result.n_held = more.n_held;
        if result.n_held == 0 {
            return Ok(result);
        }
        thread::sleep(RELEASE_STEP);
    }
    let n_held = result.n_held;
    warn!(
        n_held,
        "The kernel holds on to flows that are to be forgotten"
    );
    Ok(result)
}

/// Makes the kernel forget flows, and lets their clients know.
pub(super) fn forget(scope: Scope, is_gone: impl Fn(&Entry) -> bool) -> io::Result<Forgotten> {
    let mut asker = ChallengeSender::default();
    let mut unasked = None;
    let forgotten = conntrack::forget(scope, is_gone, |entry| {
        if entry.is_forwarded
            && let Err(error) = asker.ask(entry)
        {
            unasked = Some(error);
        }
    });
    if let Some(error) = unasked {
        warn!(%error, "Clients of flows that are forgotten could not be asked, and hear it when they send");
    }
    forgotten
}

#[cfg(test)]
mod tests {
    use super::super::ruleset::{KernelServer, Share};
    use super::*;

    fn frontend(protocol: Protocol) -> KernelFrontend {
        KernelFrontend {
            name: "api".into(),
            listen: vec!["192.0.2.1:6443".parse().unwrap()],
            protocol,
            allow: None,
            deny: Vec::new(),
            masquerade: true,
            reset_on_down: true,
            share: Share::Random,
            servers: vec![KernelServer {
                name: "a".into(),
                address: "10.0.0.1:6443".parse().unwrap(),
                weight: 1,
                in_use: true,
                keeps: true,
            }],
        }
    }

    fn entry(protocol: u8, tcp_state: Option<u8>) -> Entry {
        Entry {
            protocol,
            client: "198.51.100.1:4000".parse().unwrap(),
            destination: "192.0.2.1:6443".parse().unwrap(),
            answers_from: "10.0.0.1:6443".parse().unwrap(),
            is_forwarded: true,
            is_offloaded: false,
            tcp_state,
            key: Vec::new(),
        }
    }

    #[test]
    fn entries_of_frontends_are_sessions_until_they_end() {
        let frontends = [frontend(Protocol::Tcp), frontend(Protocol::Udp)];
        let sessions = Sessions::new(&frontends);
        let state = |protocol, state| {
            let session = sessions.read(&entry(protocol, state))?;
            assert_eq!(session.server.as_deref(), Some("a"));
            Some(session.state.as_str())
        };
        assert_eq!(state(TCP, Some(1)), Some("connecting"));
        assert_eq!(state(TCP, Some(3)), Some("established"));
        assert_eq!(state(TCP, Some(5)), Some("closing"));
        assert_eq!(state(UDP, None), Some("flow"));
        for ended in [7, 8] {
            assert_eq!(state(TCP, Some(ended)), None);
        }
        assert_eq!(state(1, None), None);
        // The kernel does not tell how far those in a flow table have come.
        assert_eq!(state(TCP, None), None);
        let offloaded = Entry {
            is_offloaded: true,
            ..entry(TCP, None)
        };
        let session = sessions.read(&offloaded).unwrap();
        assert_eq!(session.state, SessionState::Established);
    }

    #[test]
    fn an_address_that_goes_takes_along_what_is_forwarded_from_it() {
        let addresses = ["192.0.2.1".parse().unwrap()];
        let own = entry(TCP, Some(3));
        for meant in [own.clone(), entry(UDP, None)] {
            assert!(is_to(&addresses, &meant), "{meant:?}");
        }
        let elsewhere = Entry {
            destination: "192.0.2.2:6443".parse().unwrap(),
            ..own.clone()
        };
        let direct = Entry {
            is_forwarded: false,
            ..own
        };
        for other in [elsewhere, direct, entry(TCP, Some(7))] {
            assert!(!is_to(&addresses, &other), "{other:?}");
        }
    }

    #[test]
    fn what_others_forward_is_no_session_and_a_server_may_be_unknown() {
        let frontends = [frontend(Protocol::Tcp)];
        let sessions = Sessions::new(&frontends);
        let own = entry(TCP, Some(3));
        let elsewhere = Entry {
            destination: "192.0.2.1:443".parse().unwrap(),
            ..own.clone()
        };
        let direct = Entry {
            is_forwarded: false,
            ..own.clone()
        };
        for other in [elsewhere, direct, entry(UDP, None)] {
            assert_eq!(sessions.read(&other), None, "{other:?}");
        }
        let lost = Entry {
            answers_from: "10.0.0.9:6443".parse().unwrap(),
            ..own
        };
        let session = sessions.read(&lost).unwrap();
        assert_eq!(session.server, None);
        assert_eq!(session.server_address, lost.answers_from);
    }
}
