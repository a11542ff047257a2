//! The configuration of dns-recursor.

use config_text::toml::{list, quoted};

use super::{Layout, admin, head};
use crate::service::Service;
use crate::site::Site;

/// Renders the file.
pub(crate) fn render(site: &Site, layout: &Layout) -> String {
    let mut text = [
        head(Service::DnsRecursor, layout),
        format!("listen = {}\n", list([layout.dns.to_string()])),
        admin(Service::DnsRecursor, layout),
        "\n# The site's own zone.\n[[forward]]\n".to_owned(),
        format!("zone = {}\n", quoted(&site.domain)),
        format!("upstreams = {}\n", list([layout.authority.to_string()])),
    ]
    .concat();
    if !layout.upstreams.is_empty() {
        let upstreams = layout.upstreams.iter().map(ToString::to_string);
        text.push_str("\n# Everything else.\n[[forward]]\nzone = \".\"\nrecursive = true\n");
        text.push_str(&format!("upstreams = {}\n", list(upstreams)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::tests::demo;
    use super::*;

    const ALONE: &str = r#"# dns-recursor, rendered by `outpost`.
version = "v1"
drain = "2s"
listen = ["127.0.0.1:5300"]

[admin]
listen = "127.0.0.1:9403"

# The site's own zone.
[[forward]]
zone = "ocp4.redhat.ren"
upstreams = ["127.0.0.1:5301"]
"#;

    #[test]
    fn the_demonstration_is_this() {
        let (site, layout) = demo();
        assert_eq!(render(&site, &layout), ALONE);
    }

    #[test]
    fn a_way_out_takes_every_other_name() {
        let (site, mut layout) = demo();
        layout.upstreams = vec![([192, 0, 2, 1], 53).into(), ([192, 0, 2, 2], 5353).into()];
        let way_out = r#"
# Everything else.
[[forward]]
zone = "."
recursive = true
upstreams = ["192.0.2.1:53", "192.0.2.2:5353"]
"#;
        assert_eq!(render(&site, &layout), format!("{ALONE}{way_out}"));
    }
}
