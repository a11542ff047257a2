//! Any bytes from a reader of dnstap: they are judged alike however they are cut, and a reader can finish only what it has accepted.

use dnstap::frames::{HandshakeError, Stream};

/// How often the awaited frame came; the error that has ended it.
type Judged = (usize, Option<HandshakeError>);

fn read(data: &[u8], size: usize) -> Judged {
    let (mut stream, _) = Stream::offer();
    let mut n_frames = 0;
    let mut parts = data.chunks(size);
    loop {
        // A frame that came with the one before it waits for no more octets.
        let part = parts.next();
        match stream.received(part.unwrap_or_default()) {
            Ok(true) => n_frames += 1,
            Ok(false) if part.is_none() => return (n_frames, None),
            Ok(false) => {}
            Err(error) => return (n_frames, Some(error)),
        }
    }
}

pub(super) fn body(data: &[u8]) {
    let whole = read(data, data.len().max(1));
    for size in [1, 3, 7] {
        assert_eq!(read(data, size), whole);
    }
}
