//! `monitor-uri` and `monitor fail` (configuration.txt §4.2).

use config::lb_proxy::{Monitor, Need};
use config::{Address, Class, Notes, Whole};

use crate::condition::{Acls, Clauses, Term, Test};
use crate::lexer::Line;
use crate::proxy::Proxy;

/// The monitors of sections that lead to no server. One whose condition has no counterpart is left out whole: it would
/// say that all is well where HAProxy says that it is not.
pub(super) fn monitors(proxies: &[Proxy<'_>], notes: &mut Notes) -> Vec<Monitor> {
    let mut monitors = Vec::new();
    for proxy in proxies.iter().filter(|proxy| !proxy.is_disabled) {
        let Some((line, path)) = proxy.monitor.and_then(|line| Some((line, line.word(1)?))) else {
            continue;
        };
        let lost = |notes: &mut Notes, line: &Line, reason: &str| {
            if let Some(at) = line.position() {
                notes.lost(Class::Behaviour, at, &line.text(), reason);
            }
        };
        if !proxy.is_for_haproxy() {
            let reason =
                "HTTP is not looked into: write a [[monitor]] on a port of its own, or ask /readyz";
            lost(notes, line, reason);
            continue;
        }
        if !path.starts_with('/') || proxy.binds.is_empty() {
            lost(notes, line, "it has no path, or no address");
            continue;
        }
        match needs(proxy, proxies) {
            Ok(needs) => monitors.push(Monitor {
                listen: proxy
                    .binds
                    .iter()
                    .flat_map(|bind| &bind.sockets)
                    .map(|socket| Address(*socket))
                    .collect(),
                path: path.to_owned(),
                needs,
            }),
            Err((fail, reason)) => {
                lost(notes, fail, &format!("{reason}; nothing listens there"));
            }
        }
    }
    monitors
}

/// The backends that have to have servers, by all lines `monitor fail`; else the line without a counterpart.
fn needs<'a>(proxy: &Proxy<'a>, proxies: &[Proxy<'_>]) -> Result<Vec<Need>, (&'a Line, String)> {
    let mut needs = Vec::new();
    for line in &proxy.monitor_fails {
        let clauses = clauses(line, &proxy.acls).map_err(|reason| (*line, reason))?;
        for clause in clauses {
            let need = need(clause, proxies).map_err(|reason| (*line, reason))?;
            needs.extend(need);
        }
    }
    Ok(needs)
}

fn clauses(line: &Line, acls: &Acls) -> Result<Clauses, String> {
    match line.word(2) {
        Some(_) => acls.condition(line.from(2)),
        None => Err("its condition is missing".to_owned()),
    }
}

/// The opposite of one way to fail.
fn need(clause: Vec<Term>, proxies: &[Proxy<'_>]) -> Result<Option<Need>, String> {
    let mut terms = clause.into_iter();
    let (Some(term), None) = (terms.next(), terms.next()) else {
        return Err("its condition is too intricate".to_owned());
    };
    let (backend, servers) = match (term.test, term.is_negated) {
        // Fewer than none there never are.
        (Test::FewServers(_, 0), false) | (Test::Always(false), false) => return Ok(None),
        (Test::FewServers(backend, servers), false) => (backend, servers),
        _ => {
            return Err(
                "a monitor asks how many servers a backend has, and nothing else".to_owned(),
            );
        }
    };
    let mut known = proxies.iter().filter(|proxy| !proxy.is_disabled);
    if !known.any(|proxy| proxy.is_backend() && proxy.name == backend) {
        return Err(format!("there is no backend `{backend}`"));
    }
    match Whole::new(servers.into()) {
        Some(servers) => Ok(Some(Need { backend, servers })),
        None => Err("no backend has this many servers".to_owned()),
    }
}
