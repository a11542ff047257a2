//! dns-authd
fn main() {}
