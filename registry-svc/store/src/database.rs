//! The index on disk: a sled database, which another process opens first when there is any doubt.

pub mod sled;
pub mod trial;

#[cfg(test)]
mod tests;
