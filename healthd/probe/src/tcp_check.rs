//! A conversation over TCP: up when every step of it goes as it should.

use ::tcp_check::{Conversation, Next};
use health::CheckStep;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Outcome, words};

/// Octets that are read at once.
const PIECE: usize = 4096;

pub(super) async fn probe(mut stream: TcpStream, steps: &[CheckStep]) -> Outcome {
    let mut conversation = Conversation::new(steps)?;
    let mut piece = [0; PIECE];
    loop {
        match conversation.next_action() {
            Next::Send(octets) => {
                let sent = stream.write_all(&octets).await;
                sent.map_err(|error| words(&error))?;
            }
            Next::Receive => {
                let received = stream.read(&mut piece).await;
                let length = received.map_err(|error| words(&error))?;
                conversation.receive(piece.get(..length).unwrap_or_default());
            }
            Next::Done(outcome) => return outcome,
        }
    }
}
