//! The configuration of dns-authd.

use std::time::Duration;

use ::config::dns_authd::{DnsAuthd, Health, Zones};
use ::config::{Address, Admin, AdminListen, HumanDuration, at};

use super::{Layout, askers, endpoint, in_utf8, written, zone_list};
use site::Site;
use site::service::Service;

/// Renders the file.
///
/// A listener beyond loopback is for the other nodes of the site, and answers no other client.
pub(super) fn render(site: &Site, layout: &Layout) -> String {
    let is_open = layout.authority.iter().any(|at| !at.ip().is_loopback());
    let is_fast = *layout.schedule.interval < SHORTEST_TTL;
    let health = Health {
        endpoint: endpoint(layout),
        ..Health::default()
    };
    let no_ttl = HumanDuration(Duration::ZERO);
    let config = DnsAuthd {
        drain: HumanDuration(layout.drain),
        listen: layout.authority.iter().copied().map(Address).collect(),
        allow_from: is_open.then(|| askers(site)),
        admin: Admin {
            listen: AdminListen::At(*layout.admin.of(Service::DnsAuthd)),
        },
        zones: Zones {
            named_conf: Some(in_utf8(
                &layout.directory_of(Service::DnsAuthd).join(zone_list::NAME),
            )),
            // The serial of a rendered zone stays the same until an operator raises it in the site's file.
            serial_must_rise: false,
            ..Zones::default()
        },
        health: match is_fast {
            true => Health {
                min_ttl: no_ttl,
                unknown_ttl: no_ttl,
                ..health
            },
            false => health,
        },
        ..DnsAuthd::default()
    };
    let comment =
        "The next probe comes before the shortest TTL is over: no cache may keep an answer.";
    let written = written(Service::DnsAuthd, &config);
    match is_fast {
        true => written.comment(&at!["health", "unknown-ttl"], comment),
        false => written,
    }
    .to_string()
}

/// A TTL is a whole number of seconds (RFC 2181 §8).
const SHORTEST_TTL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use ::config::DurationWithin;

    use super::super::tests::demo;
    use super::*;

    #[test]
    fn probes_that_are_seconds_apart_leave_ttls_to_the_service() {
        let (site, mut layout) = demo();
        layout.schedule.interval = DurationWithin::clamped(Duration::from_secs(1));
        let text = render(&site, &layout);
        assert!(!text.contains("ttl"), "{text}");
    }

    #[test]
    fn what_other_nodes_ask_answers_the_site_alone() {
        let mut site = Site::example();
        let text = |site: &Site| render(site, &Layout::of_node(site, &site.nodes[0]));
        let allowed = "listen = [\"0.0.0.0:5301\", \"[::]:5301\"]\nallow-from = [\"127.0.0.0/8\", \"::1/128\", \"192.168.7.0/24\", \"10.128.0.0/14\"]\n";
        assert!(text(&site).contains(allowed), "{}", text(&site));
        site.nodes.truncate(1);
        assert!(!text(&site).contains("allow-from"), "{}", text(&site));
    }

    #[test]
    fn the_demonstration_is_this() {
        let (site, layout) = demo();
        assert_eq!(
            render(&site, &layout),
            r#"# dns-authd, rendered by `outpost`.
version = "v1"
drain = "2s"

[zones]
named-conf = "/run/user/1000/outpost-up/zones.conf"
serial-must-rise = false

[health]
endpoint = "unix:/run/user/1000/outpost-up/healthd.sock"
# The next probe comes before the shortest TTL is over: no cache may keep an answer.
unknown-ttl = "0s"
min-ttl = "0s"
"#
        );
    }
}
