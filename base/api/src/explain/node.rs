//! The explanation that `outpost explain` puts together from those of a node's services.

use serde::{Deserialize, Serialize};

use super::{Story, Tell, dns_authd, dns_recursor, healthd, lb_proxy};

/// The output of `outpost explain --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The node whose services answered.
    pub node: String,
    /// The name or the address in question.
    pub about: String,
    /// The type of the records, for a name.
    #[serde(rename = "type")]
    pub rtype: Option<String>,
    /// The client that asks.
    pub client: Option<String>,
    /// The part of dns-recursor.
    pub dns_recursor: Part<dns_recursor::Explanation>,
    /// The part of dns-authd.
    pub dns_authd: Part<dns_authd::Explanation>,
    /// The part of healthd.
    pub healthd: Part<healthd::Explanation>,
    /// The part of lb-proxy.
    pub lb_proxy: Part<lb_proxy::Explanation>,
}

/// The part of one service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part<T> {
    /// Its answer.
    Answer(T),
    /// It has no part in this, for this reason.
    None(String),
    /// It could not be asked, for this reason.
    Unreachable(String),
}

impl<T> Part<T> {
    /// The answer, if there is one.
    pub const fn answer(&self) -> Option<&T> {
        match self {
            Self::Answer(answer) => Some(answer),
            Self::None(_) | Self::Unreachable(_) => None,
        }
    }

    /// Whether the service could not be asked.
    pub const fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable(_))
    }
}

impl Explanation {
    /// Whether every service that has a part was asked.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        !(self.dns_recursor.is_unreachable()
            || self.dns_authd.is_unreachable()
            || self.healthd.is_unreachable()
            || self.lb_proxy.is_unreachable())
    }
}

impl Tell for Explanation {
    fn tell(&self, story: &mut Story, depth: usize) {
        let rtype = self.rtype.as_ref();
        let rtype = rtype.map_or_else(String::new, |rtype| format!(" {rtype}"));
        let client = self.client.as_ref();
        let client = client.map_or_else(String::new, |client| format!(" for {client}"));
        let (about, node) = (&self.about, &self.node);
        story.say(
            depth,
            format_args!("{about}{rtype}{client}, as {node} has it"),
        );
        part(&self.dns_recursor, "dns-recursor", story, depth);
        part(&self.dns_authd, "dns-authd", story, depth);
        match &self.healthd {
            Part::Answer(answer) => answer.tell_trouble(story, depth),
            other => part(other, "healthd", story, depth),
        }
        part(&self.lb_proxy, "lb-proxy", story, depth);
    }
}

fn part<T: Tell>(part: &Part<T>, service: &str, story: &mut Story, depth: usize) {
    match part {
        Part::Answer(answer) => answer.tell(story, depth),
        Part::None(why) => story.say(depth, format_args!("{service} has no part in it: {why}")),
        Part::Unreachable(error) => {
            story.say(
                depth,
                format_args!("! {service} could NOT be asked: {error}"),
            );
        }
    }
}
