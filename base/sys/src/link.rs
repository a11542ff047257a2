//! Frames of the link layer (`packet(7)`).

use std::io;
use std::os::fd::AsFd;

use socket2::{SockAddr, SockAddrStorage};

use crate::copy;
use crate::option::set_plain;

/// Frames of one type on one interface, to one address or, without, from any: to bind to, or to send to.
#[must_use]
pub fn address(interface: u32, ethertype: u16, to: Option<[u8; 6]>) -> SockAddr {
    let mut storage = SockAddrStorage::zeroed();
    let length = size_of::<libc::sockaddr_ll>();
    // SAFETY: A `sockaddr_ll` is plain data, smaller than the storage, and zero is a value of each field.
    let address = unsafe { storage.view_as::<libc::sockaddr_ll>() };
    address.sll_family = number(libc::AF_PACKET);
    address.sll_protocol = ethertype.to_be();
    address.sll_ifindex = interface.cast_signed();
    if let Some(to) = to {
        address.sll_halen = 6;
        copy(&mut address.sll_addr, &to);
    }
    let length = crate::length_of(length);
    // SAFETY: The storage holds an address of this family and length, written above.
    unsafe { SockAddr::new(storage, length) }
}

/// Hears frames to a group (`PACKET_ADD_MEMBERSHIP`).
pub fn join(socket: impl AsFd, interface: u32, group: [u8; 6]) -> io::Result<()> {
    let mut request = libc::packet_mreq {
        mr_ifindex: interface.cast_signed(),
        mr_type: number(libc::PACKET_MR_MULTICAST),
        mr_alen: 6,
        mr_address: [0; 8],
    };
    copy(&mut request.mr_address, &group);
    set_plain(
        socket,
        libc::SOL_PACKET,
        libc::PACKET_ADD_MEMBERSHIP,
        &request,
    )
}

fn number(number: libc::c_int) -> u16 {
    u16::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_the_interface_and_the_type() {
        let all = address(3, 0x88f7, None);
        assert_eq!(i32::from(all.family()), libc::AF_PACKET);
        assert_eq!(all.len() as usize, size_of::<libc::sockaddr_ll>());
        assert_ne!(all, address(4, 0x88f7, None));
        assert_ne!(all, address(3, 0x88f7, Some([1; 6])));
    }

    #[test]
    fn only_sockets_of_the_link_layer_join_a_group() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(join(&socket, 1, [1; 6]).is_err());
    }
}
