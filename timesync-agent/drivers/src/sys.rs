//! The system calls of reference clocks.
//!
//! One of the files with unsafe code. They run in the thread that keeps the time, so they are the plain calls of the C library:
//! no call here waits.
#![expect(
    unsafe_code,
    reason = "shared memory, requests to devices, and plain calls of the C library"
)]

use std::ffi::CString;
use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::{Ordering, fence};

use time_model::time::{RawTime, Reading, SECOND, UnixTime};

use clocks::refclock::shm;

/// How often both clocks are read; the reading that was disturbed least counts.
const TRIES: usize = 3;

/// Both clocks at one moment, as nearly as can be.
pub(crate) fn reading() -> Reading {
    let mut best = (i64::MAX, Reading::default());
    for _ in 0..TRIES {
        let before = clock(libc::CLOCK_MONOTONIC_RAW);
        let wall = clock(libc::CLOCK_REALTIME);
        let after = clock(libc::CLOCK_MONOTONIC_RAW);
        let took = after - before;
        if took < best.0 {
            let reading = Reading {
                raw: RawTime(before + took / 2),
                wall: UnixTime(wall),
            };
            best = (took, reading);
        }
    }
    best.1
}

/// A clock of the kernel, in nanoseconds.
fn clock(id: libc::clockid_t) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: The kernel writes to a `timespec` of ours. Of clocks that every kernel has it does not fail.
    unsafe { libc::clock_gettime(id, &raw mut time) };
    time.tv_sec
        .saturating_mul(SECOND)
        .saturating_add(time.tv_nsec)
}

//--- Devices

/// Opens a device.
pub(crate) fn open(path: &Path) -> io::Result<OwnedFd> {
    let path = c_string(path)?;
    // SAFETY: The path ends with a zero, and the flags want no third argument.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    owned(fd)
}

/// A request to a device, which reads or writes as much as the number of the request says; `argument` is that long.
pub(crate) fn request(device: &OwnedFd, number: u32, argument: &mut [u8]) -> io::Result<()> {
    // SAFETY: The device is open, and every caller gives the memory that the request has the length of, or more.
    let result = unsafe {
        libc::ioctl(
            device.as_raw_fd(),
            libc::Ioctl::from(number),
            argument.as_mut_ptr(),
        )
    };
    checked(result).map(drop)
}

/// Takes what a device has; one that has nothing is `WouldBlock`. A PTP clock that has nothing waits even where it is told not to
/// (`O_NONBLOCK`), and what the poll loop saw may have been taken since.
pub(crate) fn read(device: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    let mut polled = libc::pollfd {
        fd: device.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: The kernel writes to the one structure, which is ours. It does not wait.
    checked(unsafe { libc::poll(&raw mut polled, 1, 0) })?;
    if polled.revents & libc::POLLIN == 0 {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    // SAFETY: The device is open, and the kernel writes to memory of ours, no more than is said.
    let length =
        unsafe { libc::read(device.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
    usize::try_from(length).map_err(|_| io::Error::last_os_error())
}

//--- Shared memory

/// A segment that another program writes to, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Segment(NonNull<u8>);

// SAFETY: The memory belongs to no thread.
unsafe impl Send for Segment {}

impl Segment {
    /// Attaches the segment of a key, and makes it if there is none.
    pub(crate) fn attach(key: u32, mode: u32) -> io::Result<Self> {
        let flags = libc::IPC_CREAT | i32::try_from(mode & 0o777).unwrap_or(0o600);
        // SAFETY: Plain numbers.
        let id = unsafe { libc::shmget(key.cast_signed(), shm::SIZE, flags) };
        checked(id)?;
        // SAFETY: The kernel chooses the address.
        let address = unsafe { libc::shmat(id, ptr::null(), 0) };
        if address.addr() == usize::MAX {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(address.cast())
            .map(Self)
            .ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// A pointer to an octet of the structure.
    fn at(&self, index: usize) -> NonNull<u8> {
        assert!(index < shm::SIZE, "beyond the structure");
        // SAFETY: The segment is at least as long as the structure, or shmget had failed.
        unsafe { self.0.add(index) }
    }

    /// A copy, and `count` read once more after it.
    pub(crate) fn copy(&self) -> ([u8; shm::SIZE], i32) {
        let mut copy = [0; shm::SIZE];
        for (index, octet) in copy.iter_mut().enumerate() {
            let at = self.at(index);
            // SAFETY: It lies within the segment; others write to it, so it is read as volatile.
            *octet = unsafe { at.read_volatile() };
        }
        // The writer's stores before it counted are seen by now.
        fence(Ordering::SeqCst);
        let count = self.at(shm::COUNT).cast::<i32>();
        // SAFETY: As above; the kernel aligns segments to pages, and `count` is at a multiple of four.
        let count = unsafe { count.read_volatile() };
        (copy, count)
    }

    /// Writes it, as another program would.
    #[cfg(test)]
    pub(crate) fn write(&self, octets: &[u8; shm::SIZE]) {
        for (index, octet) in octets.iter().enumerate() {
            let at = self.at(index);
            // SAFETY: As in `copy`.
            unsafe { at.write_volatile(*octet) };
        }
    }

    /// Removes the segment of a key, when the last has detached it.
    #[cfg(test)]
    pub(crate) fn remove(&self, key: u32) -> io::Result<()> {
        // SAFETY: Plain numbers.
        let id = checked(unsafe { libc::shmget(key.cast_signed(), 0, 0) })?;
        // SAFETY: The command has no argument.
        checked(unsafe { libc::shmctl(id, libc::IPC_RMID, ptr::null_mut()) }).map(drop)
    }

    /// Tells the writer that it was read.
    pub(crate) fn take(&self) {
        let valid = self.at(shm::VALID).cast::<i32>();
        // SAFETY: As in `copy`; `valid` is at a multiple of four.
        unsafe { valid.write_volatile(0) };
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: It was attached here, and nothing refers to it any longer.
        unsafe { libc::shmdt(self.0.as_ptr().cast_const().cast()) };
    }
}

//--- Sockets

/// A datagram socket of this machine at a path; without one, at a name that the kernel chooses.
pub(crate) fn bind(path: Option<&Path>) -> io::Result<OwnedFd> {
    // SAFETY: Plain numbers.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0) };
    let socket = owned(fd)?;
    for (get, set, flag) in [
        (libc::F_GETFD, libc::F_SETFD, libc::FD_CLOEXEC),
        (libc::F_GETFL, libc::F_SETFL, libc::O_NONBLOCK),
    ] {
        // SAFETY: The socket is open, and the command has no argument.
        let flags = checked(unsafe { libc::fcntl(socket.as_raw_fd(), get) })?;
        // SAFETY: The socket is open, and the argument is a number.
        checked(unsafe { libc::fcntl(socket.as_raw_fd(), set, flags | flag) })?;
    }
    let (address, length) = address(path)?;
    // SAFETY: The address is as long as is said.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    checked(result)?;
    Ok(socket)
}

/// Sends a datagram to the socket at a path.
pub(crate) fn send(socket: &OwnedFd, datagram: &[u8], path: &Path) -> io::Result<()> {
    let (address, length) = address(Some(path))?;
    // SAFETY: Address and datagram are as long as is said.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            datagram.as_ptr().cast(),
            datagram.len(),
            0,
            (&raw const address).cast(),
            length,
        )
    };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Takes a datagram if there is one; what is longer than the buffer is cut.
pub(crate) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: The kernel writes to memory of ours, no more than is said.
    let length = unsafe {
        libc::recv(
            socket.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            libc::MSG_DONTWAIT,
        )
    };
    usize::try_from(length).map_err(|_| io::Error::last_os_error())
}

/// The address of a path; without one, that which lets the kernel choose a name.
fn address(path: Option<&Path>) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: Of a `sockaddr_un` zero is a value.
    let mut address: libc::sockaddr_un = unsafe { MaybeUninit::zeroed().assume_init() };
    address.sun_family = u16::try_from(libc::AF_UNIX).unwrap_or_default();
    let path = path.map_or(&[][..], |path| path.as_os_str().as_bytes());
    // One is left for the zero at the end.
    if path.len() >= address.sun_path.len() || path.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (octet, value) in address.sun_path.iter_mut().zip(path) {
        *octet = value.cast_signed();
    }
    let used = if path.is_empty() { 0 } else { path.len() + 1 };
    let length = offset_of!(libc::sockaddr_un, sun_path) + used;
    Ok((
        address,
        libc::socklen_t::try_from(length).unwrap_or_default(),
    ))
}

//--- Results

fn c_string(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn checked(result: i32) -> io::Result<i32> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

fn owned(fd: i32) -> io::Result<OwnedFd> {
    let fd = checked(fd)?;
    // SAFETY: The call that gave it succeeded, so it is open, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
