//! Announcements of an address to the network: gratuitous ARP (RFC 5227 §3) and unsolicited
//! neighbour advertisements (RFC 4861 §7.2.6); and questions: ARP probes (RFC 5227 §2.1.1) and neighbour
//! solicitations as of duplicate address detection (RFC 4862 §5.4.2). As frames written whole.
//!
//! Both forms of ARP are sent, a request and a reply: there are hosts that learn from one only.
//! Switches learn from the frame's source.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::checksum::Sum;

/// A link-layer address of Ethernet.
pub type Hardware = [u8; 6];

/// Frames that carry ARP.
pub const ETHERTYPE_ARP: u16 = 0x0806;

/// Frames that carry IPv6.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;

/// `ICMPv6`, a next header of IPv6.
pub const ICMPV6: u8 = 58;

/// The type of a neighbour advertisement (RFC 4861 §4.4).
pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;

/// The type of a neighbour solicitation (RFC 4861 §4.3).
const NEIGHBOUR_SOLICITATION: u8 = 135;

/// Its length, without an option: it has no source to tell the link-layer address of.
const SOLICITATION_LENGTH: u8 = 24;

/// Everybody, on Ethernet.
const BROADCAST: Hardware = [0xff; 6];

/// All nodes (RFC 4291 §2.7.1), and its address on Ethernet (RFC 2464 §7).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_HARDWARE: Hardware = [0x33, 0x33, 0, 0, 0, 1];

/// A neighbour advertisement with one option.
const ADVERTISEMENT_LENGTH: u8 = 32;

/// Override: replaces earlier entries. A router says so besides (RFC 4861 §4.4).
const OVERRIDE: u8 = 0x20;

/// The frames that say once that an address is at this node.
pub fn frames(address: IpAddr, hardware: Hardware) -> Vec<Vec<u8>> {
    match address {
        IpAddr::V4(address) => vec![
            gratuitous_arp(address, hardware, Form::Request),
            gratuitous_arp(address, hardware, Form::Reply),
        ],
        IpAddr::V6(address) => vec![unsolicited_advertisement(address, hardware)],
    }
}

/// `ar$op` (RFC 826).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Request = 1,
    Reply = 2,
}

/// The frame that asks for the holder of an address, and teaches no cache anything.
pub fn question(address: IpAddr, hardware: Hardware) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => arp_probe(address, hardware),
        IpAddr::V6(address) => solicitation(address, hardware),
    }
}

fn arp_probe(address: Ipv4Addr, hardware: Hardware) -> Vec<u8> {
    let mut frame = gratuitous_arp(address, hardware, Form::Request);
    // The sender has no address yet, or caches would learn that this one is here.
    if let Some(sender) = frame.get_mut(28..32) {
        sender.fill(0);
    }
    frame
}

fn solicitation(address: Ipv6Addr, hardware: Hardware) -> Vec<u8> {
    let [.., a, b, c] = address.octets();
    // The solicited-node address (RFC 4291 §2.7.1).
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0, 0).to_bits();
    let low = u128::from(u32::from_be_bytes([0xff, a, b, c]));
    let group = Ipv6Addr::from_bits(group | low);
    let mut message = vec![NEIGHBOUR_SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
    message.extend(address.octets());
    let mut sum = Sum::default();
    sum.add(&group.octets());
    sum.add(&[0, 0, 0, SOLICITATION_LENGTH, 0, 0, 0, ICMPV6]);
    sum.add(&message);
    if let Some(field) = message.get_mut(2..4) {
        field.copy_from_slice(&sum.finish().to_be_bytes());
    }
    let mut frame = Vec::with_capacity(78);
    frame.extend([0x33, 0x33, 0xff, a, b, c]);
    frame.extend(hardware);
    frame.extend(ETHERTYPE_IPV6.to_be_bytes());
    frame.extend([0x60, 0, 0, 0, 0, SOLICITATION_LENGTH, ICMPV6, 255]);
    frame.extend(Ipv6Addr::UNSPECIFIED.octets());
    frame.extend(group.octets());
    frame.extend(message);
    frame
}

fn gratuitous_arp(address: Ipv4Addr, hardware: Hardware, form: Form) -> Vec<u8> {
    let target = match form {
        Form::Request => [0; 6],
        Form::Reply => BROADCAST,
    };
    let mut frame = Vec::with_capacity(42);
    frame.extend(BROADCAST);
    frame.extend(hardware);
    frame.extend(ETHERTYPE_ARP.to_be_bytes());
    // Ethernet, IPv4, and the lengths of their addresses.
    frame.extend([0, 1, 8, 0, 6, 4, 0, form as u8]);
    frame.extend(hardware);
    frame.extend(address.octets());
    frame.extend(target);
    frame.extend(address.octets());
    frame
}

fn unsolicited_advertisement(address: Ipv6Addr, hardware: Hardware) -> Vec<u8> {
    let mut message = vec![NEIGHBOUR_ADVERTISEMENT, 0, 0, 0, OVERRIDE, 0, 0, 0];
    message.extend(address.octets());
    // Target link-layer address, of one unit of 8 octets.
    message.extend([2, 1]);
    message.extend(hardware);
    let mut sum = Sum::default();
    sum.add(&address.octets());
    sum.add(&ALL_NODES.octets());
    sum.add(&[0, 0, 0, ADVERTISEMENT_LENGTH, 0, 0, 0, ICMPV6]);
    sum.add(&message);
    if let Some(field) = message.get_mut(2..4) {
        field.copy_from_slice(&sum.finish().to_be_bytes());
    }
    let mut frame = Vec::with_capacity(86);
    frame.extend(ALL_NODES_HARDWARE);
    frame.extend(hardware);
    frame.extend(ETHERTYPE_IPV6.to_be_bytes());
    frame.extend([0x60, 0, 0, 0, 0, ADVERTISEMENT_LENGTH, ICMPV6, 255]);
    frame.extend(address.octets());
    frame.extend(ALL_NODES.octets());
    frame.extend(message);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    const HARDWARE: Hardware = [2, 0, 0, 0, 0, 7];

    #[test]
    fn arp_is_said_in_both_forms() {
        let frames = frames("192.168.7.100".parse().unwrap(), HARDWARE);
        assert_eq!(frames.len(), 2);
        for (frame, form) in frames.iter().zip([1, 2]) {
            assert_eq!(frame.len(), 42);
            assert_eq!(frame[..6], BROADCAST);
            assert_eq!(frame[6..12], HARDWARE);
            assert_eq!(frame[12..14], [8, 6]);
            assert_eq!(frame[20..22], [0, form]);
            assert_eq!(frame[22..28], HARDWARE);
            // Sender and target are the address itself (RFC 5227 §3).
            assert_eq!(frame[28..32], [192, 168, 7, 100]);
            assert_eq!(frame[38..42], [192, 168, 7, 100]);
        }
    }

    #[test]
    fn an_arp_probe_says_no_address_of_its_sender() {
        let frame = question("192.168.7.100".parse().unwrap(), HARDWARE);
        assert_eq!(frame.len(), 42);
        assert_eq!(frame[..6], BROADCAST);
        assert_eq!(frame[20..22], [0, 1], "a request");
        assert_eq!(frame[22..28], HARDWARE);
        assert_eq!(frame[28..32], [0; 4]);
        assert_eq!(frame[32..38], [0; 6]);
        assert_eq!(frame[38..42], [192, 168, 7, 100]);
    }

    #[test]
    fn a_solicitation_goes_to_whoever_may_have_the_address_and_sums_to_zero() {
        let address: Ipv6Addr = "2001:db8::12:3456".parse().unwrap();
        let frame = question(address.into(), HARDWARE);
        assert_eq!(frame.len(), 78);
        assert_eq!(frame[..6], [0x33, 0x33, 0xff, 0x12, 0x34, 0x56]);
        assert_eq!(frame[21], 255, "hop limit, RFC 4861 §7.1.1");
        assert_eq!(frame[22..38], [0; 16], "unspecified, RFC 4862 §5.4.2");
        let group: Ipv6Addr = "ff02::1:ff12:3456".parse().unwrap();
        assert_eq!(frame[38..54], group.octets());
        assert_eq!(frame[54], NEIGHBOUR_SOLICITATION);
        assert_eq!(frame[62..78], address.octets());
        let mut sum = Sum::default();
        sum.add(&frame[22..54]);
        sum.add(&[0, 0, 0, 24, 0, 0, 0, 58]);
        sum.add(&frame[54..]);
        assert_eq!(sum.finish(), 0);
    }

    #[test]
    fn a_neighbour_advertisement_overrides_and_sums_to_zero() {
        let address: Ipv6Addr = "2001:db8::64".parse().unwrap();
        let frames = frames(address.into(), HARDWARE);
        let [frame] = &frames[..] else {
            panic!("{frames:?}")
        };
        assert_eq!(frame.len(), 86);
        assert_eq!(frame[21], 255, "hop limit, RFC 4861 §7.1.2");
        assert_eq!(frame[54], NEIGHBOUR_ADVERTISEMENT);
        assert_eq!(frame[58], OVERRIDE);
        assert_eq!(frame[62..78], address.octets());
        assert_eq!(frame[80..86], HARDWARE);
        let mut sum = Sum::default();
        sum.add(&frame[22..54]);
        sum.add(&[0, 0, 0, 32, 0, 0, 0, 58]);
        sum.add(&frame[54..]);
        assert_eq!(sum.finish(), 0);
    }
}
