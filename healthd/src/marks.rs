//! Decisions of operators: the change itself, for the contract and for the admin socket.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use api::healthd::Marked;
use daemon::admin::{Reply, Request, Routes};
use daemon::clock;
use daemon::decision;
use liveness::admin_rules::{AdminRules, Decision, Scope};
use proto::health::AdminState;

use crate::driver::Driver;
use crate::trail::Change;

/// The path at which operators decide.
pub(crate) const PATH: &str = "/marks";

/// Decisions of operators that differ from the rule. People do not take as many.
const MAX_RULES: usize = 4096;

/// How long a decision may take to be on disk.
const ON_DISK: Duration = Duration::from_secs(3);

/// Why a decision does not hold, or not for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MarkError {
    /// There is no room for another one.
    #[error("too many decisions")]
    TooMany,
    /// The disk does not take it in time.
    #[error("the decision holds, but is not on disk: it ends when healthd does")]
    NotOnDisk,
}

/// Answers `POST /marks?address=&port=&state=&for=&reason=&by=`: without a port the decision is for all of an address,
/// without `for` it has no end.
pub(crate) fn add(routes: &Routes, driver: &Driver) {
    let driver = driver.clone();
    routes.post(PATH, move |request| {
        let driver = driver.clone();
        async move {
            let (scope, decision) = match parse(&request, clock::since_1970()) {
                Ok(decision) => decision,
                Err(refusal) => return Reply::text(400, format!("{refusal}\n")),
            };
            match set(&driver, scope, decision).await {
                Ok(marked) => Reply::json(200, &marked),
                Err(error @ MarkError::TooMany) => Reply::text(409, format!("{error}\n")),
                Err(error @ MarkError::NotOnDisk) => Reply::text(500, format!("{error}\n")),
            }
        }
    });
}

fn parse(request: &Request, now: Duration) -> Result<(Scope, Decision), String> {
    let value = |name: &str| {
        let value = request.parameter(name);
        value.ok_or_else(|| format!("the parameter `{name}` is missing"))
    };
    let text = value("address")?;
    let address: IpAddr = text
        .parse()
        .map_err(|_| format!("{text:?} is no IP address"))?;
    let scope = match request.parameter("port") {
        None => Scope::Address(address),
        Some(text) => match text.parse() {
            Ok(port) if port > 0 => Scope::Port(SocketAddr::new(address, port)),
            _ => return Err(format!("{text:?} is no port")),
        },
    };
    // Read strictly: to take an unknown state as ready would put a target into service.
    let state = match value("state")?.as_str() {
        "ready" => AdminState::Ready,
        "drain" => AdminState::Drain,
        "maintenance" => AdminState::Maintenance,
        other => return Err(format!("{other:?} is none of ready, drain, maintenance")),
    };
    let decision = Decision {
        state,
        terms: decision::read(request, now)?,
    };
    if state == AdminState::Ready && decision.terms.until.is_some() {
        return Err("`ready` has no end: it takes decisions back".to_owned());
    }
    Ok((scope, decision))
}

/// Takes a decision up, and waits until a crash does not undo it.
pub(crate) async fn set(
    driver: &Driver,
    scope: Scope,
    decision: Decision,
) -> Result<Marked, MarkError> {
    let state = decision.state;
    let api::Terms {
        until, reason, by, ..
    } = decision::shown(&decision.terms);
    let set = driver.step(|monitor, _| {
        if is_one_too_many(monitor.table().rules(), scope, &decision) {
            return None;
        }
        let n_targets = monitor.set_admin(scope, decision);
        Some((n_targets, monitor.generation()))
    });
    let (targets, generation) = set.ok_or(MarkError::TooMany)?;
    tracing::info!(%scope, %state, until, reason, by, n_targets = targets, "Administrative state set");
    driver.note(Change {
        what: scope.to_string(),
        state: state.to_string(),
        why: reason,
        by,
    });
    match driver.is_saved(generation, ON_DISK).await {
        true => Ok(Marked {
            targets,
            generation,
        }),
        false => Err(MarkError::NotOnDisk),
    }
}

/// Whether a decision would be one more, beyond the bound. One that changes or takes back another is not.
fn is_one_too_many(rules: &AdminRules, scope: Scope, decision: &Decision) -> bool {
    let mut then = rules.clone();
    then.set(scope, decision.clone());
    then.len() > rules.len().max(MAX_RULES)
}

#[cfg(test)]
mod tests {
    use proto::health::Terms;

    use super::*;

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    #[test]
    fn a_decision_is_read_strictly() {
        let read = |query: &str| {
            let request = Request {
                query: query.to_owned(),
                ..Request::default()
            };
            parse(&request, NOW)
        };
        let since = |state: AdminState| Decision {
            state,
            terms: Terms {
                since: Some(NOW),
                ..Terms::default()
            },
        };
        let api = SocketAddr::from(([192, 168, 7, 13], 6443));
        assert_eq!(
            read("address=192.168.7.13&port=6443&state=drain"),
            Ok((Scope::Port(api), since(AdminState::Drain)))
        );
        assert_eq!(
            read("address=192.168.7.13&state=maintenance"),
            Ok((Scope::Address(api.ip()), since(AdminState::Maintenance)))
        );
        assert_eq!(
            read("address=192.168.7.13&state=drain&for=30m&reason=a+new%20disk&by=anna"),
            Ok((
                Scope::Address(api.ip()),
                Decision {
                    state: AdminState::Drain,
                    terms: Terms {
                        since: Some(NOW),
                        until: Some(NOW + Duration::from_mins(30)),
                        reason: "a new disk".to_owned(),
                        by: "anna".to_owned(),
                    },
                }
            ))
        );
        for bad in [
            "",
            "address=192.168.7.13&state=drain&for=soon",
            "address=192.168.7.13&state=ready&for=30m",
            "address=master-0&state=drain",
            "address=192.168.7.13",
            "address=192.168.7.13&state=up",
            "address=192.168.7.13&port=0&state=drain",
            "address=192.168.7.13&port=65536&state=drain",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_decision_passes_the_bound_and_those_that_are_there_can_be_changed() {
        let mut rules = AdminRules::default();
        let all = Scope::Address([192, 168, 7, 13].into());
        let port = |port| Scope::Port(([192, 168, 7, 14], port).into());
        rules.set(all, AdminState::Drain.into());
        for number in (1..).take(MAX_RULES - 1) {
            rules.set(port(number), AdminState::Drain.into());
        }
        assert_eq!(rules.len(), MAX_RULES);
        // Ready, but for a port whose address is not: it has to be kept as any other.
        let ready = Scope::Port(([192, 168, 7, 13], 443).into());
        assert!(is_one_too_many(&rules, ready, &AdminState::Ready.into()));
        assert!(is_one_too_many(
            &rules,
            port(9999),
            &AdminState::Maintenance.into()
        ));
        assert!(!is_one_too_many(
            &rules,
            port(1),
            &AdminState::Maintenance.into()
        ));
        assert!(!is_one_too_many(&rules, port(1), &AdminState::Ready.into()));
        assert!(!is_one_too_many(
            &rules,
            all,
            &AdminState::Maintenance.into()
        ));
    }
}
