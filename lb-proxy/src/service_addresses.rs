//! Addresses of services from pools.
