//! Datagrams received and answered many at a time: `recvmmsg` and `sendmmsg` over memory that is made once.
//!
//! A [`Batch`] owns all memory the kernel reads and writes; it hands out ordinary slices between calls and
//! keeps the raw pointers to itself. A reply is written beside the datagram that it answers, staged, and sent
//! with the others.

use std::io;
use std::mem;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::time::Duration;

use crate::address::{self, RawAddress};
use crate::control::{Room, put_stamp_request};
use crate::source::{Ancillary, Source};
use crate::{length_of, message};

/// Room for one control message with the larger `in6_pktinfo` (40 bytes), one with timestamps (64 bytes), one
/// with the length of merged datagrams (24 bytes) and, with a reply that comes back from the error queue, one
/// that says why (48 bytes with an address).
const CONTROL_SIZE: usize = 192;

type Control = Room<CONTROL_SIZE>;

/// Most replies are shorter than this; the arena has room for a batch of them.
const USUAL_REPLY: usize = 512;

/// The longest frame whose departure time is reported, headers included.
const LONGEST_FRAME: usize = 2048;

/// More than the longest payload of a datagram, or of several that the kernel merged.
pub const LONGEST: usize = 65_535;

/// The length of a cache line, to which datagrams are aligned.
const CACHE_LINE: usize = 64;

/// The most datagrams one call handles (linux/socket.h, `UIO_MAXIOV`).
const LARGEST_BATCH: usize = 1024;

/// Whether to wait for datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Take what is there.
    No,
    /// Wait for the first, then take what is there.
    ForFirst,
}

/// A received datagram, read out of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The datagram's data.
    pub payload: &'a [u8],
    /// The sender's address.
    pub peer: RawAddress,
    /// The control messages, read.
    pub ancillary: Ancillary,
}

/// The control messages to request for each datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The address it came to.
    pub destination: bool,
    /// When it came, and on request when a reply left.
    pub stamps: bool,
    /// The length of each of several that the kernel merged.
    pub merged: bool,
}

impl Asked {
    fn anything(self) -> bool {
        self.destination || self.stamps || self.merged
    }
}

/// The longest datagrams, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Longest {
    /// The longest that is received whole; a longer one is dropped.
    pub received: usize,
    /// The longest reply.
    pub reply: usize,
}

//--- Memory

/// An array whose elements the kernel writes through pointers that are handed to it beforehand.
///
/// A reference to an element lives as long as the caller uses it, and derives from the same pointer as
/// the kernel's, so that neither ever becomes stale.
#[derive(Debug)]
struct Memory<T> {
    first: NonNull<T>,
    length: usize,
}

impl<T: Copy> Memory<T> {
    fn new(value: T, length: usize) -> Self {
        let boxed = vec![value; length].into_boxed_slice();
        let first = NonNull::from(Box::leak(boxed)).cast();
        Self { first, length }
    }

    /// A pointer to the element at `index`.
    fn at(&self, index: usize) -> *mut T {
        self.range(index, 1)
    }

    /// A pointer to `length` elements from `from` on.
    fn range(&self, from: usize, length: usize) -> *mut T {
        assert!(
            from < self.length && length <= self.length - from,
            "beyond the memory of a batch"
        );
        // SAFETY: The offset is within the allocation, as was just checked.
        unsafe { self.first.add(from) }.as_ptr()
    }

    fn slice(&self, from: usize, length: usize) -> &[T] {
        // SAFETY: `range` gives memory within the allocation, which is initialised; the kernel
        // writes only during calls, which take the batch exclusively.
        unsafe { std::slice::from_raw_parts(self.range(from, length), length) }
    }

    fn slice_mut(&mut self, from: usize, length: usize) -> &mut [T] {
        // SAFETY: As in `slice`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.range(from, length), length) }
    }

    fn get(&self, index: usize) -> T {
        // SAFETY: `at` gives an element within the allocation, which is initialised.
        unsafe { self.at(index).read() }
    }

    fn get_mut(&mut self, index: usize) -> &mut T {
        // SAFETY: As in `get`, and `self` is borrowed exclusively.
        unsafe { &mut *self.at(index) }
    }
}

impl<T> Drop for Memory<T> {
    fn drop(&mut self) {
        let slice = NonNull::slice_from_raw_parts(self.first, self.length);
        // SAFETY: `new` leaked exactly this slice, and nothing else frees it.
        drop(unsafe { Box::from_raw(slice.as_ptr()) });
    }
}

//--- Batch

/// Buffers and headers for as many datagrams as one call handles.
#[derive(Debug)]
pub struct Batch {
    size: usize,
    receive_capacity: usize,
    receive_stride: usize,
    reply_capacity: usize,
    /// Replies that are sent together at most.
    send_size: usize,
    asked: Asked,
    payloads: Memory<u8>,
    peers: Memory<RawAddress>,
    controls: Memory<Control>,
    received: Memory<libc::mmsghdr>,
    replies: Memory<u8>,
    sending: Memory<libc::mmsghdr>,
    /// The vectors of `received`; written once.
    _receive_vectors: Memory<libc::iovec>,
    send_vectors: Memory<libc::iovec>,
    /// Headers that calls may have written to since they were made ready.
    n_used: usize,
    n_staged: usize,
    /// Replies whose departure times are outstanding.
    n_told: usize,
    replies_used: usize,
}

impl Batch {
    /// Makes room for `size` datagrams, and to send `send_size` replies together.
    #[must_use]
    pub fn new(size: usize, send_size: usize, longest: Longest, asked: Asked) -> Self {
        let size = size.clamp(1, LARGEST_BATCH);
        let receive_capacity = longest.received.clamp(512, LONGEST);
        // An odd number of cache lines, so that the beginnings do not all fall into one set of the cache.
        let receive_stride = (receive_capacity.div_ceil(CACHE_LINE) | 1) * CACHE_LINE;
        let reply_capacity = longest.reply.clamp(512, LONGEST);
        let payloads = Memory::new(0, size * receive_stride);
        let mut peers = Memory::new(RawAddress::EMPTY, size);
        let controls = Memory::new(Control::EMPTY, size);
        let mut receive_vectors = Memory::new(empty_vector(), size);
        let mut received = Memory::new(empty_header(), size);
        for index in 0..size {
            *receive_vectors.get_mut(index) = libc::iovec {
                iov_base: payloads.at(index * receive_stride).cast(),
                iov_len: receive_capacity,
            };
            peers.get_mut(index).length = 0;
            let header = &mut received.get_mut(index).msg_hdr;
            header.msg_name = peers.at(index).cast();
            header.msg_iov = receive_vectors.at(index);
            header.msg_iovlen = 1;
            if asked.anything() {
                header.msg_control = controls.at(index).cast();
            }
        }
        Self {
            size,
            receive_capacity,
            receive_stride,
            reply_capacity,
            send_size: send_size.clamp(1, size),
            asked,
            payloads,
            peers,
            controls,
            received,
            replies: Memory::new(0, reply_capacity + size * USUAL_REPLY),
            sending: Memory::new(empty_header(), size),
            _receive_vectors: receive_vectors,
            send_vectors: Memory::new(empty_vector(), size),
            n_used: size,
            n_staged: 0,
            n_told: 0,
            replies_used: 0,
        }
    }

    /// Receives one datagram, blocking as the socket does.
    pub fn receive_one(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.make_ready();
        if !self.asked.anything() {
            return self.receive_one_plain(socket);
        }
        let header = &mut self.received.get_mut(0).msg_hdr;
        // SAFETY: The header points to memory of this batch, which is borrowed exclusively for the
        // call; its lengths are those of that memory.
        let length = unsafe { libc::recvmsg(socket.as_raw_fd(), header, 0) };
        let length = u32::try_from(length).map_err(|_| io::Error::last_os_error())?;
        self.received.get_mut(0).msg_len = length;
        Ok(1)
    }

    /// As [`Batch::receive_one`], with the cheaper call that knows no control messages.
    fn receive_one_plain(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        let payload = self.payloads.at(0);
        let peer = self.peers.at(0);
        let header = self.received.get_mut(0);
        // SAFETY: `payload` is the beginning of memory for `receive_capacity` bytes, `peer` of memory
        // for `msg_namelen` bytes; both belong to this batch, which is borrowed exclusively.
        let length = unsafe {
            libc::recvfrom(
                socket.as_raw_fd(),
                payload.cast(),
                self.receive_capacity,
                libc::MSG_TRUNC,
                peer.cast(),
                &raw mut header.msg_hdr.msg_namelen,
            )
        };
        // With MSG_TRUNC this is the length of the datagram, not of what fitted.
        let length = u32::try_from(length).map_err(|_| io::Error::last_os_error())?;
        header.msg_len = length;
        header.msg_hdr.msg_flags = if length > length_of(self.receive_capacity) {
            libc::MSG_TRUNC
        } else {
            0
        };
        Ok(1)
    }

    /// Receives as many datagrams as there are, up to the size of the batch.
    pub fn receive_many(&mut self, socket: &UdpSocket, wait: Wait) -> io::Result<usize> {
        self.make_ready();
        let flags = match wait {
            Wait::No => libc::MSG_DONTWAIT,
            Wait::ForFirst => libc::MSG_WAITFORONE,
        };
        let headers = self.received.range(0, self.size);
        let n_headers = length_of(self.size);
        // SAFETY: `headers` points to `size` headers, each of which points to memory of this batch
        // that is borrowed exclusively for the call; their lengths are those of that memory.
        let n_received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers,
                n_headers,
                flags,
                ptr::null_mut(),
            )
        };
        self.n_used = self.size;
        let n_received = usize::try_from(n_received).map_err(|_| io::Error::last_os_error())?;
        // The call has ended with the header behind them.
        self.n_used = self.size.min(n_received + 1);
        Ok(n_received)
    }

    /// Restores the lengths that the last call has overwritten, in those headers only: there are
    /// many more than most calls use.
    fn make_ready(&mut self) {
        let control_length = if self.asked.anything() {
            CONTROL_SIZE
        } else {
            0
        };
        for header in self.received.slice_mut(0, self.n_used) {
            header.msg_hdr.msg_namelen = length_of(address::SIZE);
            header.msg_hdr.msg_controllen = control_length;
        }
        // One datagram is the least that the next call receives.
        self.n_used = 1;
        self.n_staged = 0;
        self.replies_used = 0;
    }

    /// The datagram at `index` of the last receive with room for its reply; none when it was cut.
    pub fn message(&mut self, index: usize) -> Option<(Message<'_>, &mut [u8])> {
        let header = self.received.get(index);
        if header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 {
            return None;
        }
        let length = usize::try_from(header.msg_len)
            .unwrap_or(0)
            .min(self.receive_capacity);
        let peer = self.peers.get_mut(index);
        peer.length = header.msg_hdr.msg_namelen.min(length_of(address::SIZE));
        let peer = *peer;
        let ancillary = if self.asked.anything() {
            let filled = header.msg_hdr.msg_controllen.min(CONTROL_SIZE);
            let control = self.controls.slice(index, 1).first();
            let control = control.and_then(|control| control.0.get(..filled));
            Ancillary::read(control.unwrap_or_default())
        } else {
            Ancillary::NONE
        };
        let message = Message {
            payload: self.payloads.slice(index * self.receive_stride, length),
            peer,
            ancillary,
        };
        let reply = self
            .replies
            .slice_mut(self.replies_used, self.reply_capacity);
        Some((message, reply))
    }

    /// Replies staged, and how many there may be at most.
    #[must_use]
    pub fn staged(&self) -> (usize, usize) {
        (self.n_staged, self.send_size)
    }

    /// True while another reply of full length fits behind those that are sent together.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.n_staged < self.send_size
            && self.replies_used + self.reply_capacity <= self.replies.length
    }

    /// Puts the reply that [`Batch::message`] had room for behind those to be sent.
    /// With `is_told`, requests its departure time.
    pub fn stage(&mut self, index: usize, length: usize, source: Source, is_told: bool) {
        let length = length.min(self.reply_capacity);
        let slot = self.n_staged;
        *self.send_vectors.get_mut(slot) = libc::iovec {
            iov_base: self.replies.at(self.replies_used).cast(),
            iov_len: length,
        };
        let mut control_length = 0;
        if self.asked.destination {
            control_length = source.put(&mut self.controls.get_mut(index).0, 0);
        }
        if is_told && self.asked.stamps {
            let control = &mut self.controls.get_mut(index).0;
            let flags = libc::SOF_TIMESTAMPING_TX_SOFTWARE;
            control_length = put_stamp_request(control, control_length, flags);
            self.n_told += 1;
        }
        let peer = self.peers.at(index);
        let peer_length = self.peers.get(index).length;
        let vector = self.send_vectors.at(slot);
        let control = if control_length > 0 {
            self.controls.at(index).cast()
        } else {
            ptr::null_mut()
        };
        let header = &mut self.sending.get_mut(slot).msg_hdr;
        header.msg_name = peer.cast();
        header.msg_namelen = peer_length;
        header.msg_iov = vector;
        header.msg_iovlen = 1;
        header.msg_control = control;
        header.msg_controllen = control_length;
        self.n_staged += 1;
        // Replies begin on a cache line each.
        self.replies_used += length.next_multiple_of(64);
    }

    /// Sends the staged replies. Drops a reply that the kernel refuses, and sends the others.
    pub fn send(&mut self, socket: &UdpSocket) -> Sent {
        let mut sent = Sent::default();
        let mut next = 0;
        while next < self.n_staged {
            let result = match self.n_staged - next {
                1 => self.send_one(socket, next),
                pending => self.send_many(socket, next, pending),
            };
            match result {
                Ok(count) => {
                    sent.taken += count;
                    next += count;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    sent.refused += 1;
                    next += 1;
                }
            }
        }
        self.n_staged = 0;
        self.replies_used = 0;
        sent
    }

    /// Takes from the error queue when replies left that asked for it, if the kernel knows yet.
    pub fn departures(&mut self, socket: &UdpSocket, mut tell: impl FnMut(&[u8], Duration)) {
        while self.n_told > 0 {
            let mut frame = [0; LONGEST_FRAME];
            let mut control = Control::EMPTY;
            let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
            let received = message::receive(socket, &mut frame, &mut control.0, flags);
            let Ok(received) = received else {
                // Those that are late are found with the next.
                self.n_told = 0;
                return;
            };
            self.n_told -= 1;
            let told = control.0.get(..received.control_length);
            let ancillary = Ancillary::read(told.unwrap_or_default());
            let frame = frame.get(..received.length);
            if let (Some(frame), Some(stamp), false) = (frame, ancillary.stamp, received.is_cut) {
                tell(frame, stamp);
            }
        }
    }

    /// The same for all late departures: they keep the socket ready, so a thread could not sleep on it.
    pub fn late_departures(&mut self, socket: &UdpSocket, tell: impl FnMut(&[u8], Duration)) {
        self.n_told = usize::MAX;
        self.departures(socket, tell);
    }

    fn send_one(&mut self, socket: &UdpSocket, index: usize) -> io::Result<usize> {
        let header = self.sending.get(index).msg_hdr;
        let vector = self.send_vectors.get(index);
        let sent = if header.msg_control.is_null() {
            // SAFETY: Address and data are those that were staged, with their lengths; they belong
            // to this batch, which is borrowed exclusively.
            unsafe {
                libc::sendto(
                    socket.as_raw_fd(),
                    vector.iov_base,
                    vector.iov_len,
                    0,
                    header.msg_name.cast(),
                    header.msg_namelen,
                )
            }
        } else {
            // SAFETY: The header points to what was staged, which belongs to this batch, borrowed
            // exclusively; sendmsg only reads.
            unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, 0) }
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(1)
    }

    fn send_many(&mut self, socket: &UdpSocket, from: usize, count: usize) -> io::Result<usize> {
        let headers = self.sending.range(from, count);
        // SAFETY: `headers` points to `count` headers that were staged; they and all they point to
        // belong to this batch, which is borrowed exclusively.
        let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers, length_of(count), 0) };
        match usize::try_from(sent) {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => Ok(count),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }
}

/// How many replies were sent.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// The kernel took them.
    pub taken: usize,
    /// The kernel refused them.
    pub refused: usize,
}

impl Sent {
    /// Adds another count to this one.
    pub fn add(&mut self, more: Self) {
        self.taken += more.taken;
        self.refused += more.refused;
    }
}

fn empty_header() -> libc::mmsghdr {
    // SAFETY: The structure is of integers and pointers, for which zero is a value; some have
    // private padding, so that they cannot be written out.
    unsafe { mem::zeroed() }
}

fn empty_vector() -> libc::iovec {
    libc::iovec {
        iov_base: ptr::null_mut(),
        iov_len: 0,
    }
}
