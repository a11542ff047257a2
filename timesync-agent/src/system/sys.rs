//! The calls of the C library.
//!
//! One of the files with unsafe code. Each function is one call with its arguments made safe; what the calls mean is next door.
#![expect(
    unsafe_code,
    reason = "clocks, sockets with stamps and timers through the C library alone"
)]

use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use time_model::time::SECOND;

/// What a descriptor has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Something to read.
    pub readable: bool,
    /// A stamp of what was sent, or an error.
    pub error: bool,
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn counted(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn owned(descriptor: libc::c_int) -> io::Result<OwnedFd> {
    let descriptor = check(descriptor)?;
    // SAFETY: The kernel has just given this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The length of a value, as socket calls want it.
fn length_of<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).unwrap_or(libc::socklen_t::MAX)
}

//--- Clocks

/// A clock of the kernel, in nanoseconds.
pub(super) fn clock(id: libc::clockid_t) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: The kernel writes to a `timespec` of ours, and does not fail of clocks that every kernel has.
    unsafe { libc::clock_gettime(id, &raw mut time) };
    nanoseconds(&time)
}

fn nanoseconds(time: &libc::timespec) -> i64 {
    time.tv_sec
        .saturating_mul(SECOND)
        .saturating_add(time.tv_nsec)
}

/// Nothing to be changed.
pub(super) fn no_adjustment() -> libc::timex {
    // SAFETY: `timex` is numbers alone, and all of them may be zero.
    unsafe { mem::zeroed() }
}

/// Reads the state of the clock, after changing what `modes` of it says.
pub(super) fn adjust(adjustment: &mut libc::timex) -> io::Result<()> {
    // SAFETY: The kernel reads and writes a `timex` of ours.
    let result = unsafe { libc::adjtimex(&raw mut *adjustment) };
    check(result).map(drop)
}

/// Octets that nobody can guess.
pub(super) fn random() -> io::Result<[u8; 16]> {
    let mut octets = [0_u8; 16];
    // SAFETY: The kernel writes no more than the length that is given, which is that of the array.
    let n = unsafe { libc::getrandom(octets.as_mut_ptr().cast(), octets.len(), 0) };
    if counted(n)? == octets.len() {
        Ok(octets)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

//--- Signals

/// A signal came that asks for the end.
static STOPPED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_signal(_: libc::c_int) {
    STOPPED.store(true, Ordering::Release);
}

/// Whether one came.
pub(super) fn is_stopped() -> bool {
    STOPPED.load(Ordering::Acquire)
}

/// Notes the signals that ask for the end. Whatever waits is woken by them.
pub(super) fn stop_on_signals() -> io::Result<()> {
    // SAFETY: `sigaction` is numbers, an empty set of signals and a pointer, and all of them may be zero.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = note_signal as extern "C" fn(libc::c_int) as usize;
    for signal in [libc::SIGTERM, libc::SIGINT] {
        // SAFETY: The handler only stores to an atomic, which is safe wherever it interrupts.
        check(unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) })?;
    }
    Ok(())
}

//--- Descriptors

/// Makes a descriptor one that never waits, and that no other program inherits.
pub(super) fn set_flags(descriptor: &OwnedFd) -> io::Result<()> {
    let raw = descriptor.as_raw_fd();
    // SAFETY: The descriptor is open; the flag is a number.
    check(unsafe { libc::fcntl(raw, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: The same.
    check(unsafe { libc::fcntl(raw, libc::F_SETFL, libc::O_NONBLOCK) })?;
    Ok(())
}

/// Waits until one of these has something.
pub(super) fn poll(descriptors: &mut [(RawFd, Events)]) -> io::Result<()> {
    let mut polled: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|(descriptor, _)| libc::pollfd {
            fd: *descriptor,
            events: libc::POLLIN | libc::POLLPRI,
            revents: 0,
        })
        .collect();
    let n = libc::nfds_t::try_from(polled.len()).unwrap_or(0);
    // SAFETY: The array is as long as is said, and the kernel writes to its elements alone.
    let result = check(unsafe { libc::poll(polled.as_mut_ptr(), n, -1) });
    match result {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            for (_, events) in descriptors {
                *events = Events::default();
            }
            return Ok(());
        }
        Err(error) => return Err(error),
    }
    for ((_, events), polled) in descriptors.iter_mut().zip(&polled) {
        *events = Events {
            readable: polled.revents & libc::POLLIN != 0,
            error: polled.revents & (libc::POLLPRI | libc::POLLERR) != 0,
        };
    }
    Ok(())
}

/// A timer that can be waited for.
pub(super) fn timer() -> io::Result<OwnedFd> {
    let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
    // SAFETY: Two numbers.
    owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })
}

/// Lets a timer go off once, after so many nanoseconds; at least one.
pub(super) fn set_timer(timer: &OwnedFd, nanoseconds: i64) -> io::Result<()> {
    let nanoseconds = nanoseconds.max(1);
    let value = libc::itimerspec {
        it_interval: libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
        it_value: libc::timespec {
            tv_sec: nanoseconds / SECOND,
            tv_nsec: nanoseconds % SECOND,
        },
    };
    // SAFETY: The kernel reads a value of ours, and is asked for no old one.
    let result =
        unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &raw const value, ptr::null_mut()) };
    check(result).map(drop)
}

/// A counter by which another thread wakes this one.
pub(super) fn event() -> io::Result<OwnedFd> {
    // SAFETY: Two numbers.
    owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
}

/// Reads what a timer or a counter has, which is always eight octets.
pub(super) fn read_counter(descriptor: &OwnedFd) {
    let mut octets = [0_u8; 8];
    // SAFETY: The kernel writes no more than the length that is given, which is that of the array.
    unsafe { libc::read(descriptor.as_raw_fd(), octets.as_mut_ptr().cast(), 8) };
}

/// Adds one to a counter.
pub(super) fn count(descriptor: &OwnedFd) {
    let octets = 1_u64.to_ne_bytes();
    // SAFETY: The kernel reads the eight octets of the array.
    unsafe { libc::write(descriptor.as_raw_fd(), octets.as_ptr().cast(), 8) };
}

//--- Sockets

/// A datagram socket of the family of `address`.
pub(super) fn socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    // SAFETY: Three numbers.
    let socket = owned(unsafe { libc::socket(family, libc::SOCK_DGRAM, 0) })?;
    set_flags(&socket)?;
    Ok(socket)
}

/// Sets an option that is a number.
pub(super) fn set_option(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let raw = socket.as_raw_fd();
    // SAFETY: The kernel reads as much as the length says, which is that of the number.
    let result = unsafe {
        libc::setsockopt(
            raw,
            level,
            option,
            (&raw const value).cast(),
            length_of::<libc::c_int>(),
        )
    };
    check(result).map(drop)
}

/// Binds a socket to an interface.
pub(super) fn bind_device(socket: &OwnedFd, name: &str) -> io::Result<()> {
    let length = libc::socklen_t::try_from(name.len()).unwrap_or(0);
    let raw = socket.as_raw_fd();
    // SAFETY: The kernel reads as much as the length says, which is that of the name.
    let result = unsafe {
        libc::setsockopt(
            raw,
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            name.as_ptr().cast(),
            length,
        )
    };
    check(result).map(drop)
}

/// An address as the kernel has it.
enum Address {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
}

impl Address {
    fn of(address: SocketAddr) -> Self {
        match address {
            SocketAddr::V4(address) => Self::V4(libc::sockaddr_in {
                sin_family: family(libc::AF_INET),
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: address.ip().to_bits().to_be(),
                },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(address) => Self::V6(libc::sockaddr_in6 {
                sin6_family: family(libc::AF_INET6),
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: address.ip().octets(),
                },
                sin6_scope_id: address.scope_id(),
            }),
        }
    }

    fn raw(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        match self {
            Self::V4(address) => (
                ptr::from_ref(address).cast(),
                length_of::<libc::sockaddr_in>(),
            ),
            Self::V6(address) => (
                ptr::from_ref(address).cast(),
                length_of::<libc::sockaddr_in6>(),
            ),
        }
    }
}

fn family(family: libc::c_int) -> libc::sa_family_t {
    libc::sa_family_t::try_from(family).unwrap_or(0)
}

/// Gives a socket its own address.
pub(super) fn bind(socket: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    let address = Address::of(address);
    let (pointer, length) = address.raw();
    // SAFETY: The kernel reads an address of that length, which lives until the call has returned.
    check(unsafe { libc::bind(socket.as_raw_fd(), pointer, length) }).map(drop)
}

/// Gives a socket the address of the other side.
pub(super) fn connect(socket: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    let address = Address::of(address);
    let (pointer, length) = address.raw();
    // SAFETY: The kernel reads an address of that length, which lives until the call has returned.
    check(unsafe { libc::connect(socket.as_raw_fd(), pointer, length) }).map(drop)
}

/// The own address of a socket.
pub(super) fn local_address(socket: &OwnedFd) -> Option<SocketAddr> {
    // SAFETY: The storage is numbers alone, and all of them may be zero.
    let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let mut length = length_of::<libc::sockaddr_storage>();
    let raw = socket.as_raw_fd();
    // SAFETY: The kernel writes no more than the length that is given, which is that of the storage.
    let result = unsafe { libc::getsockname(raw, (&raw mut storage).cast(), &raw mut length) };
    check(result).ok()?;
    socket_address(&storage)
}

fn socket_address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: The family says what the storage, which has room and alignment for every address, holds.
            let address: libc::sockaddr_in =
                unsafe { ptr::from_ref(storage).cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from_bits(u32::from_be(address.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(address.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: The same.
            let address: libc::sockaddr_in6 =
                unsafe { ptr::from_ref(storage).cast::<libc::sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            let port = u16::from_be(address.sin6_port);
            Some(SocketAddrV6::new(ip, port, address.sin6_flowinfo, address.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Sends to the other side of a connected socket.
pub(super) fn send(socket: &OwnedFd, octets: &[u8]) -> io::Result<usize> {
    let raw = socket.as_raw_fd();
    // SAFETY: The kernel reads as much as the length says, which is that of the slice.
    counted(unsafe { libc::send(raw, octets.as_ptr().cast(), octets.len(), 0) })
}

/// Sends to an address, and from one of the own if it is given.
pub(super) fn send_to(
    socket: &OwnedFd,
    octets: &[u8],
    to: SocketAddr,
    from: Option<IpAddr>,
) -> io::Result<usize> {
    let to = Address::of(to);
    let (name, name_length) = to.raw();
    let mut vector = libc::iovec {
        iov_base: octets.as_ptr().cast_mut().cast(),
        iov_len: octets.len(),
    };
    let mut control = Control([0; CONTROL_LENGTH]);
    let length = from.map_or(0, |from| control.set_source(from));
    // SAFETY: A header is numbers and pointers, and all of them may be zero.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_name = name.cast_mut().cast();
    header.msg_namelen = name_length;
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    if length > 0 {
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = length;
    }
    // SAFETY: The header points to what is sent, of the lengths that it says; the kernel reads it and writes nothing.
    counted(unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, 0) })
}

impl Control {
    /// Makes this the one control message that says from where a message is sent; gives its length.
    fn set_source(&mut self, from: IpAddr) -> usize {
        let mut head = libc::cmsghdr {
            cmsg_len: 0,
            cmsg_level: 0,
            cmsg_type: 0,
        };
        // struct in_pktinfo and struct in6_pktinfo, with no interface: the route decides.
        let mut body = [0; 20];
        let length = match from {
            IpAddr::V4(address) => {
                (head.cmsg_level, head.cmsg_type) = (libc::IPPROTO_IP, libc::IP_PKTINFO);
                if let Some(place) = body.get_mut(4..8) {
                    place.copy_from_slice(&address.octets());
                }
                12
            }
            IpAddr::V6(address) => {
                (head.cmsg_level, head.cmsg_type) = (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO);
                if let Some(place) = body.get_mut(..16) {
                    place.copy_from_slice(&address.octets());
                }
                20
            }
        };
        // SAFETY: Arithmetic on a number.
        head.cmsg_len = unsafe { libc::CMSG_LEN(length) } as usize;
        // SAFETY: The room is longer than a header and aligned like one.
        unsafe { self.0.as_mut_ptr().cast::<libc::cmsghdr>().write(head) };
        // A header is as long as an empty message.
        // SAFETY: Arithmetic on a number.
        let start = unsafe { libc::CMSG_LEN(0) } as usize;
        if let Some(place) = self.0.get_mut(start..start + body.len()) {
            place.copy_from_slice(&body);
        }
        // SAFETY: Arithmetic on a number.
        unsafe { libc::CMSG_SPACE(length) as usize }
    }
}

/// Room for what comes beside a message: stamps, addresses and errors. Aligned as headers of control messages are.
#[repr(C, align(8))]
struct Control([u8; CONTROL_LENGTH]);

/// Three stamps, the card's number, an extended error with an address, an own address, and their headers: 216 octets of these.
const CONTROL_LENGTH: usize = 512;

/// What came with a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Received {
    /// Octets of the message.
    pub(super) length: usize,
    /// Stamp of the kernel, in nanoseconds on the wall clock.
    pub(super) software: Option<i64>,
    /// Stamp of the card, in nanoseconds on its own clock.
    pub(super) hardware: Option<i64>,
    /// Which interface has stamped it, and how long the frame was; of what was sent only the first.
    pub(super) interface: Option<u32>,
    pub(super) frame_length: Option<u32>,
    /// It is a stamp of what was sent: of the how manieth datagram.
    pub(super) number: Option<u32>,
    /// Who sent it.
    pub(super) from: Option<SocketAddr>,
    /// To which own address.
    pub(super) to: Option<IpAddr>,
}

/// Takes a message, or with `MSG_ERRQUEUE` a stamp of one that was sent.
pub(super) fn receive(
    socket: &OwnedFd,
    buffer: &mut [u8],
    flags: libc::c_int,
) -> io::Result<Received> {
    let mut control = Control([0; CONTROL_LENGTH]);
    let mut vector = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: The storage is numbers alone, and all of them may be zero.
    let mut from: libc::sockaddr_storage = unsafe { mem::zeroed() };
    // SAFETY: A header is numbers and pointers, and all of them may be zero.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_name = (&raw mut from).cast();
    header.msg_namelen = length_of::<libc::sockaddr_storage>();
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_LENGTH;
    let raw = socket.as_raw_fd();
    // SAFETY: The header points to room of the lengths that it says, which outlives the call.
    let length = counted(unsafe { libc::recvmsg(raw, &raw mut header, flags) })?;
    let mut received = Received {
        length,
        from: socket_address(&from),
        ..Received::default()
    };
    // SAFETY: The kernel has filled the header in, and its control messages are in the room that it still points to.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
    while !message.is_null() {
        // SAFETY: The pointer is to a header in the room for control messages, as the macro has found it.
        let head = unsafe { ptr::read_unaligned(message) };
        // SAFETY: The data of a control message follow its header.
        let data = unsafe { libc::CMSG_DATA(message) };
        // SAFETY: A header is as long as this says.
        let overhead = unsafe { libc::CMSG_LEN(0) } as usize;
        let length = head.cmsg_len.saturating_sub(overhead);
        // SAFETY: The kernel has written that many octets of data, inside the room.
        let data = unsafe { std::slice::from_raw_parts(data, length) };
        received.note(head.cmsg_level, head.cmsg_type, data);
        // SAFETY: The header and the message are as the kernel left them.
        message = unsafe { libc::CMSG_NXTHDR(&raw const header, message) };
    }
    Ok(received)
}

/// Which control message says by which card a packet was stamped (linux/socket.h).
const SCM_TIMESTAMPING_PKTINFO: libc::c_int = 58;

impl Received {
    /// Takes in one control message.
    fn note(&mut self, level: libc::c_int, kind: libc::c_int, data: &[u8]) {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                let stamp = |place| stamp_at(data, place).filter(|stamp| *stamp != 0);
                // The middle one of the three is not used any more.
                self.software = stamp(0).or(self.software);
                self.hardware = stamp(2).or(self.hardware);
            }
            (libc::SOL_SOCKET, SCM_TIMESTAMPING_PKTINFO) => {
                let word = |at: usize| {
                    data.get(at..)?
                        .first_chunk()
                        .copied()
                        .map(u32::from_ne_bytes)
                };
                // An interface that is gone has number 0.
                self.interface = word(0).filter(|index| *index != 0);
                self.frame_length = word(4).filter(|length| *length != 0);
            }
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => {
                // struct sock_extended_err: who reports it is the fifth octet, and the last word a number.
                let is_stamp = data.get(4) == Some(&libc::SO_EE_ORIGIN_TIMESTAMPING);
                let number = data.get(12..16).and_then(|number| number.try_into().ok());
                self.number = number.filter(|_| is_stamp).map(u32::from_ne_bytes);
            }
            (libc::SOL_IP, libc::IP_PKTINFO) => {
                // struct in_pktinfo: the interface, the own address, the address in the header.
                let address: Option<[u8; 4]> =
                    data.get(4..8).and_then(|address| address.try_into().ok());
                self.to = address.map(IpAddr::from);
                self.note_interface(data, 0);
            }
            (libc::SOL_IPV6, libc::IPV6_PKTINFO) => {
                let address: Option<[u8; 16]> =
                    data.get(..16).and_then(|address| address.try_into().ok());
                self.to = address.map(IpAddr::from);
                self.note_interface(data, 16);
            }
            _ => {}
        }
    }

    /// The interface of a message, unless whoever stamped it has said.
    fn note_interface(&mut self, data: &[u8], at: usize) {
        let word: Option<[u8; 4]> = data.get(at..).and_then(|word| word.first_chunk().copied());
        let index = word.map(u32::from_ne_bytes).filter(|index| *index != 0);
        self.interface = self.interface.or(index);
    }
}

/// One of the times in a control message, in nanoseconds.
fn stamp_at(data: &[u8], place: usize) -> Option<i64> {
    let number = |at: usize| -> Option<i64> {
        let octets = data.get(at..at + 8)?.try_into().ok()?;
        Some(i64::from_ne_bytes(octets))
    };
    let seconds = number(place * 16)?;
    let nanoseconds = number(place * 16 + 8)?;
    Some(seconds.saturating_mul(SECOND).saturating_add(nanoseconds))
}
