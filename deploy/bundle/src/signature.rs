//! Signatures in minisign's format: Ed25519 over the `BLAKE2b` hash of what is signed.
//!
//! Keys are read and signatures are checked by minisign's own library. Signing is done here, because
//! that library mixes chance into its signatures: the same bundle has to be the same bytes, and
//! Ed25519 (RFC 8032 §5.1.6) needs no chance.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use blake2::{Blake2b512, Digest as _};
use minisign::{PublicKey, PublicKeyBox, SecretKey, SignatureBox};
use ring::signature::Ed25519KeyPair;

/// Why something is not signed, or not believed.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// A file that is not a key.
    #[error("not a minisign key")]
    NoKey(#[source] minisign::PError),
    /// A key that does not fit together.
    #[error("the key file is truncated or corrupt")]
    BrokenKey,
    /// Text that is no signature.
    #[error("the signature is malformed")]
    NoSignature(#[source] minisign::PError),
    /// Another key made it, or what was signed is something else.
    #[error("the signature does not match this key (key ID {key})")]
    Wrong {
        /// The key that was believed in.
        key: String,
        /// The reason, from the library.
        #[source]
        source: minisign::PError,
    },
}

/// Reads a public key: a key file, or its second line alone.
///
/// # Errors
///
/// When it is none.
pub fn public_key(text: &str) -> Result<PublicKey, SignatureError> {
    let boxed = PublicKeyBox::from_string(text.trim());
    boxed
        .and_then(PublicKeyBox::into_public_key)
        .or_else(|error| PublicKey::from_base64(text.trim()).map_err(|_| error))
        .map_err(SignatureError::NoKey)
}

/// The number by which people tell keys, as minisign prints it.
#[must_use]
pub fn key_id(key: &PublicKey) -> String {
    let bytes = key.keynum().iter().rev();
    bytes.map(|byte| format!("{byte:02X}")).collect()
}

/// The key that made a signature, by its number.
///
/// # Errors
///
/// When it is no signature.
pub fn signer_id(signature: &str) -> Result<String, SignatureError> {
    let signature = SignatureBox::from_string(signature).map_err(SignatureError::NoSignature)?;
    let bytes = signature.keynum().iter().rev();
    Ok(bytes.map(|byte| format!("{byte:02X}")).collect())
}

/// Checks that a key made a signature of these bytes, and gives the comment that is signed too.
///
/// # Errors
///
/// When it did not.
pub fn verify(key: &PublicKey, signature: &str, bytes: &[u8]) -> Result<String, SignatureError> {
    let signature = SignatureBox::from_string(signature).map_err(SignatureError::NoSignature)?;
    let reader = std::io::Cursor::new(bytes);
    minisign::verify(key, &signature, reader, true, false, false).map_err(|source| {
        SignatureError::Wrong {
            key: key_id(key),
            source,
        }
    })?;
    signature
        .trusted_comment()
        .map_err(SignatureError::NoSignature)
}

/// A key that can sign.
#[derive(Debug)]
pub struct SigningKey {
    number: [u8; 8],
    pair: Ed25519KeyPair,
}

impl SigningKey {
    /// A key as minisign's library has it, decrypted.
    ///
    /// # Errors
    ///
    /// When it does not fit together.
    pub fn of(key: &SecretKey) -> Result<Self, SignatureError> {
        Self::from_octets(&key.to_bytes())
    }

    /// The key in a file that is not encrypted; none for one that is. minisign writes no checksum into
    /// such a file, so that its library takes it for damaged; that seed and public half belong
    /// together is checked here all the same.
    ///
    /// # Errors
    ///
    /// When it does not fit together.
    pub fn unencrypted(text: &str) -> Result<Option<Self>, SignatureError> {
        let line = text.lines().nth(1).unwrap_or_default();
        let octets = STANDARD.decode(line.trim()).unwrap_or_default();
        // The second pair of letters names how the key is made of a password; two zeroes name none.
        match octets.get(2..4) {
            Some([0, 0]) => Self::from_octets(&octets).map(Some),
            _ => Ok(None),
        }
    }

    /// Two letters each of algorithm, key derivation and checksum, 32 octets of salt and 16 of limits;
    /// then the key's number, its seed, its public half and a checksum.
    fn from_octets(octets: &[u8]) -> Result<Self, SignatureError> {
        let (number, seed, public) = (octets.get(54..62), octets.get(62..94), octets.get(94..126));
        let number = number.and_then(|number| number.first_chunk().copied());
        let (Some(number), Some(seed), Some(public)) = (number, seed, public) else {
            return Err(SignatureError::BrokenKey);
        };
        let pair = Ed25519KeyPair::from_seed_and_public_key(seed, public)
            .map_err(|_| SignatureError::BrokenKey)?;
        Ok(Self { number, pair })
    }

    /// Signs bytes and a comment; the same give the same signature.
    #[must_use]
    pub fn sign(&self, bytes: &[u8], comment: &str) -> String {
        let signature = self.pair.sign(&Blake2b512::digest(bytes));
        let global = self
            .pair
            .sign(&[signature.as_ref(), comment.as_bytes()].concat());
        let encoded = STANDARD.encode([b"ED", &self.number[..], signature.as_ref()].concat());
        let global = STANDARD.encode(global.as_ref());
        format!(
            "untrusted comment: signature of an outpost bundle\n{encoded}\ntrusted comment: {comment}\n{global}\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use minisign::KeyPair;

    use super::*;

    #[test]
    fn a_signature_is_right_for_its_key_and_its_bytes_only() {
        let ours = KeyPair::generate_unencrypted_keypair().unwrap();
        let other = KeyPair::generate_unencrypted_keypair().unwrap();
        let key = SigningKey::of(&ours.sk).unwrap();
        let signature = key.sign(b"bundle", "site ocp4");
        assert_eq!(signature, key.sign(b"bundle", "site ocp4"));
        assert_eq!(
            verify(&ours.pk, &signature, b"bundle").unwrap(),
            "site ocp4"
        );
        assert!(verify(&ours.pk, &signature, b"bundlf").is_err());
        assert!(verify(&other.pk, &signature, b"bundle").is_err());
        let forged = signature.replace("site ocp4", "site ocp5");
        assert!(verify(&ours.pk, &forged, b"bundle").is_err());
        assert_eq!(signer_id(&signature).unwrap(), key_id(&ours.pk));
        assert!(verify(&ours.pk, "", b"bundle").is_err());
    }

    #[test]
    fn a_key_file_without_a_password_needs_no_checksum() {
        let pair = KeyPair::generate_unencrypted_keypair().unwrap();
        let mut octets = pair.sk.to_bytes();
        // As minisign itself leaves it.
        octets[126..].fill(0);
        let text = format!("untrusted comment: x\n{}\n", STANDARD.encode(&octets));
        let signature = SigningKey::unencrypted(&text)
            .unwrap()
            .unwrap()
            .sign(b"b", "c");
        assert_eq!(verify(&pair.pk, &signature, b"b").unwrap(), "c");
        octets[70] ^= 1;
        let text = format!("untrusted comment: x\n{}\n", STANDARD.encode(&octets));
        assert!(SigningKey::unencrypted(&text).is_err());
        assert!(SigningKey::unencrypted("").unwrap().is_none());
    }

    #[test]
    fn a_public_key_is_a_file_or_its_second_line() {
        let pair = KeyPair::generate_unencrypted_keypair().unwrap();
        let text = pair.pk.to_box().unwrap().into_string();
        let line = text.lines().nth(1).unwrap();
        assert_eq!(public_key(&text).unwrap(), pair.pk);
        assert_eq!(public_key(line).unwrap(), pair.pk);
        assert!(public_key("nonsense").is_err());
    }

    #[test]
    fn the_number_of_a_key_is_that_of_minisign() {
        let pair = KeyPair::generate_unencrypted_keypair().unwrap();
        let comment = pair.pk.to_box().unwrap().into_string();
        let first = comment.lines().next().unwrap().to_owned();
        assert!(first.ends_with(&key_id(&pair.pk)), "{first}");
    }
}
