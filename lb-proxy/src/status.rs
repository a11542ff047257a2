//! What `status` shows.
