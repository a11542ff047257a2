//! Moves bytes from one end of a session to the other, as far as both go without waiting.
//!
//! Readiness is edge-triggered: a [`Side`] remembers what the kernel said until a call finds out that
//! it holds no longer. Bytes are copied through one scratch buffer that all sessions of a worker share;
//! a flow that fills it several times in a row is bulk and goes through a pipe instead (`splice(2)`),
//! which never shows the bytes to this process.
//!
//! ```text
//!            recv            send                          splice        splice
//!   source ───────► scratch ──────► destination   source ─────────► pipe ───────► destination
//!                      └─ what was refused: held             └─ what was refused stays inside
//! ```
//!
//! A flow never reads while bytes of an earlier read wait, so a slow reader slows the sender down and
//! costs about one scratch buffer: a flow splices little more than the destination's send buffer takes, and
//! the rest leaves the pipe for memory when the reader is slow ([`Flow::unload`]). And it never splices into
//! a pipe that is not empty, so that `EAGAIN` can only mean that the source has nothing. A flow that stays bulk is gathered
//! in the kernel before it is read ([`Gathering`]).

use std::os::fd::{AsFd, OwnedFd};

use l4_core::gather::{Gathering, MARK};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use rustix::pipe::SpliceFlags;

use super::pipes::{Pipe, Pipes, ROUND};

/// The scratch buffer; larger ones gain nothing, and this one stays in the cache.
pub(super) const SCRATCH: usize = 64 << 10;

/// This many full reads in a row prove that a flow is bulk.
const PROOF: u8 = 4;

/// A spliced round below this is one that a copy does as well.
const SMALL_ROUND: usize = 16 << 10;

/// Reads of one flow before others have their turn: 1 MiB copied.
const ROUNDS: u32 = 16;

//--- Sides

/// One end of a session.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) socket: OwnedFd,
    pub(super) signs: Readiness,
}

impl Side {
    pub(super) fn new(socket: OwnedFd, signs: Readiness) -> Self {
        Self { socket, signs }
    }
}

/// The readiness of a socket, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Readiness(u8);

impl Readiness {
    pub(super) const READABLE: Self = Self(1);
    pub(super) const WRITABLE: Self = Self(2);
    /// The peer has closed its sending side; its octets may still wait to be read. Never forgotten:
    /// the kernel says it once, and the end is read long after if the other side is blocked.
    pub(super) const HUNG_UP: Self = Self(4);
    /// The kernel has reported an error, which the next call returns.
    pub(super) const FAILED: Self = Self(8);
    /// An error was returned: the connection is reset, whatever the next call says.
    pub(super) const RESET: Self = Self(16);
    /// There was urgent data, at which reads stop short.
    pub(super) const URGENT: Self = Self(32);

    pub(super) fn has(self, signs: Self) -> bool {
        self.0 & signs.0 != 0
    }

    pub(super) fn set(&mut self, signs: Self) {
        self.0 |= signs.0;
    }

    pub(super) fn clear(&mut self, signs: Self) {
        self.0 &= !signs.0;
    }

    /// Takes in what the kernel reports.
    pub(super) fn note(&mut self, events: EventFlags) {
        let table = [
            (EventFlags::IN, Self::READABLE),
            (EventFlags::OUT, Self::WRITABLE),
            (EventFlags::RDHUP, Self(Self::READABLE.0 | Self::HUNG_UP.0)),
            (
                EventFlags::HUP,
                Self(Self::READABLE.0 | Self::WRITABLE.0 | Self::HUNG_UP.0),
            ),
            (
                EventFlags::ERR,
                Self(Self::READABLE.0 | Self::WRITABLE.0 | Self::FAILED.0),
            ),
            (EventFlags::PRI, Self(Self::READABLE.0 | Self::URGENT.0)),
        ];
        for (event, signs) in table {
            if events.intersects(event) {
                self.set(signs);
            }
        }
    }

    /// Keeps only the facts that the kernel does not report again when a socket is watched again.
    pub(super) fn forget(&mut self) {
        *self = Self::from_lasting(self.lasting());
    }

    /// The facts for a process that takes the socket over; the kernel reports the rest again.
    pub(super) fn lasting(self) -> u8 {
        self.0 & (Self::RESET.0 | Self::URGENT.0)
    }

    pub(super) fn from_lasting(bits: u8) -> Self {
        Self(bits & (Self::RESET.0 | Self::URGENT.0))
    }
}

impl std::ops::BitOr for Readiness {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

//--- Flows

/// One direction of a session.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// Bytes the destination has taken.
    pub(crate) moved: u64,
    /// Bytes that were read and that the destination would not take.
    held: Option<Box<Held>>,
    pipe: Option<Pipe>,
    in_pipe: u32,
    pub(crate) end: End,
    mode: Mode,
    /// Full reads in a row while copying, small rounds in a row while splicing.
    streak: u8,
    gathering: Gathering,
    /// Counts the fills of a pipe, from the beginning again at its end.
    fills: u8,
}

/// How far a flow has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum End {
    /// More may come.
    #[default]
    Open,
    /// The source has ended; the destination learns of it after what waits.
    Finishing,
    /// The destination has received the end.
    Finished,
    /// The source was reset; the destination is, after what waits.
    Resetting,
    /// The destination takes nothing any more.
    Dead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Mode {
    #[default]
    Copy,
    Splice,
}

/// Bytes from `start` on are still to be sent.
#[derive(Debug, Default)]
struct Held {
    bytes: Vec<u8>,
    start: usize,
}

/// The parts that the sessions of one worker share.
#[derive(Debug)]
pub(super) struct Tools {
    pub(super) scratch: Vec<u8>,
    pub(super) pipes: Pipes,
    /// Bytes that went through pipes.
    pub(super) spliced: u64,
    pub(super) receive_buffer: ReceiveBuffer,
}

impl Tools {
    pub(super) fn new(receive_buffer: usize) -> Self {
        Self {
            scratch: vec![0; SCRATCH],
            pipes: Pipes::default(),
            spliced: 0,
            receive_buffer: ReceiveBuffer::new(receive_buffer),
        }
    }
}

/// Whether a flow has more to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Not until the kernel reports something.
    Rest,
    /// There is more; others come first.
    Again,
}

enum Flushed {
    All,
    Blocked,
    Broken,
}

enum Read {
    Some,
    Nothing,
    End,
    Failed,
}

impl Flow {
    /// Moves what there is; `back` is how far the other direction has come.
    pub(super) fn pump(
        &mut self,
        source: &mut Side,
        destination: &mut Side,
        back: End,
        tools: &mut Tools,
    ) -> Turn {
        for _ in 0..ROUNDS {
            if matches!(self.end, End::Finished | End::Dead) {
                return Turn::Rest;
            }
            match self.flush(destination, tools) {
                Flushed::All => {}
                Flushed::Blocked => return Turn::Rest,
                Flushed::Broken => {
                    self.kill(tools);
                    // Octets it sent before it went may still be there to be read.
                    destination
                        .signs
                        .set(Readiness::RESET | Readiness::READABLE);
                    return Turn::Rest;
                }
            }
            match self.end {
                End::Open if source.signs.has(Readiness::READABLE) => {}
                End::Finishing => {
                    // When both ends have closed, the sockets are closed next, which says the same.
                    let closes = back == End::Finished && !failed(source) && !failed(destination);
                    if !closes {
                        // An error means that the connection is gone: the other direction finds out.
                        rustix::net::shutdown(&destination.socket, Shutdown::Write).ok();
                    }
                    self.end = End::Finished;
                    return Turn::Rest;
                }
                _ => return Turn::Rest,
            }
            match self.read(source, destination, tools) {
                Read::Some => {}
                Read::Nothing => source.signs.clear(Readiness::READABLE),
                Read::End if source.signs.has(Readiness::RESET) => self.end = End::Resetting,
                Read::End => self.end = End::Finishing,
                Read::Failed => {
                    source.signs.set(Readiness::RESET);
                    self.end = End::Resetting;
                }
            }
        }
        Turn::Again
    }

    /// Puts bytes before everything that is still to be sent; for a header, and for what was looked
    /// into before there was a destination.
    pub(super) fn hold(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.held = Some(Box::new(Held { bytes, start: 0 }));
        }
    }

    /// True when nothing that was read waits to be sent.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_none() && self.in_pipe == 0
    }

    /// Reads no more. The destination gets the bytes that wait, and no end.
    pub(super) fn cut(&mut self) {
        if self.end == End::Open {
            self.end = End::Resetting;
        }
    }

    /// Gives up what waits; the destination takes nothing any more.
    pub(super) fn kill(&mut self, tools: &mut Tools) {
        self.end = End::Dead;
        self.held = None;
        self.release(&mut tools.pipes);
    }

    /// Gives the pipe back: to the pool when it is empty, else it is closed.
    pub(super) fn release(&mut self, pipes: &mut Pipes) {
        if let Some(pipe) = self.pipe.take() {
            if self.in_pipe == 0 {
                pipes.put(pipe);
            } else {
                pipes.discard(pipe);
            }
        }
        self.in_pipe = 0;
    }

    //--- Writing

    fn flush(&mut self, destination: &mut Side, tools: &mut Tools) -> Flushed {
        if !destination.signs.has(Readiness::WRITABLE) {
            return Flushed::Blocked;
        }
        if let Some(held) = &mut self.held {
            let bytes = held.bytes.get(held.start..).unwrap_or_default();
            match send(destination, bytes, SendFlags::empty()) {
                Ok(sent) => {
                    self.moved += sent as u64;
                    held.start += sent;
                    if held.start < held.bytes.len() {
                        return Flushed::Blocked;
                    }
                    self.held = None;
                }
                Err(()) => return Flushed::Broken,
            }
        }
        self.empty_pipe(destination, tools)
    }

    fn empty_pipe(&mut self, destination: &mut Side, tools: &mut Tools) -> Flushed {
        while self.in_pipe > 0 {
            let Some(pipe) = &self.pipe else { break };
            match splice(&pipe.read, &destination.socket, self.in_pipe as usize) {
                Ok(0) => return Flushed::Broken,
                Ok(sent) => {
                    self.moved += sent as u64;
                    tools.spliced += sent as u64;
                    self.in_pipe = self
                        .in_pipe
                        .saturating_sub(u32::try_from(sent).unwrap_or(u32::MAX));
                }
                Err(Errno::AGAIN) => {
                    destination.signs.clear(Readiness::WRITABLE);
                    return Flushed::Blocked;
                }
                Err(Errno::INTR) => {}
                Err(_) => return Flushed::Broken,
            }
        }
        self.release(&mut tools.pipes);
        Flushed::All
    }

    //--- Reading

    fn read(&mut self, source: &mut Side, destination: &mut Side, tools: &mut Tools) -> Read {
        if self.mode == Mode::Splice
            && let Some(pipe) = tools.pipes.take()
        {
            return self.splice_in(pipe, source, destination, tools);
        }
        let scratch = tools.scratch.as_mut_slice();
        let capacity = scratch.len();
        let received = match rustix::net::recv(&source.socket, &mut *scratch, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Read::End,
            Ok((received, _)) => received,
            Err(Errno::AGAIN) => return Read::Nothing,
            Err(Errno::INTR) => return Read::Some,
            Err(_) => return Read::Failed,
        };
        let bytes = scratch.get(..received).unwrap_or_default();
        // A short read is all there was, which spares the call that would say so.
        let rest = match source.signs {
            _ if received == capacity => Read::Some,
            signs if signs.has(Readiness::URGENT | Readiness::FAILED) => Read::Some,
            signs if signs.has(Readiness::HUNG_UP) => Read::End,
            _ => Read::Nothing,
        };
        // The last bytes wait for the end, which follows and goes in the same segment.
        let flags = match rest {
            Read::End if !source.signs.has(Readiness::RESET) => SendFlags::MORE,
            _ => SendFlags::empty(),
        };
        self.copy_out(bytes, destination, flags);
        if received == capacity {
            self.streak += 1;
            if self.streak >= PROOF {
                self.mode = Mode::Splice;
                self.streak = 0;
            }
        } else {
            self.streak = 0;
        }
        rest
    }

    /// Sends bytes at once and holds what is refused.
    fn copy_out(&mut self, bytes: &[u8], destination: &mut Side, flags: SendFlags) {
        // On an error nothing counts as sent: the bytes are held, and the next flush meets the error.
        let sent = send(destination, bytes, flags).unwrap_or(0);
        self.moved += sent as u64;
        if let Some(rest) = bytes.get(sent..)
            && !rest.is_empty()
        {
            self.hold(rest.to_vec());
        }
    }

    fn splice_in(
        &mut self,
        pipe: Pipe,
        source: &Side,
        destination: &Side,
        tools: &mut Tools,
    ) -> Read {
        let most = round(send_room(destination));
        match splice(&source.socket, &pipe.write, most) {
            Ok(0) => {
                tools.pipes.put(pipe);
                Read::End
            }
            Ok(received) => {
                self.in_pipe = u32::try_from(received).unwrap_or(u32::MAX);
                self.pipe = Some(pipe);
                self.fills = self.fills.wrapping_add(1);
                tools.receive_buffer.bound(source);
                self.streak = if received < SMALL_ROUND {
                    self.streak + 1
                } else {
                    0
                };
                if self.streak >= PROOF {
                    self.mode = Mode::Copy;
                    self.streak = 0;
                    self.stop_gathering(source);
                } else if self.gathering.count(received) {
                    mark(source, MARK);
                }
                Read::Some
            }
            Err(error) => {
                tools.pipes.put(pipe);
                match error {
                    Errno::AGAIN => Read::Nothing,
                    Errno::INTR => Read::Some,
                    _ => Read::Failed,
                }
            }
        }
    }
}

//--- Pressure

impl Flow {
    /// The fill of the pipe that is not sent yet; another fill has another number, up to 255 of them later.
    pub(super) fn fill(&self) -> Option<u8> {
        (self.in_pipe > 0).then_some(self.fills)
    }

    /// Takes the bytes of a slow reader out of the pipe, which others get. The flow is copied until it is bulk again.
    pub(super) fn unload(&mut self, source: &Side, pipes: &mut Pipes) {
        let Some(pipe) = self.pipe.take() else { return };
        let mut held = self.held.take().unwrap_or_default();
        let sent = std::mem::take(&mut held.start);
        held.bytes.drain(..sent);
        let length = held.bytes.len() + self.in_pipe as usize;
        held.bytes.reserve_exact(self.in_pipe as usize);
        while held.bytes.len() < length {
            let room = rustix::buffer::spare_capacity(&mut held.bytes);
            match rustix::io::read(&pipe.read, room) {
                Ok(1..) | Err(Errno::INTR) => {}
                Ok(0) | Err(_) => break,
            }
        }
        self.in_pipe = u32::try_from(length - held.bytes.len()).unwrap_or(u32::MAX);
        self.held = Some(held);
        if self.in_pipe > 0 {
            self.pipe = Some(pipe);
            return;
        }
        pipes.put(pipe);
        self.mode = Mode::Copy;
        self.streak = 0;
        self.stop_gathering(source);
    }
}

/// The bytes to splice, with so much room in the destination's send buffer: little more than that, so that the kernel
/// reports when there is room again, and a slow reader leaves no more behind than a copied one does.
fn round(send_room: usize) -> usize {
    send_room.saturating_add(SCRATCH).min(ROUND)
}

/// The bytes that a socket's send buffer takes now, as it is.
fn send_room(side: &Side) -> usize {
    let size = rustix::net::sockopt::socket_send_buffer_size(&side.socket).unwrap_or(0);
    size.saturating_sub(sys::tcp::unacknowledged(&side.socket))
}

/// The largest receive buffer of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReceiveBuffer {
    /// Bytes, half of which are for the kernel's own records (`socket(7)`).
    size: usize,
    /// The system lets any process set as much.
    is_free: bool,
}

impl ReceiveBuffer {
    pub(super) fn new(size: usize) -> Self {
        let most = std::fs::read_to_string("/proc/sys/net/core/rmem_max");
        let most = most.ok().and_then(|text| text.trim().parse().ok());
        Self {
            size,
            is_free: most.is_some_and(|most: usize| most >= size / 2),
        }
    }

    /// Bounds what the kernel buffers for a flow. The buffer grows as fast as the flow is read, in recent kernels up to
    /// 32 MiB (`tcp_rmem`), and is full as soon as the reader on the other side pauses.
    fn bound(self, source: &Side) {
        use rustix::net::sockopt;
        let socket = &source.socket;
        let size = sockopt::socket_recv_buffer_size(socket);
        if size.is_ok_and(|size| size <= self.size) {
            return;
        }
        // Beyond `net.core.rmem_max` it takes CAP_NET_ADMIN. Without, the plain call would leave a slow connection.
        let forced = sockopt::set_socket_recv_buffer_size_force(socket, self.size / 2);
        if forced.is_err() && self.is_free {
            sockopt::set_socket_recv_buffer_size(socket, self.size / 2).ok();
        }
    }
}

//--- Gathering

impl Flow {
    /// True when the flow waits for its source, and the kernel may have something that it does not report.
    pub(super) fn is_gathering(&self) -> bool {
        self.gathering.is_on() && self.end == End::Open && self.is_empty()
    }

    /// The mark was not reached in time: it goes, and what there is below it is read next.
    pub(super) fn wait_no_longer(&mut self, source: &mut Side) {
        if self.is_gathering() && self.gathering.miss() {
            mark(source, 1);
            source.signs.set(Readiness::READABLE);
        }
    }

    fn stop_gathering(&mut self, source: &Side) {
        if self.gathering.stop() {
            mark(source, 1);
        }
    }
}

/// If the mark cannot be set, it stays at one octet, and rounds are smaller.
fn mark(source: &Side, octets: i32) {
    sys::option::set_low_water_mark(&source.socket, octets).ok();
}

/// True when a side was reset, or is about to be found so.
fn failed(side: &Side) -> bool {
    side.signs.has(Readiness::RESET | Readiness::FAILED)
}

/// Sends as much as the socket takes and notes when it takes no more; an error is only that it is one.
fn send(destination: &mut Side, bytes: &[u8], flags: SendFlags) -> Result<usize, ()> {
    let flags = flags | SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    loop {
        match rustix::net::send(&destination.socket, bytes, flags) {
            Ok(sent) => {
                if sent < bytes.len() {
                    destination.signs.clear(Readiness::WRITABLE);
                }
                return Ok(sent);
            }
            Err(Errno::AGAIN) => {
                destination.signs.clear(Readiness::WRITABLE);
                return Ok(0);
            }
            Err(Errno::INTR) => {}
            Err(_) => return Err(()),
        }
    }
}

/// Without a flag to ask for it, a socket that is gone raises SIGPIPE here, which Rust's runtime ignores
/// from the start.
fn splice(from: impl AsFd, to: impl AsFd, length: usize) -> rustix::io::Result<usize> {
    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
    rustix::pipe::splice(from, None, to, None, length, flags)
}

//--- Handover

/// The parts of a flow besides its numbers.
#[derive(Debug, Default)]
pub(crate) struct FlowParts {
    pub(crate) held: Vec<u8>,
    pub(crate) pipe: Option<(Pipe, u32)>,
}

impl Flow {
    /// Leaves a worker, with the pipe if bytes are in it. Its source is marked no more: the worker that continues
    /// it may not know of the mark.
    pub(super) fn leave(&mut self, source: Option<&Side>, pipes: &mut Pipes) {
        if let Some(source) = source {
            self.stop_gathering(source);
        }
        if self.in_pipe == 0 {
            self.release(pipes);
        } else if self.pipe.is_some() {
            pipes.give_away();
        }
    }

    /// Comes to a worker.
    pub(super) fn arrive(&mut self, pipes: &mut Pipes) {
        if self.pipe.is_some() {
            pipes.adopt();
        }
    }

    /// Bytes that wait to be sent, and not in a pipe.
    pub(crate) fn held(&self) -> &[u8] {
        self.held
            .as_ref()
            .and_then(|held| held.bytes.get(held.start..))
            .unwrap_or_default()
    }

    /// The pipe with bytes in it, and how many.
    pub(crate) fn piped(&self) -> Option<(&Pipe, u32)> {
        self.pipe
            .as_ref()
            .filter(|_| self.in_pipe > 0)
            .map(|pipe| (pipe, self.in_pipe))
    }

    /// A flow that continues where another process left it.
    pub(crate) fn resumed(moved: u64, end: End, parts: FlowParts) -> Self {
        let mut flow = Self {
            moved,
            end,
            ..Self::default()
        };
        flow.hold(parts.held);
        if let Some((pipe, in_pipe)) = parts.pipe {
            flow.pipe = Some(pipe);
            flow.in_pipe = in_pipe;
            flow.mode = Mode::Splice;
        }
        flow
    }
}

impl End {
    /// The end as a number, for another process.
    pub(crate) fn to_number(self) -> u8 {
        match self {
            Self::Open => 0,
            Self::Finishing => 1,
            Self::Finished => 2,
            Self::Resetting => 3,
            Self::Dead => 4,
        }
    }

    /// The end a number stands for; an unknown number must be of a flow that continues.
    pub(crate) fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Finishing,
            2 => Self::Finished,
            3 => Self::Resetting,
            4 => Self::Dead,
            _ => Self::Open,
        }
    }
}

#[cfg(test)]
mod tests;
