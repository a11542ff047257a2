//! The login of the published page.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use daemon::latest::Latest;
use hyper::header::HeaderValue;
use passwords::{Basic, Outcome, Users, Verifier};

/// The rule for clients without a certificate.
#[derive(Debug)]
pub(super) enum Login {
    /// Every client may look.
    Open,
    /// TLS lets in only clients with a certificate.
    Certificate,
    /// A client gives its name and password.
    Users {
        /// The users of the file.
        users: Arc<Latest<Users>>,
        /// Verifies passwords.
        verifier: Box<Verifier>,
    },
}

/// Why a client may not look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It has shown nothing.
    Anonymous,
    /// Its name or password is wrong.
    Wrong,
    /// Its password was not verified; it may try again after this time.
    Later(Duration),
}

impl Login {
    pub(super) fn new(users: Option<Users>, open: bool) -> Self {
        match users {
            _ if open => Self::Open,
            Some(users) => Self::Users {
                users: Latest::new(users),
                verifier: Box::new(Verifier::new()),
            },
            None => Self::Certificate,
        }
    }

    /// Lets a client look, or says why not. `certified` says that TLS has verified its certificate.
    pub(super) async fn admit(
        &self,
        authorization: Option<&HeaderValue>,
        source: IpAddr,
        certified: bool,
    ) -> Result<(), Refusal> {
        let (users, verifier) = match self {
            Self::Open => return Ok(()),
            _ if certified => return Ok(()),
            Self::Certificate => return Err(Refusal::Anonymous),
            Self::Users { users, verifier } => (users.current(), verifier),
        };
        let value = authorization.ok_or(Refusal::Anonymous)?;
        let basic = value.to_str().ok().and_then(Basic::read);
        let Basic { user, password } = basic.ok_or(Refusal::Wrong)?;
        match verifier.verify(&users, &user, &password, source).await {
            Outcome::Right => Ok(()),
            Outcome::Wrong => Err(Refusal::Wrong),
            Outcome::Later { retry_after } => Err(Refusal::Later(retry_after)),
        }
    }
}
