//! Entries of the table as the contract carries them, to subscribers and to disk.

use std::time::{Duration, Instant};

use prost::Message as _;
use proto::health::{Target, Watched};
use proto::wire;

use liveness::clocks::Clock;
use liveness::table::{Known, Seen};

/// A target as a subscriber sees it, with its place in the statement it answers.
#[must_use]
pub fn status<'a>(place: u32, seen: impl Into<Seen<'a>>) -> wire::TargetStatus {
    let seen = seen.into();
    let entry = seen.entry;
    let deviation = seen.deviation();
    wire::TargetStatus {
        target: Some(wire::Target {
            schedule: (!deviation.is_none()).then(|| (&deviation).into()),
            ..(&*entry.target).into()
        }),
        liveness: wire::Liveness::from(seen.liveness()).into(),
        admin_state: wire::AdminState::from(entry.admin).into(),
        since_ms: millis(seen.since()),
        last_check_ms: millis(entry.last_check),
        latency_us: u64::try_from(entry.latency.as_micros()).unwrap_or(u64::MAX),
        reason: seen.reason(),
        warm: seen.is_warm(),
        stated: place,
        schedule: Some(seen.schedule().into()),
        generation: seen.changed(),
        verdict: seen.verdict().as_ref().map(Into::into),
    }
}

/// A target for which there is no room.
#[must_use]
pub fn without_room(place: u32, watched: &Watched, limit: usize) -> wire::TargetStatus {
    wire::TargetStatus {
        target: Some(watched.into()),
        reason: format!("no room: healthd probes {limit} targets at most"),
        stated: place,
        ..Default::default()
    }
}

/// A clock, with its age.
#[must_use]
pub fn clock(clock: &Clock, now: Instant) -> wire::ClockStatus {
    wire::ClockStatus {
        report: Some((&clock.report).into()),
        since_ms: millis(Some(clock.since)),
        age_ms: millis(Some(clock.age(now))),
        stale: clock.is_stale(now),
    }
}

/// Reads an entry that was written before a restart; `None` when its target cannot be probed.
#[must_use]
pub fn known(status: wire::TargetStatus) -> Option<Known> {
    let time = |millis: u64| (millis != 0).then(|| Duration::from_millis(millis));
    Some(Known {
        liveness: status.liveness().into(),
        since: time(status.since_ms),
        last_check: time(status.last_check_ms),
        latency: Duration::from_micros(status.latency_us),
        target: Target::try_from(status.target?).ok()?,
        reason: status.reason,
    })
}

fn millis(time: Option<Duration>) -> u64 {
    time.map_or(0, |time| {
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
    })
}

/// A short name for a target that is the same over restarts: 12 hexadecimal digits of the FNV-1a hash
/// of its message. Kind and address do not tell apart two targets with different settings.
#[must_use]
pub fn fingerprint(target: &Target) -> String {
    let octets = wire::Target::from(target).encode_to_vec();
    let hash = octets
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, octet| {
            (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3)
        });
    format!("{:012x}", hash >> 16)
}
