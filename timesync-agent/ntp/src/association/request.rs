//! The request to a server: random numbers, and no time. A peer gets this node's time.

use super::{Association, Context, Pending, RawStamp};
use crate::keys::KeyRing;
use crate::wire::{LONGEST_PACKET, Mode, Packet, Writer};
use time_model::settings::SourceOptions;
use time_model::time::{NtpTimestamp, SECOND, Span};
use time_model::view::{Leap, StampSource};

/// Requests without answer after which interleaved mode starts again, as in chrony: the server may have forgotten us.
const INTERLEAVED_ATTEMPTS: u32 = 4;
/// The precision field of a request, which does not reveal the clock's.
const UNTOLD_PRECISION: i8 = 32;
/// The least time to wait for an answer.
const SHORTEST_WAIT: Span = Span(SECOND);

impl Association {
    /// A new request; the one that waits is not answered any more.
    pub(super) fn request(&mut self, context: &Context<'_>) -> Option<Vec<u8>> {
        let now = context.now.raw;
        if self.n_unanswered > 0 {
            self.count_poll(false);
            self.count_unfiltered();
            self.schedule.missed();
        }
        let local = self.pending.take().and_then(|pending| pending.local);
        if let Some(peering) = &mut self.peering {
            let bits = [self.random.bits(), self.random.bits()];
            let version = version(&self.options, context.keys);
            let packet = peering.packet(version, self.schedule.poll(), bits, context);
            let pending = Pending {
                transmit: packet.transmit,
                receive: None,
                sent: RawStamp {
                    at: now,
                    by: StampSource::Daemon,
                    error: 0.0,
                },
                local,
                until: None,
            };
            return self.dispatch(&packet, pending, context);
        }
        if self.n_unanswered > INTERLEAVED_ATTEMPTS || !self.options.xleave {
            self.last = None;
        }
        let transmit = NtpTimestamp(self.random.bits() | 1);
        // A response of interleaved mode is known by which of two numbers it repeats. A server remembers only who sends both.
        let receive = NtpTimestamp(self.random.bits() & !1 | 2);
        let receive = Some(receive).filter(|_| self.options.xleave);
        let packet = Packet {
            leap: Leap::Normal,
            version: version(&self.options, context.keys),
            mode: Mode::Client,
            poll: self.schedule.poll(),
            precision: UNTOLD_PRECISION,
            origin: self.last.map_or(NtpTimestamp::ZERO, |last| last.receive),
            receive: receive.unwrap_or_default(),
            transmit,
            ..Packet::default()
        };
        // An operator who allows for a longer way gets its answers. The next request ends the wait in any case.
        let wait = Span::from_seconds(self.options.max_delay);
        let pending = Pending {
            transmit,
            receive: receive.filter(|_| self.last.is_some()),
            sent: RawStamp {
                at: now,
                by: StampSource::Daemon,
                error: 0.0,
            },
            local: None,
            until: Some(now + wait.max(SHORTEST_WAIT)),
        };
        self.dispatch(&packet, pending, context)
    }

    /// Counts a request, and writes it. Without its key a source is not asked: an answer could not be believed.
    fn dispatch(
        &mut self,
        packet: &Packet,
        pending: Pending,
        context: &Context<'_>,
    ) -> Option<Vec<u8>> {
        let octets = self.sealed(packet, context.keys);
        self.n_unanswered = self.n_unanswered.saturating_add(1);
        self.schedule.sent(self.reach != 0, context.now.raw);
        let octets = octets?;
        self.counters.n_sent = self.counters.n_sent.saturating_add(1);
        self.pending = Some(pending);
        Some(octets)
    }

    fn sealed(&self, packet: &Packet, keys: &KeyRing) -> Option<Vec<u8>> {
        let mut buffer = [0; LONGEST_PACKET];
        let mut writer = Writer::new(&mut buffer, packet)?;
        if let Some(key) = self.options.key {
            let sign =
                |message: &[u8], digest: &mut [u8]| keys.sign(key, packet.version, message, digest);
            if !writer.mac(key, sign) {
                return None;
            }
        }
        let length = writer.finish();
        buffer.get(..length).map(<[u8]>::to_vec)
    }
}

fn version(options: &SourceOptions, keys: &KeyRing) -> u8 {
    // A digest that version 4 would cut is whole in version 3.
    let is_long = |key| {
        keys.get(key)
            .is_some_and(|key| key.algorithm().digest_length() > 20)
    };
    let is_long = options.key.is_some_and(is_long);
    options.version.unwrap_or(if is_long { 3 } else { 4 })
}
