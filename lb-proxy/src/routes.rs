//! What the admin listener answers besides the common paths.
