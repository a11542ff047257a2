//! Does once what the agent is for: tells a client the time, and keeps it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Weak;
use std::time::Duration;

use daemon::run::Beats;

use crate::server::{AnswerData, wall_clock};
use ntp::responder::{Answer, LONGEST_ANSWER, Reason, Request, Responder};
use random::Random;
use time_model::view::StampSource;

/// The longest turn of the loop after a wake-up.
const TURN: Duration = Duration::from_secs(2);

/// Between two looks at the loop.
const LOOK: Duration = Duration::from_millis(50);

/// Leap 0, version 4, mode 3: a client's request (RFC 5905 §7.3).
const CLIENT: u8 = 0b00_100_011;

/// Length of a packet without extensions.
const PACKET: usize = 48;

/// Looks whether the poll loop turns, and has a request of this process's own answered.
///
/// # Errors
/// What does not work.
pub(crate) async fn run(
    heartbeat: Weak<Beats>,
    supply: AnswerData,
    random: Random,
) -> Result<String, String> {
    // Held only for an instant: the lock marks the thread that counts.
    let heartbeat = heartbeat.upgrade().ok_or("the poll loop has ended")?;
    let before = heartbeat.count();
    heartbeat.wake();
    let turning = tokio::time::timeout(TURN, async {
        while heartbeat.count() == before {
            tokio::time::sleep(LOOK).await;
        }
    });
    if turning.await.is_err() {
        return Err("the poll loop has stalled".to_owned());
    }
    drop(heartbeat);
    let mut datagram = [0; PACKET];
    let [first, .., last] = &mut datagram;
    // The client's transmit time, by which it would know the answer, is not zero.
    (*first, *last) = (CLIENT, 1);
    let request = Request {
        datagram: &datagram,
        from: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 40_123),
        received: wall_clock(),
        stamp: StampSource::Daemon,
    };
    let (policy, reference) = (supply.policy.current(), supply.reference.current());
    let mut out = [0; LONGEST_ANSWER];
    let mut responder = Responder::new(&supply.tables, random);
    match responder.answer(&request, &policy, &reference, wall_clock, &mut out) {
        Answer::Reply { .. } => {
            let stratum = out.get(1).copied().unwrap_or_default();
            Ok(format!("answers at stratum {stratum}"))
        }
        Answer::Drop(Reason::Denied | Reason::RateLimited) => {
            Ok("keeps the time, which this node may not ask for".to_owned())
        }
        Answer::Drop(reason) => Err(format!("a request is dropped: {reason:?}")),
    }
}
