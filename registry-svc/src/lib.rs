//! OCI registry that keeps one content on every node of a site.
