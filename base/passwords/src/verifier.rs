//! Verifies passwords, which is slow by design, without letting any client make the service slow.
//!
//! At most half of the processors verify at a time and the queue of requests is bounded; a correct
//! password is remembered for a minute, so that the two hundred blobs of one pull cost one
//! verification. The memory holds a keyed hash of name, password and stored hash: useless outside
//! this process, and void as soon as the stored hash changes. A wrong password is not remembered,
//! and a name that does not exist takes as long as one that does.
//!
//! Wrong passwords are limited by their source ([`Guesses`]). A password that was right before is never held up by them,
//! nor is one from another source.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::thread;
use std::time::{Duration, Instant};

use daemon::clock;
use parking_lot::{Mutex, MutexGuard};
use ring::hmac;
use ring::rand::SystemRandom;
use tokio::sync::Semaphore;

use crate::guesses::Guesses;
use crate::htpasswd::Users;

/// How long a password that was right is not verified again.
const REMEMBERED: Duration = Duration::from_mins(1);

/// How many are remembered: every node and user of a large site. Beyond the minute they only say that the password is no
/// guess.
const MOST_REMEMBERED: usize = 1024;

/// The wait of a client when all verifiers are busy: a password takes less than a second, and those who wait go first.
const BUSY: Duration = Duration::from_secs(2);

/// How many requests wait for a processor; with a tenth of a second each, some seconds' worth.
const MOST_WAITING: usize = 64;

/// The result of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The password is the user's.
    Right,
    /// It is not, or there is no such user.
    Wrong,
    /// It was not verified: too many are waiting, or too many of this source were wrong.
    Later {
        /// The time after which the client may try again.
        retry_after: Duration,
    },
}

type Key = [u8; 32];

/// Verifies passwords.
pub struct Verifier {
    secret: hmac::Key,
    /// The passwords that were right, and when they were verified.
    remembered: Mutex<BTreeMap<Key, Instant>>,
    guesses: Mutex<Guesses>,
    /// Those who wait and those who verify.
    room: Semaphore,
    processors: Semaphore,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Verifier").finish_non_exhaustive()
    }
}

impl Default for Verifier {
    fn default() -> Self {
        Self::new()
    }
}

impl Verifier {
    /// A verifier that has seen no password yet.
    #[must_use]
    pub fn new() -> Self {
        let mut octets = [0; 32];
        // Before the kernel has randomness, no client can guess either.
        let _filled = ring::rand::SecureRandom::fill(&SystemRandom::new(), &mut octets);
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            secret: hmac::Key::new(hmac::HMAC_SHA256, &octets),
            remembered: Mutex::new(BTreeMap::new()),
            guesses: Mutex::default(),
            room: Semaphore::new(MOST_WAITING),
            processors: Semaphore::new((cores / 2).max(1)),
        }
    }

    /// Says whether a password is the user's, for a client at the address `source`.
    pub async fn verify(
        &self,
        users: &Users,
        user: &str,
        password: &str,
        source: IpAddr,
    ) -> Outcome {
        let hash = users.hash(user);
        let key = hash.as_deref().map(|hash| self.key(user, password, hash));
        match key.and_then(|key| self.verified(key)) {
            Some(at) if is_fresh(at, clock::now()) => return Outcome::Right,
            // It was right before: no guess.
            Some(_) => return self.compare(users, user, password, key).await,
            None => {}
        }
        let begun = self.guesses.lock().begin(source, clock::now());
        match begun {
            Ok(wait) if wait.is_zero() => {}
            Ok(wait) => tokio::time::sleep(wait).await,
            Err(retry_after) => return Outcome::Later { retry_after },
        }
        let outcome = self.compare(users, user, password, key).await;
        if outcome != Outcome::Wrong {
            self.guesses.lock().forgive(source, clock::now());
        }
        outcome
    }

    /// Compares a password with the stored hash.
    async fn compare(
        &self,
        users: &Users,
        user: &str,
        password: &str,
        key: Option<Key>,
    ) -> Outcome {
        let busy = Outcome::Later { retry_after: BUSY };
        let Ok(_room) = self.room.try_acquire() else {
            return busy;
        };
        let Ok(_processor) = self.processors.acquire().await else {
            return busy;
        };
        // The one before may have been the same client's.
        let at = key.and_then(|key| self.verified(key));
        if at.is_some_and(|at| is_fresh(at, clock::now())) {
            return Outcome::Right;
        }
        let hash = users.hash(user);
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

    /// When this password was last verified; none for one that has not been right yet.
    fn verified(&self, key: Key) -> Option<Instant> {
        self.lock().get(&key).copied()
    }

    fn remember(&self, key: Key, now: Instant) {
        let mut remembered = self.lock();
        if remembered.len() >= MOST_REMEMBERED && !remembered.contains_key(&key) {
            let oldest = remembered.iter().min_by_key(|(_, at)| **at);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                remembered.remove(&oldest);
            }
        }
        remembered.insert(key, now);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Instant>> {
        // Each change is a single insert or remove, so a panic elsewhere leaves it whole.
        let remembered = &self.remembered;
        remembered.lock()
    }
}

/// Whether a password that was verified at `at` counts without being verified again.
fn is_fresh(at: Instant, now: Instant) -> bool {
    now.saturating_duration_since(at) < REMEMBERED
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::guesses::FREE;

    const SOURCE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn users(password: &str) -> Users {
        let hash = bcrypt::hash(password, 4).unwrap();
        Users::parse(Path::new("users"), &format!("alice:{hash}\n")).unwrap()
    }

    fn block_on<F: Future>(future: F) -> F::Output {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build();
        runtime.unwrap().block_on(future)
    }

    const BUSY_NOW: Outcome = Outcome::Later { retry_after: BUSY };

    #[test]
    fn a_password_is_right_or_wrong_and_only_right_is_remembered() {
        block_on(async {
            let verifier = Verifier::new();
            let users = users("secret");
            let verify = |user, password| verifier.verify(&users, user, password, SOURCE);
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
            let verify = |users| verifier.verify(users, "alice", "secret", SOURCE);
            assert_eq!(verify(&before).await, Outcome::Right);
            // No password can be verified any more: only what is remembered is right.
            verifier.processors.close();
            assert_eq!(verify(&before).await, Outcome::Right);
            assert_eq!(verify(&users("secret")).await, BUSY_NOW);
        });
    }

    #[test]
    fn a_client_that_would_wait_too_long_is_sent_away() {
        block_on(async {
            let verifier = Verifier::new();
            let _all = verifier.room.try_acquire_many(64).unwrap();
            let users = users("secret");
            let outcome = verifier.verify(&users, "alice", "secret", SOURCE).await;
            assert_eq!(outcome, BUSY_NOW);
        });
    }

    #[test]
    fn wrong_passwords_hold_up_their_source_and_no_right_one() {
        block_on(async {
            let verifier = Verifier::new();
            let users = users("secret");
            let other = IpAddr::from([192, 0, 2, 2]);
            let verify = |password, source| verifier.verify(&users, "alice", password, source);
            for _ in 0..FREE {
                assert_eq!(verify("wrong", SOURCE).await, Outcome::Wrong);
            }
            let all_at_once = async {
                let mut guesses = tokio::task::JoinSet::new();
                let waiting = std::sync::Arc::new((Verifier::new(), users.clone()));
                for _ in 0..200 {
                    let of = std::sync::Arc::clone(&waiting);
                    guesses.spawn(async move { of.0.verify(&of.1, "alice", "no", SOURCE).await });
                }
                guesses.join_all().await
            };
            let outcomes = all_at_once.await;
            let verified = outcomes.iter().filter(|one| **one == Outcome::Wrong);
            // Ten at once and four that waited; a machine that stalls meanwhile lets a few more in.
            let verified = verified.count();
            assert!((14..40).contains(&verified), "{verified}");
            // From elsewhere there is no wait; and once it was right, there is none here either.
            let begun = tokio::time::Instant::now();
            assert_eq!(verify("secret", other).await, Outcome::Right);
            assert_eq!(verify("secret", SOURCE).await, Outcome::Right);
            verifier
                .lock()
                .values_mut()
                .for_each(|at| *at -= REMEMBERED);
            assert_eq!(verify("secret", SOURCE).await, Outcome::Right);
            assert_eq!(begun.elapsed(), Duration::ZERO);
        });
    }

    #[test]
    fn a_right_password_after_many_wrong_ones_waits_and_is_taken() {
        block_on(async {
            let verifier = Verifier::new();
            let users = users("secret");
            for _ in 0..FREE {
                verifier.verify(&users, "alice", "wrong", SOURCE).await;
            }
            let begun = tokio::time::Instant::now();
            let outcome = verifier.verify(&users, "alice", "secret", SOURCE).await;
            assert_eq!(outcome, Outcome::Right);
            assert!(begun.elapsed() <= Duration::from_secs(2));
            assert!(!begun.elapsed().is_zero());
        });
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_goes_first() {
        let verifier = Verifier::new();
        let start = clock::now();
        let key = |n: usize| verifier.key("user", &n.to_string(), "hash");
        for n in 0..MOST_REMEMBERED + 10 {
            let later = start + Duration::from_millis(u64::try_from(n).unwrap());
            verifier.remember(key(n), later);
        }
        assert_eq!(verifier.lock().len(), MOST_REMEMBERED);
        assert_eq!(verifier.verified(key(0)), None, "the oldest has gone");
        let last = verifier.verified(key(MOST_REMEMBERED)).unwrap();
        assert!(is_fresh(last, start));
        assert!(!is_fresh(last, start + REMEMBERED * 2));
    }
}
