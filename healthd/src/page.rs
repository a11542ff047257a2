//! The site's page: the knowledge of healthd and the other services of its node, for a browser.
//!
//! | path | answers |
//! | --- | --- |
//! | `/` | the page as it is now; it needs no script |
//! | `/stream` | the same content as Server-Sent Events, whenever it has changed |
//! | `/events` | the last changes, as JSON ([`api::healthd::Events`]) |
//!
//! The admin listener has these paths; `published` has them too, over TLS and with a login.
//!
//! It is made from what `/status` says, so that the two cannot disagree. It loads nothing from elsewhere, because a site may
//! be cut off from everything.

mod content;
mod fresh;
pub(crate) mod nodes;
mod plot;
pub(crate) mod published;
pub(crate) mod services;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use api::healthd::{Detail, Events};
use daemon::admin::{Reply, Routes};
use hyper::body::Bytes;
use maud::{DOCTYPE, html};
use tokio::sync::mpsc;

use crate::driver::Driver;
use crate::trail::Outcome;
use crate::view;
use nodes::{NodeAsker, Nodes};
use services::{Answers, Asker, Listeners};

/// The type of Server-Sent Events.
pub(crate) const STREAM_TYPE: &str = "text/event-stream";

/// The time between two questions to the other services.
const LOOK: Duration = Duration::from_secs(1);

/// The longest silence of a stream. A comment after that shows whether the browser is still there.
const SILENCE: Duration = Duration::from_secs(15);

/// A browser that takes nothing for this long is let go.
const PATIENCE: Duration = Duration::from_secs(10);

const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// Makes the page; clones share what was asked.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    driver: Driver,
    listeners: Arc<[String]>,
    /// The names of nodes by their addresses, as far as the file of healthd has them.
    nodes: Arc<BTreeMap<IpAddr, String>>,
    asker: Arc<Asker>,
    others: Arc<NodeAsker>,
    /// The pages that this one leads to.
    links: Links,
}

/// The pages that a page leads to: each to those that its reader reaches by the same way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Links {
    /// To those of the services of this node, at their admin listeners.
    Services,
    /// To those that the other nodes publish, which have the port of this node's.
    Nodes(u16),
    #[default]
    None,
}

/// Everything that the page shows.
#[derive(Debug, Default)]
struct Shown {
    detail: Detail,
    /// The last results of each target of `detail`, in its order.
    results: Vec<Vec<Outcome>>,
    offsets: BTreeMap<String, Vec<f64>>,
    events: Events,
    look: Option<Arc<Answers>>,
    nodes: Arc<BTreeMap<IpAddr, String>>,
    others: Option<Arc<Nodes>>,
    links: Links,
    listeners: Listeners,
}

impl Page {
    pub(crate) fn new(
        driver: Driver,
        listeners: &[String],
        nodes: BTreeMap<IpAddr, String>,
        asker: Arc<Asker>,
        others: Vec<String>,
    ) -> Self {
        Self {
            driver,
            listeners: listeners.into(),
            nodes: Arc::new(nodes),
            asker,
            others: Arc::new(NodeAsker::new(others)),
            links: Links::Services,
        }
    }

    /// The same page as it is published, on this port if that is known.
    fn published_on(self, port: Option<u16>) -> Self {
        Self {
            links: port.map_or(Links::None, Links::Nodes),
            ..self
        }
    }

    /// Asks the services of this node, and the other nodes.
    async fn ask(&self) {
        tokio::join!(self.asker.fresh(), self.others.fresh(&self.driver));
    }

    /// Adds the paths of the page to an admin listener.
    pub(crate) fn add_to(&self, routes: &Routes) {
        let page = self.clone();
        routes.get("/", move |_| {
            let page = page.clone();
            async move { page.whole().await }
        });
        let page = self.clone();
        routes.stream("/stream", STREAM_TYPE, move || page.stream());
        let page = self.clone();
        routes.get("/events", move |_| {
            let events = page.events();
            async move { events }
        });
        routes.get("/page.css", |_| async { style() });
        routes.get("/page.js", |_| async { script() });
    }

    async fn ask_after(&self, rest: Duration) {
        tokio::time::sleep(rest).await;
        self.ask().await;
    }

    /// The whole page, after the other services were asked.
    pub(crate) async fn whole(&self) -> Reply {
        self.ask().await;
        Reply::html(whole(&self.shown()))
    }

    /// The last changes.
    pub(crate) fn events(&self) -> Reply {
        Reply::json(200, &self.driver.trail(|trail| trail.events()))
    }

    /// The content of the page as events: at once, with each generation, and when something else has changed.
    pub(crate) fn stream(&self) -> mpsc::Receiver<Bytes> {
        let (events, queue) = mpsc::channel(1);
        tokio::spawn(self.clone().follow(events));
        queue
    }

    async fn follow(self, events: mpsc::Sender<Bytes>) {
        let mut generations = self.driver.generations();
        let mut sent = String::new();
        let mut silent = Duration::ZERO;
        // It continues while healthd's own knowledge changes, however often that is.
        let mut look = pin!(self.ask_after(Duration::ZERO));
        loop {
            let content = content::content(&self.shown()).into_string();
            let event = match content == sent {
                false => Some(event(&content)),
                true => (silent >= SILENCE).then(|| ":\n\n".to_owned()),
            };
            if let Some(event) = event {
                silent = Duration::ZERO;
                let sending = events.send(Bytes::from(event));
                let Ok(Ok(())) = tokio::time::timeout(PATIENCE, sending).await else {
                    return;
                };
            }
            sent = content;
            tokio::select! {
                // healthd's own knowledge does not wait for the answers of others.
                changed = generations.changed() => if changed.is_err() {
                    return;
                },
                () = look.as_mut() => {
                    silent += LOOK;
                    look.set(self.ask_after(LOOK));
                }
                () = events.closed() => return,
            }
        }
    }

    fn shown(&self) -> Shown {
        let (detail, ids) = view::detail(&self.driver, &self.listeners);
        let (results, offsets, events) = self.driver.trail(|trail| {
            let results = ids.into_iter().map(|id| trail.results(id));
            (results.collect(), trail.offsets(), trail.events())
        });
        Shown {
            detail,
            results,
            offsets,
            events,
            look: self.asker.last(),
            nodes: Arc::clone(&self.nodes),
            others: self.others.last(),
            links: self.links,
            listeners: *self.asker.listeners(),
        }
    }
}

/// The style of the page.
pub(crate) fn style() -> Reply {
    Reply::from((200, "text/css; charset=utf-8", STYLE.as_bytes().to_vec()))
}

/// The script of the page.
pub(crate) fn script() -> Reply {
    Reply::from((
        200,
        "text/javascript; charset=utf-8",
        SCRIPT.as_bytes().to_vec(),
    ))
}

/// A Server-Sent Event.
fn event(content: &str) -> String {
    let mut event = String::with_capacity(content.len() + 16);
    for line in content.lines() {
        event.push_str("data: ");
        event.push_str(line);
        event.push('\n');
    }
    event.push('\n');
    event
}

fn whole(shown: &Shown) -> String {
    let title = match &shown.detail.exchange {
        Some(exchange) => format!("The site, from {}", exchange.node),
        None => "The site".to_owned(),
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) ": " (shown.detail.serves) }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="page.css";
                script src="page.js" defer {}
                noscript { meta http-equiv="refresh" content="5"; }
            }
            body {
                header {
                    h1 { (title) }
                    span #live { "as it was when the page was loaded" }
                }
                main { (content::content(shown)) }
            }
        }
    };
    page.into_string()
}

#[cfg(test)]
mod tests;
