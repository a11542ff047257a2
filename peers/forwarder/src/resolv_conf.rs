//! A resolv.conf (resolv.conf(5)) as the configuration of a forwarding DNS server: all names go to its name servers.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use config_text::{Files, Position, Problem};

use crate::{Forward, Forwarder, Policy, Rejected, address, position};

/// The name servers that the C library asks; it passes over the others.
const MAX_SERVERS: usize = 3;

/// Reads a resolv.conf. A name server of this node is left out: the new server takes its place.
///
/// # Errors
/// When no name server is left, or one is not an address.
pub fn read(path: &Path, files: &mut dyn Files) -> Result<Forwarder, Rejected> {
    let text = files.read(path).map_err(|error| Problem {
        position: None,
        message: format!("cannot read {}: {error}", path.display()),
    })?;
    let text = String::from_utf8_lossy(&text);
    let file: Arc<Path> = Arc::from(path);
    let mut found = Forwarder::default();
    let mut problems = Vec::new();
    let mut upstreams: Vec<SocketAddr> = Vec::new();
    let mut policy = Policy::Sequential;
    for (number, line) in text.lines().enumerate() {
        let at = position(&file, number + 1, 1);
        let mut words = line.split_whitespace();
        let Some(keyword) = words.next().filter(|word| !word.starts_with(['#', ';'])) else {
            continue;
        };
        match keyword {
            "nameserver" => {
                let added = name_server(words.next(), &at, &mut found, &mut upstreams);
                problems.extend(added.err().map(|message| Problem {
                    position: Some(at),
                    message,
                }));
            }
            "options" => {
                for option in words {
                    match option {
                        "rotate" => policy = Policy::RoundRobin,
                        _ => {
                            let what = format!("options {option}");
                            let reason = "it is for clients, which read resolv.conf themselves";
                            found.not_carried(&at, &what, reason);
                        }
                    }
                }
            }
            "search" | "domain" | "sortlist" => {
                let reason = "it is for clients, which read resolv.conf themselves";
                found.not_carried(&at, line.trim(), reason);
            }
            _ => problems.push(Problem {
                message: format!("`{keyword}` is no keyword of resolv.conf"),
                position: Some(at),
            }),
        }
    }
    if upstreams.is_empty() && problems.is_empty() {
        problems.push(Problem {
            position: Some(position(&file, 1, 1)),
            message: "no name server is left to forward to".to_owned(),
        });
    }
    if !problems.is_empty() {
        return Err(Rejected {
            problems,
            remarks: found.remarks,
        });
    }
    found.listen = [IpAddr::from([0; 4]), IpAddr::from([0; 16])]
        .map(|address| SocketAddr::new(address, 53))
        .to_vec();
    found.forwards.push(Forward {
        zone: ".".to_owned(),
        upstreams,
        policy: Some(policy),
        tcp: false,
        tls: None,
    });
    Ok(found)
}

/// Adds a name server, unless it is known or is this node itself.
fn name_server(
    word: Option<&str>,
    at: &Position,
    found: &mut Forwarder,
    upstreams: &mut Vec<SocketAddr>,
) -> Result<(), String> {
    let word = word.ok_or("`nameserver` names no address")?;
    let server = address(word, ':', 53);
    let server = server.ok_or_else(|| format!("`{word}` is no address of a name server"))?;
    if upstreams.contains(&server) {
        return Ok(());
    }
    if is_here(server.ip()) {
        let message = format!("`nameserver {word}` is this node itself, and is left out");
        found.odd(Some(at), message);
        return Ok(());
    }
    if upstreams.len() == MAX_SERVERS {
        let message = "the C library asks three name servers; dns-recursor asks this one, too";
        found.odd(Some(at), message.to_owned());
    }
    upstreams.push(server);
    Ok(())
}

/// Whether a name server is on this node.
fn is_here(address: IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified()
}
