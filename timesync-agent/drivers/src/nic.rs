//! What the kernel is asked of network cards, and told.
//!
//! One of the files with unsafe code. All of it is `ioctl` over a socket of any family, and the list of interfaces.
#![expect(unsafe_code, reason = "requests about cards")]

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use clocks::nic::Abilities;

/// Longest name of an interface, with the zero at its end.
const NAME: usize = libc::IFNAMSIZ;

/// `struct ifreq`, with what we use of its union.
#[repr(C)]
struct Request<T> {
    name: [libc::c_char; NAME],
    value: Value<T>,
}

/// As long as the union is.
#[repr(C)]
union Value<T> {
    value: ManuallyDrop<T>,
    _room: [u64; 3],
}

impl<T> Request<T> {
    fn new(interface: &str, value: T) -> io::Result<Self> {
        let mut name = [0; NAME];
        if interface.len() >= NAME || interface.as_bytes().contains(&0) {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        for (letter, octet) in name.iter_mut().zip(interface.as_bytes()) {
            *letter = octet.cast_signed();
        }
        let mut request = Self {
            name,
            value: Value { _room: [0; 3] },
        };
        request.value.value = ManuallyDrop::new(value);
        Ok(request)
    }

    fn make(&mut self, socket: &impl AsFd, number: libc::c_ulong) -> io::Result<()> {
        // SAFETY: The kernel reads and writes an `ifreq`, which this is as long as; each caller's value is what the request is for.
        let result =
            unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), number as libc::Ioctl, self) };
        checked(result)
    }
}

/// The number of an interface.
pub fn index(socket: &impl AsFd, interface: &str) -> io::Result<u32> {
    let mut request = Request::new(interface, 0_i32)?;
    request.make(socket, libc::SIOCGIFINDEX)?;
    // SAFETY: The kernel has written a number there.
    let index = unsafe { *request.value.value };
    Ok(index.cast_unsigned())
}

/// The link-layer address of an interface.
#[cfg(feature = "ptp")]
pub fn hardware_address(socket: &impl AsFd, interface: &str) -> io::Result<[u8; 6]> {
    let mut request = Request::new(interface, [0_u8; 16])?;
    request.make(socket, libc::SIOCGIFHWADDR)?;
    // SAFETY: The kernel has written a `sockaddr` there: a family, and an address.
    let address = unsafe { *request.value.value };
    let [_, _, a, b, c, d, e, f, ..] = address;
    Ok([a, b, c, d, e, f])
}

/// `struct ethtool_ts_info`, where it begins with what is asked for.
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

/// `ETHTOOL_GET_TS_INFO`.
const GET_STAMP_INFO: u32 = 0x41;

/// What a card can stamp.
pub fn abilities(socket: &impl AsFd, interface: &str) -> io::Result<Abilities> {
    let mut info = StampInfo {
        command: GET_STAMP_INFO,
        ..StampInfo::default()
    };
    let mut request = Request::new(interface, &raw mut info)?;
    request.make(socket, libc::SIOCETHTOOL)?;
    Ok(Abilities {
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

/// Tells a card to stamp what it sends, and of what comes that which a filter says.
pub fn make_stamp(socket: &impl AsFd, interface: &str, filter: u8) -> io::Result<()> {
    let mut config = StampConfig {
        flags: 0,
        // HWTSTAMP_TX_ON.
        transmit: 1,
        filter: filter.into(),
    };
    let mut request = Request::new(interface, &raw mut config)?;
    request.make(socket, libc::SIOCSHWTSTAMP)
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

fn checked(result: i32) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_as_long_as_the_kernels() {
        assert_eq!(size_of::<StampInfo>(), 44);
        assert_eq!(size_of::<StampConfig>(), 12);
        assert_eq!(size_of::<Request<i32>>(), size_of::<libc::ifreq>());
        assert_eq!(size_of::<Request<[u8; 16]>>(), size_of::<libc::ifreq>());
    }

    #[test]
    fn the_loopback_interface_is_one() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(interfaces().unwrap().contains("lo"));
        assert!(index(&socket, "lo").unwrap() > 0);
        #[cfg(feature = "ptp")]
        assert_eq!(hardware_address(&socket, "lo").unwrap(), [0; 6]);
        let abilities = abilities(&socket, "lo").unwrap();
        assert_eq!(abilities.clock, None);
        for name in ["no-such-if", "an-interface-with-too-long-a-name", "a\0b"] {
            let error = index(&socket, name).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ENODEV), "{name}");
        }
    }
}
