//! Reports as JSON: the names of the protocol, numbers in seconds and parts per million.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Map, Value, json};

use crate::render::{Names, exponential, leap, letters, mode, stamp, timestamp};
use crate::reply::{Address, Client, NEVER, NtpData, Report, SourceData, Tracking};

/// All of them, or the only one.
pub fn reports(reports: &[Report], names: &HashMap<IpAddr, String>, is_list: bool) -> Value {
    let mut values: Vec<Value> = Vec::new();
    for report in reports {
        match report {
            Report::Clients(clients) => values.extend(clients.clients.iter().map(client)),
            report => values.push(one(report, Names(names))),
        }
    }
    if is_list {
        Value::Array(values)
    } else {
        values.into_iter().next().unwrap_or(Value::Null)
    }
}

#[expect(clippy::too_many_lines, reason = "a line or two for each field")]
fn one(report: &Report, names: Names<'_>) -> Value {
    match report {
        Report::Tracking(it) => json!({
            "reference_id": id(it.reference_id),
            "name": match it.address {
                Address::Unspecified => letters(it.reference_id),
                address => names.of(address),
            },
            "address": address(it.address),
            "stratum": it.stratum,
            "reference_time": timestamp(it.reference_time),
            "correction": it.current_correction,
            "last_offset": it.last_offset,
            "rms_offset": it.rms_offset,
            "frequency": it.frequency,
            "residual_frequency": it.residual_frequency,
            "skew": it.skew,
            "root_delay": it.root_delay,
            "root_dispersion": it.root_dispersion,
            "update_interval": it.last_update_interval,
            "leap": leap(it.leap),
        }),
        Report::SourceData(it) => source(it, names),
        Report::SourceStats(it) => json!({
            "name": match it.address {
                Address::Unspecified => letters(it.reference_id),
                address => names.of(address),
            },
            "address": address(it.address),
            "samples": it.n_samples,
            "runs": it.n_runs,
            "span": it.span,
            "frequency": it.residual_frequency,
            "skew": it.skew,
            "offset": it.offset,
            "offset_error": it.offset_error,
            "deviation": it.deviation,
        }),
        Report::SelectData(it) => json!({
            "name": match it.address {
                Address::Unspecified => letters(it.reference_id),
                address => names.of(address),
            },
            "address": address(it.address),
            "state": char::from(it.state).to_string(),
            "authenticated": it.authentication != 0,
            "last_sample": seconds(it.since_sample),
            "score": it.score,
            "low": it.low,
            "high": it.high,
            "leap": leap(it.leap.into()),
        }),
        Report::Smoothing(it) => json!({
            "active": it.active,
            "leap_only": it.leap_only,
            "offset": it.offset,
            "frequency": it.frequency,
            "wander": it.wander,
            "last_update_ago": it.last_update_ago,
            "remaining_time": it.remaining_time,
        }),
        Report::Activity(it) => json!({
            "online": it.online,
            "offline": it.offline,
            "burst_online": it.burst_online,
            "burst_offline": it.burst_offline,
            "unresolved": it.unresolved,
        }),
        Report::NtpData(it) => ntp_data(it),
        Report::ServerStats(it) => json!({
            "ntp_received": it.ntp_hits,
            "ntp_dropped": it.ntp_drops,
            "commands_received": it.command_hits,
            "commands_dropped": it.command_drops,
            "clients_forgotten": it.log_drops,
            "ntp_authenticated": it.ntp_auth_hits,
            "ntp_interleaved": it.ntp_interleaved_hits,
            "timestamps_held": it.ntp_timestamps,
            "timestamps_span": it.ntp_span,
        }),
        _ => Value::Object(Map::new()),
    }
}

fn source(it: &SourceData, names: Names<'_>) -> Value {
    const MODES: [&str; 3] = ["server", "peer", "reference clock"];
    const STATES: [&str; 6] = [
        "best",
        "unselectable",
        "falseticker",
        "too variable",
        "combined",
        "outlier",
    ];
    let is_clock = it.mode == 2;
    json!({
        "name": match it.address {
            Address::Ip(IpAddr::V4(v4)) if is_clock => letters(Ipv4Addr::to_bits(v4)),
            address => names.of(address),
        },
        "address": if is_clock { Value::Null } else { address(it.address) },
        "mode": MODES.get(usize::from(it.mode)),
        "state": STATES.get(usize::from(it.state)),
        "stratum": it.stratum,
        "poll": it.poll,
        "reach": it.reachability,
        "last_sample": seconds(it.since_sample),
        "adjusted_offset": it.offset,
        "measured_offset": it.original_offset,
        "error": it.error,
    })
}

fn ntp_data(it: &NtpData) -> Value {
    json!({
        "remote_address": address(it.remote_address),
        "remote_port": it.remote_port,
        "local_address": address(it.local_address),
        "leap": leap(it.leap.into()),
        "version": it.version,
        "mode": mode(it.mode),
        "stratum": it.stratum,
        "poll": it.poll,
        "precision": exponential(it.precision),
        "root_delay": it.root_delay,
        "root_dispersion": it.root_dispersion,
        "reference_id": id(it.reference_id),
        "reference_time": timestamp(it.reference_time),
        "offset": it.offset,
        "delay": it.peer_delay,
        "dispersion": it.peer_dispersion,
        "response_time": it.response_time,
        "jitter_asymmetry": it.jitter_asymmetry,
        "tests": format!("{:010b}", it.flags & 0x3ff),
        "interleaved": it.flags & 0x4000 != 0,
        "authenticated": it.flags & 0x8000 != 0,
        "transmit_stamp": stamp(it.transmit_stamp),
        "receive_stamp": stamp(it.receive_stamp),
        "sent": it.total_sent,
        "received": it.total_received,
        "valid": it.total_valid,
        "good": it.total_good,
    })
}

fn client(it: &Client) -> Value {
    let power = |power: i8| (power != i8::MAX).then_some(power);
    json!({
        "address": address(it.address),
        "ntp_received": it.ntp_hits,
        "ntp_dropped": it.ntp_drops,
        "ntp_interval": power(it.ntp_interval),
        "ntp_last": seconds(it.last_ntp_hit),
        "commands_received": it.command_hits,
        "commands_dropped": it.command_drops,
        "commands_interval": power(it.command_interval),
        "commands_last": seconds(it.last_command_hit),
    })
}

/// One look of `waitsync`.
pub fn attempt(n: u64, tracking: &Tracking) -> Value {
    json!({
        "try": n,
        "reference_id": id(tracking.reference_id),
        "correction": tracking.current_correction.abs(),
        "skew": tracking.skew,
    })
}

/// One query of `waitsync` that no daemon answered.
pub fn no_answer(n: u64, error: &impl ToString) -> Value {
    json!({ "try": n, "error": error.to_string() })
}

fn id(id: u32) -> String {
    format!("{id:08X}")
}

fn address(address: Address) -> Value {
    match address {
        Address::Ip(address) => Value::String(address.to_string()),
        Address::Unspecified | Address::Id(_) => Value::Null,
    }
}

fn seconds(seconds: u32) -> Option<u32> {
    (seconds != NEVER).then_some(seconds)
}
