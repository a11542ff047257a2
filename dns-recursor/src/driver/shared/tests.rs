use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use ::config::dns_recursor::DnsRecursor;
use daemon::config::Document;
use daemon::latest::Latest;
use daemon::run::Context;
use dns_cache::answer::{Asker, Transport};
use dns_cache::cache::{Cache, CacheOptions};
use dns_cache::key::{Seed, Variant};
use dns_cache::testing::{question, rcode};
use dns_names::Names;
use dns_wire::{Flags, Rcode, Type};
use query_watch::Watch;

use super::*;
use crate::config::{Config, Learned};
use crate::driver::{Handle, Resources, ReturnTo, Waiter};
use crate::routing::plan;
use crate::totals::{Arrival, Totals};

/// No answer takes longer than this, unless something is wrong.
const LONG: Duration = Duration::from_secs(20);

/// A resolver with this configuration.
fn start(rest: &str) -> Handle {
    let text = format!("version = \"v1\"\nlisten = [\"127.0.0.1:0\"]\n{rest}");
    let config = Config::from_document(&Document::inline("test", text)).unwrap();
    let table = Arc::new(config.table());
    let settings = DnsRecursor::default();
    let clock = Clock::start();
    let cache = CacheOptions::of(&settings.cache, &settings.stale);
    let resources = Resources {
        cache: Arc::new(Cache::new(&cache, Seed(1))),
        clock,
        names: Latest::new(Names::default()),
        totals: Totals::default(),
        watch: Watch::start(&settings, move || clock.now().as_millis() / 1000).unwrap(),
        readiness: Context::detached("dns-recursor").readiness,
    };
    let plan = plan(&config, &Learned::default(), &table, &[]);
    Handle::start(resources, &plan).unwrap()
}

/// A question, and the way of its answer.
fn job(name: &str) -> (Job, mpsc::Receiver<Vec<u8>>) {
    let question = question(name, Type::A);
    let (answers, answer) = mpsc::channel(1);
    let asker = Asker {
        id: 7,
        flags: Flags::default().with(Flags::RD),
        question: &question,
        edns: None,
        limit: 4096,
        cookie: None,
    };
    let arrival = Arrival {
        transport: Transport::Tcp,
        ipv6: false,
    };
    let now = Clock::start().now();
    let waiter = Waiter::new(&asker, arrival, now, ReturnTo::Stream(answers));
    let job = Job {
        question: question.as_slice().into(),
        asked: None,
        variant: Variant::new(false, false),
        has_stale: false,
        waiter: Some(waiter),
    };
    (job, answer)
}

#[tokio::test]
async fn a_question_is_dealt_with_on_the_thread_that_has_it_unless_another_is_at_it() {
    let handle = start("");
    let questions = handle.questions();
    // There is no route, so there is nothing to wait for. The threads of the resolver may be at it when they begin.
    loop {
        let (job, mut answer) = job("a.test");
        assert!(questions.ask(job));
        if let Ok(answer) = answer.try_recv() {
            assert_eq!(rcode(&answer), Rcode::SERVFAIL);
            break;
        }
    }
    let busy = questions.shared.state.lock();
    let (job, mut answer) = job("b.test");
    assert!(questions.ask(job));
    assert!(answer.try_recv().is_err());
    drop(busy);
    let answer = tokio::time::timeout(LONG, answer.recv()).await;
    assert_eq!(rcode(&answer.unwrap().unwrap()), Rcode::SERVFAIL);
}

#[tokio::test]
async fn a_question_from_another_thread_sets_the_timers() {
    // Takes the query, and never answers.
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = silent.local_addr().unwrap();
    let handle = start(&format!(
        "[[forward]]\nzone = \"silent.test\"\nupstreams = [\"{address}\"]\n"
    ));
    let (job, mut answer) = job("www.silent.test");
    assert!(handle.questions().ask(job));
    let answer = tokio::time::timeout(LONG, answer.recv()).await;
    assert_eq!(rcode(&answer.unwrap().unwrap()), Rcode::SERVFAIL);
}

#[test]
fn a_resolver_that_has_ended_takes_no_question() {
    let handle = start("");
    let questions = handle.questions();
    drop(handle);
    let (job, mut answer) = job("a.test");
    assert!(!questions.ask(job));
    assert!(answer.try_recv().is_err());
}
