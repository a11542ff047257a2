//! The configuration of dns-authd.

use std::time::Duration;

use config_text::toml::{duration, list, quoted};

use super::{Layout, admin, endpoint, head, path, zone_list};
use crate::service::Service;

/// Renders the file.
pub(super) fn render(layout: &Layout) -> String {
    let mut text = [
        head(Service::DnsAuthd, layout),
        format!("listen = {}\n", list(&layout.authority)),
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
        let (_, mut layout) = demo();
        layout.probe_interval = Duration::from_secs(1);
        let text = render(&layout);
        assert!(text.ends_with("interval = \"1s\"\n"), "{text}");
    }

    #[test]
    fn the_demonstration_is_this() {
        let (_, layout) = demo();
        assert_eq!(
            render(&layout),
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
