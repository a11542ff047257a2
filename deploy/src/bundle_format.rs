//! Bundles as files: one archive for a site without a network.
