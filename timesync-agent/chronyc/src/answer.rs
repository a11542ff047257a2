//! The result of a request: a report from a [`View`], or a command for another part to execute.

use std::net::IpAddr;

use super::control_requests::control_request;
pub use super::control_requests::{Answer, ControlRequest, replied};
use super::reply::{
    Activity, Address, AuthData, Client, Clients, MAX_CLIENTS, NEVER, NtpData, Report, SelectData,
    ServerStats, Smoothing, SourceData, SourceStats, Status, Tracking, clock_address,
};
use super::request::Command;
use ntp::responder::{Access, Acl, Counter, Tables};
use time_model::settings::SelectOptions;
use time_model::time::UnixTime;
use time_model::view::{
    Leap, Reason, SmoothingView, SourceMode, SourceState, SourceView, StampSource, View,
};

/// How a source with a key is authenticated (`RPY_AD_MD_SYMMETRIC`).
const SYMMETRIC: u16 = 1;
/// In parts per million.
const UNKNOWN_SKEW: f64 = 2000.0;
/// In seconds.
const UNKNOWN_DEVIATION: f64 = 4.0;

/// The inputs of a report.
#[derive(Debug)]
pub struct Facts<'a> {
    /// Sources and the clock.
    pub view: &'a View,
    /// Clients, and what was counted.
    pub tables: &'a Tables,
    /// Whether clients are remembered.
    pub client_log: bool,
    /// The clients that may ask for the time.
    pub access: &'a Acl,
    /// The clients that may ask for reports.
    pub command_access: &'a Acl,
    /// `opencommands`.
    pub open: &'a [String],
}

/// The result of a command; `is_local` if it came through the file system.
#[must_use]
pub fn answer(command: &Command, facts: &Facts<'_>, is_local: bool) -> Answer {
    if !is_local && !is_open(command, facts.open) {
        return Status::Unauthorised.into();
    }
    report(command, facts).unwrap_or_else(|| control_request(command))
}

/// Whether a report is for everybody who may ask at all.
fn is_open(command: &Command, open: &[String]) -> bool {
    let names: &[&str] = match command {
        Command::Null => return true,
        // The number of sources goes before all reports on them.
        Command::NSources => &[
            "sources",
            "sourcestats",
            "selectdata",
            "authdata",
            "ntpdata",
        ],
        Command::SourceData(_) => &["sources", "authdata", "ntpdata"],
        Command::SourceStats(_) => &["sourcestats"],
        Command::SourceName(_) => &["sourcename"],
        Command::Tracking => &["tracking"],
        Command::Activity => &["activity"],
        Command::RtcReport => &["rtcdata"],
        Command::ManualList => &["manual"],
        Command::Smoothing => &["smoothing"],
        Command::ServerStats => &["serverstats"],
        Command::NtpData(_) => &["ntpdata"],
        Command::AuthData(_) => &["authdata"],
        Command::Clients { reset: false, .. } => &["clients"],
        Command::SelectData(_) => &["selectdata"],
        _ => return false,
    };
    names
        .iter()
        .any(|name| open.iter().any(|open| open == name))
}

//--- Reports

fn report(command: &Command, facts: &Facts<'_>) -> Option<Answer> {
    let view = facts.view;
    let no_such_source = || Answer::from(Status::NoSuchSource);
    Some(match command {
        Command::Null => Status::Success.into(),
        Command::NSources => Report::NSources(count(view.sources.len())).into(),
        Command::SourceData(index) => match at(view, *index) {
            Some(source) => Report::SourceData(source_data(source, *index, view)).into(),
            None => no_such_source(),
        },
        Command::SourceStats(index) => match at(view, *index) {
            Some(source) => Report::SourceStats(source_stats(source, *index)).into(),
            None => no_such_source(),
        },
        Command::SelectData(index) => match at(view, *index) {
            Some(source) => Report::SelectData(select_data(source, *index, view)).into(),
            None => no_such_source(),
        },
        Command::Tracking => Report::Tracking(tracking(view)).into(),
        Command::Activity => Report::Activity(activity(view)).into(),
        Command::NtpData(address) => match of_address(view, *address) {
            Some(source) => Report::NtpData(Box::new(ntp_data(source))).into(),
            None => no_such_source(),
        },
        Command::SourceName(address) => match of_address(view, *address) {
            Some(source) => Report::SourceName(source.name.clone()).into(),
            None => no_such_source(),
        },
        Command::AuthData(address) => match of_address(view, *address) {
            Some(source) => Report::AuthData(auth_data(source)).into(),
            None => no_such_source(),
        },
        Command::ServerStats => Report::ServerStats(server_stats(facts.tables)).into(),
        Command::Clients { .. } if !facts.client_log => Status::Inactive.into(),
        Command::Clients {
            first,
            count,
            min_hits,
            reset,
        } => {
            let list = clients(facts, *first, *count, *min_hits, *reset);
            Report::Clients(list).into()
        }
        Command::ManualList => Report::ManualList(view.manual.clone()).into(),
        Command::RtcReport => Status::NoRtc.into(),
        Command::Smoothing => match &view.smoothing {
            Some(it) => Report::Smoothing(smoothing(it)).into(),
            None => Status::NotEnabled.into(),
        },
        Command::AccessCheck(address) => allowed(facts.access, *address).into(),
        Command::CommandAccessCheck(address) => allowed(facts.command_access, *address).into(),
        _ => return None,
    })
}

fn at(view: &View, index: u32) -> Option<&SourceView> {
    view.sources.get(usize::try_from(index).ok()?)
}

fn of_address(view: &View, address: Address) -> Option<&SourceView> {
    let Address::Ip(address) = address else {
        return None;
    };
    let mut servers = view.sources.iter();
    servers
        .find(|source| source.address == Some(address) && source.mode != SourceMode::ReferenceClock)
}

/// The address of a source as reports have it.
fn address(source: &SourceView, index: u32) -> Address {
    match source.address {
        Some(address) => Address::Ip(address),
        None => Address::Id(index.saturating_add(1)),
    }
}

fn since_sample(source: &SourceView, view: &View) -> u32 {
    match source.last_sample {
        None => NEVER,
        Some(last) => whole_seconds((view.now.raw - last).seconds()),
    }
}

fn source_data(source: &SourceView, index: u32, view: &View) -> SourceData {
    let is_clock = source.mode == SourceMode::ReferenceClock;
    SourceData {
        address: if is_clock {
            clock_address(source.reference_id)
        } else {
            address(source, index)
        },
        poll: source.poll.into(),
        stratum: source.stratum.into(),
        state: match source.state {
            SourceState::Best => 0,
            SourceState::Unselectable => 1,
            SourceState::Falseticker => 2,
            SourceState::TooVariable => 3,
            SourceState::Combined => 4,
            SourceState::Outlier => 5,
        },
        mode: match source.mode {
            SourceMode::Server => 0,
            SourceMode::Peer => 1,
            SourceMode::ReferenceClock => 2,
        },
        flags: 0,
        reachability: source.reach.into(),
        since_sample: since_sample(source, view),
        // There, offsets are of the local clock.
        original_offset: -source.measured_offset,
        offset: -source.adjusted_offset,
        error: source.root_distance,
    }
}

fn source_stats(source: &SourceView, index: u32) -> SourceStats {
    let mut statistics = source.statistics;
    if statistics.n_samples == 0 {
        // chronyd's value for unknown numbers.
        (statistics.skew, statistics.deviation) = (UNKNOWN_SKEW, UNKNOWN_DEVIATION);
    }
    SourceStats {
        reference_id: source.reference_id,
        // Without an address, chronyc shows the reference ID.
        address: match source.mode {
            SourceMode::ReferenceClock => Address::Unspecified,
            SourceMode::Server | SourceMode::Peer => address(source, index),
        },
        n_samples: statistics.n_samples,
        n_runs: statistics.n_runs,
        span: whole_seconds(statistics.span.seconds()),
        deviation: statistics.deviation,
        residual_frequency: statistics.frequency,
        skew: statistics.skew,
        offset: -statistics.offset,
        offset_error: statistics.offset_error,
    }
}

fn select_data(source: &SourceView, index: u32, view: &View) -> SelectData {
    let is_clock = source.mode == SourceMode::ReferenceClock;
    let packet = source.packet.as_ref();
    let selection = &source.selection;
    // chronyd has no interval of a source that it never looks at.
    let has_interval = selection.reason != Reason::NoSelect
        && (selection.low.is_finite() && selection.high.is_finite());
    // There, offsets are of the local clock.
    let (low, high) = match has_interval {
        true => (-selection.high, -selection.low),
        false => (0.0, 0.0),
    };
    SelectData {
        reference_id: source.reference_id,
        address: if is_clock {
            Address::Unspecified
        } else {
            address(source, index)
        },
        state: selection.reason.letter(),
        authentication: source.key.is_some().into(),
        leap: leap(packet.map_or(Leap::Unsynchronised, |packet| packet.leap)),
        configured_options: options(source.selection.configured),
        effective_options: options(source.selection.effective),
        since_sample: match since_sample(source, view) {
            NEVER => 0,
            seconds => seconds,
        },
        score: source.selection.score,
        low,
        high,
    }
}

/// `RPY_SD_OPTION_*`.
fn options(options: SelectOptions) -> u16 {
    u16::from(options.noselect)
        | u16::from(options.prefer) << 1
        | u16::from(options.trust) << 2
        | u16::from(options.require) << 3
}

fn tracking(view: &View) -> Tracking {
    let tracking = &view.tracking;
    Tracking {
        reference_id: tracking.reference_id,
        address: tracking.address.into(),
        stratum: tracking.stratum.into(),
        leap: leap(tracking.leap).into(),
        reference_time: tracking.reference_time,
        current_correction: tracking.correction,
        last_offset: -tracking.last_offset,
        rms_offset: tracking.rms_offset,
        frequency: tracking.frequency,
        residual_frequency: tracking.residual_frequency,
        skew: tracking.skew,
        root_delay: tracking.root_delay,
        root_dispersion: tracking.root_dispersion,
        last_update_interval: tracking.update_interval,
    }
}

fn smoothing(it: &SmoothingView) -> Smoothing {
    Smoothing {
        active: it.active,
        leap_only: it.leap_only,
        offset: it.offset,
        frequency: it.frequency,
        wander: it.wander,
        last_update_ago: it.since,
        remaining_time: it.left,
    }
}

fn activity(view: &View) -> Activity {
    let mut activity = Activity {
        unresolved: view.n_unresolved,
        ..Activity::default()
    };
    for source in &view.sources {
        if source.mode == SourceMode::ReferenceClock {
            continue;
        }
        let counter = match (source.burst, source.online) {
            (true, true) => &mut activity.burst_online,
            (true, false) => &mut activity.burst_offline,
            (false, true) => &mut activity.online,
            (false, false) => &mut activity.offline,
        };
        *counter = counter.saturating_add(1);
    }
    activity
}

fn ntp_data(source: &SourceView) -> NtpData {
    let remote_address = source.address.into();
    let Some(packet) = &source.packet else {
        return NtpData {
            remote_address,
            ..NtpData::default()
        };
    };
    let mut flags = packet.tests & 0x3ff;
    if packet.interleaved {
        flags |= 0x4000;
    }
    if packet.authenticated {
        flags |= 0x8000;
    }
    NtpData {
        remote_address,
        local_address: packet.local_address.into(),
        remote_port: packet.port,
        leap: leap(packet.leap),
        version: packet.version,
        mode: packet.mode,
        stratum: packet.stratum,
        poll: packet.poll,
        precision: packet.precision,
        root_delay: packet.root_delay,
        root_dispersion: packet.root_dispersion,
        reference_id: packet.reference_id,
        reference_time: packet.reference_time,
        offset: packet.offset,
        peer_delay: packet.delay,
        peer_dispersion: packet.dispersion,
        response_time: packet.response_time,
        jitter_asymmetry: packet.jitter_asymmetry,
        flags,
        transmit_stamp: stamp(packet.transmit_stamp),
        receive_stamp: stamp(packet.receive_stamp),
        total_sent: packet.n_sent,
        total_received: packet.n_received,
        total_valid: packet.n_valid,
        total_good: packet.n_good,
    }
}

fn auth_data(source: &SourceView) -> AuthData {
    source.key.map_or_else(AuthData::default, |key| AuthData {
        mode: SYMMETRIC,
        key_type: key.kind,
        key_id: key.id,
        key_length: key.bits,
    })
}

fn server_stats(tables: &Tables) -> ServerStats {
    let statistics = tables.statistics();
    let get = |counter| statistics.get(counter);
    ServerStats {
        ntp_hits: get(Counter::Received),
        command_hits: get(Counter::CommandsReceived),
        ntp_drops: get(Counter::RateLimited),
        command_drops: get(Counter::CommandsDropped),
        log_drops: statistics.clients_forgotten,
        ntp_auth_hits: get(Counter::Authenticated),
        ntp_interleaved_hits: get(Counter::Interleaved),
        ntp_timestamps: u64::try_from(statistics.stamps_held).unwrap_or(u64::MAX),
        ntp_span: whole_seconds(statistics.stamps_span.seconds()).into(),
        received_by: [
            get(Counter::ReceivedDaemon),
            get(Counter::ReceivedKernel),
            get(Counter::ReceivedHardware),
        ],
        transmitted_by: [
            get(Counter::TransmittedDaemon),
            get(Counter::TransmittedKernel),
            get(Counter::TransmittedHardware),
        ],
    }
}

/// Clients from a place on, as many as a reply holds.
fn clients(facts: &Facts<'_>, first: u32, most: u32, min_hits: u32, reset: bool) -> Clients {
    let places = facts.tables.client_places();
    let most = (most as usize).min(MAX_CLIENTS);
    let mut list = Clients {
        n_indices: count(places),
        next_index: count(places),
        clients: Vec::new(),
    };
    for place in first as usize..places {
        if list.clients.len() == most {
            list.next_index = count(place);
            break;
        }
        let Some(client) = facts.tables.client(place) else {
            continue;
        };
        if client.ntp.n_requests.max(client.command.n_requests) < min_hits {
            continue;
        }
        let now = facts.view.now.wall;
        list.clients.push(Client {
            address: Address::Ip(client.address),
            ntp_hits: client.ntp.n_requests,
            command_hits: client.command.n_requests,
            ntp_drops: client.ntp.n_dropped,
            command_drops: client.command.n_dropped,
            ntp_interval: interval(client.ntp.interval),
            command_interval: interval(client.command.interval),
            ntp_timeout_interval: interval(client.ntp.dropped_interval),
            last_ntp_hit: ago(&client.ntp, now),
            last_command_hit: ago(&client.command, now),
        });
        if reset {
            facts.tables.reset_client(place);
        }
    }
    list
}

fn ago(access: &Access, now: UnixTime) -> u32 {
    access
        .last
        .map_or(NEVER, |last| whole_seconds((now - last).seconds()))
}

/// A power of two; 127 is none.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the cast saturates, which is what is wanted"
)]
fn interval(interval: Option<f32>) -> i8 {
    interval.map_or(i8::MAX, |interval| interval.round() as i8)
}

fn allowed(access: &Acl, address: Address) -> Status {
    match address {
        Address::Ip(address) if access.is_allowed(address) => Status::AccessAllowed,
        _ => Status::AccessDenied,
    }
}

fn leap(leap: Leap) -> u8 {
    match leap {
        Leap::Normal => 0,
        Leap::Insert => 1,
        Leap::Delete => 2,
        Leap::Unsynchronised => 3,
    }
}

fn stamp(source: StampSource) -> u8 {
    match source {
        StampSource::Daemon => b'D',
        StampSource::Kernel => b'K',
        StampSource::Hardware => b'H',
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, which is what is wanted"
)]
fn whole_seconds(seconds: f64) -> u32 {
    // The largest number says "never".
    (seconds as u32).min(NEVER - 1)
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Whether an address is the own node, which is never refused for asking too often.
#[must_use]
pub fn is_own(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}
