//! One thread of the engine: receive, respond, send, and change between one and many.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sys::batch::{Batch, Longest, Sent, Wait};
use sys::wait::{self, Events};

use super::counters::Counts;
use super::{ALERT_WAKE, Alarm, Datagram, EngineOptions, Outcome, Respond, Socket, Turn, merge};
use crate::progress::Heartbeat;

/// When it is quiet, a worker tries a batch receive every this many datagrams.
const LOOK_EVERY: u32 = 8;

/// This many batches of one datagram in a row mean that it is quiet.
const QUIET_AFTER: u32 = 4;

/// The number of empty receives in a row after which a thread sleeps without a timeout. Before that, a
/// datagram costs no extra call.
const SLEEP_AFTER: u32 = 4;

/// A thread that stops answers this many queued datagrams at most: more than any receive buffer
/// holds, so that clients who never pause cannot keep it.
const LAST_DATAGRAMS: usize = 1 << 16;

/// This many failed receives in a row are taken at full speed: an ICMP error is reported once.
const ERRORS_AT_ONCE: u32 = 8;

/// A thread whose socket fails on and on tries again after this long.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Worker<R> {
    pub(super) socket: Socket,
    pub(super) options: EngineOptions,
    pub(super) responder: R,
    pub(super) counts: Arc<Counts>,
    pub(super) heartbeat: Heartbeat,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) alarm: Arc<Alarm>,
    /// Wakes this thread.
    pub(super) event: Arc<OwnedFd>,
}

/// How datagrams are received.
#[derive(Debug, Clone, Copy)]
enum Pace {
    /// One by one, blocking. Counts down to the next look for more.
    Quiet { look_in: u32 },
    /// All there are, blocking for the first. Counts batches of one.
    Busy { singles: u32 },
}

impl<R: Respond> Worker<R> {
    /// Serves until asked to stop, then answers what is queued.
    pub(super) fn run(mut self) {
        let mut batch = Batch::new(
            self.options.batch,
            self.options.send_batch,
            Longest {
                received: self.options.receive_capacity,
                reply: self.options.reply_capacity,
            },
            self.socket.asked,
        );
        let mut pace = Pace::Quiet {
            look_in: LOOK_EVERY,
        };
        let mut errors = 0;
        // Receives in a row that found nothing.
        let mut idle = 0;
        let mut is_alert = false;
        while !self.stop.load(Ordering::Acquire) {
            if !is_alert && self.alarm.rings.load(Ordering::Relaxed) {
                is_alert = true;
                self.become_alert();
            }
            self.heartbeat.beat();
            if idle >= SLEEP_AFTER && !is_alert && !self.sleep(&mut batch) {
                self.rest();
                continue;
            }
            match self.receive(&mut batch, pace) {
                Ok(0) => {
                    pace = pace.after(0);
                    idle = u32::saturating_add(idle, 1);
                    self.rest();
                }
                Ok(received) => {
                    (errors, idle) = (0, 0);
                    pace = pace.after(received);
                    self.answer(&mut batch, received);
                }
                Err(error) => {
                    self.counts.receive_errors.add(1);
                    errors += 1;
                    self.pause_after(errors, &error);
                }
            }
        }
        self.finish(&mut batch);
    }

    /// Sleeps until the socket has something or a waker wakes the thread; false when only the waker did.
    ///
    /// A wake-up that comes before the sleep ends it at once.
    fn sleep(&mut self, batch: &mut Batch) -> bool {
        let socket = &self.socket.socket;
        let mut descriptors =
            [socket.as_raw_fd(), self.event.as_raw_fd()].map(|fd| (fd, Events::default()));
        self.heartbeat.rest();
        if let Err(error) = wait::poll(&mut descriptors) {
            tracing::debug!(%error, "Cannot sleep without a timeout");
            return true;
        }
        let [(_, came), (_, woken)] = descriptors;
        if woken.readable {
            wait::clear(&self.event);
        }
        if came.error && self.socket.asked.stamps {
            batch.late_departures(socket, |frame, at| self.responder.departed(frame, at));
        }
        // Any other event shows in the next receive.
        came.readable || came.error || !woken.readable
    }

    /// Sleeps lightly from now on.
    fn become_alert(&self) {
        // Without it the thread stops a little later.
        if let Err(error) = self.socket.socket.set_read_timeout(Some(ALERT_WAKE)) {
            tracing::debug!(%error, "A thread does not wake up more often");
        }
        self.alarm.heard.fetch_add(1, Ordering::Release);
    }

    /// Receives as the pace has it; none when the time is up.
    fn receive(&self, batch: &mut Batch, pace: Pace) -> io::Result<usize> {
        let socket = &self.socket.socket;
        let received = match pace {
            Pace::Quiet { look_in: 0 } | Pace::Busy { .. } => {
                batch.receive_many(socket, Wait::ForFirst)
            }
            Pace::Quiet { .. } => batch.receive_one(socket),
        };
        match received {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock
                        | io::ErrorKind::Interrupted
                        | io::ErrorKind::TimedOut
                ) =>
            {
                if error.kind() == io::ErrorKind::WouldBlock {
                    self.stay_blocking();
                }
                Ok(0)
            }
            other => other,
        }
    }

    /// Makes the socket blocking again. Its mode is shared with every process that has
    /// it, and a service manager sets it when it starts another one: this thread would spin.
    fn stay_blocking(&self) {
        let socket = &self.socket.socket;
        let is_spinning = rustix::fs::fcntl_getfl(socket)
            .is_ok_and(|flags| flags.contains(rustix::fs::OFlags::NONBLOCK));
        if is_spinning && let Err(error) = socket.set_nonblocking(false) {
            tracing::debug!(%error, "A socket cannot be waited for");
        }
    }

    /// Responds to each datagram of a batch and sends the replies.
    fn answer(&mut self, batch: &mut Batch, received: usize) {
        self.responder.refresh();
        let mut handled = received;
        let mut sent = Sent::default();
        for index in 0..received {
            if !batch.has_room() {
                sent.add(self.send(batch));
            }
            let (before, most) = batch.staged();
            let turn = Turn {
                before,
                to_answer: (received - index).min(most - before),
            };
            let Some((message, reply)) = batch.message(index) else {
                // Cut off by the kernel: a client that sends as much speaks something else.
                handled -= 1;
                self.counts.dropped.add(1);
                continue;
            };
            let capacity = reply.len();
            let source = message.ancillary.source;
            let datagram = Datagram {
                payload: message.payload,
                peer: message.peer,
                source,
                arrived: message.ancillary.stamp,
                merged: message.ancillary.merged,
                turn,
                socket: Some(&self.socket.socket),
                bound: self.socket.bound,
            };
            let (length, is_told) = match self.responder.respond(&datagram, reply) {
                Outcome::Reply(length) => (length, false),
                Outcome::ReplyTold(length) => (length, true),
                Outcome::Silent => continue,
            };
            if length <= capacity {
                batch.stage(index, length, source, is_told);
            } else {
                self.counts.dropped.add(1);
            }
        }
        sent.add(self.send(batch));
        batch.departures(&self.socket.socket, |frame, at| {
            self.responder.departed(frame, at);
        });
        self.counts.received.add(handled);
        self.counts.batches.add(1);
        self.counts.replied.add(sent.taken);
        self.counts.send_errors.add(sent.refused);
        self.responder.settle();
    }

    fn send(&mut self, batch: &mut Batch) -> Sent {
        let (staged, _) = batch.staged();
        if staged == 0 {
            return Sent::default();
        }
        self.responder.sending(staged);
        let sent = batch.send(&self.socket.socket);
        self.responder.sent(staged);
        sent
    }

    /// Nothing came: lets the responder drop an old snapshot and flush what it has counted.
    fn rest(&mut self) {
        self.responder.refresh();
        self.responder.settle();
    }

    /// Answers what is queued, without waiting for more.
    fn finish(&mut self, batch: &mut Batch) {
        if self.socket.asked.merged {
            merge(&self.socket.socket, false);
        }
        let mut answered = 0;
        let mut errors = 0;
        while answered < LAST_DATAGRAMS && errors < ERRORS_AT_ONCE {
            match batch.receive_many(&self.socket.socket, Wait::No) {
                Ok(0) => break,
                Ok(received) => {
                    answered += received;
                    self.answer(batch, received);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.counts.receive_errors.add(1);
                    errors += 1;
                }
            }
        }
        self.rest();
    }

    /// A receive failed. A socket reports what once went wrong and then works again; one that does
    /// not must not keep the processor busy.
    fn pause_after(&self, errors: u32, error: &io::Error) {
        if errors < ERRORS_AT_ONCE {
            tracing::debug!(%error, "Receive failed");
            return;
        }
        if errors == ERRORS_AT_ONCE {
            tracing::error!(%error, address = ?self.socket.socket.local_addr(), "Socket fails again and again");
        }
        std::thread::sleep(ERROR_PAUSE);
    }
}

impl Pace {
    fn after(self, received: usize) -> Self {
        match self {
            Self::Quiet { look_in: 0 } if received > 1 => Self::Busy { singles: 0 },
            Self::Quiet { look_in: 0 } => Self::Quiet {
                look_in: LOOK_EVERY,
            },
            Self::Quiet { look_in } => Self::Quiet {
                look_in: look_in - 1,
            },
            Self::Busy { .. } if received > 1 => Self::Busy { singles: 0 },
            Self::Busy { singles } if singles + 1 < QUIET_AFTER => Self::Busy {
                singles: singles + 1,
            },
            Self::Busy { .. } => Self::Quiet {
                look_in: LOOK_EVERY,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_follows_the_queue() {
        let mut pace = Pace::Quiet { look_in: 1 };
        pace = pace.after(1);
        assert!(matches!(pace, Pace::Quiet { look_in: 0 }));
        assert!(matches!(
            pace.after(1),
            Pace::Quiet {
                look_in: LOOK_EVERY
            }
        ));
        assert!(matches!(
            pace.after(0),
            Pace::Quiet {
                look_in: LOOK_EVERY
            }
        ));
        pace = pace.after(2);
        assert!(matches!(pace, Pace::Busy { singles: 0 }));
        for _ in 1..QUIET_AFTER {
            pace = pace.after(1);
            assert!(matches!(pace, Pace::Busy { .. }));
        }
        assert!(matches!(pace.after(5), Pace::Busy { singles: 0 }));
        assert!(matches!(pace.after(1), Pace::Quiet { .. }));
    }
}
