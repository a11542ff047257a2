//! Requests with what proves who asks: none at first, then what the registry asks for.
//!
//! A token is kept for its scope until shortly before it ends. Redirects are followed for reads;
//! credentials stay behind when they lead to another host.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use config_text::web;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode, Uri};
use oci::reference::RepositoryName;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::challenge;
use crate::challenge::Challenge;
use crate::connection::{Pool, Received, Sent};
use crate::credentials::{AuthFile, Credentials};
use crate::endpoint::{Endpoint, Scheme};
use crate::{ClientError, MAX_ERROR, location, text, whole};

/// Redirects one after the other.
const MAX_REDIRECTS: usize = 5;
/// An answer of a token service.
const MAX_TOKEN: usize = 256 << 10;
/// Tokens that are kept: one for each repository that is copied at the time.
const MAX_TOKENS: usize = 1_000;
/// How long a token lasts that does not say (distribution's token specification).
const TOKEN_LASTS: u64 = 60;
/// The longest that a token is believed to last.
const TOKEN_LASTS_AT_MOST: u64 = 3600;
/// A token that ends within this time is not used any more.
const TOKEN_MARGIN: Duration = Duration::from_secs(10);

/// One registry's requests. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pool: Pool,
    endpoint: Endpoint,
    known: Arc<AuthFile>,
    proofs: Arc<Mutex<Proofs>>,
}

/// The credentials and tokens.
#[derive(Debug, Default)]
struct Proofs {
    /// By scope.
    tokens: BTreeMap<String, Token>,
    /// Whether the registry wants name and password themselves.
    is_basic: bool,
}

#[derive(Debug)]
struct Token {
    header: HeaderValue,
    ends: Instant,
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct ClientRequest {
    method: Method,
    /// A path at the registry, or a whole URL there.
    target: String,
    headers: Vec<(HeaderName, String)>,
    /// The scopes that a token has to allow.
    scopes: Vec<String>,
    repository: Option<RepositoryName>,
}

impl ClientRequest {
    pub(super) fn new(method: Method, target: String) -> Self {
        Self {
            method,
            target,
            headers: Vec::new(),
            scopes: Vec::new(),
            repository: None,
        }
    }

    pub(super) fn pull(self, repository: &RepositoryName) -> Self {
        self.of(repository, "pull")
    }

    pub(super) fn push(self, repository: &RepositoryName) -> Self {
        self.of(repository, "pull,push")
    }

    pub(super) fn catalog(mut self) -> Self {
        self.scopes.push("registry:catalog:*".to_owned());
        self
    }

    pub(super) fn header(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn of(mut self, repository: &RepositoryName, actions: &str) -> Self {
        let scope = format!("repository:{}:{actions}", repository.as_str());
        self.scopes.push(scope);
        self.repository.get_or_insert_with(|| repository.clone());
        self
    }

    fn scope(&self) -> String {
        self.scopes.join(" ")
    }
}

impl Session {
    pub(super) fn new(pool: Pool, endpoint: Endpoint, known: AuthFile) -> Self {
        Self {
            pool,
            endpoint,
            known: Arc::new(known),
            proofs: Arc::default(),
        }
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Sends a request, and once more with what the registry asks for. `body` is called for each.
    pub(super) async fn send(
        &self,
        ask: ClientRequest,
        mut body: impl FnMut() -> Sent,
    ) -> Result<Response<Received>, ClientError> {
        let proof = self.proof(&ask);
        let was_proved = proof.is_some();
        let response = self.follow(&ask, proof, &mut body).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        let asked = response.headers().get_all(WWW_AUTHENTICATE);
        let challenges = challenge::parse(asked.iter().filter_map(|value| value.to_str().ok()));
        drop(response.into_body().whole(MAX_ERROR).await);
        let proof = self.answer(&ask, &challenges, was_proved).await?;
        let response = self.follow(&ask, Some(proof), &mut body).await?;
        match response.status() {
            StatusCode::UNAUTHORIZED => Err(self.unauthorized(" and takes none that are known")),
            _ => Ok(response),
        }
    }

    /// Sends a request, and goes where the answer points to if it is one that reads.
    async fn follow(
        &self,
        ask: &ClientRequest,
        proof: Option<HeaderValue>,
        body: &mut impl FnMut() -> Sent,
    ) -> Result<Response<Received>, ClientError> {
        let (mut endpoint, mut path) = self.target(&self.endpoint, &ask.target)?;
        let is_read = matches!(ask.method, Method::GET | Method::HEAD);
        for _ in 0..=MAX_REDIRECTS {
            let mut request = Request::builder().method(&ask.method).uri(&path);
            for (name, value) in &ask.headers {
                request = request.header(name, value);
            }
            if let Some(proof) = proof.as_ref().filter(|_| endpoint == self.endpoint) {
                request = request.header(AUTHORIZATION, proof);
            }
            let request = request
                .body(body())
                .map_err(|_| ClientError::Malformed("not a valid address"))?;
            let response = self.pool.send(&endpoint, request).await?;
            if !response.status().is_redirection() || !is_read {
                return Ok(response);
            }
            let to = location(&response)?;
            drop(response.into_body().whole(MAX_ERROR).await);
            let next = self.target(&endpoint, &to)?;
            // A request over TLS never continues without TLS.
            if endpoint.scheme == Scheme::Https && next.0.scheme == Scheme::Http {
                return Err(ClientError::Malformed("a redirect from TLS to plain HTTP"));
            }
            (endpoint, path) = next;
        }
        Err(ClientError::Malformed("redirects without an end"))
    }

    /// The host and path that an address leads to, seen from where it was given.
    fn target(&self, from: &Endpoint, target: &str) -> Result<(Endpoint, String), ClientError> {
        let malformed = || ClientError::Malformed("not a valid address");
        let uri: Uri = target.parse().map_err(|_| malformed())?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let endpoint = match (uri.scheme_str(), uri.authority()) {
            (None, None) => from.clone(),
            (scheme, Some(authority)) => {
                let scheme = match scheme {
                    Some("https") => Scheme::Https,
                    Some("http") => Scheme::Http,
                    Some(_) => return Err(malformed()),
                    None => from.scheme,
                };
                // Names and passwords in addresses are not what they are for.
                let host = authority.as_str().rsplit('@').next().unwrap_or_default();
                Endpoint::of_authority(host, scheme).map_err(|_| malformed())?
            }
            (Some(_), None) => return Err(malformed()),
        };
        Ok((endpoint, path.to_owned()))
    }

    fn proof(&self, ask: &ClientRequest) -> Option<HeaderValue> {
        let proofs = self.proofs.lock();
        if proofs.is_basic {
            return self.basic(ask);
        }
        let token = proofs.tokens.get(&ask.scope())?;
        (token.ends > Instant::now() + TOKEN_MARGIN).then(|| token.header.clone())
    }

    fn credentials(&self, ask: &ClientRequest) -> Option<&Credentials> {
        self.known.find(&self.endpoint, ask.repository.as_ref())
    }

    fn basic(&self, ask: &ClientRequest) -> Option<HeaderValue> {
        secret(&self.credentials(ask)?.basic())
    }

    /// The header to send again with.
    async fn answer(
        &self,
        ask: &ClientRequest,
        challenges: &[Challenge],
        was_proved: bool,
    ) -> Result<HeaderValue, ClientError> {
        let bearer = challenges.iter().find_map(|challenge| match challenge {
            Challenge::Bearer {
                realm,
                service,
                scope,
            } => Some((realm, service, scope)),
            Challenge::Basic => None,
        });
        if let Some((realm, service, scope)) = bearer {
            return self
                .token(ask, realm, service.as_deref(), scope.as_deref())
                .await;
        }
        if !challenges.contains(&Challenge::Basic) {
            return Err(self.unauthorized(" in an unknown way"));
        }
        let basic = self.basic(ask);
        let basic = basic.ok_or_else(|| self.unauthorized(", and none are known"))?;
        let mut proofs = self.proofs.lock();
        if was_proved && proofs.is_basic {
            return Err(self.unauthorized(" and takes none that are known"));
        }
        proofs.is_basic = true;
        Ok(basic)
    }

    /// Asks for a token (distribution, Token Authentication Specification).
    async fn token(
        &self,
        ask: &ClientRequest,
        realm: &str,
        service: Option<&str>,
        scope: Option<&str>,
    ) -> Result<HeaderValue, ClientError> {
        let (endpoint, path) = self.target(&self.endpoint, realm)?;
        let mut query = vec![("service", service.unwrap_or_default())];
        let asked = ask.scope();
        // The registry's scope is among the requested ones, unless it is a different one.
        let named = scope.filter(|scope| !asked.split(' ').any(|asked| asked == *scope));
        query.extend(asked.split(' ').chain(named).map(|scope| ("scope", scope)));
        query.retain(|(_, value)| !value.is_empty());
        let path = with_query(&path, &query);
        let mut request = Request::get(path);
        let is_safe = endpoint.scheme == Scheme::Https || endpoint.host == self.endpoint.host;
        if let Some(basic) = self.basic(ask).filter(|_| is_safe) {
            request = request.header(AUTHORIZATION, basic);
        }
        let request = request
            .body(Sent::nothing())
            .map_err(|_| ClientError::Malformed("not a valid address of tokens"))?;
        let response = self.pool.send(&endpoint, request).await?;
        let status = response.status();
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            drop(response.into_body().whole(MAX_ERROR).await);
            return Err(self.unauthorized(" and gives no token for those that are known"));
        }
        let response = super::expect(response, &[StatusCode::OK]).await?;
        let (header, lasts) = token_in(&whole(response, MAX_TOKEN).await?)?;
        let token = Token {
            header: header.clone(),
            ends: Instant::now() + lasts,
        };
        let mut proofs = self.proofs.lock();
        if proofs.tokens.len() >= MAX_TOKENS {
            proofs.tokens.clear();
        }
        proofs.tokens.insert(asked, token);
        Ok(header)
    }

    fn unauthorized(&self, why: &'static str) -> ClientError {
        ClientError::Unauthorized {
            endpoint: self.endpoint.authority(),
            why,
        }
    }
}

/// A header that logs do not show.
fn secret(value: &str) -> Option<HeaderValue> {
    let mut header = HeaderValue::try_from(value).ok()?;
    header.set_sensitive(true);
    Some(header)
}

/// `token` or `access_token`, and how long it lasts.
fn token_in(octets: &Bytes) -> Result<(HeaderValue, Duration), ClientError> {
    let malformed = || ClientError::Malformed("an answer without a token");
    let answer: Value = serde_json::from_slice(octets).map_err(|_| malformed())?;
    let said = |key: &str| answer.get(key).and_then(Value::as_str);
    let token = said("token").filter(|token| !token.is_empty());
    let token = token
        .or_else(|| said("access_token"))
        .ok_or_else(malformed)?;
    let header = secret(&format!("Bearer {token}")).ok_or_else(malformed)?;
    let lasts = answer.get("expires_in").and_then(Value::as_u64);
    let lasts = lasts.unwrap_or(TOKEN_LASTS).min(TOKEN_LASTS_AT_MOST);
    Ok((header, Duration::from_secs(lasts)))
}

/// Adds parameters to a path.
pub(super) fn with_query(path: &str, parameters: &[(&str, &str)]) -> String {
    let given = parameters.iter().map(|(name, value)| (*name, Some(value)));
    web::with_query(path, &given.collect::<Vec<_>>())
}

/// The address at which an upload continues, which the registry gives in any form that an address
/// has.
pub(super) fn location_of(response: &Response<Received>) -> Result<String, ClientError> {
    text(response, hyper::header::LOCATION).ok_or(ClientError::Malformed("no Location"))
}
