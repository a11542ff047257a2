//! Forwarding and caching DNS server.

fn main() {}
