//! The files that hold keys of tokens: PEM, the private ones for their owner alone.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use durable::Rights;
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer, pem};

use super::token::{PublicKey, Signer};

/// The name of the private key in the registry's root.
pub const PRIVATE: &str = "token.key";

/// The name of the public key beside it, to be carried to the other nodes.
pub const PUBLIC: &str = "token.pub";

/// A `SubjectPublicKeyInfo` for Ed25519 (RFC 8410 §4) up to the 32 octets of the key.
const SPKI: &[u8] = &[
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The system refused.
    #[error("cannot read or write {path}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Not PEM.
    #[error("cannot read {path}", path = path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: pem::Error,
    },
    /// PEM of something else.
    #[error("{path} holds no Ed25519 key", path = .0.display())]
    Kind(PathBuf),
    /// A private key that others can read.
    #[error("{path} can be read by others than its owner (mode {mode:04o}); it has to be 0600", path = path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// There is no randomness.
    #[error("no key can be made")]
    Randomness,
}

/// The key in a file; one is made if there is no file. On a read-only file system it lives in memory: its
/// tokens end with the process.
///
/// # Errors
/// When it cannot be read, others can read it too, or it is no Ed25519 key.
pub fn load_or_make(path: &Path) -> Result<Signer, KeyError> {
    match load(path) {
        Err(KeyError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
            let key = key.map_err(|_| KeyError::Randomness)?;
            match write(path, 0o600, &pem_text("PRIVATE KEY", key.as_ref())) {
                Err(error) if error.is_read_only() => {
                    tracing::warn!("Tokens end with this process: their key cannot be kept");
                    Signer::from_pkcs8(key.as_ref()).ok_or_else(|| KeyError::Kind(path.to_owned()))
                }
                Err(error) => Err(error),
                Ok(()) => {
                    tracing::info!(path = %path.display(), "Made a key for tokens");
                    load(path)
                }
            }
        }
        loaded => loaded,
    }
}

/// The key in a file.
///
/// # Errors
/// When it cannot be read, others can read it too, or it is no Ed25519 key.
pub fn load(path: &Path) -> Result<Signer, KeyError> {
    let failed = |source| KeyError::Io {
        path: path.to_owned(),
        source,
    };
    let mode = fs::metadata(path).map_err(failed)?.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Open {
            path: path.to_owned(),
            mode,
        });
    }
    let der = PrivatePkcs8KeyDer::from_pem_file(path).map_err(|source| KeyError::Pem {
        path: path.to_owned(),
        source,
    })?;
    Signer::from_pkcs8(der.secret_pkcs8_der()).ok_or_else(|| KeyError::Kind(path.to_owned()))
}

/// The public key in a file.
///
/// # Errors
/// When it cannot be read or is no Ed25519 key.
pub fn load_public(path: &Path) -> Result<PublicKey, KeyError> {
    let der = SubjectPublicKeyInfoDer::from_pem_file(path).map_err(|source| KeyError::Pem {
        path: path.to_owned(),
        source,
    })?;
    match der.strip_prefix(SPKI) {
        Some(octets) if octets.len() == 32 => Ok(PublicKey::new(octets)),
        _ => Err(KeyError::Kind(path.to_owned())),
    }
}

/// Writes a public key, unless the file holds it already or its file system is read-only.
///
/// # Errors
/// When the system refuses.
pub fn write_public(path: &Path, key: &PublicKey) -> Result<(), KeyError> {
    if load_public(path).is_ok_and(|known| known == *key) {
        return Ok(());
    }
    let der = [SPKI, key.octets()].concat();
    match write(path, 0o644, &pem_text("PUBLIC KEY", &der)) {
        Err(error) if error.is_read_only() => Ok(()),
        written => written,
    }
}

impl KeyError {
    fn is_read_only(&self) -> bool {
        let Self::Io { source, .. } = self else {
            return false;
        };
        source.kind() == io::ErrorKind::ReadOnlyFilesystem
    }
}

/// Writes a file that is there whole or not at all.
fn write(path: &Path, mode: u32, text: &str) -> Result<(), KeyError> {
    let failed = |source| KeyError::Io {
        path: path.to_owned(),
        source,
    };
    durable::replace(path, Rights::new(mode), |file| {
        file.write_all(text.as_bytes())
    })
    .map_err(failed)
}

/// PEM with lines of 64 characters (RFC 7468 §2).
fn pem_text(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    for chunk in der.chunks(48) {
        text.push_str(&STANDARD.encode(chunk));
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_only_its_owner_reads_it() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join(PRIVATE);
        let first = load_or_make(&path).unwrap().public();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(load_or_make(&path).unwrap().public(), first);
        let public = scratch.path().join(PUBLIC);
        write_public(&public, &first).unwrap();
        write_public(&public, &first).unwrap();
        assert_eq!(load_public(&public).unwrap(), first);
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_private_key_that_others_can_read_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join(PRIVATE);
        load_or_make(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = load_or_make(&path).unwrap_err();
        assert!(
            matches!(error, KeyError::Open { mode: 0o640, .. }),
            "{error:?}"
        );
    }

    #[test]
    fn what_is_no_key_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join(PRIVATE);
        write(&path, 0o600, "nothing\n").unwrap();
        assert!(matches!(load(&path), Err(KeyError::Pem { .. })));
        write(&path, 0o600, &pem_text("PRIVATE KEY", b"x")).unwrap();
        assert!(matches!(load(&path), Err(KeyError::Kind(_))));
        write(&path, 0o600, &pem_text("PUBLIC KEY", &[0; 44])).unwrap();
        assert!(matches!(load_public(&path), Err(KeyError::Kind(_))));
    }
}
