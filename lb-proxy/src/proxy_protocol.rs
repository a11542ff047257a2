//! The PROXY protocol, versions 1 and 2.
