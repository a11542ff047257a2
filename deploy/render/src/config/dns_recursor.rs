//! The configuration of dns-recursor.

use config_text::toml::{list, quoted};

use super::{Layout, admin, askers, endpoint, head, reverse};
use site::Site;
use site::service::Service;

/// Renders the file.
///
/// The zones of the site come from the dns-authd of this very node, so that a node answers for the site
/// with no other there. While its own is away, those of the other nodes answer as well as it would.
pub(super) fn render(site: &Site, layout: &Layout) -> String {
    let mut text = [
        head(Service::DnsRecursor, layout),
        format!("listen = {}\n", list(&layout.dns)),
    ]
    .concat();
    if layout.node().is_some() {
        text.push_str(&format!("allow-from = {}\n", list(askers(site).entries())));
    }
    text.push_str(&admin(Service::DnsRecursor, layout));
    let has_choice = layout.authorities.len() > 1 || !layout.upstreams.is_empty();
    if layout.node().is_some() && has_choice {
        text.push_str("\n# Queries leave an upstream that is gone before one of them is lost.\n");
        text.push_str(&format!(
            "[health]\nendpoint = {}\n",
            quoted(&endpoint(layout).to_string())
        ));
    }
    text.push_str(match layout.authorities.len() {
        0 | 1 => "\n# The site's own zones.\n",
        _ => "\n# The site's own zones: from this node, and while it cannot, from the others.\n",
    });
    let zones = reverse::zones(site).into_iter().map(|zone| zone.name);
    for (index, zone) in [site.domain.clone()].into_iter().chain(zones).enumerate() {
        let gap = if index == 0 { "" } else { "\n" };
        text.push_str(&format!(
            "{gap}[[forward]]\nzone = {}\nupstreams = {}\n",
            quoted(&zone),
            list(&layout.authorities)
        ));
    }
    if !layout.upstreams.is_empty() {
        text.push_str("\n# Everything else.\n[[forward]]\nzone = \".\"\nrecursive = true\n");
        text.push_str(&format!("upstreams = {}\n", list(&layout.upstreams)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::Layout;
    use super::super::tests::demo;
    use super::*;

    const ALONE: &str = r#"# dns-recursor, rendered by `outpost`.
version = "v1"
drain = "2s"
listen = ["127.0.0.1:5300"]

[admin]
listen = "127.0.0.1:9403"

# The site's own zones.
[[forward]]
zone = "ocp4.redhat.ren"
upstreams = ["127.0.0.1:5301"]

[[forward]]
zone = "7.168.192.in-addr.arpa"
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

    #[test]
    fn a_node_answers_everywhere_and_to_nobody_but_the_site() {
        let site = Site::example();
        let text = render(&site, &Layout::of_node(&site, &site.nodes[0]));
        assert!(
            text.contains("listen = [\"0.0.0.0:53\", \"[::]:53\"]\n"),
            "{text}"
        );
        assert!(
            text.contains("allow-from = [\"127.0.0.0/8\", \"::1/128\", \"192.168.7.0/24\", \"10.128.0.0/14\"]\n"),
            "{text}"
        );
        assert!(!text.contains("zone = \".\""), "an island: {text}");
    }

    #[test]
    fn a_node_asks_itself_first_and_then_the_others_that_have_the_zones() {
        let mut site = Site::example();
        let asked = |site: &Site, node: usize| {
            let text = render(site, &Layout::of_node(site, &site.nodes[node]));
            let mut lines = text.lines().filter(|line| line.starts_with("upstreams"));
            let first = lines.next().unwrap().to_owned();
            assert!(lines.all(|line| line == first), "{text}");
            first
        };
        let own = "\"127.0.0.1:5301\"";
        let [m0, m1, m2] = [13, 14, 15].map(|last| format!("\"192.168.7.{last}:5301\""));
        assert_eq!(asked(&site, 0), format!("upstreams = [{own}, {m1}, {m2}]"));
        assert_eq!(asked(&site, 1), format!("upstreams = [{own}, {m2}, {m0}]"));
        assert_eq!(asked(&site, 2), format!("upstreams = [{own}, {m0}, {m1}]"));
        site.nodes[3].services = vec![Service::DnsRecursor];
        assert_eq!(asked(&site, 3), format!("upstreams = [{m0}, {m1}, {m2}]"));
        site.nodes.truncate(1);
        assert_eq!(asked(&site, 0), format!("upstreams = [{own}]"));
    }
}
