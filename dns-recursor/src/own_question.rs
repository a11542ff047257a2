//! Questions of the server itself to its resolver: they bypass the cache and the access list.

use dns_cache::answer::{Asker, Transport};
use dns_cache::key::Variant;
use dns_wire::{Class, Flags, Name, Type};
use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::driver::{Job, ReturnTo, Waiter};
use crate::totals::Arrival;

/// A question of the server itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) name: &'a Name,
    pub(crate) rtype: Type,
    /// DO and CD.
    pub(crate) variant: Variant,
    /// The longest answer, in octets.
    pub(crate) limit: usize,
}

impl Asked<'_> {
    /// Makes the resolver find the answer; an upstream gets a query for it.
    ///
    /// # Errors
    /// When the resolver has ended, or drops the question.
    pub(crate) async fn ask(
        &self,
        jobs: &mpsc::Sender<Job>,
        clock: Clock,
    ) -> Result<Vec<u8>, String> {
        let mut question = self.name.as_wire().to_vec();
        question.extend_from_slice(&self.rtype.0.to_be_bytes());
        question.extend_from_slice(&Class::IN.0.to_be_bytes());
        let (answers, mut answer) = mpsc::channel(1);
        let asker = Asker {
            id: 0,
            flags: Flags::default().with(Flags::RD),
            question: &question,
            edns: None,
            limit: self.limit,
            cookie: None,
        };
        let arrival = Arrival {
            transport: Transport::Tcp,
            ipv6: false,
        };
        let waiter = Waiter::new(&asker, arrival, clock.now(), ReturnTo::Stream(answers));
        let job = Job {
            question: question.as_slice().into(),
            asked: None,
            variant: self.variant,
            has_stale: false,
            waiter: Some(waiter),
        };
        let sent = jobs.send(job).await;
        sent.map_err(|_| "the resolver has ended".to_owned())?;
        let reply = answer.recv().await;
        reply.ok_or_else(|| format!("{}: the resolver drops the question", self.name))
    }
}
