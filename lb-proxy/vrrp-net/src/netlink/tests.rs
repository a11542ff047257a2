use super::*;

fn link(index: u32, name: &str, flags: LinkFlags) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.header.flags = flags;
    message.header.link_layer_type = LinkLayerType::Ether;
    message.attributes = vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::Address(vec![2, 0, 0, 0, 0, 7]),
    ];
    message
}

fn address(text: &str, prefix_length: u8) -> AddressMessage {
    let entry = VirtualAddress {
        address: text.parse().unwrap(),
        prefix_length,
    };
    message_for(2, entry)
}

fn view(news: impl IntoIterator<Item = RouteNetlinkMessage>) -> View {
    let mut view = View::default();
    for message in news {
        view.take_in(&message);
    }
    view
}

#[test]
fn a_link_is_up_with_a_carrier_only() {
    for (flags, is_up) in [
        (LinkFlags::Up | LinkFlags::Running, true),
        (LinkFlags::Up, false),
        (LinkFlags::Running, false),
    ] {
        let view = view([RouteNetlinkMessage::NewLink(link(2, "eth0", flags))]);
        assert_eq!(view.link("eth0").unwrap().is_up, is_up, "{flags:?}");
    }
}

#[test]
fn a_port_that_leaves_its_bridge_is_still_there() {
    let mut leaves = link(2, "eth0", LinkFlags::Up);
    leaves.header.interface_family = AddressFamily::Bridge;
    let view = view([
        RouteNetlinkMessage::NewLink(link(2, "eth0", LinkFlags::Up)),
        RouteNetlinkMessage::DelLink(leaves),
    ]);
    assert!(view.link("eth0").is_some());
}

#[test]
fn addresses_come_and_go_and_keep_their_order() {
    let mut ours = address("192.168.7.100", 32);
    ours.attributes.push(AddressAttribute::Protocol(OURS));
    let mut tentative = address("fe80::7", 64);
    tentative.header.flags = AddressHeaderFlags::Tentative;
    let view = view([
        RouteNetlinkMessage::NewLink(link(2, "eth0", LinkFlags::Up)),
        RouteNetlinkMessage::NewAddress(address("192.168.7.13", 24)),
        RouteNetlinkMessage::NewAddress(address("192.168.7.9", 24)),
        RouteNetlinkMessage::NewAddress(ours),
        RouteNetlinkMessage::NewAddress(tentative),
        RouteNetlinkMessage::NewAddress(address("192.168.7.13", 24)),
        RouteNetlinkMessage::DelAddress(address("192.168.7.9", 24)),
    ]);
    let link = view.link("eth0").unwrap();
    let shown = link.addresses.iter().map(|known| {
        let address = known.entry.address.to_string();
        (address, known.is_ours, known.is_usable)
    });
    let wanted = [
        ("192.168.7.13", false, true),
        ("192.168.7.100", true, true),
        ("fe80::7", false, false),
    ];
    let wanted = wanted.map(|(address, ours, usable)| (address.to_owned(), ours, usable));
    assert_eq!(shown.collect::<Vec<_>>(), wanted);
    assert_eq!(link.hardware, Some([2, 0, 0, 0, 0, 7]));
}

#[test]
fn addresses_of_an_unknown_link_are_no_news() {
    let mut view = View::default();
    let message = RouteNetlinkMessage::NewAddress(address("192.168.7.13", 24));
    assert!(!view.take_in(&message));
}
