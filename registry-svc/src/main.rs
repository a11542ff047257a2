//! `registry-svc`: see `registry-svc --help`.

fn main() {}
