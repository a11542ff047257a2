//! Any bytes as answers of ptp4l, to one client: once as they are, and once each after the other.

use clocks::pmc::{Client, Id, parse};

pub(super) fn body(data: &[u8]) {
    let mut client = Client::new(0);
    take(&mut client, data);
    // Each begins with an octet that says how long it is.
    let mut rest = data;
    while let Some((&length, after)) = rest.split_first() {
        let (message, after) = after.split_at(usize::from(length).min(after.len()));
        rest = after;
        client.request(Id::Default);
        take(&mut client, message);
    }
    let view = client.view(0);
    assert!(view.max_offset >= 0.0);
    assert!(!view.interface.chars().any(char::is_control));
}

fn take(client: &mut Client, message: &[u8]) {
    let is_answer = parse(message).is_ok();
    let measured = client.handle(message);
    assert!(is_answer || measured.is_none());
}
