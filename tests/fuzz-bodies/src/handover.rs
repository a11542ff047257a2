//! Any bytes as a message between an lb-proxy and its successor.

use l4_core::handover::{LONGEST, Message};

pub(super) fn body(data: &[u8]) {
    let Ok(message) = Message::decode(data) else {
        return;
    };
    let octets = message.encode();
    // Skipped octets are gone, and the rest means the same.
    if octets.len() <= LONGEST {
        assert_eq!(Message::decode(&octets), Ok(message), "messages travel");
    }
}
