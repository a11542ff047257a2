//! The configuration of healthd.

use config_text::toml::list;

use super::own_targets::{OwnTarget, own_targets};
use super::{Layout, admin, endpoint, head, path};
use site::Site;
use site::service::Service;

/// Renders the file.
///
/// It names the services of its own node alone: who needs another target asks for it.
pub(super) fn render(site: &Site, layout: &Layout) -> String {
    let targets = layout
        .node()
        .map_or_else(Vec::new, |node| own_targets(site, node));
    [
        head(Service::Healthd, layout),
        format!("listen = {}\n", list([endpoint(layout)])),
        format!("state = {}\n", path(&layout.state.join("healthd"))),
        admin(Service::Healthd, layout),
        targets.iter().map(OwnTarget::to_toml).collect(),
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
            r#"# healthd, rendered by `outpost`.
version = "v1"
drain = "2s"
listen = ["unix:/run/user/1000/outpost-up/healthd.sock"]
state = "/run/user/1000/outpost-up/state/healthd"

[admin]
listen = "127.0.0.1:9401"
"#
        );
    }

    #[test]
    fn a_node_probes_what_it_runs_and_nothing_else() {
        let mut site = Site::example();
        let all = render(&site, &Layout::of_node(&site, &site.nodes[0]));
        assert_eq!(all.matches("[[target]]").count(), 5, "{all}");
        site.nodes[0].services = vec![Service::Healthd, Service::TimesyncAgent];
        let few = render(&site, &Layout::of_node(&site, &site.nodes[0]));
        assert_eq!(few.matches("[[target]]").count(), 1, "{few}");
        assert!(
            few.contains("kind = \"ntp\"\naddress = \"192.168.7.13:123\"\n"),
            "{few}"
        );
    }
}
