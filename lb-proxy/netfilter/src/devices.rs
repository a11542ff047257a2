//! The devices whose packets may go by the flow table: all that packets of IP come in by.
//!
//! Those that are up and have an address of a family that frontends listen on, loopback aside. A device that
//! has no address of its own (ports of a bridge, of a bond, of a pod) passes its packets to one that
//! has. A device that is missed costs nothing but speed: its packets go by the rules, as all did.
//!
//! Asked for over rtnetlink and without a runtime, whenever counters are read.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;

use netlink_packet_route::address::{AddressMessage, AddressScope};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};

use super::netlink::Netlink;
use super::ruleset::{Devices, KernelFrontend};

/// Those that packets of `frontends` may come in by, as they are now.
pub(super) fn read(frontends: &[KernelFrontend]) -> io::Result<Devices> {
    let listens = || frontends.iter().flat_map(|frontend| &frontend.listen);
    let mut families = Vec::new();
    if listens().any(SocketAddr::is_ipv4) {
        families.push(AddressFamily::Inet);
    }
    if listens().any(SocketAddr::is_ipv6) {
        families.push(AddressFamily::Inet6);
    }
    let (mut links, mut addresses) = (Vec::new(), Vec::new());
    dump(
        RouteNetlinkMessage::GetLink(LinkMessage::default()),
        |message| {
            if let RouteNetlinkMessage::NewLink(link) = message {
                links.push(link);
            }
        },
    )?;
    let all = AddressMessage::default();
    dump(RouteNetlinkMessage::GetAddress(all), |message| {
        if let RouteNetlinkMessage::NewAddress(address) = message {
            addresses.push(address);
        }
    })?;
    Ok(choose(&links, &addresses, &families))
}

fn choose(
    links: &[LinkMessage],
    addresses: &[AddressMessage],
    families: &[AddressFamily],
) -> Devices {
    let with_address: BTreeSet<u32> = addresses
        .iter()
        .filter(|address| {
            address.header.scope == AddressScope::Universe
                && families.contains(&address.header.family)
        })
        .map(|address| address.header.index)
        .collect();
    let chosen = links.iter().filter(|link| {
        let flags = link.header.flags;
        flags.contains(LinkFlags::Up)
            && !flags.contains(LinkFlags::Loopback)
            && with_address.contains(&link.header.index)
    });
    let named = chosen.filter_map(|link| Some((link.header.index, plain_name(link)?.into())));
    named.collect()
}

/// The name, if it can stand in a rule: the kernel lets a name have nearly any character.
fn plain_name(link: &LinkMessage) -> Option<&str> {
    let name = link
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name.as_str()),
            _ => None,
        })?;
    let is_plain =
        |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_' | b'.' | b'@');
    (!name.is_empty() && name.bytes().all(is_plain)).then_some(name)
}

fn dump(request: RouteNetlinkMessage, mut each: impl FnMut(RouteNetlinkMessage)) -> io::Result<()> {
    let mut netlink = Netlink::open(libc::NETLINK_ROUTE)?;
    let mut request = NetlinkMessage::from(request);
    request.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    request.finalize();
    let mut octets = vec![0; request.buffer_len()];
    request.serialize(&mut octets);
    netlink.send(&octets)?;
    loop {
        let mut rest = netlink.receive()?;
        while !rest.is_empty() {
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                .map_err(io::Error::other)?;
            let taken = usize::try_from(message.header.length.next_multiple_of(4));
            let after = taken.ok().and_then(|taken| rest.get(taken..));
            rest = after.unwrap_or_default();
            match message.payload {
                NetlinkPayload::Done(_) => return Ok(()),
                NetlinkPayload::Error(refusal) => return Err(refusal.to_io()),
                NetlinkPayload::InnerMessage(message) => each(message),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str, flags: LinkFlags) -> LinkMessage {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.header.flags = flags;
        link.attributes.push(LinkAttribute::IfName(name.to_owned()));
        link
    }

    fn address(index: u32, family: AddressFamily, scope: AddressScope) -> AddressMessage {
        let mut address = AddressMessage::default();
        address.header.index = index;
        address.header.family = family;
        address.header.scope = scope;
        address
    }

    #[test]
    fn devices_that_packets_come_in_by_are_chosen() {
        use AddressFamily::{Inet, Inet6};
        use AddressScope::{Link, Universe};
        let up = LinkFlags::Up;
        let links = [
            link(1, "lo", up | LinkFlags::Loopback),
            link(2, "eth0", up),
            link(3, "down", LinkFlags::empty()),
            link(4, "port-of-a-bridge", up),
            link(5, "br-ex.100", up),
            link(6, "local-only", up),
            link(7, "od\"d", up),
        ];
        let addresses = [
            address(1, Inet, Universe),
            address(2, Inet, Universe),
            address(3, Inet, Universe),
            address(5, Inet6, Universe),
            address(6, Inet6, Link),
            address(7, Inet, Universe),
        ];
        let chosen = |families: &[AddressFamily]| {
            let devices = choose(&links, &addresses, families);
            devices.names().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(chosen(&[Inet]), ["eth0"]);
        assert_eq!(chosen(&[Inet6]), ["br-ex.100"]);
        assert_eq!(chosen(&[Inet, Inet6]), ["eth0", "br-ex.100"]);
    }

    #[test]
    fn the_devices_of_this_machine_can_be_asked_for() {
        assert_eq!(read(&[]).unwrap(), Devices::default());
    }
}
