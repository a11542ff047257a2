//! The status of healthd as its command and its page show it.

use api::healthd::Detail;
use liveness::schedule::TargetId;

use crate::driver::Driver;
use crate::status;

/// The status, and the numbers of its targets in their order.
pub(crate) fn detail(driver: &Driver, names: &[String]) -> (Detail, Vec<TargetId>) {
    let errors = driver.peer_errors();
    let (mut detail, ids) = driver.look_now(|monitor, now| {
        let table = monitor.table();
        let ids = table
            .entries()
            .filter_map(|entry| table.find(&entry.target));
        (status::detail(monitor, names, &errors, now), ids.collect())
    });
    if let Some(exchange) = &mut detail.exchange {
        exchange.leases = driver.leases().shown(&exchange.node);
    }
    (detail, ids)
}
