//! How many bodies are received at once, of all clients and of each.
//!
//! A client is a user, or an address from which no user comes: two users behind one address are two clients.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::error::{Code, Refused};

use super::limits::{Limits, UPLOADS_RETRY};

/// The bodies that are being received.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    shared: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    all: usize,
    of_client: HashMap<Client, usize>,
}

/// One of them; it is received no more when this is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    shared: Arc<Mutex<State>>,
    client: Client,
}

/// The one whose share an upload takes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Client {
    /// A user.
    User(String),
    /// An address without a user.
    Address(IpAddr),
}

impl Client {
    /// A user if there is a name, else an address.
    pub(super) fn of(user: Option<&str>, address: IpAddr) -> Self {
        match user {
            Some(user) => Self::User(user.to_owned()),
            None => Self::Address(address.to_canonical()),
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(formatter, "user {name}"),
            Self::Address(address) => write!(formatter, "address {address}"),
        }
    }
}

impl Uploads {
    /// Room for one more body of `client`.
    pub(super) fn admit(&self, client: Client, limits: &Limits) -> Result<Permit, Refused> {
        let mut state = lock(&self.shared);
        let of_client = state.of_client.get(&client).copied().unwrap_or(0);
        if state.all >= limits.uploads || of_client >= limits.uploads_per_client {
            return Err(
                Refused::with(Code::TooManyRequests, "too many uploads at once")
                    .after(UPLOADS_RETRY)
                    .closing(),
            );
        }
        state.all += 1;
        state.of_client.insert(client.clone(), of_client + 1);
        Ok(Permit {
            shared: Arc::clone(&self.shared),
            client,
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = lock(&self.shared);
        state.all = state.all.saturating_sub(1);
        let left = state.of_client.get(&self.client).copied().unwrap_or(0);
        match left {
            0 | 1 => drop(state.of_client.remove(&self.client)),
            left => drop(state.of_client.insert(self.client.clone(), left - 1)),
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Two counters that are changed together, without anything that could panic in between.
    state.lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_all_nor_one_client_have_more_than_their_share() {
        let limits = Limits {
            uploads: 3,
            uploads_per_client: 2,
            ..Limits::default()
        };
        let uploads = Uploads::default();
        let address = |ip: &str| Client::of(None, ip.parse().unwrap());
        let (first, second) = (address("192.0.2.1"), address("192.0.2.2"));
        let one = uploads.admit(first.clone(), &limits).unwrap();
        let mapped = address("::ffff:192.0.2.1");
        let two = uploads.admit(mapped, &limits).unwrap();
        let refused = uploads.admit(first, &limits).unwrap_err();
        assert_eq!((refused.status, refused.closes), (429, true));
        assert!(refused.retry_after.is_some());
        let three = uploads.admit(second.clone(), &limits).unwrap();
        assert!(uploads.admit(second.clone(), &limits).is_err());
        drop(one);
        let four = uploads.admit(second, &limits).unwrap();
        drop((two, three, four));
        // Two users behind one address.
        let user = |name| Client::of(Some(name), "192.0.2.1".parse().unwrap());
        let permits = [(); 2].map(|()| uploads.admit(user("alice"), &limits).unwrap());
        assert!(uploads.admit(user("alice"), &limits).is_err());
        drop(uploads.admit(user("bob"), &limits).unwrap());
        drop(permits);
        let state = lock(&uploads.shared);
        assert_eq!((state.all, state.of_client.len()), (0, 0));
    }
}
