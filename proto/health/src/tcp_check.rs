//! A conversation over TCP that a probe has with its target.

/// A step of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CheckStep {
    /// These octets are sent.
    Send(Vec<u8>),
    /// An answer is awaited and judged.
    Expect(Expectation),
}

/// An answer that must come, or must not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Expectation {
    /// The content.
    pub content: Content,
    /// Whether it must come; when not, anything else must.
    pub is_wanted: bool,
}

/// The part of an answer that decides.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Content {
    /// These octets, anywhere.
    Octets(Vec<u8>),
    /// A regular expression over octets.
    Pattern(String),
}
