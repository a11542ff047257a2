use super::*;
use time_model::time::{NtpShort, NtpTimestamp};
use time_model::view::Leap;

/// A header that a stratum 2 server has sent, each octet another.
const HEADER: [u8; HEADER_LENGTH] = [
    0x24, 0x02, 0x06, 0xe7, // LI 0, version 4, mode 4; stratum 2, poll 6, precision -25
    0x00, 0x00, 0x01, 0x02, // root delay
    0x00, 0x00, 0x03, 0x04, // root dispersion
    0xc0, 0x00, 0x02, 0x01, // 192.0.2.1
    0xec, 0xaa, 0x11, 0x22, 0x01, 0x02, 0x03, 0x04, // reference
    0xec, 0xaa, 0x11, 0x23, 0x05, 0x06, 0x07, 0x08, // origin
    0xec, 0xaa, 0x11, 0x24, 0x09, 0x0a, 0x0b, 0x0c, // receive
    0xec, 0xaa, 0x11, 0x25, 0x0d, 0x0e, 0x0f, 0x10, // transmit
];

fn field(kind: u16, length: u16, body: u8) -> Vec<u8> {
    let mut octets = kind.to_be_bytes().to_vec();
    octets.extend(length.to_be_bytes());
    octets.resize(usize::from(length).max(4), body);
    octets
}

fn packet(version: u8, rest: &[&[u8]]) -> Vec<u8> {
    let mut octets = HEADER.to_vec();
    octets[0] = 0x03 | version << 3;
    octets.extend(rest.concat());
    octets
}

fn mac(key: u32, length: usize) -> Vec<u8> {
    [key.to_be_bytes().to_vec(), vec![0xdd; length]].concat()
}

#[test]
fn a_header_is_read_and_written() {
    let packet = Message::parse(&HEADER).unwrap().packet;
    let wanted = Packet {
        leap: Leap::Normal,
        version: 4,
        mode: Mode::Server,
        stratum: 2,
        poll: 6,
        precision: -25,
        root_delay: NtpShort(0x0102),
        root_dispersion: NtpShort(0x0304),
        reference_id: 0xc000_0201,
        reference_time: NtpTimestamp(0xecaa_1122_0102_0304),
        origin: NtpTimestamp(0xecaa_1123_0506_0708),
        receive: NtpTimestamp(0xecaa_1124_090a_0b0c),
        transmit: NtpTimestamp(0xecaa_1125_0d0e_0f10),
    };
    assert_eq!(packet, wanted);
    assert_eq!(packet.encode(), HEADER);
    // Every bit of a header has a place.
    for bit in 0..HEADER_LENGTH * 8 {
        let mut octets = HEADER;
        octets[bit / 8] ^= 1 << (bit % 8);
        let packet = Packet::decode(&octets);
        assert_eq!(packet.encode(), octets, "{bit}");
        assert_ne!(packet, wanted, "{bit}");
    }
    for bits in 0..=u8::MAX {
        assert_eq!(Mode::from_bits(bits).bits(), bits & 7);
    }
}

#[test]
fn only_packets_are_packets() {
    for length in 0..HEADER_LENGTH {
        let error = Message::parse(&HEADER[..length]).unwrap_err();
        assert_eq!(error, Malformed::Length(length));
    }
    for version in 0..8 {
        let octets = packet(version, &[]);
        match Message::parse(&octets) {
            Ok(message) => {
                assert!((1..=4).contains(&version));
                assert_eq!(message.trailer, Trailer::None);
                assert!(message.extensions.is_empty());
            }
            Err(error) => {
                assert!(!(1..=4).contains(&version));
                assert_eq!(error, Malformed::Version(version));
            }
        }
        for extra in [1, 2, 3, 5, 21, 23] {
            let octets = packet(version, &[&vec![0; extra]]);
            let error = Message::parse(&octets).unwrap_err();
            assert_eq!(error, Malformed::Length(octets.len()));
        }
    }
    let longest = packet(3, &[&vec![1; LONGEST_PACKET - HEADER_LENGTH]]);
    assert_eq!(Message::parse(&longest).unwrap().length, LONGEST_PACKET);
    let longer = packet(3, &[&vec![1; LONGEST_PACKET - HEADER_LENGTH + 4]]);
    assert!(Message::parse(&longer).is_err());
}

#[test]
fn below_version_4_all_that_follows_is_a_mac() {
    for version in 1..=3 {
        for length in (0..=68).step_by(4) {
            let octets = packet(version, &[&mac(7, length)]);
            let message = Message::parse(&octets).unwrap();
            let found = message.mac().unwrap();
            assert_eq!((found.key, found.digest.len()), (7, length));
            assert_eq!(
                (found.covered, found.version),
                (&octets[..HEADER_LENGTH], version)
            );
            assert!(message.extensions.is_empty());
        }
        let nak = packet(version, &[&[0; 4]]);
        assert_eq!(Message::parse(&nak).unwrap().trailer, Trailer::CryptoNak);
    }
}

#[test]
fn windows_authenticators_are_known() {
    let zeros = |key: u32, length: usize| [key.to_be_bytes().to_vec(), vec![0; length]].concat();
    for (version, rest, is_windows) in [
        (3, zeros(1000, 16), true),
        (3, zeros(1000, 68), true),
        (3, zeros(1000, 20), false),
        (3, zeros(0, 16), false),
        (3, mac(1000, 16), false),
        (2, zeros(1000, 16), false),
        (4, zeros(1000, 16), false),
    ] {
        let octets = packet(version, &[&rest]);
        let trailer = Message::parse(&octets).unwrap().trailer;
        assert_eq!(trailer == Trailer::MsSntp, is_windows, "{version} {rest:?}");
    }
    // Flags before the zeros are part of the extended one.
    let mut extended = zeros(1000, 68);
    extended[4] = 1;
    let octets = packet(3, &[&extended]);
    assert_eq!(Message::parse(&octets).unwrap().trailer, Trailer::MsSntp);
}

/// What follows a version 4 header: fields, then whether there is a MAC, or none if it is malformed.
type Expected = Option<(&'static [(u16, usize)], Option<usize>)>;

/// Rests of version 4 packets, and what they are.
fn rests() -> Vec<(&'static str, Vec<u8>, Expected)> {
    let f = |kind, length| field(kind, length, 0xee);
    vec![
        ("nothing", vec![], Some((&[], None))),
        ("a MAC of MD5 or CMAC", mac(1, 16), Some((&[], Some(16)))),
        ("a MAC of 160 bits", mac(1, 20), Some((&[], Some(20)))),
        // RFC 7822 §7.5.1.4: neither could be told from a field.
        ("a MAC of 192 bits", mac(1, 24), None),
        ("a MAC of 256 bits", mac(1, 32), None),
        ("4 octets that are no NAK", mac(1, 0), None),
        ("8 octets", mac(0, 4), None),
        ("a field of 16 octets alone", f(1, 16), None),
        // RFC 7822 §7.5.1.1: so short a last field is taken for a MAC.
        (
            "a field of 20 octets alone",
            f(1, 20),
            Some((&[], Some(16))),
        ),
        (
            "a field of 24 octets alone",
            f(1, 24),
            Some((&[], Some(20))),
        ),
        (
            "a field of 28 octets alone",
            f(1, 28),
            Some((&[(1, 24)], None)),
        ),
        (
            "a short field and a MAC",
            [f(1, 16), mac(1, 16)].concat(),
            Some((&[(1, 12)], Some(16))),
        ),
        (
            "a field and a MAC",
            [f(1, 40), mac(1, 20)].concat(),
            Some((&[(1, 36)], Some(20))),
        ),
        (
            "two fields and a MAC",
            [f(1, 16), f(2, 32), mac(1, 16)].concat(),
            Some((&[(1, 12), (2, 28)], Some(16))),
        ),
        (
            "a field and too long a MAC",
            [f(1, 16), mac(1, 32)].concat(),
            None,
        ),
        ("a field of 12 octets", [f(1, 12), f(1, 28)].concat(), None),
        ("a field of 0 octets", [f(1, 0), vec![0; 24]].concat(), None),
        (
            "a field of 30 octets",
            [f(1, 30), vec![0; 2]].concat(),
            None,
        ),
        (
            "a field beyond the end",
            [vec![0, 1, 0, 60], vec![0; 24]].concat(),
            None,
        ),
        (
            "a field of 65,532 octets",
            [vec![0, 1, 0xff, 0xfc], vec![0; 24]].concat(),
            None,
        ),
        (
            "a field and a NAK",
            [f(1, 28), vec![0; 4]].concat(),
            Some((&[(1, 24)], None)),
        ),
    ]
}

#[test]
fn a_mac_is_told_from_an_extension_field_by_its_length() {
    for (what, rest, expected) in rests() {
        let octets = packet(4, &[&rest]);
        let found = Message::parse(&octets);
        let Some((fields, digest)) = expected else {
            assert_eq!(found.err(), Some(Malformed::Extension), "{what}");
            continue;
        };
        let message = found.expect(what);
        let kinds: Vec<_> = message
            .extensions
            .into_iter()
            .map(|field| (field.kind, field.body.len()))
            .collect();
        assert_eq!(kinds, fields, "{what}");
        assert_eq!(message.mac().map(|mac| mac.digest.len()), digest, "{what}");
        if let Some(mac) = message.mac() {
            let end = octets.len() - mac.digest.len() - KEY_ID_LENGTH;
            assert_eq!(mac.covered, &octets[..end], "{what}");
        }
        assert_eq!(message.length, octets.len());
    }
}

#[test]
fn unknown_fields_are_passed_over() {
    let identifier = field(UNIQUE_IDENTIFIER, 36, 0x77);
    let octets = packet(
        4,
        &[
            &field(0xfeed, 20, 1),
            &identifier,
            &field(2, 16, 2),
            &mac(9, 16),
        ],
    );
    let message = Message::parse(&octets).unwrap();
    assert_eq!(message.extension(UNIQUE_IDENTIFIER), Some(&[0x77; 32][..]));
    assert_eq!(message.extension(0xfeed).map(<[u8]>::len), Some(16));
    assert_eq!(message.extension(NTS_COOKIE), None);
    assert_eq!(message.extensions.into_iter().count(), 3);
    assert_eq!(message.mac().unwrap().key, 9);
}

#[test]
fn what_is_written_is_read() {
    let header = Packet::decode(&HEADER);
    for body in (0..=200).step_by(4) {
        for digest in [None, Some(16), Some(20)] {
            let mut buffer = [0xaa; 400];
            let mut writer = Writer::new(&mut buffer, &header).unwrap();
            assert!(writer.extension(0x1234, &vec![7; body]));
            if let Some(length) = digest {
                assert!(writer.mac(3, |covered, room| {
                    assert_eq!(covered.len() % 4, 0);
                    room[..length].fill(0xdd);
                    Some(length)
                }));
            }
            let length = writer.finish();
            assert_eq!(buffer[length..].iter().find(|octet| **octet != 0xaa), None);
            let message = Message::parse(&buffer[..length]).unwrap();
            assert_eq!(message.packet, header);
            let found = message.extension(0x1234).unwrap();
            assert_eq!(found[..body], vec![7; body]);
            assert!(found[body..].iter().all(|octet| *octet == 0), "padding");
            assert_eq!(message.mac().map(|mac| mac.digest.len()), digest);
        }
    }
}

#[test]
fn what_does_not_fit_is_not_written() {
    let header = Packet::decode(&HEADER);
    let body = [7; 32];
    for room in 0..120 {
        let mut buffer = vec![0xaa; room];
        let Some(mut writer) = Writer::new(&mut buffer, &header) else {
            assert!(room < HEADER_LENGTH);
            assert!(buffer.iter().all(|octet| *octet == 0xaa));
            continue;
        };
        let mut wanted = HEADER_LENGTH;
        let fits = writer.extension(1, &body);
        assert_eq!(fits, room >= wanted + 36);
        wanted += if fits { 36 } else { 0 };
        let sign = |_: &[u8], digest: &mut [u8]| {
            digest.get_mut(..16)?.fill(0xdd);
            Some(16)
        };
        let fits = writer.mac(1, sign);
        assert_eq!(fits, room >= wanted + 20, "{room}");
        wanted += if fits { 20 } else { 0 };
        assert!(!writer.mac(1, |_, _| None), "nothing signed");
        assert_eq!(writer.finish(), wanted);
        assert!(
            buffer[wanted..].iter().all(|octet| *octet == 0xaa),
            "{room}"
        );
    }
    let mut buffer = vec![0; 80_000];
    let mut writer = Writer::new(&mut buffer, &header).unwrap();
    assert!(
        !writer.extension(1, &vec![0; 65_536]),
        "no length says that"
    );
    assert_eq!(writer.finish(), HEADER_LENGTH);
}
