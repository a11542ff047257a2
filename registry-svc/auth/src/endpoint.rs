//! The token endpoint (distribution's token authentication and its OAuth 2.0 form).
//!
//! | request | credentials |
//! | --- | --- |
//! | `GET /token?service=&scope=&scope=&offline_token=` | Basic, a client certificate, or none |
//! | `POST /token` `grant_type=password&username=&password=` | those |
//! | `POST /token` `grant_type=refresh_token&refresh_token=` | that |
//!
//! A client without any right to the requested scopes gets a token that grants nothing: the
//! registry refuses where the token is used. Only wrong credentials get 401.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use daemon::calendar::Timestamp;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use passwords::{Basic, Users};
use ring::digest::{Context, SHA256};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Value, json};

use super::form::Form;
use super::token::{Token, Use, verify};
use super::{
    Access, Identity, Peer, Policy, Tokens, Unidentified, challenge, header, scope, seconds,
};

/// The shortest life of a token that clients reckon with.
const SHORTEST: Duration = Duration::from_mins(1);

/// Why there is no token.
enum Failure {
    /// 404: there are no tokens here.
    None,
    /// 405
    Method,
    /// 400: not a request for a token.
    Request(&'static str),
    /// 401
    Credentials,
    /// 429
    Later { retry_after: Duration },
}

impl Access {
    /// Answers a request for a token; `body` is that of a `POST`.
    pub async fn token(&self, head: &Parts, peer: &Peer, body: &[u8]) -> Response<Bytes> {
        let policy = self.policy.current();
        let answered = self.answer(&policy, head, peer, body).await;
        answered.unwrap_or_else(|failure| failure.response(&policy))
    }

    async fn answer(
        &self,
        policy: &Policy,
        head: &Parts,
        peer: &Peer,
        body: &[u8],
    ) -> Result<Response<Bytes>, Failure> {
        let tokens = policy.tokens.as_ref().ok_or(Failure::None)?;
        let (form, identity) = match head.method {
            Method::GET | Method::HEAD => {
                let form = Form::parse(head.uri.query().unwrap_or_default());
                (form, self.identify(policy, head, peer).await?)
            }
            Method::POST => {
                let body = std::str::from_utf8(body);
                let form = body.map_err(|_| Failure::Request("the form is not UTF-8"))?;
                let form = Form::parse(form);
                let identity = self.identify_by_form(policy, tokens, &form, peer).await?;
                (form, identity)
            }
            _ => return Err(Failure::Method),
        };
        // An anonymous client gets a token where that grants something.
        if identity.name.is_none() && !policy.acl.lets_strangers_pull() {
            return Err(Failure::Credentials);
        }
        let value = grant(
            policy,
            tokens,
            &identity,
            &form,
            head.method == Method::POST,
        );
        Ok(response(StatusCode::OK, &value))
    }

    async fn identify_by_form(
        &self,
        policy: &Policy,
        tokens: &Tokens,
        form: &Form,
        peer: &Peer,
    ) -> Result<Identity, Failure> {
        match form.first("grant_type") {
            Some("password") => {
                let basic = Basic {
                    user: form.first("username").unwrap_or_default().to_owned(),
                    password: form.first("password").unwrap_or_default().to_owned(),
                };
                Ok(self.log_in(policy, &basic, peer).await?)
            }
            Some("refresh_token") => {
                let text = form.first("refresh_token").unwrap_or_default();
                let now = seconds();
                let token = verify(text, &policy.service, Use::Refresh, &tokens.keys, now);
                let token = token.map_err(|_| Failure::Credentials)?;
                let user = token.subject.ok_or(Failure::Credentials)?;
                // It ends with the password that was shown for it.
                match bond(policy.users.as_ref(), &user) {
                    Some(bond) if Some(&bond) == token.bound_to.as_ref() => {
                        Ok(Identity::user(user))
                    }
                    _ => Err(Failure::Credentials),
                }
            }
            Some(_) => Err(Failure::Request("unsupported_grant_type")),
            None => Err(Failure::Request("invalid_request")),
        }
    }
}

impl From<Unidentified> for Failure {
    fn from(unidentified: Unidentified) -> Self {
        match unidentified {
            Unidentified::Wrong(_) => Self::Credentials,
            Unidentified::Later { retry_after } => Self::Later { retry_after },
        }
    }
}

/// The response with a token.
fn grant(
    policy: &Policy,
    tokens: &Tokens,
    identity: &Identity,
    form: &Form,
    is_oauth: bool,
) -> Value {
    let now = seconds();
    let lifetime = tokens.lifetime.max(SHORTEST).as_secs();
    let access = scope::granted(&policy.acl, identity.who(), scope::parse(form.all("scope")));
    let granted = scope::text(&access);
    let token = Token {
        subject: identity.name.clone(),
        groups: Arc::clone(&identity.groups),
        access: access.into(),
        expires: now.saturating_add(lifetime),
        bound_to: None,
    };
    let sign = |token: &Token| tokens.signer.sign(&policy.service, token, now, &unique());
    let text = sign(&token);
    let mut value = json!({
        "access_token": text,
        "expires_in": lifetime,
        "issued_at": Timestamp(UNIX_EPOCH + Duration::from_secs(now)).to_string(),
    });
    let mut add = |key: &str, text: String| {
        if let Some(object) = value.as_object_mut() {
            object.insert(key.to_owned(), text.into());
        }
    };
    if is_oauth {
        add("scope", granted);
        add("token_type", "Bearer".to_owned());
    } else {
        add("token", text);
    }
    let is_offline =
        form.first("offline_token") == Some("true") || form.first("access_type") == Some("offline");
    let bond = identity
        .name()
        .and_then(|name| bond(policy.users.as_ref(), name));
    if is_offline && bond.is_some() {
        let refresh = Token {
            access: Arc::default(),
            expires: now.saturating_add(tokens.refresh.as_secs()),
            bound_to: bond,
            ..token
        };
        add("refresh_token", sign(&refresh));
    }
    value
}

/// The secret that a refresh token is bound to: the stored hash, which the token does not reveal.
fn bond(users: Option<&Users>, user: &str) -> Option<String> {
    let hash = users?.hash(user)?;
    let mut context = Context::new(&SHA256);
    context.update(b"refresh token\0");
    context.update(user.as_bytes());
    context.update(b"\0");
    context.update(hash.as_bytes());
    Some(URL_SAFE_NO_PAD.encode(context.finish()))
}

/// A name that nothing else has.
fn unique() -> String {
    let mut octets = [0; 16];
    // Uniqueness serves those who read logs; nothing depends on it.
    let _filled = SystemRandom::new().fill(&mut octets);
    URL_SAFE_NO_PAD.encode(octets)
}

impl Failure {
    /// In distribution's form and in that of OAuth 2.0 (RFC 6749 §5.2) at once.
    fn response(&self, policy: &Policy) -> Response<Bytes> {
        let (status, code, error) = match self {
            Self::None => (StatusCode::NOT_FOUND, "UNSUPPORTED", "invalid_request"),
            Self::Method => (
                StatusCode::METHOD_NOT_ALLOWED,
                "UNSUPPORTED",
                "invalid_request",
            ),
            Self::Request(error) => (StatusCode::BAD_REQUEST, "UNSUPPORTED", *error),
            Self::Credentials => (StatusCode::UNAUTHORIZED, "UNAUTHORIZED", "invalid_grant"),
            Self::Later { .. } => (
                StatusCode::TOO_MANY_REQUESTS,
                "TOOMANYREQUESTS",
                "temporarily_unavailable",
            ),
        };
        let message = match self {
            Self::None => "this registry has no tokens",
            Self::Method => "request a token with GET or POST",
            Self::Request(_) => "this is no request for a token",
            Self::Credentials => "name or password are wrong",
            Self::Later { .. } => {
                "too many passwords are being verified, or too many from this address were wrong"
            }
        };
        let mut response = response(
            status,
            &json!({
                "errors": [{ "code": code, "message": message }],
                "error": error,
                "error_description": message,
            }),
        );
        let headers = response.headers_mut();
        match self {
            Self::Credentials => {
                let basic = challenge::basic(&policy.service);
                headers.insert(WWW_AUTHENTICATE, header(&basic));
            }
            Self::Later { retry_after } => {
                headers.insert(RETRY_AFTER, retry_after.as_secs().max(1).into());
            }
            Self::Method => {
                headers.insert(ALLOW, header("GET, POST"));
            }
            Self::None | Self::Request(_) => {}
        }
        response
    }
}

fn response(status: StatusCode, value: &Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(value.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, header("application/json"));
    // No proxy on the way keeps it.
    headers.insert(CACHE_CONTROL, header("no-store"));
    response
}
