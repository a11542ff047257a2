//! Certificates that sign themselves, as openssl makes them.

use std::path::Path;
use std::process::Command;

use crate::daemon::run;

/// Writes a certificate for `name`, and its key.
///
/// # Panics
///
/// Panics if openssl is missing or refuses.
pub fn self_signed(certificate: &Path, key: &Path, name: &str) {
    let mut command = Command::new("openssl");
    command
        .args(["req", "-x509", "-nodes", "-days", "2"])
        .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
        .args(["-subj", &format!("/CN={name}")])
        .args(["-addext", &format!("subjectAltName=DNS:{name}")])
        .arg("-keyout")
        .arg(key)
        .arg("-out")
        .arg(certificate);
    let (status, _, stderr) = run(command);
    assert!(status.success(), "{stderr}");
}
