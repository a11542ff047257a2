//! Frontends that the kernel forwards by itself.
