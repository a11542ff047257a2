//! How the sockets of a session are closed: one table for every cause of its end.
//!
//! A reset is for servers that failed, for operators, and for connections that are refused. It makes the kernel
//! forget every byte that it has not delivered, so that it comes behind those bytes wherever they matter.

use crate::access_log::{Cause, Phase};

/// How the sockets of a session are closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// With a FIN: the kernel delivers the bytes that it has, and then the end.
    Orderly,
    /// With a reset once each peer has acknowledged the bytes that were accepted for it.
    ResetAfterDelivery,
    /// With a reset at once.
    ResetNow,
}

/// The closing for a cause. `is_whole`: the kernel has every byte that was accepted, so that a FIN is no lie.
#[must_use]
pub fn closing(cause: Cause, phase: Phase, is_whole: bool) -> Closing {
    let relays = matches!(phase, Phase::Data | Phase::Last);
    match cause {
        Cause::Normal => Closing::Orderly,
        // No side is at fault: HAProxy closes a queued connection with a FIN, too.
        Cause::ClientTimeout | Cause::ServerTimeout if phase == Phase::Queue => Closing::Orderly,
        Cause::ClientTimeout | Cause::ServerTimeout if relays && is_whole => Closing::Orderly,
        // A FIN behind the first half of an answer says that it was all.
        Cause::ClientTimeout | Cause::ServerTimeout if relays => Closing::ResetAfterDelivery,
        Cause::Client | Cause::Server | Cause::Down | Cause::Up if relays => {
            Closing::ResetAfterDelivery
        }
        // No server could be connected to, or the client has not said what it had to: a refusal.
        Cause::ClientTimeout
        | Cause::ServerTimeout
        | Cause::Client
        | Cause::Server
        | Cause::Down
        | Cause::Up => Closing::ResetNow,
        // An operator, a rule, or an address that leaves this node with its connections.
        Cause::Killed | Cause::Proxy | Cause::Resource | Cause::Internal => Closing::ResetNow,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_is_for_failures_operators_and_refusals() {
        use Cause::{
            Client, ClientTimeout, Down, Killed, Normal, Proxy, Server, ServerTimeout, Up,
        };
        use Closing::{Orderly, ResetAfterDelivery, ResetNow};
        let table = [
            (Normal, Phase::Done, true, Orderly),
            // Timeouts.
            (ServerTimeout, Phase::Queue, true, Orderly),
            (ClientTimeout, Phase::Data, true, Orderly),
            (ClientTimeout, Phase::Last, true, Orderly),
            (ServerTimeout, Phase::Data, true, Orderly),
            (ClientTimeout, Phase::Data, false, ResetAfterDelivery),
            (ServerTimeout, Phase::Last, false, ResetAfterDelivery),
            (ClientTimeout, Phase::Request, true, ResetNow),
            (ServerTimeout, Phase::Connect, true, ResetNow),
            // Failures.
            (Client, Phase::Data, true, ResetAfterDelivery),
            (Client, Phase::Queue, true, ResetNow),
            (Server, Phase::Last, true, ResetAfterDelivery),
            (Server, Phase::Connect, true, ResetNow),
            (Down, Phase::Data, false, ResetAfterDelivery),
            (Up, Phase::Data, true, ResetAfterDelivery),
            // Operators and refusals.
            (Killed, Phase::Data, false, ResetNow),
            (Killed, Phase::Queue, true, ResetNow),
            (Proxy, Phase::Data, true, ResetNow),
            (Proxy, Phase::Request, true, ResetNow),
            (Cause::Resource, Phase::Connect, true, ResetNow),
            (Cause::Internal, Phase::Data, true, ResetNow),
        ];
        for (cause, phase, is_whole, expected) in table {
            let found = closing(cause, phase, is_whole);
            assert_eq!(found, expected, "{cause:?} {phase:?} {is_whole}");
        }
    }
}
