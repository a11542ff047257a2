//! RDATA.
