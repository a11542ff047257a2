//! The DNSKEY and DS records that a validation has asked for.

use std::sync::Arc;

use dns_wire::{Name, Type};

use super::{Context, Validation, proofs};
use crate::anchors::Trust;
use crate::budget::Budget;
use crate::crypto;
use crate::denial::{Cut, Proofs};
use crate::keys::{Ds, Key};
use crate::response::{Response, Set};
use crate::signature;
use crate::verdict::Why;
use crate::walk::NoCut;
use crate::zones::{BOGUS_KEPT, State};

impl Validation {
    /// Takes the response to what [`super::Step::Need`] has asked for, or the reason why there is none.
    pub fn supply(&mut self, response: Result<&Response, Why>, context: &mut Context<'_>) {
        let Some((need, above)) = self.pending.take() else {
            return;
        };
        let response = match response {
            Ok(response) => response,
            Err(why) => {
                self.failed = Some(why);
                return;
            }
        };
        match need.rtype {
            Type::DNSKEY => self.take_keys(&need.name, response, context),
            _ => self.take_ds(&need.name, &above, response, context),
        }
    }

    /// Takes records that came with a referral for the DS records that [`super::Step::Need`] has asked for; false when they
    /// prove nothing, so that they still have to be asked for.
    pub fn offer(&mut self, response: &Response, context: &mut Context<'_>) -> bool {
        let Some((need, above)) = self.pending.take() else {
            return false;
        };
        let found = match need.rtype {
            Type::DS => self.judge_ds(&need.name, &above, response, context),
            _ => None,
        };
        match found {
            Some(Ok(found)) => {
                self.keep(&need.name, found, context);
                true
            }
            _ => {
                self.pending = Some((need, above));
                false
            }
        }
    }

    fn take_keys(&mut self, zone: &Name, response: &Response, context: &mut Context<'_>) {
        let set = response.answer(zone, Type::DNSKEY);
        let judged = match set {
            Some(set) => self.judge_keys(zone, set, context),
            None => Err(Why::NoKey),
        };
        let (state, lifetime) = judged.unwrap_or_else(|why| (State::Bogus(why), BOGUS_KEPT));
        context.zones.put(zone, state, lifetime, context.now);
    }

    /// Judges the keys of a zone: one that an anchor or the zone above names has to sign them all (RFC 4035 §5.2).
    fn judge_keys(
        &mut self,
        zone: &Name,
        set: &Set,
        context: &Context<'_>,
    ) -> Result<(State, u32), Why> {
        let keys = Key::read_all(&set.rdatas);
        let anchors = context.anchors.of(zone);
        let delegated: Vec<Trust> = match context.zones.get(zone, context.now) {
            Some(State::Delegated(all)) if anchors.is_empty() => {
                all.iter().cloned().map(Trust::Ds).collect()
            }
            _ => Vec::new(),
        };
        let trusted = anchors.iter().chain(&delegated);
        let mut why = Why::NoKey;
        for trust in trusted {
            let Some(key) = keys.iter().find(|key| trust.names(zone, key)) else {
                continue;
            };
            if !key.is_zone_key() {
                why = Why::NoZoneKey;
                continue;
            }
            let only = std::slice::from_ref(key);
            let now = context.wrapped();
            match signature::check(set, zone, only, now, &mut self.budget) {
                Ok(signed) => {
                    let lifetime = signed.lifetime.min(set.ttl);
                    return Ok((State::Keys(keys.into()), lifetime));
                }
                Err(Why::TooMuch) => return Err(Why::TooMuch),
                Err(other) => why = other,
            }
        }
        Err(why)
    }

    fn take_ds(
        &mut self,
        name: &Name,
        above: &Name,
        response: &Response,
        context: &mut Context<'_>,
    ) {
        match self.judge_ds(name, above, response, context) {
            // The zone above has ended meanwhile: the next step begins there.
            None => {}
            Some(Ok(found)) => self.keep(name, found, context),
            Some(Err(why)) => {
                let state = State::Bogus(why);
                context.zones.put(name, state, BOGUS_KEPT, context.now);
            }
        }
    }

    /// Judges a response to the question for DS records; `None` when the keys of the zone above are not known.
    fn judge_ds(
        &mut self,
        name: &Name,
        above: &Name,
        response: &Response,
        context: &Context<'_>,
    ) -> Option<Result<Found, Why>> {
        let keys = match context.zones.get(above, context.now) {
            Some(State::Keys(keys)) => Arc::clone(keys),
            _ => return None,
        };
        let now = context.wrapped();
        Some(match response.answer(name, Type::DS) {
            Some(set) => delegation(set, above, &keys, now, &mut self.budget),
            None => self.judge_denial(name, above, response, &keys, now),
        })
    }

    fn keep(&mut self, name: &Name, found: Found, context: &mut Context<'_>) {
        match found {
            Found::State(state, lifetime) => context.zones.put(name, state, lifetime, context.now),
            Found::NoCut(no_cut) => self.no_cuts.push(no_cut),
        }
    }

    /// Judges a response without DS records.
    fn judge_denial(
        &mut self,
        name: &Name,
        above: &Name,
        response: &Response,
        keys: &[Key],
        now: u32,
    ) -> Result<Found, Why> {
        // An alias is not the apex of a zone.
        if let Some(alias) = response.answer(name, Type::CNAME) {
            signature::check(alias, above, keys, now, &mut self.budget)?;
            return Ok(Found::NoCut(NoCut {
                name: name.clone(),
                is_end: false,
            }));
        }
        let (sets, lifetime) = proofs(response, above, keys, now, &mut self.budget)?;
        let cut = Proofs::new(above, &sets).cut(name, &mut self.budget)?;
        Ok(match cut {
            Cut::Insecure(why) => Found::State(State::Insecure(why), lifetime),
            Cut::None | Cut::Nothing => Found::NoCut(NoCut {
                name: name.clone(),
                is_end: cut == Cut::Nothing,
            }),
        })
    }
}

/// The kind of name that a question for DS records was about.
enum Found {
    /// A zone begins there; its state, and the seconds that it holds.
    State(State, u32),
    NoCut(NoCut),
}

/// Judges the DS records of a zone.
fn delegation(
    set: &Set,
    above: &Name,
    keys: &[Key],
    now: u32,
    budget: &mut Budget,
) -> Result<Found, Why> {
    let signed = signature::check(set, above, keys, now, budget)?;
    let lifetime = signed.lifetime.min(set.ttl);
    let all = Ds::read_all(&set.rdatas);
    let known: Vec<Ds> = all.iter().filter(|ds| ds.is_known()).cloned().collect();
    // RFC 4035 §5.2: with nothing but unknown algorithms the zone counts as unsigned.
    let state = if !known.is_empty() {
        State::Delegated(known.into())
    } else if all.iter().any(|ds| crypto::knows_algorithm(ds.algorithm)) {
        State::Insecure(Why::Digest)
    } else {
        State::Insecure(Why::Algorithm)
    };
    Ok(Found::State(state, lifetime))
}
