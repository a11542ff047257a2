//! The configuration of healthd.

use super::{Layout, admin, head, path, quoted};
use crate::service::Service;

/// Renders the file.
pub(crate) fn render(layout: &Layout) -> String {
    let mut text = head(Service::Healthd, layout);
    let socket = quoted(&format!("unix:{}", layout.healthd_socket.display()));
    text.push_str(&format!("listen = [{socket}]\n"));
    text.push_str(&format!("state = {}\n", path(&layout.state)));
    text.push_str(&admin(Service::Healthd, layout));
    text
}
