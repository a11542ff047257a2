//! Virtual IPs (RFC 9568).
