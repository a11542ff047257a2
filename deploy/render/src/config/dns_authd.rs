//! The configuration of dns-authd.

use std::time::Duration;

use config_text::toml::{duration, list, quoted};

use super::{Layout, admin, askers, endpoint, head, path, zone_list};
use site::Site;
use site::service::Service;

/// Renders the file.
///
/// What listens beyond loopback does so for the other nodes of the site, and answers nobody else.
pub(super) fn render(site: &Site, layout: &Layout) -> String {
    let is_open = layout.authority.iter().any(|at| !at.ip().is_loopback());
    let allowed = match is_open {
        true => format!("allow-from = {}\n", list(askers(site))),
        false => String::new(),
    };
    let mut text = [
        head(Service::DnsAuthd, layout),
        format!("listen = {}\n", list(&layout.authority)),
        allowed,
        admin(Service::DnsAuthd, layout),
        "\n[zones]\n".to_owned(),
        format!(
            "named-conf = {}\n",
            path(&layout.directory.join(zone_list::NAME))
        ),
        "\n[health]\n".to_owned(),
        format!("endpoint = {}\n", quoted(&endpoint(layout))),
        format!("interval = {}\n", duration(layout.probe_interval)),
    ]
    .concat();
    if layout.probe_interval < SHORTEST_TTL {
        text.push_str("# The next probe comes before the shortest TTL is over: no cache is to keep an answer.\n");
        text.push_str("min-ttl = \"0s\"\nunknown-ttl = \"0s\"\n");
    }
    text
}

/// A TTL is a whole number of seconds (RFC 2181 §8).
const SHORTEST_TTL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::super::tests::demo;
    use super::*;

    #[test]
    fn probes_that_are_seconds_apart_leave_ttls_to_the_service() {
        let (site, mut layout) = demo();
        layout.probe_interval = Duration::from_secs(1);
        let text = render(&site, &layout);
        assert!(text.ends_with("interval = \"1s\"\n"), "{text}");
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
listen = ["127.0.0.1:5301"]

[admin]
listen = "127.0.0.1:9402"

[zones]
named-conf = "/run/user/1000/outpost-up/zones.conf"

[health]
endpoint = "unix:/run/user/1000/outpost-up/healthd.sock"
interval = "500ms"
# The next probe comes before the shortest TTL is over: no cache is to keep an answer.
min-ttl = "0s"
unknown-ttl = "0s"
"#
        );
    }
}
