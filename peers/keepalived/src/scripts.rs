//! The scripts of a file, in lb-proxy's terms: a backend of one server that healthd probes, tracked or weighed by the
//! virtual IPs.
//!
//! A script whose question is unknown never makes a virtual IP claim more than keepalived would with a script that
//! fails.

use std::time::Duration;

use config::healthd::Verify;
use config::lb_proxy::{Backend, HealthCheck, Kind, Server};
use config::{Class, DurationWithin, Notes, Whole};

use super::instance::{name, seconds};
use super::question::{Question, Url, question};
use super::tree::Node;

/// A `vrrp_script`.
#[derive(Clone, Debug)]
pub(super) struct Definition<'a> {
    pub(super) weight: i16,
    /// None if it cannot be told.
    question: Option<Question>,
    command: &'a str,
    interval: Option<Duration>,
    timeout: Option<Duration>,
    rise: Option<u32>,
    fall: Option<u32>,
}

/// The meaning of a script that a virtual router tracks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It succeeds while lb-proxy runs, and changes nothing.
    Nothing,
    /// It succeeds while lb-proxy runs, and adds this.
    Added(u8),
    /// It is unknown whether it succeeds; its weight is not zero.
    Unknown(i16),
    /// The address is held only while this backend has a server that is up.
    Required(Box<Backend>),
    /// This weight counts by this backend.
    Weighed(Box<Backend>, i16),
}

impl<'a> Definition<'a> {
    pub(super) fn read(node: &'a Node) -> Self {
        let value = |keyword: &str| {
            let mut children = node.children().iter();
            let child = children.rfind(|child| child.keyword() == keyword);
            child.map_or("", |child| child.word(1))
        };
        let number = |keyword: &str| value(keyword).parse().ok();
        let command = value("script");
        Self {
            weight: value("weight").parse().unwrap_or(0),
            question: question(command),
            command,
            interval: seconds(value("interval")),
            timeout: seconds(value("timeout")),
            rise: number("rise"),
            fall: number("fall"),
        }
    }

    /// Says what becomes of the script.
    pub(super) fn note(&self, node: &Node, notes: &mut Notes) {
        for child in node.children() {
            let reason = match child.keyword() {
                "script" | "interval" | "timeout" | "rise" | "fall" => continue,
                "weight" if child.words.len() < 3 => continue,
                "weight" => "the sign of a weight is not turned round: write the other one",
                "init_fail" => {
                    "nothing is known of a server before its first probe, and it counts as up"
                }
                "user" => "no scripts are run",
                _ => "unknown here",
            };
            let what = format!("{} {}", node.text(), child.text());
            let class = match child.keyword() {
                "user" => Class::Cosmetic,
                _ => Class::Behaviour,
            };
            notes.lost(class, &child.position, &what, reason);
        }
        let what = node.text();
        match &self.question {
            None => {
                let command = self.command;
                let reason = format!(
                    "no scripts are run, and nothing here tells what `{command}` asks: have healthd probe it"
                );
                notes.lost(Class::Behaviour, &node.position, &what, reason);
            }
            Some(Question::Itself) => {
                let reason =
                    "lb-proxy is in the place of what it asks for, and succeeds while it runs";
                notes.lost(Class::Cosmetic, &node.position, &what, reason);
            }
            Some(Question::Tcp(_) | Question::Http(_)) => {
                let name = name(node.word(1));
                let how = format!("healthd asks in its place: backend `{name}`");
                notes.differs(Class::Cosmetic, &node.position, &what, how);
            }
        }
    }

    /// The meaning for a router that tracks it by its name with this weight.
    pub(super) fn meaning(&self, own_name: &str, weight: i16) -> Meaning {
        let probed = |question: &Question| Box::new(self.backend(own_name, question));
        match (&self.question, weight) {
            (Some(Question::Itself), 1..) => Meaning::Added(u8::try_from(weight).unwrap_or(253)),
            (Some(Question::Itself), _) => Meaning::Nothing,
            (Some(question), 0) => Meaning::Required(probed(question)),
            (Some(question), weight) => Meaning::Weighed(probed(question), weight),
            // Without a server it is never able to serve.
            (None, 0) => Meaning::Required(Box::new(Backend::new(name(own_name)))),
            (None, weight) => Meaning::Unknown(weight),
        }
    }

    fn backend(&self, own_name: &str, question: &Question) -> Backend {
        let count = |count: Option<u32>| count.filter(|count| *count > 0);
        let mut check = HealthCheck {
            interval: self.interval.map(DurationWithin::clamped),
            timeout: self.timeout.map(DurationWithin::clamped),
            rise: count(self.rise).map(|rise| Whole::clamped(rise.into())),
            fall: count(self.fall).map(|fall| Whole::clamped(fall.into())),
            ..HealthCheck::default()
        };
        let address = match question {
            Question::Tcp(address) => {
                check.kind = Some(Kind::Tcp);
                *address
            }
            Question::Http(Url {
                is_tls,
                address,
                path,
                is_insecure,
            }) => {
                check.kind = Some(if *is_tls { Kind::Https } else { Kind::Http });
                check.path = (path != "/").then(|| path.clone());
                check.verify = is_insecure.then_some(Verify::None);
                *address
            }
            Question::Itself => return Backend::new(name(own_name)),
        };
        Backend {
            check: Some(check),
            server: vec![Server::new("asked", address)],
            ..Backend::new(name(own_name))
        }
    }
}
