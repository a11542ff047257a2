//! Answers to clients, and refusals.

use std::fmt;

use daemon::metrics::{Page, float, labels};

use super::{
    CLIENTS_FORGOTTEN, COMMANDS, SERVER_AUTHENTICATED, SERVER_DROPPED, SERVER_INTERLEAVED,
    SERVER_KISSES, SERVER_REQUESTS, SERVER_STAMPS, SERVER_STAMPS_HELD,
};
use ntp::responder::{Counter, Statistics};

/// Why a datagram was not answered.
const DROPPED: [(&str, Counter); 6] = [
    ("denied", Counter::Denied),
    ("malformed", Counter::Malformed),
    ("mode", Counter::WrongMode),
    ("rate", Counter::RateLimited),
    ("too-long", Counter::TooLong),
    ("unauthenticated", Counter::Unauthenticated),
];

/// The sources of the timestamps of requests and responses.
const STAMPS: [(&str, &str, Counter); 6] = [
    ("received", "daemon", Counter::ReceivedDaemon),
    ("received", "hardware", Counter::ReceivedHardware),
    ("received", "kernel", Counter::ReceivedKernel),
    ("transmitted", "daemon", Counter::TransmittedDaemon),
    ("transmitted", "hardware", Counter::TransmittedHardware),
    ("transmitted", "kernel", Counter::TransmittedKernel),
];

/// Writes all of it.
pub(super) fn write(page: &mut Page<'_, '_>, statistics: &Statistics) -> fmt::Result {
    let counters = [
        (
            SERVER_REQUESTS,
            "Requests of clients that are allowed",
            Counter::Received,
        ),
        (SERVER_KISSES, "Kisses-o'-death sent", Counter::Kissed),
        (
            SERVER_AUTHENTICATED,
            "Requests with a good signature",
            Counter::Authenticated,
        ),
        (
            SERVER_INTERLEAVED,
            "Requests answered in interleaved mode",
            Counter::Interleaved,
        ),
    ];
    for (name, help, counter) in counters {
        page.counter(name, help, statistics.get(counter))?;
    }
    let dropped =
        DROPPED.map(|(reason, counter)| (labels(&[("reason", reason)]), statistics.get(counter)));
    page.counters(
        SERVER_DROPPED,
        "Datagrams that were not answered",
        dropped.into(),
    )?;
    let stamps = STAMPS.map(|(direction, by, counter)| {
        let labels = labels(&[("direction", direction), ("by", by)]);
        (labels, statistics.get(counter))
    });
    page.counters(SERVER_STAMPS, "Timestamps by who took them", stamps.into())?;
    let held = u64::try_from(statistics.stamps_held).unwrap_or(u64::MAX);
    page.gauge(
        SERVER_STAMPS_HELD,
        "Answers remembered for interleaved mode",
        float(held),
    )?;
    page.counter(
        CLIENTS_FORGOTTEN,
        "Clients forgotten to make room",
        statistics.clients_forgotten,
    )?;
    let commands = [
        ("taken", Counter::CommandsReceived),
        ("dropped", Counter::CommandsDropped),
    ];
    let commands =
        commands.map(|(result, counter)| (labels(&[("result", result)]), statistics.get(counter)));
    page.counters(COMMANDS, "Commands of chronyc", commands.into())
}
