//! Virtual IPs: addresses that one of several nodes holds (VRRP, RFC 9568 and RFC 3768).

pub mod checksum;
pub mod machine;
pub mod packet;
pub mod settings;
