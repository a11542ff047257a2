//! Any bytes as a packet of NTP.

use ntp::wire::{
    HEADER_LENGTH, KEY_ID_LENGTH, LONGEST_PACKET, Message, Packet, SHORTEST_EXTENSION,
    SHORTEST_LAST_EXTENSION, Trailer, Writer,
};

pub(super) fn body(data: &[u8]) {
    let Ok(message) = Message::parse(data) else {
        return;
    };
    let packet = message.packet;
    assert!((1..=4).contains(&packet.version));
    assert!((HEADER_LENGTH..=LONGEST_PACKET).contains(&message.length));
    assert_eq!(message.length, data.len());
    // Every bit of a header is kept.
    assert_eq!(&packet.encode()[..], &data[..HEADER_LENGTH]);

    // Nothing is left out, and nothing read twice.
    let mut length = HEADER_LENGTH;
    for field in message.extensions {
        assert_eq!(packet.version, 4, "older ones have no fields");
        assert!(field.body.len() + 4 >= SHORTEST_EXTENSION);
        length += 4 + field.body.len();
    }
    match message.trailer {
        Trailer::None => assert_eq!(length, data.len()),
        Trailer::CryptoNak => {
            assert_eq!(data[length..], [0; KEY_ID_LENGTH]);
        }
        Trailer::Mac(mac) => {
            assert_eq!(mac.covered, &data[..length]);
            assert_eq!(length + KEY_ID_LENGTH + mac.digest.len(), data.len());
            assert_eq!(mac.key.to_be_bytes(), data[length..length + KEY_ID_LENGTH]);
            assert_eq!(mac.version, packet.version);
            assert!(packet.version < 4 || (16..=20).contains(&mac.digest.len()));
        }
        Trailer::MsSntp => assert_eq!(packet.version, 3),
    }
    rewrite(&message, packet);
}

/// A packet that is written again means the same.
fn rewrite(message: &Message<'_>, packet: Packet) {
    let mut buffer = [0; 2 * LONGEST_PACKET];
    let mut writer = Writer::new(&mut buffer, &packet).expect("there is room");
    for field in message.extensions {
        assert!(writer.extension(field.kind, field.body));
    }
    if let Some(mac) = message.mac() {
        assert!(writer.mac(mac.key, |_, room| {
            room.get_mut(..mac.digest.len())?
                .copy_from_slice(mac.digest);
            Some(mac.digest.len())
        }));
    }
    let length = writer.finish();
    // Short fields were made longer, and the whole with them.
    let Ok(again) = Message::parse(&buffer[..length]) else {
        assert!(length > LONGEST_PACKET);
        return;
    };
    assert_eq!(again.packet, packet);
    let mut fields = again.extensions;
    for field in message.extensions {
        let again = fields.next().expect("as many fields");
        assert_eq!(again.kind, field.kind);
        assert_eq!(&again.body[..field.body.len()], field.body);
        assert!(again.body.len() + 4 >= SHORTEST_LAST_EXTENSION);
    }
    assert_eq!(fields.next(), None);
    let digest = |message: &Message<'_>| message.mac().map(|mac| (mac.key, mac.digest.to_vec()));
    assert_eq!(digest(&again), digest(message));
}
