//! Reads keepalived.conf.
