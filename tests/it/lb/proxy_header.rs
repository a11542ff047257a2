//! The PROXY protocol, both ways.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tests::lb::{FRONT, Place, haproxy_pair, pair};
use tests::scratch::{at, loopback};
use tests::stream::{End, PATIENCE, Server, connect, end_within};

/// A server that tells all that it is sent until the client closes.
fn listening() -> (Server, Receiver<Vec<u8>>) {
    let (told, heard) = channel();
    let told: Mutex<Sender<Vec<u8>>> = Mutex::new(told);
    let server = Server::start(at(loopback(), FRONT), move |mut stream| {
        let mut octets = Vec::new();
        drop(stream.read_to_end(&mut octets));
        let told = told.lock().unwrap_or_else(PoisonError::into_inner);
        drop(told.send(octets));
    });
    (server, heard)
}

/// Sends in pieces that arrive one by one.
fn say(front: SocketAddr, pieces: &[&[u8]]) -> TcpStream {
    let mut stream = connect(front);
    for (n, piece) in pieces.iter().enumerate() {
        if n > 0 {
            std::thread::sleep(Duration::from_millis(3));
        }
        if stream.write_all(piece).is_err() {
            break;
        }
    }
    stream
}

fn heard(heard: &Receiver<Vec<u8>>) -> Vec<u8> {
    heard.recv_timeout(PATIENCE).expect("the server is told")
}

const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// A header of version 2 for TCP over IPv4, from 192.0.2.7:7000 to 192.0.2.8:443.
fn v2(tlvs: &[u8]) -> Vec<u8> {
    let mut header = V2.to_vec();
    header.extend([0x21, 0x11]);
    header.extend(u16::try_from(12 + tlvs.len()).unwrap().to_be_bytes());
    header.extend([192, 0, 2, 7, 192, 0, 2, 8]);
    header.extend([7000_u16.to_be_bytes(), 443_u16.to_be_bytes()].concat());
    header.extend(tlvs);
    header
}

#[test]
fn servers_are_told_of_the_client_as_haproxy_tells_them() {
    let (server, told) = listening();
    for (ours, peer) in [("v1", "send-proxy"), ("v2", "send-proxy-v2")] {
        let mut all = Vec::new();
        for name in ["HAProxy", "lb-proxy"] {
            let place = Place::new();
            let back = [server.address()];
            let _proxy = if name == "HAProxy" {
                place.start_haproxy(&haproxy_pair(&place, "", "", peer, &back))
            } else {
                let back_settings = format!("send-proxy = \"{ours}\"");
                place.start(&pair(&place, "", &back_settings, &back))
            };
            let stream = say(place.front(), &[b"hello"]);
            let client = stream.local_addr().unwrap();
            drop(stream);
            let octets = heard(&told);
            let expected = if ours == "v1" {
                format!(
                    "PROXY TCP4 {} {} {} {FRONT}\r\n",
                    client.ip(),
                    place.ip,
                    client.port()
                )
                .into_bytes()
            } else {
                let mut header = V2.to_vec();
                header.extend([0x21, 0x11, 0, 12, 127, 0, 0, 1]);
                header.extend(place.ip.octets());
                header.extend(client.port().to_be_bytes());
                header.extend(FRONT.to_be_bytes());
                header
            };
            let expected = [expected, b"hello".to_vec()].concat();
            assert_eq!(octets, expected, "{name} {ours}");
            all.push(octets.len());
        }
    }
}

/// The header that a server gets when a client's header says that it is 192.0.2.7:7000.
const TOLD: &[u8] = b"PROXY TCP4 192.0.2.7 192.0.2.8 7000 443\r\n";

#[test]
fn a_header_is_understood_in_any_segmentation() {
    let (server, told) = listening();
    let place = Place::new();
    let _lb = place.start(&pair(
        &place,
        "accept-proxy = \"required\"",
        "send-proxy = \"v1\"",
        &[server.address()],
    ));
    let line = b"PROXY TCP4 192.0.2.7 192.0.2.8 7000 443\r\nhello".to_vec();
    let binary = [v2(&[]), b"hello".to_vec()].concat();
    // A TLV of no known kind, and padding.
    let tlvs = [
        v2(&[0xe0, 0, 2, 1, 2, 0x04, 0, 3, 0, 0, 0]),
        b"hello".to_vec(),
    ]
    .concat();
    let expected = [TOLD, b"hello"].concat();
    for octets in [line, binary, tlvs] {
        for cut in 1..octets.len() {
            let (one, other) = octets.split_at(cut);
            drop(say(place.front(), &[one, other]));
            assert_eq!(heard(&told), expected, "cut at {cut}");
        }
        let single: Vec<&[u8]> = octets.chunks(1).collect();
        drop(say(place.front(), &single));
        assert_eq!(heard(&told), expected, "octet by octet");
        drop(say(place.front(), &[&octets]));
        assert_eq!(heard(&told), expected, "at once");
    }
}

#[test]
fn what_a_header_tells_besides_is_passed_on() {
    let (server, told) = listening();
    let place = Place::new();
    let _lb = place.start(&pair(
        &place,
        "accept-proxy = \"required\"",
        "send-proxy = \"v2\"",
        &[server.address()],
    ));
    let authority = b"\x02\0\x03api";
    let padded = [
        &v2(&[authority, &b"\x04\0\x01\0"[..]].concat())[..],
        b"hello",
    ]
    .concat();
    let (one, other) = padded.split_at(30);
    drop(say(place.front(), &[one, other]));
    assert_eq!(heard(&told), [&v2(authority)[..], b"hello"].concat());
}

#[test]
fn headers_that_name_nobody_leave_the_real_addresses() {
    let (server, told) = listening();
    let place = Place::new();
    let _lb = place.start(&pair(
        &place,
        "accept-proxy = \"required\"",
        "send-proxy = \"v1\"",
        &[server.address()],
    ));
    let local = [V2, &[0x20, 0x00, 0, 0]].concat();
    let local_with_addresses =
        [V2, &[0x20, 0x11, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 0, 2]].concat();
    for header in [
        b"PROXY UNKNOWN\r\n".to_vec(),
        // HAProxy 2.6 refuses this one, against its own specification.
        b"PROXY UNKNOWN 192.0.2.7 192.0.2.8 7000 443\r\n".to_vec(),
        local,
        local_with_addresses,
    ] {
        let stream = say(place.front(), &[&[&header[..], b"hello"].concat()]);
        let client = stream.local_addr().unwrap();
        drop(stream);
        let expected = format!(
            "PROXY TCP4 {} {} {} {FRONT}\r\nhello",
            client.ip(),
            place.ip,
            client.port()
        );
        let octets = heard(&told);
        assert_eq!(String::from_utf8_lossy(&octets), expected, "{header:?}");
    }
}

#[test]
fn a_broken_or_missing_header_reaches_no_server() {
    let (server, _told) = listening();
    let place = Place::new();
    let lb = place.start(&pair(
        &place,
        "accept-proxy = \"required\"\ninspect-timeout = \"500ms\"",
        "",
        &[server.address()],
    ));
    let long = [b"PROXY TCP4 ".to_vec(), vec![b'1'; 200]].concat();
    let mut short_v2 = v2(&[]);
    short_v2[15] = 4;
    for octets in [
        &b"GET / HTTP/1.0\r\n\r\n"[..],
        b"PROXY TCP4 192.0.2.7 192.0.2.8 7000\r\n",
        b"PROXY TCP4 192.0.2.7 192.0.2.8 7000 70000\r\n",
        b"PROXY TCP4 192.0.2.7 ::1 7000 443\r\n",
        b"PROXY TCP5 192.0.2.7 192.0.2.8 7000 443\r\n",
        b"PROXY  TCP4 192.0.2.7 192.0.2.8 7000 443\r\n",
        b"PROXY TCP4 192.0.2.7 192.0.2.8 7000 443\n",
        &long,
        &short_v2,
        &[V2, &[0x31, 0x11, 0, 12, 0, 0]].concat(),
        // Begun, and then nothing.
        b"PROXY TCP4 192.0",
        V2,
        b"",
    ] {
        let start = Instant::now();
        let stream = say(place.front(), &[octets]);
        let ended = end_within(&stream, PATIENCE);
        assert!(
            matches!(ended, End::Closed(0) | End::Reset(0)),
            "{octets:?}: {ended:?}"
        );
        // Without the setting, it would be five seconds.
        assert!(start.elapsed() < Duration::from_secs(4), "{octets:?}");
    }
    assert_eq!(server.n_accepted(), 0);
    lb.stop();
}

#[test]
fn an_optional_header_may_be_absent() {
    let (server, told) = listening();
    let place = Place::new();
    let _lb = place.start(&pair(
        &place,
        "accept-proxy = \"optional\"",
        "",
        &[server.address()],
    ));
    for text in [
        "GET / HTTP/1.0\r\n\r\n",
        "PUT",
        "PROX",
        "\r\n\r\nhello",
        "P",
    ] {
        drop(say(place.front(), &[text.as_bytes()]));
        assert_eq!(String::from_utf8_lossy(&heard(&told)), text);
    }
    drop(say(place.front(), &[TOLD, b"hello"]));
    assert_eq!(heard(&told), b"hello");
}

#[test]
fn without_the_setting_a_header_is_data() {
    let (server, told) = listening();
    let place = Place::new();
    let _lb = place.start(&pair(&place, "", "", &[server.address()]));
    drop(say(place.front(), &[TOLD]));
    assert_eq!(heard(&told), TOLD);
}

#[test]
fn the_source_in_the_header_is_the_one_that_is_judged() {
    let (server, told) = listening();
    let place = Place::new();
    let _lb = place.start(&pair(
        &place,
        "accept-proxy = \"required\"\nallow-from = [\"192.0.2.0/24\"]\ndeny-from = [\"192.0.2.9\"]",
        "",
        &[server.address()],
    ));
    for (address, may) in [
        ("192.0.2.7", true),
        ("192.0.2.9", false),
        ("198.51.100.1", false),
    ] {
        let header = format!("PROXY TCP4 {address} 192.0.2.8 7000 443\r\nhello");
        let stream = say(place.front(), &[header.as_bytes()]);
        if may {
            drop(stream);
            assert_eq!(heard(&told), b"hello");
        } else {
            let ended = end_within(&stream, PATIENCE);
            assert!(
                matches!(ended, End::Closed(0) | End::Reset(0)),
                "{address}: {ended:?}"
            );
        }
    }
    assert_eq!(server.n_accepted(), 1);
}
