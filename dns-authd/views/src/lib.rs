//! Views: several versions of a zone of one name, for different clients.
//!
//! A client sees one view: the first that lists the key of its query, or else the first whose networks have its address. A zone of a
//! view is known by a [`ZoneId`]: its name, and the name of the view.
//!
//! ```text
//! key, address ─► choose ─► view ─► its zones, and those of no view
//! ```

mod access;
mod peer_rule;
mod transports;
mod view;
mod zone_id;

pub use access::{Clients, ZoneAccess};
pub use peer_rule::PeerRule;
pub use transports::Transports;
pub use view::{View, ViewName, ViewNameError, choose};
pub use zone_id::{ZoneId, ZoneIdError};
