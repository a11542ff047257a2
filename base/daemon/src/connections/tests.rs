//! Places of real streams.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use super::*;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn admit(connections: &Arc<Connections>, peer: &str) -> Result<Place, Refusal> {
    let peer = address(peer);
    let class = connections.class(peer, None);
    connections.admit(Source::Address(peer), class, Opening::Request)
}

fn stream(connections: &Arc<Connections>, peer: &str) -> (Placed<DuplexStream>, DuplexStream) {
    let (near, far) = duplex(16);
    (Placed::new(near, admit(connections, peer).unwrap()), far)
}

#[tokio::test]
async fn bounds_hold_in_all_and_for_each_client_and_places_come_back() {
    let connections = Connections::new("tested", Policy::of(3).with_source(2));
    let held: Vec<(Place, Answer)> = ["192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1"]
        .into_iter()
        .map(|peer| admit(&connections, peer).unwrap())
        .map(|place| (place.clone(), place.answer()))
        .collect();
    let refused = admit(&connections, "192.0.2.1").unwrap_err();
    assert_eq!(refused, Refusal::Source);
    let refused = admit(&connections, "192.0.2.2").unwrap_err();
    assert_eq!(refused, Refusal::Full);
    assert_eq!((connections.open(), connections.refused()), (3, 2));
    drop(held);
    assert_eq!(connections.open(), 0);
    assert!(admit(&connections, "192.0.2.1").is_ok());
    assert!(connections.state.lock().signals.is_empty());
}

#[tokio::test]
async fn clients_are_classed_by_their_addresses() {
    let connections = Connections::new("tested", Policy::of(64).with_members());
    connections.set_members(vec![address("10.0.0.2")]);
    let check = |peer, local: Option<&str>, expected| {
        let local = local.map(address);
        assert_eq!(connections.class(address(peer), local), expected, "{peer}");
    };
    check("127.0.0.9", None, Class::Node);
    check("::1", Some("::1"), Class::Node);
    check("::ffff:10.0.0.1", Some("10.0.0.1"), Class::Node);
    check("10.0.0.1", Some("10.0.0.7"), Class::Other);
    check("::ffff:10.0.0.2", Some("10.0.0.1"), Class::Member);
}

#[tokio::test]
async fn a_stream_whose_place_was_needed_fails_where_it_waits() {
    let connections = Connections::new("tested", Policy::of(1));
    let (mut stream, _far) = stream(&connections, "192.0.2.1");
    let waiting = tokio::spawn(async move { stream.read(&mut [0; 1]).await });
    tokio::task::yield_now().await;
    let _other = admit(&connections, "192.0.2.2").unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionAborted);
    let ended: Vec<_> = connections.ended_by().filter(|(_, n)| *n > 0).collect();
    assert_eq!(ended, [(Reason::Displaced, 1)]);
}

#[tokio::test]
async fn a_stream_whose_client_takes_nothing_is_not_idle_and_ends_in_time() {
    let stall = Duration::from_millis(50);
    let connections = Connections::new("tested", Policy::of(1).with_stall(stall));
    let (mut stream, mut far) = stream(&connections, "192.0.2.1");
    let place = stream.place().clone();
    far.write_all(b"a").await.unwrap();
    stream.read_exact(&mut [0; 1]).await.unwrap();
    place.idle();
    let writing = tokio::spawn(async move { stream.write_all(&[0; 64]).await });
    tokio::task::yield_now().await;
    let refused = admit(&connections, "192.0.2.2").unwrap_err();
    assert_eq!(refused, Refusal::Full);
    place.ended().await;
    assert!(writing.await.unwrap().is_err());
    let ended: Vec<_> = connections.ended_by().filter(|(_, n)| *n > 0).collect();
    assert_eq!(ended, [(Reason::Stalled, 1)]);
}

#[test]
fn descriptors_of_the_service_come_first() {
    let check = |limit, each, reserved, expected| {
        assert_eq!(places_within(limit, each, reserved), expected, "{limit}");
    };
    check(1024, 1, 128, 896);
    check(1024, 2, 128, 448);
    check(96, 1, 128, 48);
    check(96, 1, 64, 48);
    check(1, 2, 9, 1);
    assert_eq!(within_descriptors(3, 1, 0), 3);
}
