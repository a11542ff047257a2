//! Any bytes as a message between healthd and its subscribers.

pub(super) fn body(_data: &[u8]) {}
