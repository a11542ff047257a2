//! The configuration of dns-authd.

use super::{Layout, admin, duration, endpoint, head, list, path, quoted, zone_name};
use crate::service::Service;
use crate::site::Site;

/// Renders the file.
pub(crate) fn render(site: &Site, layout: &Layout) -> String {
    let interval = duration(layout.probe_interval);
    [
        head(Service::DnsAuthd, layout),
        format!("listen = {}\n", list([layout.authority.to_string()])),
        admin(Service::DnsAuthd, layout),
        "\n[health]\n".to_owned(),
        format!("endpoint = {}\n", quoted(&endpoint(layout))),
        format!("interval = {interval}\n"),
        "# Nobody keeps an answer longer that was given before the first results.\n".to_owned(),
        format!("unknown-ttl = {interval}\n"),
        "\n[[zone]]\n".to_owned(),
        format!("name = {}\n", quoted(&site.domain)),
        format!("file = {}\n", path(&layout.directory.join(zone_name(site)))),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::super::tests::demo;
    use super::*;

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

[health]
endpoint = "unix:/run/user/1000/outpost-up/healthd.sock"
interval = "1s"
# Nobody keeps an answer longer that was given before the first results.
unknown-ttl = "1s"

[[zone]]
name = "ocp4.redhat.ren"
file = "/run/user/1000/outpost-up/ocp4.redhat.ren.zone"
"#
        );
    }
}
