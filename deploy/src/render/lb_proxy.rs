//! The configuration of lb-proxy.

use std::net::SocketAddr;

use config_text::toml::{duration, list, quoted};

use super::{Layout, admin, endpoint, head, path};
use crate::service::Service;
use crate::site::{Published, Site};

/// Renders the file: a frontend for each thing that the masters offer.
pub(crate) fn render(site: &Site, layout: &Layout) -> String {
    let mut text = [
        head(Service::LbProxy, layout),
        admin(Service::LbProxy, layout),
        format!("\n[health]\nendpoint = {}\n", quoted(&endpoint(layout))),
        format!("\n[swap]\nsocket = {}\n", path(&layout.swap_socket)),
    ]
    .concat();
    for published in &site.published {
        text.push_str(&frontend(published, layout));
        text.push_str(&backend(site, published, layout));
    }
    text
}

fn frontend(published: &Published, layout: &Layout) -> String {
    let listen = SocketAddr::new(layout.proxy, published.port);
    let name = quoted(&name(published));
    format!(
        "\n[[frontend]]\nname = {name}\nlisten = {}\nbackend = {name}\n",
        list([listen.to_string()])
    )
}

/// Its servers are probed as often as those of the zone's LUA records.
fn backend(site: &Site, published: &Published, layout: &Layout) -> String {
    let mut text = format!(
        "\n[[backend]]\nname = {}\ncheck = {{ kind = \"tcp\", interval = {} }}\n",
        quoted(&name(published)),
        duration(layout.probe_interval),
    );
    for node in site.masters() {
        let address = SocketAddr::new(node.address(), published.port);
        text.push_str(&format!(
            "\n[[backend.server]]\nname = {}\naddress = {}\n",
            quoted(&node.name),
            quoted(&address.to_string())
        ));
    }
    text
}

/// A name as configurations have them: `API` is `api`.
fn name(published: &Published) -> String {
    published.what.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::super::tests::demo;
    use super::*;

    const BEGINNING: &str = r#"# lb-proxy, rendered by `outpost`.
version = "v1"
drain = "2s"

[admin]
listen = "127.0.0.1:9404"

[health]
endpoint = "unix:/run/user/1000/outpost-up/healthd.sock"

[swap]
socket = "/run/user/1000/outpost-up/lb-proxy.swap"

[[frontend]]
name = "api"
listen = ["127.0.0.1:6443"]
backend = "api"

[[backend]]
name = "api"
check = { kind = "tcp", interval = "500ms" }

[[backend.server]]
name = "master-0"
address = "127.0.0.13:6443"

[[backend.server]]
name = "master-1"
address = "127.0.0.14:6443"

[[backend.server]]
name = "master-2"
address = "127.0.0.15:6443"

[[frontend]]
name = "ingress"
listen = ["127.0.0.1:8443"]
backend = "ingress"
"#;

    #[test]
    fn each_thing_that_masters_offer_has_a_frontend() {
        let (site, layout) = demo();
        let text = render(&site, &layout);
        assert!(text.starts_with(BEGINNING), "{text}");
        assert_eq!(text.matches("[[frontend]]").count(), site.published.len());
        assert_eq!(text.matches("[[backend.server]]").count(), 9);
    }
}
