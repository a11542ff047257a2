//! PROXY headers and names, in any segmentation.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use balance::pool::{Registry, ServerSettings, Settings};
use balance::table::{AcceptProxy, Backend, Frontend, Policy, Route, SendProxy, Table};
use tls_routes::{Pattern, RouteRule, RouteRules, Routes};

use super::rig::{
    LIMIT, Rig, accept, is_reset, patient, pattern, read_exact, read_to_end, server, until,
};

const HEADER: &[u8] = b"PROXY TCP4 192.0.2.7 192.0.2.1 40000 443\r\n";

fn length(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap().to_be_bytes()
}

/// A ClientHello for `name` in as many records as it takes.
fn hello(name: &str, per_record: usize) -> Vec<u8> {
    hello_with(name, None, per_record)
}

/// One that offers an application protocol, too.
fn hello_with(name: &str, protocol: Option<&str>, per_record: usize) -> Vec<u8> {
    let mut list = vec![0];
    list.extend_from_slice(&length(name.len()));
    list.extend_from_slice(name.as_bytes());
    let mut extension = vec![0, 0];
    extension.extend_from_slice(&length(list.len() + 2));
    extension.extend_from_slice(&length(list.len()));
    extension.extend_from_slice(&list);
    if let Some(protocol) = protocol {
        extension.extend_from_slice(&[0, 16]);
        extension.extend_from_slice(&length(protocol.len() + 3));
        extension.extend_from_slice(&length(protocol.len() + 1));
        extension.extend_from_slice(&length(protocol.len())[1..]);
        extension.extend_from_slice(protocol.as_bytes());
    }
    let mut body = vec![3, 3];
    body.extend_from_slice(&[9; 32]);
    body.extend_from_slice(&[0, 0, 2, 0x13, 1, 1, 0]);
    body.extend_from_slice(&length(extension.len()));
    body.extend_from_slice(&extension);
    let mut message = vec![1, 0];
    message.extend_from_slice(&length(body.len()));
    message.extend_from_slice(&body);
    message
        .chunks(per_record)
        .flat_map(|fragment| {
            let mut record = vec![22, 3, 1];
            record.extend_from_slice(&length(fragment.len()));
            record.extend_from_slice(fragment);
            record
        })
        .collect()
}

fn send_in_pieces(stream: &mut TcpStream, bytes: &[u8], piece: usize) {
    stream.set_nodelay(true).unwrap();
    for part in bytes.chunks(piece) {
        stream.write_all(part).unwrap();
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn a_header_is_taken_off_in_any_segmentation() {
    let (listener, address) = server();
    let mut rig = Rig::new(&[address]);
    rig.frontend.accept_proxy = AcceptProxy::Required;
    let rig = rig.start();
    for piece in [1, 7, HEADER.len(), 1000] {
        let mut client = rig.connect();
        let bytes = [HEADER, b"and the rest"].concat();
        send_in_pieces(&mut client, &bytes, piece);
        let mut far = accept(&listener);
        assert_eq!(read_exact(&mut far, 12), b"and the rest", "{piece}");
        let shown = rig.engine().sessions(&Default::default());
        let client: Vec<_> = shown.iter().map(|s| s.client.to_string()).collect();
        assert!(client.contains(&"192.0.2.7:40000".to_owned()), "{client:?}");
    }
}

#[test]
fn a_header_that_is_missing_or_broken_ends_the_session() {
    let (_listener, address) = server();
    let mut rig = Rig::new(&[address]).with_log();
    rig.frontend.accept_proxy = AcceptProxy::Required;
    rig.frontend.route.inspect_timeout = Duration::from_secs(1);
    let rig = rig.start();
    for sent in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"PROXY TCP4 nonsense\r\n",
        b"PROXY TC",
    ] {
        let mut client = rig.connect();
        client.write_all(sent).unwrap();
        assert!(is_reset(&read_to_end(&mut client)));
    }
    let silent = rig.connect();
    // One that goes before it is accepted is not told from the engine's own end.
    let accepted = &rig.frontend.tally.total;
    until("accepted", || accepted.load(Ordering::Relaxed) == 4);
    drop(silent);
    rig.until_sessions(0);
    let mut codes = rig.terminations();
    codes.sort();
    assert_eq!(codes, ["CR", "PR", "PR", "cR"]);
}

#[test]
fn an_optional_header_may_be_missing() {
    let (listener, address) = server();
    let mut rig = Rig::new(&[address]);
    rig.frontend.accept_proxy = AcceptProxy::Optional;
    rig.frontend.route.inspect_timeout = Duration::from_millis(50);
    let rig = rig.start();
    let mut client = rig.connect();
    client.write_all(b"hello").unwrap();
    assert_eq!(read_exact(&mut accept(&listener), 5), b"hello");
    // Where the server speaks first, the client's silence has to do.
    let mut client = rig.connect();
    accept(&listener).write_all(b"220 ready").unwrap();
    assert_eq!(read_exact(&mut client, 9), b"220 ready");
}

#[test]
fn access_rules_look_at_the_address_in_the_header() {
    let (listener, address) = server();
    let mut rig = Rig::new(&[address]).with_log();
    rig.frontend.accept_proxy = AcceptProxy::Required;
    rig.frontend.sources.deny = "192.0.2.0/24".parse().unwrap();
    let rig = rig.start();
    let mut client = rig.connect();
    client.write_all(HEADER).unwrap();
    assert!(is_reset(&read_to_end(&mut client)));
    let mut client = rig.connect();
    client
        .write_all(b"PROXY TCP4 198.51.100.1 192.0.2.1 40000 443\r\nhi")
        .unwrap();
    assert_eq!(read_exact(&mut accept(&listener), 2), b"hi");
    drop(client);
    rig.until_sessions(0);
    assert_eq!(rig.terminations(), ["PR", "--"]);
}

#[test]
fn a_header_is_sent_before_everything_else() {
    for (send, expected) in [
        (SendProxy::V1, &b"PROXY TCP4 127.0.0.1 127.0.0.1 "[..]),
        (
            SendProxy::V2,
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\x01\x7f\0\0\x01",
        ),
    ] {
        let (listener, address) = server();
        let mut rig = Rig::new(&[address]);
        rig.policy.send_proxy = send;
        let rig = rig.start();
        let mut client = rig.connect();
        client.write_all(b"data").unwrap();
        let mut far = accept(&listener);
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let received = read_to_end(&mut far).unwrap();
        assert!(received.starts_with(expected), "{received:?}");
        assert!(received.ends_with(b"data"));
    }
}

#[test]
fn a_header_received_is_passed_on_with_its_addresses() {
    let (listener, address) = server();
    let mut rig = Rig::new(&[address]);
    rig.frontend.accept_proxy = AcceptProxy::Required;
    rig.policy.send_proxy = SendProxy::V1;
    let rig = rig.start();
    let mut client = rig.connect();
    client.write_all(&[HEADER, b"x"].concat()).unwrap();
    let expected = [HEADER, b"x"].concat();
    assert_eq!(read_exact(&mut accept(&listener), expected.len()), expected);
}

/// A header of version 2 from 192.0.2.7:40000 to 192.0.2.1:443.
fn binary(extensions: &[u8]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11".to_vec();
    header.extend_from_slice(&length(12 + extensions.len()));
    header.extend_from_slice(&[192, 0, 2, 7, 192, 0, 2, 1]);
    header.extend_from_slice(&[40000_u16.to_be_bytes(), 443_u16.to_be_bytes()].concat());
    header.extend_from_slice(extensions);
    header
}

#[test]
fn a_header_received_is_passed_on_with_its_extensions() {
    // Of those, padding is of the header itself.
    let (told, padding) = (&b"\x02\0\x03api\xea\0\x02\x01v"[..], &b"\x04\0\x02\0\0"[..]);
    let received = [&binary(&[told, padding].concat())[..], b"x"].concat();
    for (send, expected) in [
        (SendProxy::V2, [&binary(told)[..], b"x"].concat()),
        (SendProxy::V1, [HEADER, b"x"].concat()),
    ] {
        let (listener, address) = server();
        let mut rig = Rig::new(&[address]);
        rig.frontend.accept_proxy = AcceptProxy::Required;
        rig.policy.send_proxy = send;
        let rig = rig.start();
        for piece in [1, 20, 1000] {
            let mut client = rig.connect();
            send_in_pieces(&mut client, &received, piece);
            let mut far = accept(&listener);
            assert_eq!(read_exact(&mut far, expected.len()), expected, "{piece}");
        }
    }
}

/// Two backends: `a` by name, `b` for everything else; what each listens on, and a running rig.
fn by_name(inspect_timeout: Duration) -> (Rig, std::net::TcpListener, std::net::TcpListener) {
    let (a, a_address) = server();
    let (b, b_address) = server();
    let mut rig = Rig::new(&[a_address]);
    rig.frontend.route.inspect_timeout = inspect_timeout;
    let rig = rig.start();
    let mut registry = Registry::new();
    let mut backend = |name: &str, address| {
        let mut settings = Settings::new(name);
        settings.servers.push(ServerSettings::new("s0", address));
        Arc::new(Backend {
            pool: registry.pool(settings),
            policy: Policy::default(),
        })
    };
    let named = RouteRule {
        names: vec!["*.apps.example.org".into()],
        patterns: vec![Pattern::new("^shop-[0-9]+\\.").unwrap()],
        ..RouteRule::default()
    };
    let acme = RouteRule {
        protocols: vec!["acme-tls/1".into()],
        ..RouteRule::default()
    };
    let rules = RouteRules {
        rules: vec![named, acme],
        ..RouteRules::default()
    };
    let mut route = Route::to(1);
    route.routes = Routes::new(&rules, |_| Some(0));
    route.inspect_timeout = inspect_timeout;
    let frontend = Frontend::new("api", Vec::new(), route);
    rig.cell.publish(Table {
        frontends: vec![Arc::new(frontend)],
        backends: vec![backend("a", a_address), backend("b", b_address)],
        generation: 7,
    });
    rig.engine().notice();
    (rig, a, b)
}

#[test]
fn a_name_chooses_the_backend_however_it_is_cut() {
    let (rig, a, b) = by_name(LIMIT);
    for (per_record, piece) in [(4000, 4000), (4000, 1), (5, 4000), (1, 100)] {
        let bytes = hello("console.apps.example.org", per_record);
        let mut client = rig.connect();
        send_in_pieces(&mut client, &bytes, piece);
        client.write_all(b"more").unwrap();
        let mut far = accept(&a);
        let expected = [&bytes[..], b"more"].concat();
        assert!(
            read_exact(&mut far, expected.len()) == expected,
            "{per_record} {piece}"
        );
    }
    let mut client = rig.connect();
    client.write_all(&hello("other.example.org", 4000)).unwrap();
    drop(accept(&b));
}

#[test]
fn a_regular_expression_or_a_protocol_chooses_the_backend() {
    let (rig, a, b) = by_name(LIMIT);
    for (name, protocol, far) in [
        ("Shop-7.example", None, &a),
        ("shop.example", None, &b),
        ("shop.example", Some("acme-tls/1"), &a),
        ("shop.example", Some("acme-tls/11"), &b),
    ] {
        let bytes = hello_with(name, protocol, 4000);
        let mut client = rig.connect();
        client.write_all(&bytes).unwrap();
        let mut far = accept(far);
        assert_eq!(
            read_exact(&mut far, bytes.len()),
            bytes,
            "{name} {protocol:?}"
        );
    }
}

#[test]
fn what_has_no_name_goes_to_the_default() {
    let (rig, _a, b) = by_name(Duration::from_millis(150));
    // No TLS at all, silence, half a hello, and more than anybody looks into.
    let mut plain = rig.connect();
    plain.write_all(b"SSH-2.0-x\r\n").unwrap();
    assert_eq!(read_exact(&mut accept(&b), 11), b"SSH-2.0-x\r\n");
    let mut silent = rig.connect();
    accept(&b).write_all(b"220 hi").unwrap();
    assert_eq!(read_exact(&mut silent, 6), b"220 hi");
    let mut half = rig.connect();
    let bytes = hello("console.apps.example.org", 4000);
    half.write_all(&bytes[..20]).unwrap();
    half.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut accept(&b)).unwrap(), bytes[..20]);
    let mut long = patient(TcpStream::connect(rig.address()).unwrap());
    let mut bytes = hello("console.apps.example.org", 4000);
    bytes[6..9].copy_from_slice(&[1, 0, 0]);
    bytes.extend_from_slice(&pattern(100_000, 5));
    let copy = bytes.clone();
    let writer = std::thread::spawn(move || {
        long.write_all(&copy).unwrap();
        long
    });
    assert!(read_exact(&mut accept(&b), bytes.len()) == bytes);
    drop(writer.join().unwrap());
}
