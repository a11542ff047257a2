//! The metrics that the platform's dashboards and alerts read from its PTP daemons, for this program.
//!
//! Two clocks have series: the system's, which follows the system peer, and each observed PTP port.

use std::fmt;

use daemon::metrics::{Labels, Page, labels};

use super::{
    PTP_CLOCK_CLASS, PTP_CLOCK_STATE, PTP_DELAY, PTP_FREQUENCY, PTP_MAX_OFFSET, PTP_OFFSET,
    PTP_PROCESS_STATUS, PTP_ROLE,
};
use time_model::view::{ClockState, PtpView, View};

/// The name under which the platform's dashboards find this process.
const PROCESS: &str = "timesync-agent";
/// The platform's name for the clock of the system, where it names an interface.
const SYSTEM_CLOCK: &str = "CLOCK_REALTIME";

/// A sample of the system's clock and those of each port, of one family.
type Samples = Vec<(Labels, f64)>;

/// Writes all of it.
pub(super) fn write(page: &mut Page<'_, '_>, view: &View, node: &str) -> fmt::Result {
    let tracking = &view.tracking;
    let clock =
        |value: f64| -> Samples { vec![(of_source(PROCESS, node, SYSTEM_CLOCK, "ntp"), value)] };
    // Theirs are positive if the clock is ahead of its master.
    let mut offsets = clock(0.0 - tracking.correction * 1e9);
    let mut largest = clock(tracking.rms_offset * 1e9);
    let mut frequencies = clock(0.0 - tracking.frequency * 1e3);
    let mut delays = clock(tracking.root_delay * 1e9);
    let state = match view.state {
        ClockState::Locked => 1_u8,
        ClockState::Holdover => 2,
        ClockState::Unsynchronised | ClockState::Syncing | ClockState::Local => 0,
    };
    let mut states = vec![(of_clock(PROCESS, node, SYSTEM_CLOCK), f64::from(state))];
    let mut classes = Samples::new();
    let mut roles = Samples::new();
    for port in &view.ptp {
        let labels = || of_source(port.process, node, &port.interface, "master");
        offsets.extend(port.offset.map(|offset| (labels(), offset * 1e9)));
        largest.push((labels(), port.max_offset * 1e9));
        frequencies.extend(port.frequency.map(|frequency| (labels(), -frequency * 1e3)));
        delays.extend(port.delay.map(|delay| (labels(), delay * 1e9)));
        let labels = || of_clock(port.process, node, &port.interface);
        states.push((labels(), f64::from(port.state as u8)));
        roles.push((labels(), f64::from(port.role as u8)));
        classes.push((class_labels(port, node), f64::from(port.class)));
    }
    page.gauges(PTP_OFFSET, "Offset of the clock from its source", offsets)?;
    page.gauges(
        PTP_MAX_OFFSET,
        "Largest offset of the clock from its source",
        largest,
    )?;
    page.gauges(PTP_FREQUENCY, "Correction of the frequency", frequencies)?;
    page.gauges(PTP_DELAY, "Delay of the path to the source", delays)?;
    page.gauges(PTP_CLOCK_STATE, "0 free run, 1 locked, 2 holdover", states)?;
    page.gauges(PTP_CLOCK_CLASS, "clockClass of the grandmaster", classes)?;
    page.gauges(
        PTP_ROLE,
        "0 passive, 1 slave, 2 master, 3 faulty, 4 unknown, 5 listening",
        roles,
    )?;
    let process = labels(&[
        ("process", PROCESS),
        ("node", node),
        ("config", SYSTEM_CLOCK),
    ]);
    page.gauges(
        PTP_PROCESS_STATUS,
        "1 while the process runs",
        vec![(process, 1.0)],
    )
}

fn of_clock(process: &str, node: &str, interface: &str) -> Labels {
    labels(&[("process", process), ("node", node), ("iface", interface)])
}

fn of_source(process: &str, node: &str, interface: &str, from: &str) -> Labels {
    let mut all = labels(&[("from", from)]);
    all.extend(of_clock(process, node, interface));
    all
}

/// A class is the process's, and several ports may be followed.
fn class_labels(port: &PtpView, node: &str) -> Labels {
    labels(&[
        ("process", port.process),
        ("node", node),
        ("config", &port.interface),
    ])
}
