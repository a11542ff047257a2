//! The configuration of healthd.

use config_text::toml::list;

use super::{Layout, admin, endpoint, head, path};
use crate::service::Service;

/// Renders the file.
///
/// It names no target: those who need one ask for it.
pub(crate) fn render(layout: &Layout) -> String {
    [
        head(Service::Healthd, layout),
        format!("listen = {}\n", list([endpoint(layout)])),
        format!("state = {}\n", path(&layout.state.join("healthd"))),
        admin(Service::Healthd, layout),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::super::tests::demo;
    use super::*;

    #[test]
    fn the_demonstration_is_this() {
        let (_, layout) = demo();
        assert_eq!(
            render(&layout),
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
}
