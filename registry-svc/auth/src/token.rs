//! Tokens: JSON Web Tokens signed with Ed25519 (RFC 7519, RFC 8037), with the claims that
//! distribution's token authentication has.
//!
//! A node signs with its own key and accepts what its own and the other nodes' keys have signed, so
//! that a client may fetch its token at one node and use it at another. A *refresh token* is one
//! that only the token endpoint takes; it is bound to the password that was shown for it, and ends
//! when that changes.
//!
//! Never reads a clock; `now` is seconds since the epoch.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use super::acl::{Action, Actions};
use super::scope::Resource;

/// The clocks of two nodes may differ by this much.
const SKEW: u64 = 60;

/// A token longer than this is none of ours: it names 64 repositories at most.
const LONGEST: usize = 64 << 10;

/// The `typ` of tokens for the token endpoint alone.
const REFRESH: &str = "refresh+jwt";
const ACCESS: &str = "JWT";

/// Signs tokens.
pub struct Signer {
    key: Ed25519KeyPair,
    id: String,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Signer")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// A key whose signatures are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    octets: Vec<u8>,
    id: String,
}

impl PublicKey {
    /// From the 32 octets of an Ed25519 key.
    #[must_use]
    pub fn new(octets: &[u8]) -> Self {
        let hash = digest(&SHA256, octets);
        let id = hash.as_ref().iter().take(9).copied().collect::<Vec<u8>>();
        Self {
            octets: octets.to_vec(),
            id: URL_SAFE_NO_PAD.encode(id),
        }
    }

    /// Its name in the tokens that are signed with it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The octets of the key.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }
}

/// The content of a valid token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The user that fetched it; none for an anonymous client.
    pub subject: Option<Arc<str>>,
    /// Groups that came from the client's certificate.
    pub groups: Arc<[String]>,
    /// Its grants.
    pub access: Arc<[Resource]>,
    /// When it ends.
    pub expires: u64,
    /// The secret that a refresh token was bound to.
    pub bound_to: Option<String>,
}

/// Why a token is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not a token, or with claims of other kinds.
    #[error("it is no token")]
    Malformed,
    /// No known key has signed it.
    #[error("its key is unknown here")]
    UnknownKey,
    /// Not signed by who it says.
    #[error("its signature is wrong")]
    Signature,
    /// Meant for another service.
    #[error("it is for another service")]
    Audience,
    /// Not valid any more, or not yet.
    #[error("it is not valid at this time")]
    Expired,
}

/// The use of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Repositories.
    Access,
    /// The token endpoint.
    Refresh,
}

#[derive(Serialize, Deserialize)]
struct Header {
    alg: String,
    typ: String,
    kid: String,
}

#[derive(Serialize, Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: String,
    exp: u64,
    nbf: u64,
    iat: u64,
    jti: String,
    #[serde(default)]
    access: Vec<Access>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    /// The binding of a refresh token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bound: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Access {
    #[serde(rename = "type")]
    kind: String,
    name: String,
    actions: Vec<String>,
}

impl Signer {
    /// From a private key in PKCS#8 (RFC 8410).
    #[must_use]
    pub fn from_pkcs8(der: &[u8]) -> Option<Self> {
        let key = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok()?;
        let id = PublicKey::new(key.public_key().as_ref()).id;
        Some(Self { key, id })
    }

    /// The key that others accept its tokens by.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey::new(self.key.public_key().as_ref())
    }

    /// Signs a token; `id` is a name that no other token has.
    #[must_use]
    pub fn sign(&self, service: &str, token: &Token, now: u64, id: &str) -> String {
        let header = Header {
            alg: "EdDSA".to_owned(),
            typ: match token.bound_to {
                None => ACCESS.to_owned(),
                Some(_) => REFRESH.to_owned(),
            },
            kid: self.id.clone(),
        };
        let claims = Claims {
            iss: service.to_owned(),
            sub: token.subject.as_deref().unwrap_or_default().to_owned(),
            aud: service.to_owned(),
            exp: token.expires,
            nbf: now.saturating_sub(SKEW),
            iat: now,
            jti: id.to_owned(),
            access: token.access.iter().map(Access::of).collect(),
            groups: token.groups.to_vec(),
            bound: token.bound_to.clone(),
        };
        let mut text = format!("{}.{}", encoded(&header), encoded(&claims));
        let signature = self.key.sign(text.as_bytes());
        text.push('.');
        URL_SAFE_NO_PAD.encode_string(signature.as_ref(), &mut text);
        text
    }
}

impl Access {
    fn of(resource: &Resource) -> Self {
        match resource {
            Resource::Repository { name, actions } => Self {
                kind: "repository".to_owned(),
                name: name.clone(),
                actions: actions.iter().map(|one| one.as_str().to_owned()).collect(),
            },
            Resource::Catalog => Self {
                kind: "registry".to_owned(),
                name: "catalog".to_owned(),
                actions: vec![Action::Catalog.as_str().to_owned()],
            },
        }
    }

    fn resource(self) -> Option<Resource> {
        match (self.kind.as_str(), self.name.as_str()) {
            ("repository", _) => Some(Resource::Repository {
                actions: self
                    .actions
                    .iter()
                    .map(|word| Actions::from_word(word))
                    .fold(Actions::NONE, Actions::union),
                name: self.name,
            }),
            ("registry", "catalog") => Some(Resource::Catalog),
            _ => None,
        }
    }
}

/// Reads a token that one of `keys` has signed for `service`.
///
/// # Errors
/// Whatever keeps it from being valid now for this use.
pub fn verify(
    text: &str,
    service: &str,
    wanted: Use,
    keys: &[PublicKey],
    now: u64,
) -> Result<Token, TokenError> {
    if text.len() > LONGEST {
        return Err(TokenError::Malformed);
    }
    let (signed, signature) = text.rsplit_once('.').ok_or(TokenError::Malformed)?;
    let (header, claims) = signed.split_once('.').ok_or(TokenError::Malformed)?;
    let header: Header = decoded(header)?;
    // The algorithm is ours to choose, never the token's (RFC 8725 §3.1).
    if header.alg != "EdDSA" {
        return Err(TokenError::Malformed);
    }
    let key = keys.iter().find(|key| key.id == header.kid);
    let key = key.ok_or(TokenError::UnknownKey)?;
    let signature = URL_SAFE_NO_PAD
        .decode(signature)
        .map_err(|_| TokenError::Malformed)?;
    UnparsedPublicKey::new(&ED25519, &key.octets)
        .verify(signed.as_bytes(), &signature)
        .map_err(|_| TokenError::Signature)?;
    let claims: Claims = decoded(claims)?;
    if claims.aud != service {
        return Err(TokenError::Audience);
    }
    let is_of_use = match wanted {
        Use::Access => header.typ == ACCESS && claims.bound.is_none(),
        Use::Refresh => header.typ == REFRESH && claims.bound.is_some(),
    };
    if !is_of_use {
        return Err(TokenError::Malformed);
    }
    if now >= claims.exp || now.saturating_add(SKEW) < claims.nbf {
        return Err(TokenError::Expired);
    }
    Ok(Token {
        subject: (!claims.sub.is_empty()).then(|| claims.sub.into()),
        groups: claims.groups.into(),
        access: claims
            .access
            .into_iter()
            .filter_map(Access::resource)
            .collect(),
        expires: claims.exp,
        bound_to: claims.bound,
    })
}

fn encoded(value: &impl Serialize) -> String {
    // Strings and numbers are always JSON.
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(value).unwrap_or_default())
}

fn decoded<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, TokenError> {
    let octets = URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| TokenError::Malformed)?;
    serde_json::from_slice(&octets).map_err(|_| TokenError::Malformed)
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;

    use super::*;
    use crate::scope;

    const SERVICE: &str = "outpost-registry";
    const NOW: u64 = 1_700_000_000;

    fn signer() -> Signer {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Signer::from_pkcs8(key.as_ref()).unwrap()
    }

    fn token() -> Token {
        Token {
            subject: Some("alice".into()),
            groups: Arc::new(["ops".to_owned()]),
            access: scope::parse(["repository:a/b:pull,push registry:catalog:*"]).into(),
            expires: NOW + 300,
            bound_to: None,
        }
    }

    #[test]
    fn a_token_says_what_was_put_into_it() {
        let signer = signer();
        let text = signer.sign(SERVICE, &token(), NOW, "1");
        let keys = [signer.public()];
        assert_eq!(verify(&text, SERVICE, Use::Access, &keys, NOW), Ok(token()));
        let claims = text.split('.').nth(1).unwrap();
        let claims: serde_json::Value = decoded(claims).unwrap();
        assert_eq!(claims["aud"], SERVICE);
        assert_eq!(claims["access"][0]["type"], "repository");
        assert_eq!(claims["access"][0]["actions"][1], "push");
    }

    #[test]
    fn nodes_accept_each_others_tokens_and_nobody_elses() {
        let (own, other, stranger) = (signer(), signer(), signer());
        let keys = [own.public(), other.public()];
        let check = |text: &str| verify(text, SERVICE, Use::Access, &keys, NOW);
        assert!(check(&other.sign(SERVICE, &token(), NOW, "1")).is_ok());
        assert_eq!(
            check(&stranger.sign(SERVICE, &token(), NOW, "1")),
            Err(TokenError::UnknownKey)
        );
        // A stranger who says that it is a key that is known.
        let forged = Signer {
            id: own.id.clone(),
            ..stranger
        };
        assert_eq!(
            check(&forged.sign(SERVICE, &token(), NOW, "1")),
            Err(TokenError::Signature)
        );
    }

    #[test]
    fn tokens_begin_and_end_with_some_grace_for_clocks() {
        let signer = signer();
        let keys = [signer.public()];
        let text = signer.sign(SERVICE, &token(), NOW, "1");
        let check = |now| verify(&text, SERVICE, Use::Access, &keys, now).map(|_| ());
        assert_eq!(check(NOW + 299), Ok(()));
        assert_eq!(check(NOW + 300), Err(TokenError::Expired));
        assert_eq!(check(NOW - 2 * SKEW), Ok(()));
        assert_eq!(check(NOW - 2 * SKEW - 1), Err(TokenError::Expired));
    }

    #[test]
    fn a_token_is_good_for_one_service_and_one_use() {
        let signer = signer();
        let keys = [signer.public()];
        let refresh = Token {
            bound_to: Some("x".to_owned()),
            ..token()
        };
        let access = signer.sign(SERVICE, &token(), NOW, "1");
        let refresh = signer.sign(SERVICE, &refresh, NOW, "2");
        let check = |text: &str, service, wanted| verify(text, service, wanted, &keys, NOW).err();
        assert_eq!(check(&access, SERVICE, Use::Access), None);
        assert_eq!(check(&refresh, SERVICE, Use::Refresh), None);
        let malformed = Some(TokenError::Malformed);
        assert_eq!(check(&access, SERVICE, Use::Refresh), malformed);
        assert_eq!(check(&refresh, SERVICE, Use::Access), malformed);
        assert_eq!(
            check(&access, "another", Use::Access),
            Some(TokenError::Audience)
        );
    }

    #[test]
    fn an_algorithm_that_the_token_chooses_is_not_taken() {
        let signer = signer();
        let text = signer.sign(SERVICE, &token(), NOW, "1");
        let claims = text.split('.').nth(1).unwrap();
        let header = URL_SAFE_NO_PAD.encode(format!(
            "{{\"alg\":\"none\",\"typ\":\"JWT\",\"kid\":\"{}\"}}",
            signer.id
        ));
        let keys = [signer.public()];
        let check = |text: &str| verify(text, SERVICE, Use::Access, &keys, NOW);
        assert_eq!(
            check(&format!("{header}.{claims}.")),
            Err(TokenError::Malformed)
        );
        let cut: String = text.chars().take(text.len() - 4).collect();
        for odd in ["", ".", "..", "a.b.c", "a.b", &cut] {
            assert!(check(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_changed_token_is_refused_whatever_was_changed() {
        let signer = signer();
        let keys = [signer.public()];
        let text = signer.sign(SERVICE, &token(), NOW, "1");
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] = match changed[at] {
                b'A' => b'B',
                _ => b'A',
            };
            let changed = String::from_utf8(changed).unwrap();
            assert!(verify(&changed, SERVICE, Use::Access, &keys, NOW).is_err());
        }
    }
}
