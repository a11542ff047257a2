//! The configuration of timesync-agent.

use config_text::toml::{list, quoted};

use super::{Layout, admin, endpoint, head, path};
use crate::service::Service;

/// Renders the file: this machine's own time for everybody on this machine, at a port that needs no
/// privileges. The clock is left alone.
pub(crate) fn render(layout: &Layout) -> String {
    [
        head(Service::TimesyncAgent, layout),
        "correct-clock = false\n".to_owned(),
        "\n[local]\nstratum = 10\n".to_owned(),
        format!(
            "\n[serve]\nport = {}\naddresses = {}\naccess = [\"allow 127.0.0.0/8\"]\n",
            layout.time.port(),
            list([layout.time.ip().to_string()])
        ),
        format!(
            "\n[clock]\ndriftfile = {}\n",
            path(&layout.state.join("timesync-agent.drift"))
        ),
        // chronyc finds the chronyd of this machine, if it has one.
        "\n[commands]\nport = 0\nsocket = \"none\"\n".to_owned(),
        format!("\n[health]\nendpoint = {}\n", quoted(&endpoint(layout))),
        admin(Service::TimesyncAgent, layout),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::super::tests::demo;
    use super::*;

    #[test]
    fn the_demonstration_has_a_time_of_its_own_and_sets_no_clock() {
        let (_, layout) = demo();
        assert_eq!(
            render(&layout),
            r#"# timesync-agent, rendered by `outpost`.
version = "v1"
drain = "2s"
correct-clock = false

[local]
stratum = 10

[serve]
port = 11123
addresses = ["127.0.0.1"]
access = ["allow 127.0.0.0/8"]

[clock]
driftfile = "/run/user/1000/outpost-up/state/timesync-agent.drift"

[commands]
port = 0
socket = "none"

[health]
endpoint = "unix:/run/user/1000/outpost-up/healthd.sock"

[admin]
listen = "127.0.0.1:9406"
"#
        );
    }
}
