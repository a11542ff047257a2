//! The data path of TCP.
