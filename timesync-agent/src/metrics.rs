//! Names of metrics, and what they are read from.
//!
//! `timesync_*` is the agent's own. The metrics of the platform's PTP daemons are there under the same names
//! (`openshift_ptp_*`, with `process="timesync-agent"`), so that its dashboards and alerts show a node with this agent like the
//! others.

mod platform;
mod server;
mod sources;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use daemon::metrics::{Page, labels};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::views::Views;
use ntp::responder::Tables;
use time_model::labels;
use time_model::view::{Leap, View};

/// 1 for the state that the clock is in, 0 for the others, by state.
pub const STATE: &str = "timesync_clock_state";
/// 1 if clients are given time that they may follow.
pub const SYNCHRONISED: &str = "timesync_synchronised";
/// The remaining correction; positive if the clock is slow.
pub const OFFSET: &str = "timesync_offset_seconds";
/// The correction that the last update added.
pub const LAST_OFFSET: &str = "timesync_last_offset_seconds";
/// Long-term average of the offset.
pub const RMS_OFFSET: &str = "timesync_rms_offset_seconds";
/// By how much the clock would gain without correction; positive if fast.
pub const FREQUENCY: &str = "timesync_frequency_ppm";
/// Bound on the error of the frequency.
pub const SKEW: &str = "timesync_skew_ppm";
/// Round trip to the primary source.
pub const ROOT_DELAY: &str = "timesync_root_delay_seconds";
/// Error collected on the way to the primary source.
pub const ROOT_DISPERSION: &str = "timesync_root_dispersion_seconds";
/// Bound on the error of the clock.
pub const ROOT_DISTANCE: &str = "timesync_root_distance_seconds";
/// The time for clients.
pub const STRATUM: &str = "timesync_stratum";
/// Leap second at hand: 0 none, 1 insert, 2 delete, 3 not synchronised.
pub const LEAP: &str = "timesync_leap";
/// When the clock was last told what time it is.
pub const REFERENCE_TIME: &str = "timesync_reference_timestamp_seconds";
/// Updates of the clock.
pub const UPDATES: &str = "timesync_updates";
/// Steps of the clock.
pub const STEPS: &str = "timesync_steps";
/// 1 if the clock is corrected, 0 with `--no-clock`.
pub const CORRECTS: &str = "timesync_corrects_clock";
/// Sources by what selection said of them.
pub const SOURCES: &str = "timesync_sources";
/// Names that have no address yet.
pub const UNRESOLVED: &str = "timesync_unresolved_names";
/// 1 for the state that a source is in, by source and state.
pub const SOURCE_STATE: &str = "timesync_source_state";
/// Offset of a source's last sample, as corrected since.
pub const SOURCE_OFFSET: &str = "timesync_source_offset_seconds";
/// Half of the round trip and dispersion of the last sample.
pub const SOURCE_ERROR: &str = "timesync_source_error_seconds";
/// Round trip of the last valid packet.
pub const SOURCE_DELAY: &str = "timesync_source_delay_seconds";
/// Standard deviation of a source's samples.
pub const SOURCE_DEVIATION: &str = "timesync_source_deviation_seconds";
/// How many of the last eight polls were answered.
pub const SOURCE_REACH: &str = "timesync_source_reach";
/// Stratum of a source.
pub const SOURCE_STRATUM: &str = "timesync_source_stratum";
/// Polling interval of a source.
pub const SOURCE_POLL: &str = "timesync_source_poll_seconds";
/// Packets sent to a source.
pub const SOURCE_SENT: &str = "timesync_source_packets_sent";
/// Packets received from a source, by whether they were of use.
pub const SOURCE_RECEIVED: &str = "timesync_source_packets_received";

/// Requests of clients that are allowed, answered or not.
pub const SERVER_REQUESTS: &str = "timesync_server_requests";
/// Datagrams that were not answered, by reason.
pub const SERVER_DROPPED: &str = "timesync_server_dropped";
/// Kisses-o'-death sent.
pub const SERVER_KISSES: &str = "timesync_server_kisses";
/// Requests with a good signature.
pub const SERVER_AUTHENTICATED: &str = "timesync_server_authenticated";
/// Requests answered in interleaved mode.
pub const SERVER_INTERLEAVED: &str = "timesync_server_interleaved";
/// Timestamps of requests and answers, by who took them.
pub const SERVER_STAMPS: &str = "timesync_server_stamps";
/// Answers remembered for interleaved mode.
pub const SERVER_STAMPS_HELD: &str = "timesync_server_stamps_held";
/// Clients that were forgotten to make room for others.
pub const CLIENTS_FORGOTTEN: &str = "timesync_clients_forgotten";
/// Commands of chronyc, by whether there was time for them.
pub const COMMANDS: &str = "timesync_commands";

/// Offset in nanoseconds, as the platform's PTP daemons have it.
pub const PTP_OFFSET: &str = "openshift_ptp_offset_ns";
/// The largest offset so far, in nanoseconds.
pub const PTP_MAX_OFFSET: &str = "openshift_ptp_max_offset_ns";
/// Frequency adjustment, in nanoseconds a second.
pub const PTP_FREQUENCY: &str = "openshift_ptp_frequency_adjustment_ns";
/// Delay of the path, in nanoseconds.
pub const PTP_DELAY: &str = "openshift_ptp_delay_ns";
/// 0 free run, 1 locked, 2 holdover.
pub const PTP_CLOCK_STATE: &str = "openshift_ptp_clock_state";
/// clockClass (IEEE 1588) of the grandmaster.
pub const PTP_CLOCK_CLASS: &str = "openshift_ptp_clock_class";
/// 0 passive, 1 slave, 2 master, 3 faulty, 4 unknown, 5 listening.
pub const PTP_ROLE: &str = "openshift_ptp_interface_role";
/// 1 while the process runs.
pub const PTP_PROCESS_STATUS: &str = "openshift_ptp_process_status";

/// Reads a view of the moment at each scrape.
pub struct Scrape {
    views: Views,
    tables: Arc<Tables>,
    node: String,
    corrects_clock: bool,
}

impl Scrape {
    /// From these views and the counters of clients, for the node of this name.
    #[must_use]
    pub fn new(views: Views, tables: Arc<Tables>, node: String, corrects_clock: bool) -> Self {
        Self {
            views,
            tables,
            node,
            corrects_clock,
        }
    }
}

impl fmt::Debug for Scrape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Scrape").finish_non_exhaustive()
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let view = self.views.now();
        let mut page = Page::new(&mut encoder);
        clock(&mut page, &view)?;
        page.gauge(
            CORRECTS,
            "1 if the clock is corrected, 0 if it is left alone",
            flag(self.corrects_clock),
        )?;
        sources::write(&mut page, &view.sources)?;
        server::write(&mut page, &self.tables.statistics())?;
        platform::write(&mut page, &view, &self.node)
    }
}

fn clock(page: &mut Page<'_, '_>, view: &View) -> fmt::Result {
    let tracking = &view.tracking;
    let states = labels::STATES.map(|state| {
        let labels = labels(&[("state", labels::state(state))]);
        (labels, flag(state == view.state))
    });
    page.gauges(STATE, "The state of the clock", states.into())?;
    page.gauge(
        SYNCHRONISED,
        "1 if clients may follow the time that they are given",
        flag(labels::is_ready(view)),
    )?;
    estimate(page, view)?;
    if tracking.reference_time.0 > 0 {
        let told = (tracking.reference_time - time_model::time::UnixTime(0)).seconds();
        page.gauge(
            REFERENCE_TIME,
            "When the clock was last told what time it is",
            told,
        )?;
    }
    page.counter(UPDATES, "Updates of the clock", tracking.n_updates)?;
    page.counter(STEPS, "Steps of the clock", tracking.n_steps)
}

/// Numbers of the clock.
fn estimate(page: &mut Page<'_, '_>, view: &View) -> fmt::Result {
    let tracking = &view.tracking;
    let leap = match tracking.leap {
        Leap::Normal => 0,
        Leap::Insert => 1,
        Leap::Delete => 2,
        Leap::Unsynchronised => 3_u8,
    };
    let gauges = [
        (
            OFFSET,
            "Remaining correction; positive if the clock is slow",
            tracking.correction,
        ),
        (
            LAST_OFFSET,
            "Correction that the last update added",
            tracking.last_offset,
        ),
        (
            RMS_OFFSET,
            "Long-term average of the offset",
            tracking.rms_offset,
        ),
        (
            FREQUENCY,
            "Gain of the clock without correction",
            tracking.frequency,
        ),
        (SKEW, "Bound on the error of the frequency", tracking.skew),
        (
            ROOT_DELAY,
            "Round trip to the primary source",
            tracking.root_delay,
        ),
        (
            ROOT_DISPERSION,
            "Error collected on the way to the primary source",
            tracking.root_dispersion,
        ),
        (
            ROOT_DISTANCE,
            "Bound on the error of the clock",
            labels::root_distance(view),
        ),
        (
            STRATUM,
            "Stratum for clients; 0 for none",
            f64::from(tracking.stratum),
        ),
        (
            LEAP,
            "Leap second at hand: 0 none, 1 insert, 2 delete, 3 not synchronised",
            f64::from(leap),
        ),
        (
            UNRESOLVED,
            "Names that have no address yet",
            f64::from(view.n_unresolved),
        ),
    ];
    for (name, help, value) in gauges {
        page.gauge(name, help, value)?;
    }
    Ok(())
}

fn flag(is_set: bool) -> f64 {
    f64::from(u8::from(is_set))
}
