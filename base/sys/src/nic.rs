//! Requests to NICs: `ioctl` over a socket of any family, the list of interfaces, and such that a program makes.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use crate::{checked, copy};

/// Longest name of an interface, with the zero at its end.
const NAME: usize = libc::IFNAMSIZ;

/// `ETHTOOL_GET_TS_INFO`.
const GET_STAMP_INFO: u32 = 0x41;

/// `struct ifreq`: a name, and a union of which each request uses another part.
#[repr(C, align(8))]
struct Request([u8; size_of::<libc::ifreq>()]);

impl Request {
    fn new(interface: &str, value: &[u8]) -> io::Result<Self> {
        if interface.len() >= NAME || interface.as_bytes().contains(&0) {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        let mut request = Self([0; size_of::<libc::ifreq>()]);
        let (name, union) = request.0.split_at_mut(NAME);
        copy(name, interface.as_bytes());
        copy(union, value);
        Ok(request)
    }

    /// A request whose value is a pointer to memory that the kernel reads and writes.
    fn about<T>(interface: &str, value: *mut T) -> io::Result<Self> {
        Self::new(interface, &value.expose_provenance().to_ne_bytes())
    }

    /// # Safety
    ///
    /// The value has the type that the request expects; a pointer leads to memory of the type that the kernel
    /// reads and writes.
    unsafe fn make(&mut self, socket: impl AsFd, number: libc::c_ulong) -> io::Result<()> {
        let socket = socket.as_fd().as_raw_fd();
        // SAFETY: The kernel reads and writes an `ifreq`, which this is as long as; the caller answers for
        // its value.
        checked(unsafe { libc::ioctl(socket, number as libc::Ioctl, &raw mut self.0) }).map(drop)
    }

    fn value(&self) -> &[u8] {
        self.0.get(NAME..).unwrap_or_default()
    }
}

/// The number of an interface.
pub fn index(socket: impl AsFd, interface: &str) -> io::Result<u32> {
    if interface.as_bytes().contains(&0) {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    Ok(rustix::net::netdevice::name_to_index(socket, interface)?)
}

/// The link-layer address of an interface.
pub fn hardware_address(socket: impl AsFd, interface: &str) -> io::Result<[u8; 6]> {
    let mut request = Request::new(interface, &[])?;
    // SAFETY: The kernel writes a `sockaddr`: a family, and an address.
    unsafe { request.make(socket, libc::SIOCGIFHWADDR)? };
    let octets = request.value().get(2..).and_then(<[u8]>::first_chunk);
    octets
        .copied()
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// `struct ethtool_ts_info`; the request's command is its first word.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct StampInfo {
    command: u32,
    flags: u32,
    /// −1 for none.
    clock: i32,
    transmit: u32,
    _more: [u32; 3],
    filters: u32,
    _rest: [u32; 3],
}

/// The timestamps that a NIC can take (`struct ethtool_ts_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampAbilities {
    /// The abilities of the NIC and of the kernel, as flags of `SO_TIMESTAMPING`.
    pub flags: u32,
    /// The number of the NIC's own clock.
    pub clock: Option<u32>,
    /// The kinds of transmit stamps, as a set of bits.
    pub transmit: u32,
    /// The receive filters, as a set of bits.
    pub filters: u32,
}

/// Reads the timestamps that a NIC can take.
pub fn stamp_abilities(socket: impl AsFd, interface: &str) -> io::Result<StampAbilities> {
    let mut info = StampInfo {
        command: GET_STAMP_INFO,
        ..StampInfo::default()
    };
    let mut request = Request::about(interface, &raw mut info)?;
    // SAFETY: The kernel reads the command and writes a `struct ethtool_ts_info`, which the pointer is to.
    unsafe { request.make(socket, libc::SIOCETHTOOL)? };
    Ok(StampAbilities {
        flags: info.flags,
        clock: u32::try_from(info.clock).ok(),
        transmit: info.transmit,
        filters: info.filters,
    })
}

/// `struct hwtstamp_config`.
#[repr(C)]
struct StampConfig {
    flags: i32,
    transmit: i32,
    filter: i32,
}

/// Makes a NIC take timestamps of every packet it sends, and of the received packets that match `filter`.
pub fn make_stamp(socket: impl AsFd, interface: &str, filter: u8) -> io::Result<()> {
    let mut config = StampConfig {
        flags: 0,
        // HWTSTAMP_TX_ON.
        transmit: 1,
        filter: filter.into(),
    };
    let mut request = Request::about(interface, &raw mut config)?;
    // SAFETY: The kernel reads and writes a `struct hwtstamp_config`, which the pointer is to.
    unsafe { request.make(socket, libc::SIOCSHWTSTAMP) }
}

/// `TUNSETIFF`.
const SET_TAP: libc::c_ulong = 0x4004_54ca;
/// `IFF_TAP` and `IFF_NO_PI`.
const TAP_FLAGS: libc::c_short = 0x1002;

/// Makes an interface of the link layer that exists while the file is open (TAP, without the header of packet information). Frames
/// that are written arrive there, and those that are sent there are read.
///
/// # Errors
///
/// When this process may not, when there is no `/dev/net/tun`, or when the name is taken.
pub fn tap(interface: &str) -> io::Result<File> {
    let file = File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")?;
    let mut request = Request::new(interface, &TAP_FLAGS.to_ne_bytes())?;
    // SAFETY: The kernel reads the flags, a `short`, and writes the name.
    unsafe { request.make(&file, SET_TAP)? };
    Ok(file)
}

/// The names of all interfaces.
pub fn interfaces() -> io::Result<BTreeSet<String>> {
    let mut first = ptr::null_mut();
    // SAFETY: The library writes a pointer to a list of its own, which is freed below.
    checked(unsafe { libc::getifaddrs(&raw mut first) })?;
    let mut names = BTreeSet::new();
    let mut next = first;
    while !next.is_null() {
        // SAFETY: The list ends with a null pointer, and lives until it is freed.
        let entry = unsafe { &*next };
        // SAFETY: Each entry has a name that ends with a zero.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        names.insert(name.to_string_lossy().into_owned());
        next = entry.ifa_next;
    }
    // SAFETY: It is the list that was given, and nothing refers to it any longer.
    unsafe { libc::freeifaddrs(first) };
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_as_long_as_the_kernels() {
        assert_eq!(size_of::<StampInfo>(), 44);
        assert_eq!(size_of::<StampConfig>(), 12);
        assert_eq!(size_of::<Request>(), size_of::<libc::ifreq>());
        assert_eq!(
            libc::c_int::from(TAP_FLAGS),
            libc::IFF_TAP | libc::IFF_NO_PI
        );
    }

    #[test]
    fn the_loopback_interface_is_one() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(interfaces().unwrap().contains("lo"));
        assert!(index(&socket, "lo").unwrap() > 0);
        assert_eq!(hardware_address(&socket, "lo").unwrap(), [0; 6]);
        let abilities = stamp_abilities(&socket, "lo").unwrap();
        assert_eq!(abilities.clock, None);
        assert!(make_stamp(&socket, "lo", 1).is_err(), "it is no card");
        for name in ["no-such-if", "an-interface-with-too-long-a-name", "a\0b"] {
            let error = index(&socket, name).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ENODEV), "{name}");
            let error = hardware_address(&socket, name).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ENODEV), "{name}");
        }
    }
}
