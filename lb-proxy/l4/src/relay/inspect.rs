//! Looks into what a client sends first: a PROXY header, and the name in a TLS ClientHello.
//!
//! The octets that were read are kept and go to the server first of all. They are never more than [`LONGEST`], in
//! however many segments it comes.

use std::sync::atomic::Ordering;

use balance::table::AcceptProxy;
use daemon::clock;
use l4_core::access_log::Cause;
use l4_core::client_hello::{self, Hello, Peeked};
use l4_core::proxy_protocol::{self, Parsed};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::connection::{Session, Stage};
use super::pump::{End, Readiness};
use super::worker::Worker;

/// The most that is kept before a decision: a PROXY header and a ClientHello of any sane size.
const LONGEST: usize = proxy_protocol::LONGEST + client_hello::LONGEST;

/// The findings in the bytes so far.
enum Found {
    /// Nothing yet: more bytes may change that.
    More,
    /// The ClientHello; an empty one if there is none.
    Hello(Hello),
    /// A header that must not be, or one that must be and is not.
    BadHeader,
}

/// The state of the wait for more bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// More may come.
    Waits,
    /// The client has sent all it will, or has taken too long.
    Over,
}

impl Worker {
    /// Reads what is there and decides, if it is enough.
    pub(super) fn inspect(&mut self, index: u32) {
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let read = read(session, &mut self.tools.scratch);
        match read {
            Ok(awaited) => self.judge(index, awaited),
            Err(_) => self.end(index, Cause::Client),
        }
    }

    /// The client has taken too long: the octets that are there have to do.
    pub(super) fn inspected_long_enough(&mut self, index: u32) {
        self.judge(index, Awaited::Over);
    }

    fn judge(&mut self, index: u32, awaited: Awaited) {
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        match find(session, awaited) {
            Found::More => {}
            Found::BadHeader => {
                let tally = &session.frontend.tally;
                tally.rejected.fetch_add(1, Ordering::Relaxed);
                let code = match awaited {
                    Awaited::Waits => Cause::Proxy,
                    Awaited::Over if session.up.end == End::Finishing => Cause::Client,
                    Awaited::Over => Cause::ClientTimeout,
                };
                self.end(index, code);
            }
            Found::Hello(hello) => {
                if !self.admit_named(index) {
                    return;
                }
                self.route(index, hello);
            }
        }
    }

    /// Applies access rules to the source the header has named.
    fn admit_named(&mut self, index: u32) -> bool {
        let Some(session) = self.sessions.get_mut(index) else {
            return false;
        };
        if session.frontend.accept_proxy == AcceptProxy::No {
            return true;
        }
        let source = session.source().ip();
        let frontend = &session.frontend;
        if !frontend.sources.admit(source) {
            frontend.tally.denied.fetch_add(1, Ordering::Relaxed);
            self.end(index, Cause::Proxy);
            return false;
        }
        if let Some(limits) = &frontend.limits {
            match limits.admit(source, clock::now()) {
                Ok(admission) => session.admission = Some(admission),
                Err(_) => {
                    frontend.tally.limited.fetch_add(1, Ordering::Relaxed);
                    self.end(index, Cause::Proxy);
                    return false;
                }
            }
        }
        true
    }
}

/// Reads as much as is there and may be kept.
fn read(session: &mut Session, scratch: &mut [u8]) -> rustix::io::Result<Awaited> {
    while session.client.signs.has(Readiness::READABLE) && session.stage == Stage::Inspecting {
        let room = LONGEST.saturating_sub(session.early().bytes.len());
        let length = room.min(scratch.len());
        let Some(buffer) = scratch.get_mut(..length) else {
            break;
        };
        if buffer.is_empty() {
            return Ok(Awaited::Over);
        }
        match rustix::net::recv(&session.client.socket, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((0, _)) => {
                session.client.signs.clear(Readiness::READABLE);
                session.up.end = End::Finishing;
                return Ok(Awaited::Over);
            }
            Ok((received, _)) => {
                let bytes = buffer.get(..received).unwrap_or_default();
                session.early().bytes.extend_from_slice(bytes);
            }
            Err(Errno::AGAIN) => session.client.signs.clear(Readiness::READABLE),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Awaited::Waits)
}

fn find(session: &mut Session, awaited: Awaited) -> Found {
    let accept_proxy = session.frontend.accept_proxy;
    let by_hello = !session.frontend.route.routes.is_empty();
    if !session.early().header_done && accept_proxy != AcceptProxy::No {
        match proxy_protocol::parse(&session.early().bytes) {
            Parsed::Header { header, length } => {
                let early = session.early();
                early.bytes.drain(..length);
                early.extensions = header.extensions();
                if let Some(source) = header.source {
                    let named = session.named();
                    named.source = Some(source);
                    named.destination = header.destination;
                }
            }
            Parsed::More if awaited == Awaited::Waits => return Found::More,
            Parsed::Absent | Parsed::More if accept_proxy == AcceptProxy::Optional => {}
            Parsed::Absent | Parsed::More | Parsed::Invalid(_) => return Found::BadHeader,
        }
    }
    session.early().header_done = true;
    if !by_hello {
        return Found::Hello(Hello::default());
    }
    match client_hello::peek(&session.early().bytes) {
        Peeked::Hello(hello) => Found::Hello(hello),
        Peeked::More if awaited == Awaited::Waits => Found::More,
        Peeked::More | Peeked::NotTls | Peeked::TooLong => Found::Hello(Hello::default()),
    }
}
