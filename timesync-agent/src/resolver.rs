//! Looks names up in a thread of its own: a lookup may take any time, and timekeeping continues.

use std::collections::BTreeSet;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

use crate::system::timer::Waker;

/// Names that wait. The resolver looks up each once at a time, and a configuration has no more of them.
const QUEUE: usize = 256;
/// Addresses of one name that count: four times the largest pool.
const ADDRESSES: usize = 64;

/// The handle of the resolver. The thread starts with the first name, or earlier if the caller must not start one.
#[derive(Debug)]
pub struct Resolver {
    waker: Arc<Waker>,
    thread: Option<SyncSender<String>>,
    answers: Receiver<Answer>,
    answer: SyncSender<Answer>,
    asked: BTreeSet<String>,
}

/// A name and what it stands for.
type Answer = (String, Vec<IpAddr>);

impl Resolver {
    /// Wakes the one who asks when there is an answer.
    #[must_use]
    pub fn new(waker: Arc<Waker>) -> Self {
        let (answer, answers) = mpsc::sync_channel(QUEUE);
        Self {
            waker,
            thread: None,
            answers,
            answer,
            asked: BTreeSet::new(),
        }
    }

    /// Looks a name up. There will be an answer, if only that nothing was found.
    pub fn ask(&mut self, name: String) {
        if !self.asked.insert(name.clone()) {
            return;
        }
        self.start();
        let queue = self.thread.as_ref();
        if queue.is_none_or(|queue| queue.try_send(name.clone()).is_err()) {
            drop(self.answer.try_send((name, Vec::new())));
            self.waker.wake();
        }
    }

    /// Makes the thread, if there is none.
    pub fn start(&mut self) {
        if self.thread.is_some() {
            return;
        }
        let (queue, names) = mpsc::sync_channel::<String>(QUEUE);
        let (answer, waker) = (self.answer.clone(), Arc::clone(&self.waker));
        let resolve = move || {
            while let Ok(name) = names.recv() {
                let addresses = look_up(&name);
                if answer.send((name, addresses)).is_err() {
                    return;
                }
                waker.wake();
            }
        };
        let started = thread::Builder::new()
            .name("resolver".to_owned())
            .spawn(resolve);
        match started {
            // It ends with the queue.
            Ok(_) => self.thread = Some(queue),
            Err(error) => tracing::error!(%error, "Cannot start a thread for names"),
        }
    }

    /// An answer, if there is one.
    pub fn answer(&mut self) -> Option<Answer> {
        let answer = self.answers.try_recv().ok()?;
        self.asked.remove(&answer.0);
        Some(answer)
    }
}

fn look_up(name: &str) -> Vec<IpAddr> {
    match (name, 0).to_socket_addrs() {
        Ok(addresses) => {
            let mut found: Vec<IpAddr> = Vec::new();
            for address in addresses.map(|address| address.ip()) {
                if !found.contains(&address) && found.len() < ADDRESSES {
                    found.push(address);
                }
            }
            found
        }
        Err(error) => {
            tracing::debug!(name, %error, "A name is not resolved");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn ask(resolver: &mut Resolver, name: &str) -> Vec<IpAddr> {
        resolver.ask(name.to_owned());
        resolver.ask(name.to_owned());
        let (answered, addresses) = (0..2000)
            .find_map(|_| {
                thread::sleep(Duration::from_millis(5));
                resolver.answer()
            })
            .expect("an answer");
        assert_eq!(answered, name);
        addresses
    }

    #[test]
    fn names_are_looked_up_and_unknown_ones_have_no_address() {
        let mut resolver = Resolver::new(Arc::new(Waker::new().unwrap()));
        let found = ask(&mut resolver, "localhost");
        assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback));
        assert_eq!(ask(&mut resolver, "no name at all"), Vec::<IpAddr>::new());
        assert!(resolver.answer().is_none(), "one answer for one name");
    }
}
