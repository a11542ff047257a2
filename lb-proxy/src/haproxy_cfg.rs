//! Reads haproxy.cfg.
