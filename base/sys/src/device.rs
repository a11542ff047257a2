//! Requests to devices.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::{checked, wait};

/// Opens a device to read and write.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// A request to a device, which reads or writes as much of `argument` as the request's number says; refused
/// (`InvalidInput`) when that is more than there is.
///
/// For requests whose argument holds no pointers and whose number says how long it is (`ioctl(2)`, `_IOWR`).
pub fn request(device: impl AsFd, number: u32, argument: &mut [u8]) -> io::Result<()> {
    let length = (number >> 16) & 0x3fff;
    if length == 0 || crate::length_of(argument.len()) < length {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: The descriptor is borrowed. The kernel reads or writes as much as the number says, and there
    // is as much.
    let result = unsafe {
        libc::ioctl(
            device.as_fd().as_raw_fd(),
            libc::Ioctl::from(number),
            argument.as_mut_ptr(),
        )
    };
    checked(result).map(drop)
}

/// Reads from a device; `WouldBlock` when it has nothing. Some devices block although `O_NONBLOCK` is set, so
/// this polls first.
pub fn read(device: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    if !wait::is_readable(&device)? {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    Ok(rustix::io::read(device, buffer)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `RNDGETENTCNT`, which writes a number: `_IOR('R', 0x00, int)`.
    const ENTROPY: u32 = 0x8004_5200;

    #[test]
    fn a_device_is_asked_for_what_there_is_room_for() {
        let device = open(Path::new("/dev/urandom")).unwrap();
        let mut number = [0xff; 4];
        request(&device, ENTROPY, &mut number).unwrap();
        assert!(u32::from_ne_bytes(number) <= 4096);
        let error = request(&device, ENTROPY, &mut [0; 3]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(read(&device, &mut [0; 8]).unwrap(), 8);
        let counter = wait::counter().unwrap();
        let error = read(&counter, &mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
