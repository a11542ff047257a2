//! The configuration of dns-authd.

use super::{Layout, admin, head, list};
use crate::service::Service;
use crate::site::Site;

/// Renders the file.
pub(crate) fn render(_site: &Site, layout: &Layout) -> String {
    let mut text = head(Service::DnsAuthd, layout);
    text.push_str(&format!(
        "listen = {}\n",
        list([layout.authority.to_string()])
    ));
    text.push_str(&admin(Service::DnsAuthd, layout));
    text
}
