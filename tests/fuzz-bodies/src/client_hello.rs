//! Any bytes as the beginning of a connection that may be TLS.

use l4_core::client_hello::{LONGEST, Peeked, is_host_name, peek};

pub(super) fn body(data: &[u8]) {
    let whole = peek(data);
    // A decision holds, however much follows; and nothing is held back beyond a bound.
    if let Some(end) = (0..=data.len()).find(|end| peek(&data[..*end]) != Peeked::More) {
        assert_eq!(peek(&data[..end]), whole, "decided at {end}");
    } else {
        assert!(
            data.len() < LONGEST,
            "{} octets and no decision",
            data.len()
        );
    }
    if let Peeked::Hello(hello) = whole
        && let Some(name) = hello.name
    {
        assert!(is_host_name(&name), "{name}");
        assert_eq!(name, name.to_ascii_lowercase());
    }
}
