//! The object of OpenShift's DNS operator (`dnses.operator.openshift.io`), as the configuration of a forwarding DNS server.
//!
//! The operator makes a Corefile of the object: a block for each entry of `servers`, and one for all other names with the upstreams of
//! `upstreamResolvers`, each with `cache`. This is what that Corefile would be.

use std::net::SocketAddr;

use cluster::{Dns, DnsForward, DnsPolicy, DnsTls, DnsUpstream};
use peer_forwarder::{Forward, Forwarder, Policy, Setting, Tls};

/// The longest TTLs that the operator writes where the object names none, in seconds: for answers, and for denials.
const TTLS: (u32, u32) = (900, 30);

/// Makes the configuration of the object. `system` has the name servers of the node.
///
/// # Errors
/// When queries would leave in another way than the object demands.
pub fn forwarder(dns: &Dns, system: &[SocketAddr]) -> Result<Forwarder, String> {
    let mut forwarder = Forwarder::default();
    for server in &dns.servers {
        let what = format!("the server `{}`", server.name);
        for zone in &server.zones {
            forwarder
                .forwards
                .push(forward(&what, zone, &server.forward, system)?);
        }
    }
    let others = forward("`upstreamResolvers`", ".", &dns.resolvers, system)?;
    match others.upstreams.is_empty() {
        true => forwarder.odd(None, "the node has no name server of its own for `SystemResolvConf`: names outside the other zones are not forwarded by the cluster".to_owned()),
        false => forwarder.forwards.push(others),
    }
    forwarder.set(Setting::MaxTtl(dns.positive_ttl.unwrap_or(TTLS.0)));
    forwarder.set(Setting::NegativeMaxTtl(dns.negative_ttl.unwrap_or(TTLS.1)));
    // The operator logs errors by default; a resolver of the whole node does so when its own file says it.
    let classes: &[&str] = match dns.log_level.as_str() {
        "Debug" => &["denial", "error"],
        "Trace" => &["all"],
        _ => &[],
    };
    if !classes.is_empty() {
        let classes = classes.iter().map(|class| (*class).to_owned());
        forwarder.set(Setting::QueryLog(classes.collect()));
    }
    Ok(forwarder)
}

fn forward(
    what: &str,
    zone: &str,
    forward: &DnsForward,
    system: &[SocketAddr],
) -> Result<Forward, String> {
    let tls = forward
        .tls
        .as_ref()
        .map(|tls| tls_of(what, tls))
        .transpose()?;
    let mut upstreams = Vec::new();
    for upstream in &forward.upstreams {
        let addresses = match upstream {
            DnsUpstream::System => system,
            DnsUpstream::Address(address) => std::slice::from_ref(address),
        };
        for address in addresses {
            if !upstreams.contains(address) {
                upstreams.push(*address);
            }
        }
    }
    Ok(Forward {
        zone: zone.to_owned(),
        upstreams,
        policy: Some(match forward.policy {
            DnsPolicy::Sequential => Policy::Sequential,
            DnsPolicy::RoundRobin => Policy::RoundRobin,
            DnsPolicy::Random => Policy::Random,
        }),
        tcp: forward.is_tcp,
        tls,
    })
}

/// TLS to upstreams, without which queries must not leave.
fn tls_of(what: &str, tls: &DnsTls) -> Result<Tls, String> {
    if !tls.ca_bundle.is_empty() {
        return Err(format!(
            "{what} demands TLS by the authorities of the ConfigMap `{}`, which dns-recursor does not read: \
             write the zone into its file, with `ca`",
            tls.ca_bundle
        ));
    }
    Ok(Tls {
        server_name: Some(tls.server_name.clone()).filter(|name| !name.is_empty()),
        ca: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::{DnsServer, Meta};

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn object() -> Dns {
        let to = |addresses: &[&str]| {
            let addresses = addresses.iter().map(|text| DnsUpstream::Address(at(text)));
            DnsForward {
                upstreams: addresses.collect(),
                policy: DnsPolicy::Random,
                is_tcp: true,
                tls: None,
            }
        };
        Dns {
            meta: Meta::default(),
            servers: vec![DnsServer {
                name: "foo".to_owned(),
                zones: vec!["foo.com".to_owned(), "bar.com".to_owned()],
                forward: to(&["192.0.2.1:53", "192.0.2.2:5353"]),
            }],
            resolvers: DnsForward {
                upstreams: vec![
                    DnsUpstream::System,
                    DnsUpstream::Address(at("192.0.2.9:53")),
                    DnsUpstream::System,
                ],
                ..DnsForward::default()
            },
            positive_ttl: Some(60),
            negative_ttl: None,
            log_level: "Debug".to_owned(),
        }
    }

    #[test]
    fn the_object_is_what_its_corefile_would_be() {
        let system = [at("198.51.100.1:53"), at("192.0.2.9:53")];
        let made = forwarder(&object(), &system).unwrap();
        let forwards: Vec<_> = made
            .forwards
            .iter()
            .map(|one| (one.zone.as_str(), one.upstreams.len(), one.policy, one.tcp))
            .collect();
        let (random, sequential) = (Some(Policy::Random), Some(Policy::Sequential));
        assert_eq!(
            forwards,
            [
                ("foo.com", 2, random, true),
                ("bar.com", 2, random, true),
                (".", 2, sequential, false),
            ]
        );
        assert_eq!(
            made.settings,
            [
                Setting::MaxTtl(60),
                Setting::NegativeMaxTtl(30),
                Setting::QueryLog(vec!["denial".to_owned(), "error".to_owned()]),
            ]
        );
        assert_eq!(made.remarks, []);
    }

    #[test]
    fn without_a_name_server_of_the_node_other_names_are_not_forwarded() {
        let mut object = object();
        object
            .resolvers
            .upstreams
            .retain(|one| *one == DnsUpstream::System);
        let made = forwarder(&object, &[]).unwrap();
        assert_eq!(made.forwards.len(), 2);
        assert_eq!(made.remarks.len(), 1);
    }

    #[test]
    fn tls_is_carried_over_unless_its_authorities_are_elsewhere() {
        let with = |tls: DnsTls| {
            let mut object = object();
            if let Some(server) = object.servers.first_mut() {
                server.forward.tls = Some(tls);
            }
            forwarder(&object, &[])
        };
        let named = with(DnsTls {
            server_name: "dns.example".to_owned(),
            ca_bundle: String::new(),
        });
        let tls = named.unwrap().forwards.into_iter().find_map(|it| it.tls);
        assert_eq!(tls.unwrap().server_name.as_deref(), Some("dns.example"));
        let refused = with(DnsTls {
            server_name: String::new(),
            ca_bundle: "ca".to_owned(),
        });
        let refused = refused.unwrap_err();
        assert!(refused.contains("`foo` demands TLS"), "{refused}");
    }
}
