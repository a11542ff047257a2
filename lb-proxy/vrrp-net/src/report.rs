//! The events of virtual routers, in the log.

use tracing::{debug, error, info, warn};
use vrrp::machine::Event;

/// Says it.
pub(super) fn tell(router: &str, event: &Event) {
    match event {
        Event::Refused { source, refusal } => {
            warn!(router, %source, %refusal, "Advertisement refused");
        }
        Event::AddressesDiffer { source, addresses } => {
            warn!(router, %source, ?addresses, "Another router's addresses are not ours");
        }
        Event::ChecksumDiffers { source } => {
            warn!(router, %source, "Another router uses the other form of checksum");
        }
        Event::UnknownPeer { source } => {
            warn!(router, %source, "Advertisement of a router that is not among the peers");
        }
        Event::TwoOwners { source } => warn!(router, %source, "Two routers own the addresses"),
        Event::LowerHeard { source, priority } => {
            warn!(router, %source, priority, "Two routers were active; this one stays");
        }
        Event::Overruled { source, priority } => {
            warn!(router, %source, priority, "Another router advertises; this node has the lease, and stays");
        }
        Event::Duplicate { address, by } => {
            let by = show(*by);
            warn!(router, %address, by, "Another node has an address that this node holds");
        }
        Event::AddressTaken {
            address,
            by,
            is_waited_for: true,
        } => {
            let by = show(*by);
            error!(
                router, %address, by,
                "A node has an address and does not advertise it; this node waits"
            );
        }
        Event::AddressTaken { address, by, .. } => {
            let by = show(*by);
            error!(
                router, %address, by,
                "A node keeps an address and does not advertise it; this node takes it"
            );
        }
        Event::Paused { late } => {
            warn!(
                router,
                ?late,
                "This node did not run in time; it steps back"
            );
        }
        Event::HandOverStarted => info!(router, "Asking the next router to take over"),
        Event::HandOverTimedOut => warn!(router, "No other router took over"),
        Event::LeftAlone => info!(
            router,
            "No other router is there; the addresses go with this one"
        ),
        Event::IntervalLearnt { source, interval } => {
            debug!(router, %source, ?interval, "Another interval was learnt");
        }
    }
}

fn show(hardware: [u8; 6]) -> String {
    hardware.map(|octet| format!("{octet:02x}")).join(":")
}
