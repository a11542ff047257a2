//! Responses that are made of the answer to another question: that for the target of an alias of the configuration, that
//! for the A records which AAAA records are made of, or that which a rule has made of the client's.

use std::sync::Arc;

use dns_cache::key::{Key, Seed};
use dns_cache::message::{MAX_MESSAGE, Message, join};
use dns_rewrite::Back;
use dns_wire::{Class, Rcode, Type};
use dns64::Dns64;

/// The parts of a response that the answer to the question in its key does not have.
#[derive(Clone, Debug, Default)]
pub struct Derived {
    /// The beginning of the response, when the configuration has an alias that leads to the question.
    first: Option<Message>,
    /// The way from A records to AAAA records.
    synthesis: Option<Synthesis>,
    /// Whether a response policy has put it in the place of another answer: the addresses of its own do not matter.
    is_forged: bool,
    /// The way back to the client's question from the one that rules have made of it.
    back: Option<Back>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Synthesis {
    dns64: Arc<Dns64>,
    dnssec_ok: bool,
    stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// The question is for AAAA records.
    Denial,
    /// There are none; the question is for A records. The response is this one if there are none of them either; without it,
    /// the AAAA question has failed.
    Addresses {
        question: Box<[u8]>,
        denial: Option<Message>,
    },
}

impl Derived {
    /// A response to a question that rules have changed.
    #[must_use]
    pub fn rewritten(back: Back) -> Self {
        Self {
            back: Some(back),
            ..Self::default()
        }
    }

    /// The same, with an alias before it.
    #[must_use]
    pub fn after(self, first: Message) -> Self {
        Self {
            first: Some(first),
            ..self
        }
    }

    /// The same, with an alias that a response policy has put in the place of an answer behind what it begins with; `None` when that is too
    /// long.
    #[must_use]
    pub fn forged(self, alias: Message) -> Option<Self> {
        let first = match &self.first {
            Some(first) => join(first, &alias, &mut vec![0; MAX_MESSAGE])?,
            None => alias,
        };
        Some(Self {
            first: Some(first),
            is_forged: true,
            ..self
        })
    }

    /// Whether a response policy has put it in the place of another answer.
    #[must_use]
    pub const fn is_forged(&self) -> bool {
        self.is_forged
    }

    /// The same, for a client that gets AAAA records made of A records.
    #[must_use]
    pub fn synthesized_by(mut self, dns64: &Arc<Dns64>, dnssec_ok: bool) -> Self {
        self.synthesis = Some(Synthesis {
            dns64: Arc::clone(dns64),
            dnssec_ok,
            stage: Stage::Denial,
        });
        self
    }

    /// Whether an answer leads to the question for A records.
    #[must_use]
    pub fn wants_addresses(&self, answer: &Message) -> bool {
        self.synthesis.as_ref().is_some_and(|it| {
            it.stage == Stage::Denial && it.dns64.wants_addresses(answer, it.dnssec_ok)
        })
    }

    /// Whether the failure of its question leads to the one for A records: some servers fail for AAAA questions alone, which
    /// counts as no data (RFC 6147 §5.1.2).
    #[must_use]
    pub fn wants_addresses_after_failure(&self) -> bool {
        let synthesis = self.synthesis.as_ref();
        synthesis.is_some_and(|it| it.stage == Stage::Denial)
    }

    /// Turns to the question for A records, given the answer to the AAAA question with this key; `None` for a failure.
    /// Returns the key of the next question.
    pub fn ask_for_addresses(&mut self, key: &Key, answer: Option<&Message>, seed: Seed) -> Key {
        if let Some(synthesis) = &mut self.synthesis {
            // Records that do not count are not for the client either.
            let denial = answer.and_then(|it| synthesis.dns64.without_excluded(it));
            synthesis.stage = Stage::Addresses {
                question: key.question().into(),
                denial,
            };
        }
        let question = [
            key.name(),
            &Type::A.0.to_be_bytes(),
            &Class::IN.0.to_be_bytes(),
        ]
        .concat();
        Key::new(seed, &question, key.variant())
    }

    /// Whether the response is made of A records, or their lack.
    #[must_use]
    pub fn is_synthesized(&self) -> bool {
        let synthesis = self.synthesis.as_ref();
        synthesis.is_some_and(|it| it.stage != Stage::Denial)
    }

    /// The response, given the answer to its question. `None` when it is too long.
    #[must_use]
    pub fn whole(&self, answer: &Message) -> Option<Message> {
        let end = match &self.synthesis {
            None => None,
            Some(synthesis) => Some(synthesis.end(answer)?),
        };
        let end = end.as_ref().unwrap_or(answer);
        let joined = match &self.first {
            Some(first) => Some(join(first, end, &mut vec![0; MAX_MESSAGE])?),
            None => None,
        };
        let whole = joined.as_ref().unwrap_or(end);
        match &self.back {
            Some(back) => back.apply(whole),
            None => Some(whole.clone()),
        }
    }
}

impl Synthesis {
    fn end(&self, answer: &Message) -> Option<Message> {
        let (question, denial) = match &self.stage {
            Stage::Denial if self.dns64.is_mixed(answer) => {
                return self.dns64.without_excluded(answer);
            }
            Stage::Denial => return Some(answer.clone()),
            Stage::Addresses { question, denial } => (question, denial.as_ref()),
        };
        let made = self
            .dns64
            .synthesize(question, denial, answer, self.dnssec_ok);
        // Without an answer to the AAAA question, the name is known by the other one alone.
        let rcode = match answer.rcode() {
            Rcode::NXDOMAIN => Rcode::NXDOMAIN,
            _ => Rcode::NOERROR,
        };
        made.or_else(|| denial.cloned())
            .or_else(|| Message::empty(question, rcode))
    }
}
