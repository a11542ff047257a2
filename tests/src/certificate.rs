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

/// Writes a certificate for `name` that can sign no other, and its key: rustls takes no authority's for a server's.
///
/// # Panics
///
/// Panics if openssl is missing or refuses.
pub fn of_server(certificate: &Path, key: &Path, name: &str) {
    let settings = certificate.with_extension("cnf");
    let text = format!(
        "[req]\ndistinguished_name = name\nx509_extensions = server\nprompt = no\n[name]\nCN = {name}\n\
         [server]\nbasicConstraints = CA:FALSE\nsubjectAltName = DNS:{name}\n"
    );
    std::fs::write(&settings, text).expect("a scratch directory can be written");
    let mut command = Command::new("openssl");
    command
        .args(["req", "-x509", "-nodes", "-days", "2"])
        .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
        .arg("-config")
        .arg(settings)
        .arg("-keyout")
        .arg(key)
        .arg("-out")
        .arg(certificate);
    let (status, _, stderr) = run(command);
    assert!(status.success(), "{stderr}");
}

/// The SHA-256 of a certificate's public key, in base64.
///
/// # Panics
///
/// Panics if openssl is missing or refuses.
#[must_use]
pub fn pin(certificate: &Path) -> String {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "openssl x509 -in \"$0\" -pubkey -noout | openssl pkey -pubin -outform DER | openssl dgst -sha256 -binary | openssl base64",
    ]);
    command.arg(certificate);
    let (status, stdout, stderr) = run(command);
    assert!(status.success(), "{stderr}");
    stdout.trim().to_owned()
}
