//! HAProxy's runtime commands (management.txt §9.3), as scripts, exporters and `hatop` send them to its stats socket.
//!
//! ```text
//! octets ─► Conversation ─► Command ─► answer(figures) ─► Answer::Text ──────────► framed by Conversation
//!           lines, prompt,                              └► Answer::Request ─► the caller does it, and says how it went
//!           levels
//! ```
//!
//! Sentences, columns and the order of checks are those of HAProxy 2.6, whose commands later versions keep. A command that
//! lb-proxy has no counterpart for is unknown here, as it is to a HAProxy that was built without it. Opens no socket and
//! changes nothing.

mod answer;
mod commands;
mod conversation;
mod figures;
mod info;
mod line;
mod sessions;
mod stat;
mod state;
mod tags;

pub use answer::{Answer, Request, answer};
pub use commands::{Command, Verb};
pub use config::lb_proxy::StatsLevel;
pub use conversation::{Conversation, LONGEST_LINE, Step};
pub use figures::{
    Backend, Check, Figures, Finding, Frontend, Process, Proxy, Server, ServerState, Session,
};

#[cfg(test)]
mod tests;
