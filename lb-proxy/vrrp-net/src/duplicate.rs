//! Duplicate addresses: another node says to have an address that this node holds: ARP packets (RFC 5227 §2.4)
//! and neighbour advertisements (RFC 4861 §7.2.5) of another link-layer address.
//!
//! The kernel looks through the frames with a filter that is made for the addresses held, so that on a
//! busy link only those that matter wake anybody.

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::task::{Context, Poll};

use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use tokio::io::unix::AsyncFd;
use vrrp::announce::{
    ETHERTYPE_ARP, ETHERTYPE_IPV6, Hardware, ICMPV6, NEIGHBOUR_ADVERTISEMENT, frames, question,
};

use super::socket::poll_any;

/// The part of a frame that is read: a neighbour advertisement as far as its target.
const FRAME_LENGTH: usize = 128;

/// Classic BPF (`linux/filter.h`): load, compare and return.
const LOAD_BYTE: u16 = 0x30;
const LOAD_WORD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const WHOLE_FRAME: u32 = 0xffff;

/// The places of the sender's addresses in a frame of ARP.
const ARP_SENDER_HARDWARE: usize = 22;
const ARP_SENDER: usize = 28;

/// The place of the next header in a frame of IPv6, and of the target in a neighbour advertisement.
const NEXT_HEADER: usize = 20;
const MESSAGE_TYPE: usize = 54;
const TARGET: usize = 62;

/// The link layer of one interface: announces addresses, and watches for others who do.
#[derive(Debug)]
pub(super) struct LinkLayer {
    socket: AsyncFd<Socket>,
    index: u32,
    hardware: Hardware,
    ipv6: bool,
}

impl LinkLayer {
    /// Opens it; nothing is watched yet.
    pub(super) fn open(index: u32, hardware: Hardware, ipv6: bool) -> io::Result<Self> {
        // Without a type until there is a filter: nothing comes in that it would have kept out.
        let socket = Socket::new(Domain::PACKET, Type::RAW.nonblocking(), None::<Protocol>)?;
        socket.attach_filter(&filter(&[]))?;
        let ethertype = if ipv6 { ETHERTYPE_IPV6 } else { ETHERTYPE_ARP };
        socket.bind(&sys::link::address(index, ethertype, None))?;
        Ok(Self {
            socket: sys::option::watched(socket)?,
            index,
            hardware,
            ipv6,
        })
    }

    pub(super) fn is_of(&self, index: u32, hardware: Hardware, ipv6: bool) -> bool {
        (self.index, self.hardware, self.ipv6) == (index, hardware, ipv6)
    }

    /// Watches these addresses from here on.
    pub(super) fn watch(&self, addresses: &[IpAddr]) -> io::Result<()> {
        self.socket.get_ref().attach_filter(&filter(addresses))
    }

    /// Says once where an address is.
    pub(super) fn announce(&self, address: IpAddr) -> io::Result<()> {
        for frame in frames(address, self.hardware) {
            self.socket.get_ref().send(&frame)?;
        }
        Ok(())
    }

    /// Asks once who has an address.
    pub(super) fn probe(&self, address: IpAddr) -> io::Result<()> {
        let frame = question(address, self.hardware);
        self.socket.get_ref().send(&frame).map(drop)
    }

    /// Whether a frame may have come since the last call.
    pub(super) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        poll_any(std::iter::once(&self.socket), context)
    }

    /// The next frame that has come, if one has: a node that says to have an address. `None` within: a frame
    /// that does not matter.
    pub(super) fn receive(&self) -> Option<Option<(IpAddr, Hardware)>> {
        let mut buffer = [0; FRAME_LENGTH];
        let length = self.socket.get_ref().read(&mut buffer).ok()?;
        let claim = buffer.get(..length).and_then(claim);
        Some(claim.filter(|(_, by)| *by != self.hardware))
    }
}

/// The sender of a frame, and the address it says to have.
fn claim(frame: &[u8]) -> Option<(IpAddr, Hardware)> {
    let (_, ethertype) = frame.get(..14)?.split_last_chunk::<2>()?;
    match u16::from_be_bytes(*ethertype) {
        ETHERTYPE_ARP => {
            let address: &[u8; 4] = frame.get(ARP_SENDER..)?.first_chunk()?;
            let by = frame.get(ARP_SENDER_HARDWARE..)?.first_chunk()?;
            Some((Ipv4Addr::from(*address).into(), *by))
        }
        ETHERTYPE_IPV6 => {
            let is_advertisement = *frame.get(NEXT_HEADER)? == ICMPV6
                && *frame.get(MESSAGE_TYPE)? == NEIGHBOUR_ADVERTISEMENT;
            let address: &[u8; 16] = frame.get(TARGET..)?.first_chunk()?;
            let by = frame.get(6..)?.first_chunk()?;
            is_advertisement.then_some((Ipv6Addr::from(*address).into(), *by))
        }
        _ => None,
    }
}

/// Passes frames in which a node says to have one of the addresses, which are of one family.
fn filter(addresses: &[IpAddr]) -> Vec<SockFilter> {
    let offset = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
    let mut filter = Vec::new();
    if addresses.iter().any(IpAddr::is_ipv6) {
        filter.extend([
            SockFilter::new(LOAD_BYTE, 0, 0, offset(NEXT_HEADER)),
            SockFilter::new(JUMP_IF_EQUAL, 1, 0, u32::from(ICMPV6)),
            SockFilter::new(RETURN, 0, 0, 0),
            SockFilter::new(LOAD_BYTE, 0, 0, offset(MESSAGE_TYPE)),
            SockFilter::new(JUMP_IF_EQUAL, 1, 0, u32::from(NEIGHBOUR_ADVERTISEMENT)),
            SockFilter::new(RETURN, 0, 0, 0),
            // The last four octets tell addresses apart well enough; `claim` looks at all.
            SockFilter::new(LOAD_WORD, 0, 0, offset(TARGET + 12)),
        ]);
    } else {
        filter.push(SockFilter::new(LOAD_WORD, 0, 0, offset(ARP_SENDER)));
    }
    for address in addresses {
        let word = match address {
            IpAddr::V4(address) => u32::from(*address),
            IpAddr::V6(address) => {
                let [.., a, b, c, d] = address.octets();
                u32::from_be_bytes([a, b, c, d])
            }
        };
        filter.extend([
            SockFilter::new(JUMP_IF_EQUAL, 0, 1, word),
            SockFilter::new(RETURN, 0, 0, WHOLE_FRAME),
        ]);
    }
    filter.push(SockFilter::new(RETURN, 0, 0, 0));
    filter
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: Hardware = [2, 0, 0, 0, 0, 9];

    #[test]
    fn announcements_are_claims() {
        for address in ["192.168.7.100", "2001:db8::64"] {
            let address: IpAddr = address.parse().unwrap();
            for frame in frames(address, OTHER) {
                assert_eq!(claim(&frame), Some((address, OTHER)), "{address}");
            }
        }
    }

    /// Two that start together do not take each other for a holder.
    #[test]
    fn questions_are_no_claims() {
        for address in ["192.168.7.100", "2001:db8::64"] {
            let address: IpAddr = address.parse().unwrap();
            let claim = claim(&question(address, OTHER));
            assert!(
                claim.is_none_or(|(claimed, _)| claimed != address),
                "{claim:?}"
            );
        }
    }

    #[test]
    fn other_frames_and_pieces_are_none() {
        let frame = &frames("192.168.7.100".parse().unwrap(), OTHER)[0];
        for length in 0..ARP_SENDER + 4 {
            assert_eq!(claim(&frame[..length]), None, "{length}");
        }
        let mut frame = frames("2001:db8::64".parse().unwrap(), OTHER).remove(0);
        frame[MESSAGE_TYPE] = 135;
        assert_eq!(claim(&frame), None, "a solicitation");
    }

    #[test]
    fn a_filter_has_room_for_every_address_of_a_router() {
        let addresses: Vec<IpAddr> = (0..255_u32)
            .map(|n| Ipv6Addr::from(u128::from(n)).into())
            .collect();
        // BPF_MAXINSNS
        assert!(filter(&addresses).len() <= 4096);
    }
}
