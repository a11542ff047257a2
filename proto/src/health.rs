//! Targets, their states and snapshots, as typed values.
//!
//! The types are the crate `health`'s. Everything that comes over the wire goes through a
//! `TryFrom` or a `From` here. Unknown enum values count as the zero value, as the contract says.

use prost::Message as _;

use crate::wire;

mod clock;
mod convert;
#[cfg(test)]
mod tests;

pub use ::health::{
    AdminState, Basis, CheckStep, ClockReport, ClockState, Content, Deviation, DnsProbe,
    Expectation, HealthError, HttpProbe, Leap, Liveness, NodeFinding, Schedule, Snapshot, Target,
    TargetKind, TargetStatus, Terms, Verdict, Verify, Watched,
};

/// A snapshot with a response of the `Watch` stream applied, where `stated` is the statement that it
/// answers.
///
/// A status belongs to the stated target that it names by number: the target that healthd echoes may lack
/// fields of a later version. Without a number it is the state of the target that it echoes; one that cannot be
/// parsed is left out.
#[must_use]
pub fn apply(
    mut snapshot: Snapshot,
    response: &wire::WatchResponse,
    stated: &[Watched],
) -> Snapshot {
    if response.full {
        snapshot.targets.clear();
        snapshot.views.clear();
    }
    for status in &response.targets {
        let named = usize::try_from(status.stated).ok();
        let named = named.and_then(|number| stated.get(number.checked_sub(1)?));
        let watched = named
            .cloned()
            .or_else(|| convert::target_of(status).map(Watched::from));
        if let Some(watched) = watched {
            snapshot.insert(watched, status.into());
        }
    }
    snapshot.generation = response.generation;
    snapshot
}

/// Every target that healthd lists.
impl From<&wire::ListResponse> for Snapshot {
    fn from(response: &wire::ListResponse) -> Self {
        let parse = |status| Some((convert::target_of(status)?, TargetStatus::from(status)));
        Self {
            generation: response.generation,
            targets: response.targets.iter().filter_map(parse).collect(),
            ..Self::default()
        }
    }
}

/// Reads the octets of a `WatchResponse` into a snapshot, as a subscriber does.
///
/// # Errors
/// When the octets are no such message.
pub fn decode_watch_response(octets: &[u8]) -> Result<Snapshot, HealthError> {
    let response = wire::WatchResponse::decode(octets).map_err(|_| HealthError::Malformed)?;
    Ok(apply(Snapshot::default(), &response, &[]))
}

/// Reads the octets of a `WatchRequest` into the targets it states, as healthd does.
///
/// # Errors
/// When the octets are no such message, or one of its targets cannot be probed.
pub fn decode_watch_request(octets: &[u8]) -> Result<Vec<Watched>, HealthError> {
    let request = wire::WatchRequest::decode(octets).map_err(|_| HealthError::Malformed)?;
    request.targets.into_iter().map(Watched::try_from).collect()
}
