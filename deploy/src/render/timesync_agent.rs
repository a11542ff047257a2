//! The configuration of timesync-agent.

use config_text::toml::quoted;

use super::{Layout, admin, endpoint, head, path};
use crate::service::Service;

/// Renders the file: this machine's own time for everybody on this machine, at a port that needs no
/// privileges. The clock is left alone.
pub(crate) fn render(layout: &Layout) -> String {
    [
        head(Service::TimesyncAgent, layout),
        "correct-clock = false\n".to_owned(),
        format!(
            "\n[server]\nport = {}\nbind = [{}]\nallow = [\"127.0.0.0/8\"]\n",
            layout.time.port(),
            quoted(&layout.time.ip().to_string())
        ),
        "\n[local]\nstratum = 10\n".to_owned(),
        format!(
            "\n[clock]\ndrift-file = {}\n",
            path(&layout.state.join("timesync-agent.drift"))
        ),
        "\n[commands]\nport = 0\nsocket = \"none\"\n".to_owned(),
        format!("\n[health]\nendpoint = {}\n", quoted(&endpoint(layout))),
        admin(Service::TimesyncAgent, layout),
    ]
    .concat()
}
