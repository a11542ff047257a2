//! `operator.openshift.io/v1` DNS, the object of OpenShift's DNS operator.
//!
//! The API server checks it against the same rules; a manifest may break them, and then the object counts as unreadable as a whole.

use std::net::{IpAddr, SocketAddr};

use cluster::{Dns, DnsForward, DnsPolicy, DnsServer, DnsTls, DnsUpstream, Meta, Object};

use crate::fields;

/// The most entries and zones: the operator has no bound, and each costs a route.
const MOST: usize = 1000;
/// The most upstreams (`maxItems` of its schema).
const MOST_UPSTREAMS: usize = 15;
/// The port of upstreams without one.
const PORT: u16 = 53;

/// Reads the specification.
pub(crate) fn read(meta: Meta, spec: fields::DnsSpec) -> Result<Object, String> {
    let mut servers = Vec::new();
    let mut n_zones = 0_usize;
    for server in spec.servers {
        let what = format!("the server {:?}", server.name);
        n_zones = n_zones.saturating_add(server.zones.len());
        if servers.len() >= MOST || n_zones > MOST {
            return Err(format!(
                "spec.servers has more than {MOST} entries or zones"
            ));
        }
        if server.zones.is_empty() {
            return Err(format!("{what} has no zones"));
        }
        let plugin = server.forward_plugin;
        let upstreams = plugin.upstreams.iter();
        let upstreams = upstreams.map(|text| upstream(text).map(DnsUpstream::Address));
        let upstreams: Vec<_> = upstreams
            .collect::<Result<_, _>>()
            .map_err(|problem| format!("{what}: {problem}"))?;
        if upstreams.is_empty() {
            return Err(format!("{what} has no upstreams"));
        }
        servers.push(DnsServer {
            forward: forward(
                &what,
                (upstreams, &plugin.policy, DnsPolicy::Random),
                &plugin.protocol_strategy,
                plugin.transport_config,
            )?,
            name: server.name,
            zones: server.zones,
        });
    }
    let resolvers = spec.upstream_resolvers;
    let upstreams = resolvers.upstreams.iter().map(resolver);
    let mut upstreams: Vec<_> = upstreams.collect::<Result<_, _>>()?;
    if upstreams.is_empty() {
        upstreams.push(DnsUpstream::System);
    }
    let resolvers = forward(
        "spec.upstreamResolvers",
        (upstreams, &resolvers.policy, DnsPolicy::Sequential),
        &resolvers.protocol_strategy,
        resolvers.transport_config,
    )?;
    Ok(Object::Dns(Box::new(Dns {
        meta,
        servers,
        resolvers,
        positive_ttl: ttl("spec.cache.positiveTTL", &spec.cache.positive_ttl)?,
        negative_ttl: ttl("spec.cache.negativeTTL", &spec.cache.negative_ttl)?,
        log_level: match spec.log_level.as_str() {
            "" | "Normal" | "Debug" | "Trace" => spec.log_level,
            other => return Err(format!("spec.logLevel {other:?} is unknown")),
        },
    })))
}

fn forward(
    what: &str,
    (upstreams, policy, default): (Vec<DnsUpstream>, &str, DnsPolicy),
    protocol: &str,
    transport: fields::DnsTransport,
) -> Result<DnsForward, String> {
    if upstreams.len() > MOST_UPSTREAMS {
        return Err(format!("{what} has more than {MOST_UPSTREAMS} upstreams"));
    }
    let tls = match transport.transport.as_str() {
        "" | "Cleartext" => None,
        "TLS" => Some(DnsTls {
            server_name: transport.tls.server_name,
            ca_bundle: transport.tls.ca_bundle.name,
        }),
        other => return Err(format!("{what} has the unknown transport {other:?}")),
    };
    Ok(DnsForward {
        upstreams,
        policy: match policy {
            "" => default,
            "Random" => DnsPolicy::Random,
            "RoundRobin" => DnsPolicy::RoundRobin,
            "Sequential" => DnsPolicy::Sequential,
            other => return Err(format!("{what} has the unknown policy {other:?}")),
        },
        is_tcp: match protocol {
            "" => false,
            "TCP" => true,
            other => return Err(format!("{what} has the unknown protocolStrategy {other:?}")),
        },
        tls,
    })
}

fn resolver(upstream: &fields::DnsResolver) -> Result<DnsUpstream, String> {
    let what = "spec.upstreamResolvers";
    match upstream.r#type.as_str() {
        "" | "SystemResolvConf" => Ok(DnsUpstream::System),
        "Network" => {
            let text = &upstream.address;
            let address: IpAddr = text
                .parse()
                .map_err(|_| format!("{what} has {text:?}, which is no IP address"))?;
            let port = match upstream.port {
                None => PORT,
                Some(port) => u16::try_from(port)
                    .ok()
                    .filter(|port| *port > 0)
                    .ok_or_else(|| format!("{what} has {port}, which is no port"))?,
            };
            Ok(DnsUpstream::Address(SocketAddr::new(address, port)))
        }
        other => Err(format!("{what} has the unknown type {other:?}")),
    }
}

/// `IP` or `IP:PORT`; an IPv6 address with a port stands in brackets.
fn upstream(text: &str) -> Result<SocketAddr, String> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let address = bare.unwrap_or(text).parse::<IpAddr>();
    let address = address.map(|address| SocketAddr::new(address, PORT));
    let address = address.or_else(|_| text.parse());
    address
        .ok()
        .filter(|address| address.port() > 0)
        .ok_or_else(|| format!("{text:?} is no `IP` or `IP:PORT`"))
}

/// The seconds of a duration as Go writes it, rounded as the operator does; `None` where the operator takes its default: for
/// nothing, zero and less.
fn ttl(what: &str, text: &str) -> Result<Option<u32>, String> {
    let wrong = || format!("{what} {text:?} is no duration");
    let (is_negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, text.strip_prefix('-').unwrap_or_default()),
        Some(b'+') => (false, text.strip_prefix('+').unwrap_or_default()),
        _ => (false, text),
    };
    if matches!(rest, "" | "0") {
        return match rest == text || rest == "0" {
            true => Ok(None),
            false => Err(wrong()),
        };
    }
    let mut seconds = 0_f64;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
        let (number, after) = rest.split_at(end.ok_or_else(wrong)?);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let units = [
            ("ms", 1e-3),
            ("us", 1e-6),
            ("\u{b5}s", 1e-6),
            ("\u{3bc}s", 1e-6),
            ("ns", 1e-9),
            ("h", 3600.0),
            ("m", 60.0),
            ("s", 1.0),
        ];
        let mut units = units.into_iter();
        let unit = units.find_map(|(name, unit)| Some((after.strip_prefix(name)?, unit)));
        let (next, unit) = unit.ok_or_else(wrong)?;
        seconds += number * unit;
        rest = next;
    }
    let whole = seconds.round().clamp(0.0, f64::from(i32::MAX));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is a whole number in the range of a TTL"
    )]
    let whole = whole as u32;
    Ok(Some(whole).filter(|seconds| *seconds > 0 && !is_negative))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_the_operator_reads_them() {
        for (text, wanted) in [
            ("", Ok(None)),
            ("0", Ok(None)),
            ("0s", Ok(None)),
            ("-5s", Ok(None)),
            ("1m", Ok(Some(60))),
            ("1h30m", Ok(Some(5400))),
            ("1.5s", Ok(Some(2))),
            ("1.4s", Ok(Some(1))),
            ("900ms", Ok(Some(1))),
            ("10\u{b5}s", Ok(None)),
            ("99999999h", Ok(Some(0x7fff_ffff))),
            ("5", Err(())),
            ("s", Err(())),
            ("5x", Err(())),
            ("1.2.3s", Err(())),
            ("-", Err(())),
        ] {
            assert_eq!(ttl("t", text).map_err(|_| ()), wanted, "{text}");
        }
    }

    #[test]
    fn upstreams_have_an_address_and_may_have_a_port() {
        for (text, wanted) in [
            ("192.0.2.1", Some("192.0.2.1:53")),
            ("192.0.2.1:5353", Some("192.0.2.1:5353")),
            ("2001:db8::1", Some("[2001:db8::1]:53")),
            ("[2001:db8::1]", Some("[2001:db8::1]:53")),
            ("[2001:db8::1]:5353", Some("[2001:db8::1]:5353")),
            ("192.0.2.1:0", None),
            ("dns.example.com", None),
            ("", None),
        ] {
            let found = upstream(text).ok().map(|address| address.to_string());
            assert_eq!(found.as_deref(), wanted, "{text}");
        }
    }
}
