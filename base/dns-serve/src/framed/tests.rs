//! Batches of replies.

use super::*;
use crate::service::Transport;
use crate::testing::{Echo, limits};

#[test]
fn no_more_is_handled_while_much_waits_to_be_written() {
    const QUERIES: usize = 5000;
    const MAX_MESSAGE: usize = 1 << 16;
    let client = Client {
        peer: "192.0.2.1:53".parse().unwrap(),
        local: None,
        transport: Transport::Tcp,
    };
    let mut session = Session::new(Echo::new(limits(), false), client, mpsc::channel(1).0);
    let query = [7; 60];
    let mut frames = Replies::default();
    for _ in 0..QUERIES {
        frames.push(&query);
    }
    session.input.extend_from_slice(frames.octets());
    let (mut n_answers, mut n_rounds) = (0, 0);
    while !session.input.is_empty() {
        assert!(session.handle_all().unwrap() > 0);
        assert!(session.replies.octets().len() < BATCH + MAX_MESSAGE);
        let mut rest = session.replies.octets();
        while let Some((length, message)) = rest.split_first_chunk::<2>() {
            rest = &message[u16::from_be_bytes(*length).into()..];
            n_answers += 1;
        }
        session.replies.clear();
        n_rounds += 1;
    }
    assert_eq!(n_answers, QUERIES);
    assert!(n_rounds > 1);
}
