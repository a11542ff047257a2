//! One connection: its lines, its level, and the frame of its answers.
//!
//! Without `prompt`, one line is answered, and the connection ends. With it, each line is, behind a `> `.

use std::collections::VecDeque;
use std::time::Duration;

use config::lb_proxy::StatsLevel as Level;

use crate::commands::{self, Command, Parsed};
use crate::line;

/// The longest line, in octets: HAProxy's buffer. A longer one ends the connection.
pub const LONGEST_LINE: usize = 16 << 10;

/// One connection to a stats socket.
#[derive(Debug)]
pub struct Conversation {
    level: Level,
    timeout: Duration,
    has_prompt: bool,
    has_had_line: bool,
    is_over: bool,
    input: Vec<u8>,
    commands: VecDeque<Vec<String>>,
}

/// The next step of a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Read more octets.
    Read,
    /// Run a command, and write its answer [framed](Conversation::framed).
    Run(Command),
    /// Write this.
    Write(String),
    /// Write this: there is no such command, or the level does not allow it.
    Refuse(String),
    /// Close the connection.
    End,
}

impl Conversation {
    /// A connection with these rights, whose client may be silent for this long.
    #[must_use]
    pub const fn new(level: Level, timeout: Duration) -> Self {
        Self {
            level,
            timeout,
            has_prompt: false,
            has_had_line: false,
            is_over: false,
            input: Vec::new(),
            commands: VecDeque::new(),
        }
    }

    /// How long the client may be silent; `set timeout cli` changes it.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The connection's level; `operator` and `user` lower it.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.level
    }

    /// Takes octets of the client, after [`Step::Read`].
    pub fn receive(&mut self, octets: &[u8]) {
        self.input.extend_from_slice(octets);
    }

    /// The next step, until it is [`Step::Read`] or [`Step::End`].
    pub fn step(&mut self) -> Step {
        loop {
            if let Some(words) = self.commands.pop_front() {
                return self.command(words);
            }
            if self.is_over || (self.has_had_line && !self.has_prompt) {
                return Step::End;
            }
            let Some(end) = self.input.iter().position(|octet| *octet == b'\n') else {
                return match self.input.len() >= LONGEST_LINE {
                    true => Step::End,
                    false => Step::Read,
                };
            };
            if end >= LONGEST_LINE {
                return Step::End;
            }
            let line: Vec<u8> = self.input.drain(..=end).collect();
            self.has_had_line = true;
            self.commands = line::commands(&String::from_utf8_lossy(&line)).into();
        }
    }

    /// An answer as it is written.
    #[must_use]
    pub fn framed(&self, answer: &str) -> String {
        match self.has_prompt {
            true => format!("{answer}\n> "),
            false => format!("{answer}\n"),
        }
    }

    fn command(&mut self, words: Vec<String>) -> Step {
        let text = match commands::parse(words, self.level) {
            Parsed::Command(command) => return Step::Run(command),
            Parsed::Text(text) => text,
            Parsed::Refused(text) => return Step::Refuse(self.framed(&text)),
            Parsed::Prompt => {
                self.has_prompt = !self.has_prompt;
                String::new()
            }
            Parsed::Quit => {
                self.is_over = true;
                self.commands.clear();
                return Step::End;
            }
            Parsed::Lower(level) => {
                self.level = level;
                String::new()
            }
            Parsed::Timeout(timeout) => {
                self.timeout = timeout;
                String::new()
            }
        };
        Step::Write(self.framed(&text))
    }
}
