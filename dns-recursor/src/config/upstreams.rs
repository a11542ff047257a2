//! Upstreams that get queries over connections, and how they prove who they are.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use ::config::dns_recursor::{DnsRecursor, Forward, ForwardTls};
use ::config::{Authentication, Check, Problem, Problems, at};
use daemon::exit;
use dns_resolve::forward::Protocol;
use dns_upstream::{Place, Server, Settings};
use tls_trust::{Pin, Trust, TrustError, pins};

use super::{Config, Learned, Source};

/// The upstreams that get queries over connections.
pub type Servers = Arc<BTreeMap<Place, Arc<Server>>>;

/// An upstream that gets queries over connections, as the file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamUpstream {
    /// Its address.
    pub address: SocketAddr,
    /// Its transport, which is not UDP.
    pub protocol: Protocol,
    /// The name in its certificate.
    name: Option<String>,
    /// `None` when it need not prove anything.
    proof: Option<Proof>,
    /// The path of DNS over HTTPS.
    path: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Proof {
    ca: Option<PathBuf>,
    pins: Vec<Pin>,
}

/// The addresses of a zone's upstreams.
pub(super) fn addresses(forward: &Forward) -> Vec<SocketAddr> {
    let port = forward.protocol.port();
    let upstreams = forward.upstreams.iter();
    upstreams.map(|upstream| upstream.at(port)).collect()
}

/// The upstreams that get queries over connections.
pub(super) fn of(file: &DnsRecursor, check: &mut Check<'_>) -> Vec<StreamUpstream> {
    let mut known: BTreeMap<Place, (usize, StreamUpstream)> = BTreeMap::new();
    for (index, forward) in file.forward.iter().enumerate() {
        let pins = checked(index, forward, check);
        if forward.protocol.is_datagram() {
            continue;
        }
        let tls = forward.tls.clone().unwrap_or_default();
        for (place, upstream) in forward.upstreams.iter().enumerate() {
            let address = upstream.at(forward.protocol.port());
            let name = upstream.name.as_deref().map(str::to_owned);
            let name = name.or_else(|| tls.server_name.clone());
            let stream = stream(address, forward.protocol, name, &tls, &pins);
            let unlike = known
                .get(&(address, forward.protocol))
                .filter(|(_, other)| *other != stream);
            if let Some((other, _)) = unlike {
                let zone = file.forward.get(*other).map_or("", |other| &other.zone);
                let message = format!(
                    "`{upstream}` has another name or other TLS settings in the zone `{zone}`: one address has one identity"
                );
                check.problem(&at!["forward", index, "upstreams", place], message);
            }
            known.insert((address, forward.protocol), (index, stream));
        }
    }
    known.into_values().map(|(_, stream)| stream).collect()
}

fn stream(
    address: SocketAddr,
    protocol: Protocol,
    name: Option<String>,
    tls: &ForwardTls,
    pins: &[Pin],
) -> StreamUpstream {
    let has_proof = protocol.is_encrypted() && tls.authentication == Authentication::Strict;
    StreamUpstream {
        address,
        protocol,
        name: name.filter(|_| protocol.is_encrypted()),
        proof: has_proof.then(|| Proof {
            ca: tls.ca.clone(),
            pins: pins.to_vec(),
        }),
        path: tls.doh_path.clone(),
    }
}

/// Checks the settings of a zone's encrypted upstreams; gives their keys.
fn checked(index: usize, forward: &Forward, check: &mut Check<'_>) -> Vec<Pin> {
    let is_encrypted = forward.protocol.is_encrypted();
    for (place, upstream) in forward.upstreams.iter().enumerate() {
        if let Some(name) = upstream.name.as_deref().filter(|_| !is_encrypted) {
            let message = format!(
                "`{name}` has no effect: `protocol` is not `tls`, `https` or `quic`, and nothing proves a name"
            );
            check.problem(&at!["forward", index, "upstreams", place], message);
        }
    }
    let Some(tls) = &forward.tls else {
        return Vec::new();
    };
    if !is_encrypted {
        let message = "`tls` has no effect: `protocol` is not `tls`, `https` or `quic`";
        check.problem(&at!["forward", index, "tls"], message);
    }
    if !::config::is_doh_path(&tls.doh_path) {
        let path = &tls.doh_path;
        let message = format!("doh-path is the path of a URL, as /dns-query, not `{path}`");
        check.problem(&at!["forward", index, "tls", "doh-path"], message);
    }
    let is_opportunistic = tls.authentication == Authentication::Opportunistic;
    for (key, is_set) in [("ca", tls.ca.is_some()), ("pins", !tls.pins.is_empty())] {
        if is_opportunistic && is_set {
            let message = format!(
                "`{key}` has no effect: with `authentication = \"opportunistic\"`, upstreams prove nothing"
            );
            check.problem(&at!["forward", index, "tls", key], message);
        }
    }
    pins(&tls.pins, |place, message| {
        check.problem(&at!["forward", index, "tls", "pins", place], message);
    })
}

impl Config {
    /// The upstreams that get queries over connections, with those that the cluster has. The identity that the file gives an
    /// address comes before that of the cluster.
    #[must_use]
    pub fn servers_with(&self, learned: &Learned) -> Servers {
        if learned.servers.is_empty() {
            return Arc::clone(&self.servers);
        }
        let mut servers = BTreeMap::clone(&learned.servers);
        let own = self.servers.iter();
        servers.extend(own.map(|(place, server)| (*place, Arc::clone(server))));
        Arc::new(servers)
    }
}

/// Reads the files of upstreams.
///
/// # Errors
/// Everything that is wrong with them.
pub fn read(streams: &[StreamUpstream], source: Source) -> Result<Servers, Problems> {
    let mut servers = BTreeMap::new();
    let mut problems = Problems::default();
    for stream in streams {
        match server(stream, source) {
            Ok(server) => {
                servers.insert((stream.address, stream.protocol), Arc::new(server));
            }
            Err(reason) => problems.push(Problem::new(format!(
                "upstream {}: {reason}",
                stream.address
            ))),
        }
    }
    problems.unless_empty(Arc::new(servers))
}

fn server(stream: &StreamUpstream, source: Source) -> Result<Server, String> {
    let own = match stream.address {
        SocketAddr::V4(_) => IpAddr::V4(source.v4),
        SocketAddr::V6(_) => IpAddr::V6(source.v6),
    };
    let trust = trust(stream.proof.as_ref()).map_err(|error| exit::chain(&error))?;
    let server = Server::new(Settings {
        address: stream.address,
        protocol: stream.protocol,
        source: (!own.is_unspecified()).then_some(own),
        name: stream.name.clone(),
        trust,
        path: stream.path.clone(),
    });
    server.map_err(|error| exit::chain(&error))
}

fn trust(proof: Option<&Proof>) -> Result<Trust, TrustError> {
    match proof {
        None => Ok(Trust::Anyone),
        Some(Proof { ca, pins }) => Trust::strict(ca.as_deref(), pins.clone()),
    }
}

#[cfg(test)]
mod tests {
    use daemon::config::Document;

    use super::*;

    fn parse(text: &str) -> Result<Config, Problems> {
        let text = format!("version = \"v1\"\n[[forward]]\nzone = \".\"\n{text}");
        Config::from_document(&Document::inline("x.toml", text))
    }

    #[test]
    fn an_upstream_has_the_port_of_its_transport_and_the_name_behind_it() {
        let upstreams = "upstreams = [\"192.0.2.1#a.example\", \"192.0.2.2\", \"192.0.2.3:9\"]\n";
        for (protocol, port) in [("tls", 853), ("https", 443), ("quic", 853)] {
            let text = format!(
                "{upstreams}protocol = \"{protocol}\"\n[forward.tls]\nserver-name = \"b.example\"\n"
            );
            let config = parse(&text).unwrap();
            let shown: Vec<String> = config
                .streams
                .iter()
                .map(|it| format!("{} {}", it.address, it.name.as_deref().unwrap_or("-")))
                .collect();
            assert_eq!(
                shown,
                [
                    format!("192.0.2.1:{port} a.example"),
                    format!("192.0.2.2:{port} b.example"),
                    "192.0.2.3:9 b.example".to_owned(),
                ]
            );
            let routed = &config.forwards.first().unwrap().upstreams;
            assert_eq!(routed.len(), 3);
        }
        let config = parse("upstreams = [\"192.0.2.1\"]\n").unwrap();
        assert_eq!(config.streams, []);
    }

    #[test]
    fn settings_that_prove_nothing_are_said_to_have_no_effect() {
        let pin = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
        for (text, words) in [
            ("upstreams = [\"192.0.2.1#a\"]\n", "nothing proves a name"),
            (
                "upstreams = [\"192.0.2.1\"]\n[forward.tls]\n",
                "`tls` has no effect",
            ),
            (
                "upstreams = [\"192.0.2.1\"]\nprotocol = \"tls\"\n[forward.tls]\npins = [\"AAAA\"]\n",
                "not the SHA-256",
            ),
            (
                "upstreams = [\"192.0.2.1\"]\nprotocol = \"https\"\n[forward.tls]\ndoh-path = \"x\"\n",
                "the path of a URL",
            ),
            (
                &format!(
                    "upstreams = [\"192.0.2.1\"]\nprotocol = \"tls\"\n[forward.tls]\nauthentication = \"opportunistic\"\npins = [\"{pin}\"]\n"
                ),
                "`pins` has no effect",
            ),
            (
                "upstreams = [\"192.0.2.1\"]\nprotocol = \"tls\"\n[[forward]]\nzone = \"a\"\n\
                 upstreams = [\"192.0.2.1#b\"]\nprotocol = \"tls\"\n",
                "one address has one identity",
            ),
        ] {
            let problems = parse(text).unwrap_err().to_string();
            assert!(problems.contains(words), "{problems}");
        }
        let strict = format!(
            "upstreams = [\"192.0.2.1\"]\nprotocol = \"tls\"\n[forward.tls]\npins = [\"{pin}\"]\n"
        );
        let config = parse(&strict).unwrap();
        assert_eq!(read(&config.streams, config.source).unwrap().len(), 1);
    }

    #[test]
    fn a_file_of_authorities_that_cannot_be_read_is_an_error() {
        let text = "upstreams = [\"192.0.2.1\"]\nprotocol = \"tls\"\n[forward.tls]\nca = \"/nonexistent/ca.pem\"\n";
        let config = parse(text).unwrap();
        let problems = read(&config.streams, config.source)
            .unwrap_err()
            .to_string();
        assert!(
            problems.contains("cannot read /nonexistent/ca.pem"),
            "{problems}"
        );
    }
}
