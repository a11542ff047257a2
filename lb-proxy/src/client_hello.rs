//! The server name in a TLS ClientHello, read without decrypting anything.
