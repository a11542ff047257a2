//! Rate and concurrency of each source.
