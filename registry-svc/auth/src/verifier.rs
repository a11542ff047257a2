//! Verifies passwords, which is slow by design, without letting anybody make the registry slow.
//!
//! At most half of the processors verify at a time and the queue of requests is bounded; a correct
//! password is remembered for a minute, so that the two hundred blobs of one pull cost one
//! verification. The memory holds a keyed hash of name, password and stored hash: useless outside
//! this process, and void as soon as the stored hash changes. A wrong password is not remembered,
//! and a name that does not exist takes as long as one that does.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::thread;
use std::time::{Duration, Instant};

use daemon::clock;
use parking_lot::{Mutex, MutexGuard};
use ring::hmac;
use ring::rand::SystemRandom;
use tokio::sync::Semaphore;

use super::htpasswd::Users;

/// How long who was right is remembered.
const REMEMBERED: Duration = Duration::from_mins(1);

/// How many are remembered: every node and user of a large site.
const MOST_REMEMBERED: usize = 1024;

/// How many requests wait for a processor; with a tenth of a second each, some seconds' worth.
const MOST_WAITING: usize = 64;

/// The result of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The password is the user's.
    Right,
    /// It is not, or there is no such user.
    Wrong,
    /// Too many are waiting.
    Busy,
}

type Key = [u8; 32];

/// Verifies passwords.
pub(super) struct Verifier {
    secret: hmac::Key,
    remembered: Mutex<BTreeMap<Key, Instant>>,
    /// Those who wait and those who verify.
    room: Semaphore,
    processors: Semaphore,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Verifier").finish_non_exhaustive()
    }
}

impl Verifier {
    pub(super) fn new() -> Self {
        let mut octets = [0; 32];
        // Before the kernel has randomness, no client can guess either.
        let _filled = ring::rand::SecureRandom::fill(&SystemRandom::new(), &mut octets);
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            secret: hmac::Key::new(hmac::HMAC_SHA256, &octets),
            remembered: Mutex::new(BTreeMap::new()),
            room: Semaphore::new(MOST_WAITING),
            processors: Semaphore::new((cores / 2).max(1)),
        }
    }

    /// Whether a password is the user's.
    pub(super) async fn verify(&self, users: &Users, user: &str, password: &str) -> Outcome {
        let hash = users.hash(user);
        let key = hash.as_deref().map(|hash| self.key(user, password, hash));
        if key.is_some_and(|key| self.remembers(key, clock::now())) {
            return Outcome::Right;
        }
        let Ok(_room) = self.room.try_acquire() else {
            return Outcome::Busy;
        };
        let Ok(_processor) = self.processors.acquire().await else {
            return Outcome::Busy;
        };
        // The one before may have been the same client's.
        if key.is_some_and(|key| self.remembers(key, clock::now())) {
            return Outcome::Right;
        }
        let (cost, password) = (users.cost(), password.to_owned());
        let verified = tokio::task::spawn_blocking(move || match hash {
            Some(hash) => bcrypt::verify(password, &hash).unwrap_or(false),
            None => {
                drop(bcrypt::hash(password, cost));
                false
            }
        });
        match (verified.await, key) {
            (Ok(true), Some(key)) => {
                self.remember(key, clock::now());
                Outcome::Right
            }
            _ => Outcome::Wrong,
        }
    }

    fn key(&self, user: &str, password: &str, hash: &str) -> Key {
        let mut context = hmac::Context::with_key(&self.secret);
        for part in [user, password, hash] {
            // Lengths keep the parts apart.
            context.update(&part.len().to_le_bytes());
            context.update(part.as_bytes());
        }
        let mut key = Key::default();
        for (to, from) in key.iter_mut().zip(context.sign().as_ref()) {
            *to = *from;
        }
        key
    }

    fn remembers(&self, key: Key, now: Instant) -> bool {
        self.lock().get(&key).is_some_and(|until| now < *until)
    }

    fn remember(&self, key: Key, now: Instant) {
        let mut remembered = self.lock();
        if remembered.len() >= MOST_REMEMBERED {
            remembered.retain(|_, until| now < *until);
        }
        if remembered.len() >= MOST_REMEMBERED {
            let oldest = remembered.iter().min_by_key(|(_, until)| **until);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                remembered.remove(&oldest);
            }
        }
        remembered.insert(key, now + REMEMBERED);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Instant>> {
        // Each change is a single insert or remove, so a panic elsewhere leaves it whole.
        let remembered = &self.remembered;
        remembered.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn users(password: &str) -> Users {
        let hash = bcrypt::hash(password, 4).unwrap();
        Users::parse(Path::new("users"), &format!("alice:{hash}\n")).unwrap()
    }

    fn block_on<F: Future>(future: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(future)
    }

    #[test]
    fn a_password_is_right_or_wrong_and_only_right_is_remembered() {
        block_on(async {
            let verifier = Verifier::new();
            let users = users("secret");
            let verify = |user, password| verifier.verify(&users, user, password);
            assert_eq!(verify("alice", "wrong").await, Outcome::Wrong);
            assert_eq!(verify("bob", "secret").await, Outcome::Wrong);
            assert_eq!(verify("alice", "").await, Outcome::Wrong);
            assert!(verifier.lock().is_empty());
            assert_eq!(verify("alice", "secret").await, Outcome::Right);
            assert_eq!(verifier.lock().len(), 1);
        });
    }

    #[test]
    fn what_is_remembered_takes_no_processor_and_ends_with_the_stored_hash() {
        block_on(async {
            let verifier = Verifier::new();
            let before = users("secret");
            verifier.verify(&before, "alice", "secret").await;
            // Nobody can verify any more: only what is remembered is right.
            verifier.processors.close();
            let again = verifier.verify(&before, "alice", "secret").await;
            assert_eq!(again, Outcome::Right);
            let changed = verifier.verify(&users("secret"), "alice", "secret").await;
            assert_eq!(changed, Outcome::Busy);
        });
    }

    #[test]
    fn who_would_wait_too_long_is_sent_away() {
        block_on(async {
            let verifier = Verifier::new();
            let _all = verifier.room.try_acquire_many(64).unwrap();
            let outcome = verifier.verify(&users("secret"), "alice", "secret").await;
            assert_eq!(outcome, Outcome::Busy);
        });
    }

    #[test]
    fn memory_is_bounded_and_ends() {
        let verifier = Verifier::new();
        let start = clock::now();
        let key = |n: usize| verifier.key("user", &n.to_string(), "hash");
        for n in 0..MOST_REMEMBERED + 10 {
            let later = start + Duration::from_millis(u64::try_from(n).unwrap());
            verifier.remember(key(n), later);
        }
        assert_eq!(verifier.lock().len(), MOST_REMEMBERED);
        assert!(!verifier.remembers(key(0), start), "the oldest has gone");
        assert!(verifier.remembers(key(MOST_REMEMBERED), start));
        let late = start + REMEMBERED * 2;
        assert!(!verifier.remembers(key(MOST_REMEMBERED), late));
    }
}
