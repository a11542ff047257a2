//! Lua's patterns (Lua 5.4 reference manual §6.4.1), matched with a bound on the work.
//!
//! Lua's own matcher backtracks without a limit, which can take years for a short pattern and a long name,
//! and meanwhile no instruction is counted. This one counts its steps and gives up when they are used up.
//! Character classes are those of the C locale.

use std::cell::Cell;

/// The most captures of a pattern.
const MAX_CAPTURES: usize = 32;
/// The deepest nesting of matching, as in Lua.
const MAX_DEPTH: u32 = 200;

/// The reason why a match was not decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternError {
    /// The pattern is malformed.
    #[error("malformed pattern ({0})")]
    Malformed(&'static str),
    /// The pattern nests too deep.
    #[error("pattern too complex")]
    Depth,
    /// The steps are used up.
    #[error("pattern matching takes too long")]
    Work,
}

/// The content of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture<'a> {
    /// A part of the subject.
    Text(&'a [u8]),
    /// A place in the subject, counted from 1.
    Position(usize),
}

/// A pattern and the subject to match.
#[derive(Debug)]
pub(crate) struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<Slot>,
    depth: u32,
    steps: &'a Cell<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    start: usize,
    extent: Extent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Open,
    Position,
    Closed(usize),
}

type Matched = Result<Option<usize>, PatternError>;

impl<'a> Matcher<'a> {
    pub(crate) fn new(subject: &'a [u8], pattern: &'a [u8], steps: &'a Cell<u32>) -> Self {
        Self {
            subject,
            pattern,
            captures: Vec::new(),
            depth: 0,
            steps,
        }
    }

    /// Matches the whole pattern at this place; returns the end of the match.
    pub(crate) fn match_at(&mut self, start: usize) -> Matched {
        self.captures.clear();
        self.depth = 0;
        self.matches(start, 0)
    }

    /// The number of captures of the match.
    pub(crate) fn n_captures(&self) -> usize {
        self.captures.len()
    }

    /// The whole match.
    pub(crate) fn whole(&self, start: usize, end: usize) -> Capture<'a> {
        Capture::Text(self.subject.get(start..end).unwrap_or_default())
    }

    /// The number of values of a match: its captures, or the whole if there are none.
    pub(crate) fn n_values(&self) -> usize {
        self.captures.len().max(1)
    }

    /// The n-th value of the match from `start` to `end`.
    pub(crate) fn value(
        &self,
        n: usize,
        start: usize,
        end: usize,
    ) -> Result<Capture<'a>, PatternError> {
        match self.captures.get(n) {
            Some(slot) => match slot.extent {
                Extent::Position => Ok(Capture::Position(slot.start + 1)),
                Extent::Closed(end) => Ok(Capture::Text(
                    self.subject.get(slot.start..end).unwrap_or_default(),
                )),
                Extent::Open => Err(PatternError::Malformed("unfinished capture")),
            },
            None if n == 0 => Ok(self.whole(start, end)),
            None => Err(PatternError::Malformed("invalid capture index")),
        }
    }

    fn spend(&self, steps: usize) -> Result<(), PatternError> {
        let left = u32::try_from(steps)
            .ok()
            .and_then(|steps| self.steps.get().checked_sub(steps));
        self.steps.set(left.unwrap_or(0));
        left.map(drop).ok_or(PatternError::Work)
    }

    fn matches(&mut self, s: usize, p: usize) -> Matched {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(PatternError::Depth);
        }
        let matched = self.matches_here(s, p);
        self.depth -= 1;
        matched
    }

    fn matches_here(&mut self, mut s: usize, mut p: usize) -> Matched {
        loop {
            self.spend(1)?;
            let next = self.pattern.get(p + 1).copied();
            match (self.pattern.get(p).copied(), next) {
                (None, _) => return Ok(Some(s)),
                (Some(b'('), Some(b')')) => return self.open(s, p + 2, Extent::Position),
                (Some(b'('), _) => return self.open(s, p + 1, Extent::Open),
                (Some(b')'), _) => return self.close(s, p + 1),
                (Some(b'$'), None) => return Ok((s == self.subject.len()).then_some(s)),
                (Some(b'%'), Some(b'b')) => {
                    let Some(end) = self.balanced(s, p + 2)? else {
                        return Ok(None);
                    };
                    (s, p) = (end, p + 4);
                }
                (Some(b'%'), Some(b'f')) => {
                    let set = p + 2;
                    let end = self.frontier(s, set)?;
                    let Some(end) = end else { return Ok(None) };
                    p = end;
                }
                (Some(b'%'), Some(digit @ b'0'..=b'9')) => {
                    let Some(end) = self.repeated(s, digit)? else {
                        return Ok(None);
                    };
                    (s, p) = (end, p + 2);
                }
                _ => {
                    let end = self.item_end(p)?;
                    match self.pattern.get(end) {
                        Some(b'?') => {
                            if self.item_matches(s, p, end)?
                                && let Some(matched) = self.matches(s + 1, end + 1)?
                            {
                                return Ok(Some(matched));
                            }
                            p = end + 1;
                        }
                        Some(b'+') if !self.item_matches(s, p, end)? => return Ok(None),
                        Some(b'+') => return self.most(s + 1, p, end),
                        Some(b'*') => return self.most(s, p, end),
                        Some(b'-') => return self.fewest(s, p, end),
                        _ if !self.item_matches(s, p, end)? => return Ok(None),
                        _ => (s, p) = (s + 1, end),
                    }
                }
            }
        }
    }

    //--- Repetition

    fn most(&mut self, s: usize, p: usize, end: usize) -> Matched {
        let mut n = 0;
        while self.item_matches(s + n, p, end)? {
            n += 1;
        }
        loop {
            if let Some(matched) = self.matches(s + n, end + 1)? {
                return Ok(Some(matched));
            }
            let Some(fewer) = n.checked_sub(1) else {
                return Ok(None);
            };
            n = fewer;
        }
    }

    fn fewest(&mut self, mut s: usize, p: usize, end: usize) -> Matched {
        loop {
            if let Some(matched) = self.matches(s, end + 1)? {
                return Ok(Some(matched));
            }
            if !self.item_matches(s, p, end)? {
                return Ok(None);
            }
            s += 1;
        }
    }

    //--- Captures

    fn open(&mut self, s: usize, p: usize, extent: Extent) -> Matched {
        if self.captures.len() == MAX_CAPTURES {
            return Err(PatternError::Malformed("too many captures"));
        }
        self.captures.push(Slot { start: s, extent });
        let matched = self.matches(s, p)?;
        if matched.is_none() {
            self.captures.pop();
        }
        Ok(matched)
    }

    fn close(&mut self, s: usize, p: usize) -> Matched {
        let open = self
            .captures
            .iter()
            .rposition(|slot| slot.extent == Extent::Open)
            .ok_or(PatternError::Malformed("invalid pattern capture"))?;
        self.set_extent(open, Extent::Closed(s));
        let matched = self.matches(s, p)?;
        if matched.is_none() {
            self.set_extent(open, Extent::Open);
        }
        Ok(matched)
    }

    fn set_extent(&mut self, n: usize, extent: Extent) {
        if let Some(slot) = self.captures.get_mut(n) {
            slot.extent = extent;
        }
    }

    /// `%1` to `%9`: the text of an earlier capture again.
    fn repeated(&self, s: usize, digit: u8) -> Matched {
        let slot = usize::from(digit)
            .checked_sub(usize::from(b'1'))
            .and_then(|n| self.captures.get(n));
        let text = match slot.map(|slot| (slot.start, slot.extent)) {
            Some((start, Extent::Closed(end))) => self.subject.get(start..end),
            // A position capture never matches again.
            Some((_, Extent::Position)) => return Ok(None),
            _ => return Err(PatternError::Malformed("invalid capture index")),
        };
        let text = text.unwrap_or_default();
        self.spend(text.len() / 16)?;
        let rest = self.subject.get(s..).unwrap_or_default();
        Ok(rest.starts_with(text).then_some(s + text.len()))
    }

    //--- Items

    /// `%bxy`: from an `x` to the `y` that balances it.
    fn balanced(&self, s: usize, p: usize) -> Matched {
        let (Some(open), Some(close)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return Err(PatternError::Malformed("missing arguments to '%b'"));
        };
        if self.subject.get(s) != Some(open) {
            return Ok(None);
        }
        let mut depth = 1;
        for (n, octet) in self.subject.iter().enumerate().skip(s + 1) {
            self.spend(1)?;
            if octet == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(n + 1));
                }
            } else if octet == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// `%f[set]`: matches at the beginning of a run of the set; returns the end of the set in the pattern.
    fn frontier(&self, s: usize, set: usize) -> Matched {
        if self.pattern.get(set) != Some(&b'[') {
            return Err(PatternError::Malformed("missing '[' after '%f'"));
        }
        let end = self.item_end(set)?;
        let before = s.checked_sub(1).and_then(|s| self.subject.get(s));
        let after = self.subject.get(s);
        let begins = !self.in_set(before.copied().unwrap_or(0), set, end)?
            && self.in_set(after.copied().unwrap_or(0), set, end)?;
        Ok(begins.then_some(end))
    }

    /// The end of the item at `p`: a character, a class or a set.
    fn item_end(&self, p: usize) -> Result<usize, PatternError> {
        match self.pattern.get(p) {
            Some(b'%') if p + 1 >= self.pattern.len() => {
                Err(PatternError::Malformed("ends with '%'"))
            }
            Some(b'%') => Ok(p + 2),
            Some(b'[') => {
                let mut at = p + 1;
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                loop {
                    let octet = self.pattern.get(at);
                    let octet = octet.ok_or(PatternError::Malformed("missing ']'"))?;
                    at += if *octet == b'%' { 2 } else { 1 };
                    if self.pattern.get(at) == Some(&b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    /// Whether the item at `p` matches the octet at `s`; nothing matches beyond the subject.
    fn item_matches(&self, s: usize, p: usize, end: usize) -> Result<bool, PatternError> {
        self.spend(1)?;
        let Some(octet) = self.subject.get(s).copied() else {
            return Ok(false);
        };
        Ok(match self.pattern.get(p) {
            Some(b'.') => true,
            Some(b'%') => self
                .pattern
                .get(p + 1)
                .is_some_and(|class| in_class(octet, *class)),
            Some(b'[') => self.in_set(octet, p, end)?,
            other => other == Some(&octet),
        })
    }

    /// Whether the set from `p` to `end`, brackets included, holds an octet.
    fn in_set(&self, octet: u8, p: usize, end: usize) -> Result<bool, PatternError> {
        let mut items = self.pattern.get(p + 1..end - 1).unwrap_or_default();
        self.spend(items.len() / 4)?;
        let inverted = items.first() == Some(&b'^');
        if inverted {
            items = items.get(1..).unwrap_or_default();
        }
        let mut found = false;
        loop {
            items = match items {
                [] => return Ok(found != inverted),
                [b'%', class, rest @ ..] => {
                    found |= in_class(octet, *class);
                    rest
                }
                [low, b'-', high, rest @ ..] => {
                    found |= (*low..=*high).contains(&octet);
                    rest
                }
                [single, rest @ ..] => {
                    found |= *single == octet;
                    rest
                }
            };
        }
    }
}

/// Whether the class of this letter holds an octet; any other character matches itself.
fn in_class(octet: u8, class: u8) -> bool {
    let holds = match class.to_ascii_lowercase() {
        b'a' => octet.is_ascii_alphabetic(),
        b'c' => octet.is_ascii_control(),
        b'd' => octet.is_ascii_digit(),
        b'g' => octet.is_ascii_graphic(),
        b'l' => octet.is_ascii_lowercase(),
        b'p' => octet.is_ascii_punctuation(),
        b's' => octet.is_ascii_whitespace() || octet == 0x0b,
        b'u' => octet.is_ascii_uppercase(),
        b'w' => octet.is_ascii_alphanumeric(),
        b'x' => octet.is_ascii_hexdigit(),
        b'z' => octet == 0,
        _ => return class == octet,
    };
    holds != class.is_ascii_uppercase()
}
