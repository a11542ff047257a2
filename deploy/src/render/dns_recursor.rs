//! The configuration of dns-recursor.

use super::{Layout, admin, head, list};
use crate::service::Service;
use crate::site::Site;

/// Renders the file.
pub(crate) fn render(_site: &Site, layout: &Layout) -> String {
    let mut text = head(Service::DnsRecursor, layout);
    text.push_str(&format!("listen = {}\n", list([layout.dns.to_string()])));
    text.push_str(&admin(Service::DnsRecursor, layout));
    text
}
