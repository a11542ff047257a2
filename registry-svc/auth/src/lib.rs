//! Authentication of clients, and their rights.
//!
//! ```text
//! Authorization: Basic  ──► users (htpasswd, bcrypt) ─┐
//! Authorization: Bearer ──► tokens (own and the other ├──► identity ──► acl ──► yes, or a refusal
//!                            nodes' keys)             │                          with its challenge
//! client certificate    ──► its names ────────────────┤
//! nothing               ──► nobody in particular ─────┘
//! ```
//!
//! A token only narrows: whatever it grants, the rules of this moment have to grant too, so that a
//! right that is taken away is gone at once and not when the last token has ended.

pub mod acl;
pub mod certificate;
pub mod challenge;
mod endpoint;
pub mod form;
pub mod htpasswd;
pub mod key;
pub mod scope;
pub mod token;
mod verifier;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use daemon::calendar::Timestamp;
use daemon::latest::Latest;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;

use self::acl::{Acl, Requester};
use self::certificate::Subject;
use self::challenge::TokenFault;
use self::htpasswd::Users;
use self::scope::Resource;
use self::token::{PublicKey, Signer, Use};
use self::verifier::{Outcome, Verifier};

pub use self::acl::{Action, Actions};
pub use self::challenge::Want;
pub use config::registry_svc::{CertificateName, DEFAULT_SERVICE};

/// The path of the token endpoint.
pub const TOKEN_PATH: &str = "/token";

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// Whether the connection is encrypted.
    pub is_tls: bool,
    /// The names in its certificate, if it has shown one that TLS has verified.
    pub certificate: Option<Arc<Subject>>,
    /// The node of the cluster that passes a request on; it has asked its client who they are.
    pub node: Option<Arc<str>>,
}

impl Peer {
    /// A peer of which nothing is known but its address.
    #[must_use]
    pub fn plain(address: SocketAddr) -> Self {
        Self {
            address,
            is_tls: false,
            certificate: None,
            node: None,
        }
    }
}

/// The identity of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    name: Option<Arc<str>>,
    groups: Arc<[String]>,
    /// The grants of its token, if it showed one.
    access: Option<Arc<[Resource]>>,
    is_node: bool,
}

impl Identity {
    /// A client without authentication.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// A node of the cluster.
    #[must_use]
    pub fn node(name: Arc<str>) -> Self {
        Self {
            name: Some(name),
            is_node: true,
            ..Self::default()
        }
    }

    /// The name of the user or node, for logs and events.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn user(name: Arc<str>) -> Self {
        Self {
            name: Some(name),
            ..Self::default()
        }
    }

    fn who(&self) -> Requester<'_> {
        match &self.name {
            None => Requester::Anonymous,
            Some(name) => Requester::User {
                name,
                groups: &self.groups,
            },
        }
    }

    fn has_shown_nothing(&self) -> bool {
        self.name.is_none() && self.access.is_none()
    }
}

/// Why a request is not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 401 `UNAUTHORIZED`: the client can say who it is, or say it better.
    Unauthorized {
        /// The value of `WWW-Authenticate`.
        challenge: HeaderValue,
    },
    /// 403 `DENIED`: an authenticated client without the right.
    Denied,
    /// 429 `TOOMANYREQUESTS`: too many passwords are being verified.
    Busy {
        /// The value of `Retry-After`.
        retry_after: Duration,
    },
}

/// Everything that decides, as one configuration has it.
#[derive(Debug)]
pub struct Policy {
    /// The rules.
    pub acl: Acl,
    /// The users, if there is a file of them.
    pub users: Option<Users>,
    /// Tokens, unless clients always send their password.
    pub tokens: Option<Tokens>,
    /// The name in a client certificate that is the user's.
    pub certificates: CertificateName,
    /// This registry's name in challenges and tokens; the same on every node.
    pub service: String,
}

/// How tokens are made and accepted.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// This node's key.
    pub signer: Arc<Signer>,
    /// The keys that are accepted, this node's too.
    pub keys: Vec<PublicKey>,
    /// How long a token is good.
    pub lifetime: Duration,
    /// How long a refresh token is good.
    pub refresh: Duration,
    /// The address of the token endpoint; unless given, it follows from the name that the client
    /// uses for this registry.
    pub realm: Option<String>,
}

impl Policy {
    /// The user of a client certificate.
    fn certified(&self, subject: &Subject) -> Option<Identity> {
        let name = match self.certificates {
            CertificateName::None => None,
            CertificateName::CommonName => subject.common_name.as_ref(),
            CertificateName::Dns => subject.dns.first(),
            CertificateName::Uri => subject.uris.first(),
        }?;
        Some(Identity {
            name: Some(name.as_str().into()),
            groups: match self.certificates {
                CertificateName::CommonName => subject.organizations.clone().into(),
                _ => Arc::default(),
            },
            ..Identity::default()
        })
    }

    /// Requires no authentication.
    #[must_use]
    pub fn open() -> Self {
        Self {
            acl: Acl::open(),
            users: None,
            tokens: None,
            certificates: CertificateName::None,
            service: DEFAULT_SERVICE.to_owned(),
        }
    }

    /// Whether there are no users, tokens or certificates.
    fn knows_nobody(&self) -> bool {
        self.users.is_none() && self.certificates == CertificateName::None
    }
}

/// Decides about requests; clones share it.
#[derive(Clone, Debug)]
pub struct Access {
    policy: Arc<Latest<Policy>>,
    verifier: Arc<Verifier>,
}

impl Access {
    /// By a policy, until it is given another.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self {
            policy: Latest::new(policy),
            verifier: Arc::new(Verifier::new()),
        }
    }

    /// Requires no authentication: every client may do everything.
    #[must_use]
    pub fn open() -> Self {
        Self::new(Policy::open())
    }

    /// Takes up another policy, for the requests that begin from here on.
    pub fn adopt(&self, policy: Policy) {
        self.policy.publish(policy);
    }

    /// The policy that is in force.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.current()
    }

    /// Finds out who asks, and whether they may have all that they want. With nothing wanted, as
    /// for `/v2/`, it says whether a client should say who it is before it asks for anything.
    ///
    /// # Errors
    /// What to answer instead.
    pub async fn check(
        &self,
        head: &Parts,
        peer: &Peer,
        wants: &[Want<'_>],
    ) -> Result<Identity, Refusal> {
        if let Some(node) = &peer.node {
            return Ok(Identity::node(Arc::clone(node)));
        }
        let policy = self.policy.current();
        let identified = match policy.knows_nobody() {
            // There is nothing to compare a password with. Clients send one all the same, of a pull secret say.
            true => Ok(Identity::anonymous()),
            false => self.identify(&policy, head, peer).await,
        };
        let identity = match identified {
            Ok(identity) => identity,
            Err(Unidentified::Busy) => return Err(busy()),
            Err(Unidentified::Wrong(fault)) => {
                return Err(policy.unauthorized(head, peer, wants, fault));
            }
        };
        if wants.is_empty() && identity.has_shown_nothing() && policy.asks_first() {
            return Err(policy.unauthorized(head, peer, wants, None));
        }
        for want in wants {
            if !policy
                .acl
                .allows(identity.who(), want.repository, want.action)
            {
                return Err(match identity.name {
                    Some(_) => Refusal::Denied,
                    // Nothing that a client could say would help.
                    None if policy.knows_nobody() => Refusal::Denied,
                    None => policy.unauthorized(head, peer, wants, None),
                });
            }
            if let Some(access) = &identity.access
                && !scope::grants(access, want.repository, want.action)
            {
                let fault = Some(TokenFault::Insufficient);
                return Err(policy.unauthorized(head, peer, wants, fault));
            }
        }
        Ok(identity)
    }

    /// Whether an admitted client may do another action, too.
    #[must_use]
    pub fn allows(&self, identity: &Identity, repository: &str, action: Action) -> bool {
        let policy = self.policy.current();
        let is_granted = |access: &Arc<[Resource]>| scope::grants(access, repository, action);
        identity.is_node
            || policy.acl.allows(identity.who(), repository, action)
                && identity.access.as_ref().is_none_or(is_granted)
    }

    /// Those of `repositories` that a client may pull; its token does not matter, since one for the
    /// catalog names no repository.
    pub fn listed<T: AsRef<str>>(&self, identity: &Identity, repositories: Vec<T>) -> Vec<T> {
        let policy = self.policy.current();
        let mut listed = repositories;
        if !identity.is_node {
            listed.retain(|name| {
                let who = identity.who();
                policy.acl.allows(who, name.as_ref(), Action::Pull)
            });
        }
        listed
    }

    /// The challenge to send with the 200 of `/v2/` to an anonymous client: clients that never see
    /// a challenge never send their password, not for a push either.
    #[must_use]
    pub fn challenge_of_base(&self, head: &Parts, peer: &Peer) -> Option<HeaderValue> {
        let policy = self.policy.current();
        let has_users = policy.users.is_some() && policy.tokens.is_none();
        if !has_users || head.headers.contains_key(AUTHORIZATION) || peer.node.is_some() {
            return None;
        }
        Some(header(&challenge::basic(&policy.service)))
    }

    async fn identify(
        &self,
        policy: &Policy,
        head: &Parts,
        peer: &Peer,
    ) -> Result<Identity, Unidentified> {
        let unsaid = || {
            let subject = peer.certificate.as_deref();
            let identity = subject.and_then(|subject| policy.certified(subject));
            Ok(identity.unwrap_or_default())
        };
        let Some(value) = head.headers.get(AUTHORIZATION) else {
            return unsaid();
        };
        match Credentials::read(value) {
            Some(Credentials::Basic { user, password }) => {
                // Clients that have no password send empty ones.
                if user.is_empty() && password.is_empty() {
                    return unsaid();
                }
                self.log_in(policy, &user, &password).await
            }
            Some(Credentials::Bearer(text)) => policy.token(&text, Use::Access),
            None => Err(Unidentified::Wrong(None)),
        }
    }

    /// Verifies a password.
    async fn log_in(
        &self,
        policy: &Policy,
        user: &str,
        password: &str,
    ) -> Result<Identity, Unidentified> {
        let Some(users) = &policy.users else {
            return Err(Unidentified::Wrong(None));
        };
        match self.verifier.verify(users, user, password).await {
            Outcome::Right => Ok(Identity::user(user.into())),
            Outcome::Wrong => Err(Unidentified::Wrong(None)),
            Outcome::Busy => Err(Unidentified::Busy),
        }
    }
}

/// A password takes less than a second, and those who wait go first.
fn busy() -> Refusal {
    Refusal::Busy {
        retry_after: Duration::from_secs(2),
    }
}

/// Why it cannot be said who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unidentified {
    /// The credentials are wrong.
    Wrong(Option<TokenFault>),
    /// All verifiers are busy.
    Busy,
}

impl Policy {
    /// Whether `/v2/` requires authentication. With tokens always, since anonymous clients get one
    /// too; without, a client that has no password would give up.
    fn asks_first(&self) -> bool {
        !self.acl.is_open()
            && !self.knows_nobody()
            && (self.tokens.is_some() || !self.acl.lets_strangers_pull())
    }

    fn unauthorized(
        &self,
        head: &Parts,
        peer: &Peer,
        wants: &[Want<'_>],
        fault: Option<TokenFault>,
    ) -> Refusal {
        let realm = self.tokens.as_ref().and_then(|it| it.realm(head, peer));
        let text = match realm {
            Some(realm) => challenge::bearer(&realm, &self.service, wants, fault),
            None => challenge::basic(&self.service),
        };
        Refusal::Unauthorized {
            challenge: header(&text),
        }
    }

    fn token(&self, text: &str, wanted: Use) -> Result<Identity, Unidentified> {
        let Some(tokens) = &self.tokens else {
            return Err(Unidentified::Wrong(None));
        };
        let verified = token::verify(text, &self.service, wanted, &tokens.keys, seconds());
        match verified {
            Ok(token) => Ok(Identity {
                name: token.subject,
                groups: token.groups,
                access: Some(token.access),
                is_node: false,
            }),
            Err(error) => {
                tracing::debug!(%error, "Token refused");
                Err(Unidentified::Wrong(Some(TokenFault::Invalid)))
            }
        }
    }
}

impl Tokens {
    /// The address of the token endpoint for this client: by the name that it uses for this
    /// registry.
    fn realm(&self, head: &Parts, peer: &Peer) -> Option<String> {
        if let Some(realm) = &self.realm {
            return Some(realm.clone());
        }
        let host = || head.headers.get(HOST)?.to_str().ok();
        let named = head.uri.authority().map(Authority::as_str);
        let authority = challenge::authority(named.or_else(host)?)?;
        let scheme = if peer.is_tls { "https" } else { "http" };
        Some(format!("{scheme}://{authority}{TOKEN_PATH}"))
    }
}

/// The credentials in `Authorization`.
#[derive(Debug, PartialEq, Eq)]
enum Credentials {
    Basic { user: String, password: String },
    Bearer(String),
}

impl Credentials {
    fn read(value: &HeaderValue) -> Option<Self> {
        let (scheme, rest) = value.to_str().ok()?.split_once(' ')?;
        let rest = rest.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            return Some(Self::Bearer(rest.to_owned()));
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let octets = STANDARD.decode(rest).ok()?;
        let text = String::from_utf8(octets).ok()?;
        let (user, password) = text.split_once(':')?;
        Some(Self::Basic {
            user: user.to_owned(),
            password: password.to_owned(),
        })
    }
}

/// A header's value from text that has been made of printable characters.
fn header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("Basic realm=\"registry\""))
}

/// Seconds since the epoch.
fn seconds() -> u64 {
    Timestamp::now().since_epoch().as_secs()
}

#[cfg(test)]
mod tests;
