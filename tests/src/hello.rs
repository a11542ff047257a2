//! TLS ClientHello messages (RFC 8446 §4.1.2, RFC 6066 §3), made byte by byte and cut anywhere.

/// A ClientHello that asks for `name`, or for no name, with `padding` octets more than it needs.
///
/// # Panics
///
/// Panics if it gets longer than a handshake message of two octets of length.
#[must_use]
pub fn client_hello(name: Option<&str>, padding: usize) -> Vec<u8> {
    client_hello_offering(name, padding, &["h2"])
}

/// The same with these application protocols (ALPN).
#[must_use]
pub fn client_hello_offering(name: Option<&str>, padding: usize, protocols: &[&str]) -> Vec<u8> {
    let mut extensions = Vec::new();
    // supported_versions: 1.3.
    extension(&mut extensions, 43, &[2, 3, 4]);
    if padding > 0 {
        // In front, as a post-quantum key share may be.
        extension(&mut extensions, 51, &vec![0x5a; padding]);
    }
    if let Some(name) = name {
        let mut list = vec![0];
        list.extend(length(name.len()));
        list.extend(name.as_bytes());
        let list = [length(list.len()).to_vec(), list].concat();
        extension(&mut extensions, 0, &list);
    }
    let mut list = Vec::new();
    for protocol in protocols {
        list.push(u8::try_from(protocol.len()).expect("protocols are short"));
        list.extend(protocol.as_bytes());
    }
    let list = [length(list.len()).to_vec(), list].concat();
    extension(&mut extensions, 16, &list);

    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.push(32);
    body.extend([9; 32]);
    body.extend([0, 4, 0x13, 1, 0x13, 2]);
    body.extend([1, 0]);
    body.extend(length(extensions.len()));
    body.extend(extensions);
    let mut message = vec![1, 0];
    message.extend(length(body.len()));
    message.extend(body);
    message
}

/// A message in TLS records of at most `most` octets each.
#[must_use]
pub fn records(message: &[u8], most: usize) -> Vec<u8> {
    let mut records = Vec::new();
    for piece in message.chunks(most) {
        records.extend([22, 3, 1]);
        records.extend(length(piece.len()));
        records.extend(piece);
    }
    records
}

fn extension(extensions: &mut Vec<u8>, kind: u16, body: &[u8]) {
    extensions.extend(kind.to_be_bytes());
    extensions.extend(length(body.len()));
    extensions.extend(body);
}

fn length(length: usize) -> [u8; 2] {
    u16::try_from(length)
        .expect("a length fits two octets")
        .to_be_bytes()
}
