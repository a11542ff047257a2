//! The answers of `GET /explain`, and of `outpost explain`, which puts those of a node together.
//!
//! An explanation is a value for programs; [`Tell`] is its form for people: short sentences from top to
//! bottom, what belongs to a line indented below it.

pub mod dns_authd;
pub mod dns_recursor;
pub mod healthd;
pub mod lb_proxy;
pub mod node;

use std::fmt::Display;
use std::time::Duration;

use config_toml::HumanDuration;

/// Lines for people, indented.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Story {
    text: String,
}

impl Story {
    /// Appends a line.
    pub fn say(&mut self, depth: usize, line: impl Display) {
        for _ in 0..depth {
            self.text.push_str("  ");
        }
        self.text.push_str(line.to_string().trim_end());
        self.text.push('\n');
    }
}

/// A value with words for people.
pub trait Tell {
    /// Appends the lines of this value.
    fn tell(&self, story: &mut Story, depth: usize);

    /// The lines of this value alone.
    fn told(&self) -> String {
        let mut story = Story::default();
        self.tell(&mut story, 0);
        story.text
    }
}

/// Seconds as people read them.
fn span(seconds: u64) -> HumanDuration {
    HumanDuration(Duration::from_secs(seconds))
}
