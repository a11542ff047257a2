//! Rate and concurrency of each source.

/// Rate and concurrency of each source.
#[derive(Debug)]
pub struct Limits {}
