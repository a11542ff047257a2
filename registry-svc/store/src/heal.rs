//! Healing: brings content that is damaged or missing from another node, with growing waits.
//!
//! A file that must not be served is hashed first, for a disk may have read it wrong once; one that is
//! damaged goes to the quarantine. Content from another node is hashed before it gets its name. Without
//! another node the content waits for a client that pushes it again.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use daemon::clock;
use oci::digest::Digest;
use registry_life_cycle::{Claim, Duty, Event, File, State, step};
use tokio::task::JoinSet;

use crate::others::Others;
use crate::store::damage::Verdict;
use crate::store::{Store, StoreError};

/// Blobs that are healed at a time: the links between nodes have other work.
const AT_ONCE: usize = 4;

/// Heals what is damaged, for as long as it is polled.
pub async fn run(store: Store, others: Option<Arc<dyn Others>>) {
    loop {
        round(&store, others.as_ref(), clock::now()).await;
        match store.next_due() {
            None => store.damage_added().await,
            Some(due) => {
                let due = tokio::time::Instant::from_std(due);
                // Whichever is first.
                drop(tokio::time::timeout_at(due, store.damage_added()).await);
            }
        }
    }
}

/// Attempts once to heal everything that is due at `now`.
pub async fn round(store: &Store, others: Option<&Arc<dyn Others>>, now: Instant) {
    loop {
        let mut attempts = JoinSet::new();
        for digest in store.due(now, AT_ONCE) {
            attempts.spawn(attempt(store.clone(), others.cloned(), digest, now));
        }
        if attempts.is_empty() {
            return;
        }
        // Those that failed are due later.
        attempts.join_all().await;
    }
}

async fn attempt(store: Store, others: Option<Arc<dyn Others>>, digest: Digest, now: Instant) {
    let failure: Box<dyn fmt::Display + Send> = match heal(&store, others.as_deref(), &digest).await
    {
        Ok(true) => return,
        Ok(false) if others.is_none() => Box::new("there is no other node"),
        Ok(false) => Box::new("no other node has it whole"),
        Err(error) => Box::new(error),
    };
    if store.put_off(&digest, now.max(clock::now())) == 1 {
        tracing::error!(%digest, reason = %failure, "A damaged blob is not healed yet");
    } else {
        tracing::debug!(%digest, reason = %failure, "A damaged blob is not healed yet");
    }
}

/// Makes one attempt; true when the content waits no longer.
async fn heal(
    store: &Store,
    others: Option<&dyn Others>,
    digest: &Digest,
) -> Result<bool, StoreError> {
    let judged = step(State::of(File::Refused, Claim::None), Event::Due);
    if store.refused_file(digest).is_some() && judged.asks_for(Duty::Judge) {
        let mut check = store.check(digest);
        let verdict = check
            .wait_for(Option::is_some)
            .await
            .map(|verdict| *verdict);
        // The check may have seen that another file has taken the place.
        if matches!(verdict, Ok(Some(Verdict::Whole))) {
            return Ok(true);
        }
        // A file that cannot be read stays: another attempt may read it, and perhaps no other node has
        // the content.
        if let Some((reason, file)) = store.refused_file(digest) {
            let found = step(State::of(File::Refused, Claim::None), reason.event());
            if found.asks_for(Duty::PutAway) {
                store.quarantine(digest, Some(file)).await?;
            }
        }
    }
    let claim = match store.is_named(digest)? {
        true => Claim::Linked,
        false => Claim::None,
    };
    let is_here = claim == Claim::Linked && store.held(digest).await?.is_some();
    let file = match is_here {
        true => File::InPlace,
        false => File::None,
    };
    let due = step(State::of(file, claim), Event::Due);
    if due.asks_for(Duty::Settle) {
        store.settle(digest, is_here);
        return Ok(true);
    }
    let is_fetched = match others {
        Some(others) if due.asks_for(Duty::Fetch) => others.fetch(digest).await,
        _ => false,
    };
    Ok(is_fetched && !store.is_waiting(digest))
}
