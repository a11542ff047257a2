//! The parts of a response that its question depends on: aliases, data, and the denial at the end.

use dns_wire::{Name, Rcode, Section, Type};

use crate::budget::MAX_ALIASES;
use crate::response::{Response, Set};

/// The alias chain of a response.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) parts: Vec<Part>,
    /// The name that the last alias leads to.
    pub(super) end: Name,
    /// Whether the response has records that the chain does not lead to, or a chain without end.
    pub(super) is_broken: bool,
}

/// Something that has to be secure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A set, by its place in the response.
    Set(usize),
    /// The proof that the end of the chain or its type does not exist.
    Denial,
}

impl Chain {
    pub(super) fn of(qname: &Name, qtype: Type, response: &Response, dangles: bool) -> Self {
        let mut chain = Self {
            parts: Vec::new(),
            end: qname.clone(),
            is_broken: false,
        };
        // Sets of the answer section that the chain has not led to.
        let answers = response.section(Section::Answer).count();
        let mut n_used = 0;
        for _ in 0..=MAX_ALIASES {
            let mut data = places(response, |set| {
                set.owner == chain.end && (set.rtype == qtype || qtype == Type::ANY)
            });
            if !data.is_empty() {
                n_used += data.len();
                chain.parts.append(&mut data);
                // An error denies data.
                chain.is_broken = n_used != answers || response.rcode != Rcode::NOERROR;
                return chain;
            }
            let Some(target) = alias(response, &chain.end) else {
                match response.rcode {
                    Rcode::NOERROR if dangles => {}
                    Rcode::NOERROR | Rcode::NXDOMAIN => chain.parts.push(Part::Denial),
                    // RFC 6672 §2.2: the name that a DNAME record makes is too long.
                    Rcode::YXDOMAIN => {
                        let end = &chain.end;
                        let mut too_long = places(response, |set| {
                            set.rtype == Type::DNAME
                                && end.is_within(&set.owner)
                                && *end != set.owner
                                && substituted(end, set).is_none()
                        });
                        chain.is_broken = too_long.is_empty();
                        n_used += too_long.len();
                        chain.parts.append(&mut too_long);
                    }
                    _ => chain.is_broken = true,
                }
                chain.is_broken |= n_used != answers;
                return chain;
            };
            let end = chain.end.clone();
            let dnames = places(response, |set| {
                set.rtype == Type::DNAME && substituted(&end, set).as_ref() == Some(&target)
            });
            n_used += 1;
            match dnames.first() {
                // The CNAME record is made from it (RFC 6672 §5.3.1), and not signed.
                Some(dname) => {
                    if !chain.parts.contains(dname) {
                        n_used += 1;
                        chain.parts.push(*dname);
                    }
                }
                None => chain.parts.extend(places(response, |set| {
                    set.rtype == Type::CNAME && set.owner == end
                })),
            }
            chain.end = target;
        }
        chain.is_broken = true;
        chain
    }
}

/// The sets of the answer section that fit.
fn places(response: &Response, fits: impl Fn(&Set) -> bool) -> Vec<Part> {
    let all = response.sets.iter().enumerate();
    let fit = all.filter(|(_, set)| set.section == Section::Answer && fits(set));
    fit.map(|(at, _)| Part::Set(at)).collect()
}

/// The name that an alias leads to.
fn alias(response: &Response, name: &Name) -> Option<Name> {
    let set = response.answer(name, Type::CNAME)?;
    let [rdata] = set.rdatas.as_slice() else {
        return None;
    };
    let (target, _) = Name::from_wire(rdata).ok()?;
    Some(target.to_lowercase())
}

/// The name that a DNAME record above another leads it to.
fn substituted(name: &Name, dname: &Set) -> Option<Name> {
    let [rdata] = dname.rdatas.as_slice() else {
        return None;
    };
    if dname.owner == *name || !name.is_within(&dname.owner) {
        return None;
    }
    let kept = name.as_wire().len() - dname.owner.as_wire().len();
    let joined = [name.as_wire().get(..kept)?, rdata].concat();
    let (target, _) = Name::from_wire(&joined).ok()?;
    Some(target.to_lowercase())
}
