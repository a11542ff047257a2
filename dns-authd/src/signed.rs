//! The time of signatures: queries without one never read a clock.

use daemon::clock;
use dns_answer::{Client, Programs, Responder, Snapshot, Verdict};

/// Answers one message, signed or not.
#[inline]
pub fn respond<P: Programs>(
    responder: &mut Responder<P>,
    snapshot: &Snapshot,
    message: &[u8],
    client: &Client,
    out: &mut [u8],
) -> Verdict {
    match responder.respond(snapshot, message, client, out) {
        Verdict::Signed => responder.respond_signed(snapshot, (message, now()), client, out),
        verdict => verdict,
    }
}

/// The time, in seconds since 1970.
pub fn now() -> u64 {
    clock::since_1970().as_secs()
}
