//! The proxy as the life of its process sees it.
