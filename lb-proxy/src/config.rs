//! The configuration as the program sees it.
