//! Flows as the kernel knows them: lists them, and makes it forget some.
//!
//! Entries of the table of connections (conntrack) are listed and deleted over netlink directly: two
//! messages, no unsafe code and no further package on the node, which the `conntrack` command would
//! be. `conntrack/wire.rs` knows the messages.

mod wire;

use std::io;
use std::net::SocketAddr;

use self::wire::Part;
use super::netlink::Netlink;

/// Entries forgotten in one pass over the table; the next pass finds the others.
const PASS: usize = 16_384;

/// Passes, so that entries made as fast as they are deleted do not hold the thread.
const MAX_PASSES: usize = 64;

/// One flow the kernel remembers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The protocol's number.
    pub protocol: u8,
    /// The client.
    pub client: SocketAddr,
    /// The destination of its packets.
    pub destination: SocketAddr,
    /// The source of answers: the server, if it is forwarded.
    pub answers_from: SocketAddr,
    /// Its destination is rewritten.
    pub is_forwarded: bool,
    /// Its packets go by a flow table.
    pub is_offloaded: bool,
    /// The state of a TCP connection, as the kernel numbers them; not known while it is offloaded.
    pub tcp_state: Option<u8>,
    /// Its name in a message.
    pub key: Vec<u8>,
}

/// The filter of the entries that the kernel is to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All of the node.
    All,
    /// Those whose destination is rewritten.
    Forwarded,
}

/// The flows that `is_wanted` picks, at most `most`, in no order.
///
/// # Errors
///
/// The kernel's error: without the capability `NET_ADMIN` it refuses.
pub fn list(
    scope: Scope,
    most: usize,
    is_wanted: impl Fn(&Entry) -> bool,
) -> io::Result<Vec<Entry>> {
    Table::open()?.list(scope, most, is_wanted)
}

/// The result for flows that were to be forgotten.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// They are.
    pub n_forgotten: u64,
    /// They are not: kernels before 6.4 do not let go of what is in a flow table.
    pub n_held: u64,
}

/// Forgets the flows that `is_gone` picks, and tells `forgotten` of each.
///
/// # Errors
///
/// The kernel's error: without the capability `NET_ADMIN` it refuses.
pub fn forget(
    scope: Scope,
    is_gone: impl Fn(&Entry) -> bool,
    mut forgotten: impl FnMut(&Entry),
) -> io::Result<Forgotten> {
    let mut table = Table::open()?;
    let mut result = Forgotten::default();
    for _ in 0..MAX_PASSES {
        let entries = table.list(scope, PASS, &is_gone)?;
        let before = result.n_forgotten;
        result.n_held = 0;
        for entry in &entries {
            if table.delete(entry)? {
                result.n_forgotten += 1;
                forgotten(entry);
            } else {
                result.n_held += 1;
            }
        }
        if entries.len() < PASS || result.n_forgotten == before {
            break;
        }
    }
    Ok(result)
}

/// The kernel's table.
struct Table {
    netlink: Netlink,
    sequence: u32,
}

impl Table {
    fn open() -> io::Result<Self> {
        Ok(Self {
            netlink: Netlink::open(libc::NETLINK_NETFILTER)?,
            sequence: 0,
        })
    }

    fn list(
        &mut self,
        scope: Scope,
        most: usize,
        is_wanted: impl Fn(&Entry) -> bool,
    ) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        self.exchange(&wire::list(scope), |entry| {
            if entries.len() < most && is_wanted(&entry) {
                entries.push(entry);
            }
        })?;
        Ok(entries)
    }

    /// False if the kernel holds on to it.
    fn delete(&mut self, entry: &Entry) -> io::Result<bool> {
        let result = self.exchange(&wire::delete(entry), |_| {});
        match result.as_ref().map_err(io::Error::raw_os_error) {
            // It has ended by itself meanwhile.
            Err(Some(libc::ENOENT)) => Ok(true),
            Err(Some(libc::EBUSY)) => Ok(false),
            _ => result.map(|()| true),
        }
    }

    fn exchange(&mut self, request: &[u8], mut each: impl FnMut(Entry)) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = wire::number(request, self.sequence);
        self.netlink.send(&request)?;
        loop {
            let received = self.netlink.receive()?;
            for part in wire::parts(received, self.sequence) {
                match part {
                    Part::Entry(entry) => each(entry),
                    Part::Other => {}
                    Part::End(0) => return Ok(()),
                    Part::End(error) => return Err(io::Error::from_raw_os_error(error)),
                }
            }
        }
    }
}
