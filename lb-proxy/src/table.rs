//! Frontends and pools as the data path reads them.
