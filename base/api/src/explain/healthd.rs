//! The explanation of healthd: why a target is up or down.

use config_text::counted;
use health::{Liveness, Verdict};
use serde::{Deserialize, Serialize};

use super::{Story, Tell};
use crate::healthd::{Contact, Decision, Target};

/// The answer to `GET /explain?target=`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The targets that the question means, in the order of their names.
    pub targets: Vec<Explained>,
    /// The words of the question that mean no target which healthd knows.
    pub unknown: Vec<String>,
    /// The generation of the liveness.
    pub generation: u64,
    /// The contact with the other nodes; none without an exchange of findings.
    pub contact: Option<Contact>,
}

/// A target, with the reasons for its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// The target and its state.
    pub target: Target,
    /// The number of its probes so far.
    pub probes: u64,
    /// The subscribers that ask for it, by name.
    pub subscribers: Vec<String>,
    /// The decisions of operators about its address or its port.
    pub decisions: Vec<Decision>,
}

impl Tell for Explanation {
    fn tell(&self, story: &mut Story, depth: usize) {
        self.tell_with(story, depth, &|_| true);
    }
}

impl Explanation {
    /// As [`Tell::tell`], with one line for a target that is up and of which an operator has said nothing.
    pub fn tell_trouble(&self, story: &mut Story, depth: usize) {
        self.tell_with(story, depth, &|explained| {
            explained.target.liveness != Liveness::Up || !explained.decisions.is_empty()
        });
    }

    fn tell_with(&self, story: &mut Story, depth: usize, is_whole: &dyn Fn(&Explained) -> bool) {
        let contact = self.contact;
        let contact = contact.map_or_else(String::new, |contact| format!(", {contact}"));
        story.say(
            depth,
            format_args!("healthd has generation {}{contact}", self.generation),
        );
        for explained in &self.targets {
            explained.tell_state(story, depth + 1);
            if is_whole(explained) {
                explained.tell_reasons(story, depth + 2);
            }
        }
        for word in &self.unknown {
            story.say(
                depth + 1,
                format_args!("{word} is no target: no service asks for it"),
            );
        }
    }
}

impl Explained {
    fn tell_state(&self, story: &mut Story, depth: usize) {
        let target = &self.target;
        let since = target.since.as_ref();
        let since = since.map_or_else(String::new, |since| format!(" since {since}"));
        let reason = match target.reason.as_str() {
            "" => String::new(),
            reason => format!(": {reason}"),
        };
        let warm = match target.warm {
            true => " (from before the restart; no probe has confirmed it)",
            false => "",
        };
        story.say(
            depth,
            format_args!(
                "{} is {}{since}{reason}{warm}, generation {}",
                target.target, target.liveness, target.generation
            ),
        );
    }

    fn tell_reasons(&self, story: &mut Story, depth: usize) {
        let target = &self.target;
        if let Some(verdict) = &target.verdict {
            story.say(depth, verdict_words(verdict));
        }
        for deviation in &target.deviations {
            story.say(
                depth,
                format_args!("with {} it is {}", deviation.schedule, deviation.liveness),
            );
        }
        for decision in &self.decisions {
            let Decision {
                place,
                state,
                terms,
            } = decision;
            story.say(
                depth,
                format_args!("an operator said {state} of {place}{terms}"),
            );
        }
        let probed = match &target.last_check {
            Some(last) => format!(
                "last probe {last} took {:.1} ms",
                target.latency_seconds * 1000.0
            ),
            None => "no probe has ended yet".to_owned(),
        };
        story.say(
            depth,
            format_args!(
                "{probed}; one every {}, {} good in a row make it up, {} bad make it down; {} so far",
                target.interval,
                target.rise,
                target.fall,
                counted(self.probes, "probe"),
            ),
        );
        if !self.subscribers.is_empty() {
            story.say(
                depth,
                format_args!("watched by {}", self.subscribers.join(", ")),
            );
        }
    }
}

/// The reason for the liveness of a target: `by site: master-0 up (connected), master-1 down (…)`.
#[must_use]
pub fn verdict_words(verdict: &Verdict) -> String {
    let findings = verdict.findings.iter();
    let findings = findings.map(|finding| {
        let reason = match finding.reason.as_str() {
            "" => String::new(),
            reason => format!(" ({reason})"),
        };
        format!("{} {}{reason}", finding.node, finding.liveness)
    });
    let findings: Vec<String> = findings.collect();
    format!("by {}: {}", verdict.basis, findings.join(", "))
}
