//! The file of a certificate that replaces another one.
//!
//! Its first line names the certificate file that it belongs to, by digest: once an operator has installed another one, with other
//! names or another key, the renewed one of before does not count any more.

use std::io;
use std::path::Path;

use ring::digest::{SHA256, digest};

use crate::disk;

/// Begins the first line; PEM readers pass over it (RFC 7468 §2).
const BEGINS: &str = "Renews the certificate with the SHA-256 ";

/// The content of the file, for the certificate file with the content `chain`, whose place `newer` takes.
#[must_use]
pub fn renewed_text(chain: &[u8], newer: &str) -> String {
    format!("{}\n{newer}", first_line(chain))
}

/// The content of such a file, if it belongs to the certificate file with the content `chain`.
#[must_use]
pub fn newer(chain: &[u8], path: &Path) -> Option<Vec<u8>> {
    let octets = match disk::read(path) {
        Ok(octets) => octets,
        // Nothing was renewed yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "The renewed certificate cannot be read");
            return None;
        }
    };
    let begins = format!("{}\n", first_line(chain));
    octets.starts_with(begins.as_bytes()).then_some(octets)
}

fn first_line(chain: &[u8]) -> String {
    let digest = digest(&SHA256, chain);
    let hex = digest.as_ref().iter().map(|octet| format!("{octet:02x}"));
    format!("{BEGINS}{}", hex.collect::<String>())
}
