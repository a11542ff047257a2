//! The configuration of registry-svc.

use config_text::toml::list;

use super::{Layout, admin, head, path};
use crate::service::Service;

/// Renders the file: a registry for everybody on this machine, without TLS, which clients accept
/// from loopback.
pub(crate) fn render(layout: &Layout) -> String {
    let root = layout.state.join("registry");
    [
        head(Service::RegistrySvc, layout),
        format!(
            "listen = {}\nplain = true\nroot = {}\n",
            list([layout.registry.to_string()]),
            path(&root)
        ),
        admin(Service::RegistrySvc, layout),
        // A demonstration does not end because somebody's disk is nearly full.
        "\n[space]\nwarn = 99\nstop = 100\nfree = \"64MiB\"\nreserve = \"0\"\n".to_owned(),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::super::tests::demo;
    use super::*;

    #[test]
    fn the_registry_is_on_loopback_and_in_the_run_directory() {
        let (_, layout) = demo();
        assert_eq!(
            render(&layout),
            r#"# registry-svc, rendered by `outpost`.
version = "v1"
drain = "2s"
listen = ["127.0.0.1:5000"]
plain = true
root = "/run/user/1000/outpost-up/state/registry"

[admin]
listen = "127.0.0.1:9405"

[space]
warn = 99
stop = 100
free = "64MiB"
reserve = "0"
"#
        );
    }
}
