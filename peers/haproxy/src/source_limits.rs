//! Stick tables that count the connections of sources, and the rules that reject by these counts (configuration.txt §4.2,
//! §7.3.3): they become `limits` of a frontend.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use config::Positive;
use config::lb_proxy::{Limits, MIN_PERIOD, Rate, SOURCES};

use super::lexer::Line;
use super::proxy::Proxy;
use super::source_counts::{Count, Counter, TooMany};
use super::values::time;

/// The most sources that lb-proxy remembers for a frontend.
const MOST_SOURCES: usize = 1 << 24;

/// The longest period of a rate.
const LONGEST_PERIOD: Duration = Duration::from_hours(24);

/// A stick table.
#[derive(Clone, Debug, Default)]
struct Table {
    key: Key,
    has_peers: bool,
    size: Option<usize>,
    expire: Option<Duration>,
    counts_connections: bool,
    period: Option<Duration>,
}

/// The key of a stick table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Key {
    Ipv4,
    Ipv6,
    #[default]
    Other,
}

impl Table {
    fn read(line: &Line) -> Self {
        let mut table = Self::default();
        let mut words = line.from(1).iter().map(|word| word.text.as_str());
        while let Some(word) = words.next() {
            match word {
                "type" => {
                    table.key = match words.next() {
                        Some("ip") => Key::Ipv4,
                        Some("ipv6") => Key::Ipv6,
                        _ => Key::Other,
                    };
                }
                "size" => table.size = words.next().and_then(size),
                "expire" => table.expire = words.next().and_then(time),
                "peers" => {
                    table.has_peers = true;
                    words.next();
                }
                "store" => {
                    for data in words.next().unwrap_or_default().split(',') {
                        let period = data
                            .strip_prefix("conn_rate(")
                            .and_then(|rest| time(rest.strip_suffix(')')?));
                        table.period = period.or(table.period);
                        table.counts_connections |= data == "conn_cur";
                    }
                }
                _ => {}
            }
        }
        table
    }

    fn bound_connections(&self, limits: &mut Limits, most: u32) -> Result<(), NotLimit> {
        if !self.counts_connections {
            return Err(NOT_STORED);
        }
        let known = limits.connections.map_or(u32::MAX, Positive::get);
        limits.connections = Positive::new(known.min(most).into());
        Ok(())
    }
}

/// A count that no table has is never above a number.
const NOT_STORED: NotLimit = NotLimit::Never("its table does not store it: it is never met");

/// `100k`, `1m`, `5000`.
fn size(text: &str) -> Option<usize> {
    let (digits, factor) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1 << 10),
        None => match text.strip_suffix(['m', 'M']) {
            Some(digits) => (digits, 1 << 20),
            None => (text, 1),
        },
    };
    digits.parse::<usize>().ok()?.checked_mul(factor)
}

/// All stick tables of a file, and the frontends that count in each.
#[derive(Debug, Default)]
pub(super) struct Tables {
    tables: BTreeMap<String, Table>,
    counting: BTreeMap<String, BTreeSet<String>>,
    /// Some rule counts something else than sources, or not always.
    has_others: bool,
}

impl Tables {
    pub(super) fn of(proxies: &[Proxy<'_>]) -> Self {
        let mut all = Self::default();
        for proxy in proxies {
            if let Some(line) = proxy.stick_table {
                all.tables.insert(proxy.name.to_owned(), Table::read(line));
            }
            for line in &proxy.tcp_requests {
                match tracked(line) {
                    Tracked::Source(_, table) => {
                        let table = table.unwrap_or(proxy.name).to_owned();
                        let counting = all.counting.entry(table).or_default();
                        counting.insert(proxy.name.to_owned());
                    }
                    Tracked::Other => all.has_others = true,
                    Tracked::Nothing => {}
                }
            }
            all.has_others |= proxy.counts_otherwise;
        }
        all
    }
}

/// The things that a rule counts.
enum Tracked<'a> {
    /// Every source, in a slot and in a table if it is named: `track-sc0 src [table NAME]`.
    Source(&'a str, Option<&'a str>),
    /// Something else, or not always.
    Other,
    /// Nothing.
    Nothing,
}

fn tracked(rule: &Line) -> Tracked<'_> {
    let action = rule.word(2).and_then(|it| it.strip_prefix("track-sc"));
    let Some(action) = action else {
        return Tracked::Nothing;
    };
    let inside = action.strip_prefix('(').and_then(|it| it.strip_suffix(')'));
    let slot = inside.unwrap_or(action);
    match (rule.word(3), rule.word(4), rule.word(5), rule.word(6)) {
        (Some("src"), None, ..) => Tracked::Source(slot, None),
        (Some("src"), Some("table"), Some(name), None) => Tracked::Source(slot, Some(name)),
        _ => Tracked::Other,
    }
}

/// A rule that cannot be a limit, and whether it keeps a client out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotLimit {
    /// It does.
    Lost(&'static str),
    /// It does not: its condition is never met.
    Never(&'static str),
}

/// The limits of a frontend, rule by rule.
#[derive(Debug)]
pub(super) struct SourceLimits<'a> {
    tables: &'a Tables,
    /// The frontend.
    proxy: &'a str,
    /// It becomes several frontends here.
    is_split: bool,
    /// It has sockets of IPv6.
    has_ipv6: bool,
    /// A rule does not count every client.
    has_others: bool,
    /// The table of each slot that tracks by now.
    slots: BTreeMap<String, String>,
    pub(super) limits: Option<Limits>,
    /// The tables that they are made of.
    used: BTreeSet<String>,
    /// The differences that the last rule has made.
    pub(super) differences: Vec<&'static str>,
}

impl<'a> SourceLimits<'a> {
    pub(super) const fn new(
        tables: &'a Tables,
        proxy: &'a str,
        is_split: bool,
        has_ipv6: bool,
    ) -> Self {
        Self {
            tables,
            proxy,
            is_split,
            has_ipv6,
            has_others: false,
            slots: BTreeMap::new(),
            limits: None,
            used: BTreeSet::new(),
            differences: Vec::new(),
        }
    }

    /// A rule that counts every client if all get there; false for one that counts otherwise.
    pub(super) fn track(&mut self, rule: &Line, is_open: bool) -> bool {
        let Tracked::Source(slot, table) = tracked(rule) else {
            return false;
        };
        if !is_open {
            self.has_others = true;
            return false;
        }
        let table = table.unwrap_or(self.proxy).to_owned();
        // A slot that tracks something keeps it.
        self.slots.entry(slot.to_owned()).or_insert(table);
        true
    }

    /// A rule that rejects a source with too many connections.
    pub(super) fn reject(&mut self, too_many: &TooMany) -> Result<(), NotLimit> {
        self.limit(too_many).map_err(|not| match not {
            // Another rule may count it after all.
            NotLimit::Never(_) if self.tables.has_others || self.has_others => {
                NotLimit::Lost("another rule counts something else than sources, or not always")
            }
            not => not,
        })
    }

    fn limit(&mut self, too_many: &TooMany) -> Result<(), NotLimit> {
        use NotLimit::Lost;
        let (name, is_counted) = self.counted_in(&too_many.of)?;
        let tables = self.tables;
        let Some(table) = tables.tables.get(&name) else {
            return Err(Lost("there is no such stick table"));
        };
        self.is_alone(&name)?;
        if table.key == Key::Other {
            return Err(Lost("its table does not count sources"));
        }
        if self.is_split {
            return Err(Lost(
                "its sockets differ: they are several frontends here, each with limits of its own",
            ));
        }
        // A connection that is not counted yet is one more.
        let most = match is_counted {
            true => too_many.above,
            false => too_many.above.saturating_add(1),
        };
        if most == 0 {
            return Err(Lost("it rejects every connection"));
        }
        let mut limits = self.limits.unwrap_or_default();
        match too_many.count {
            Count::Connections => table.bound_connections(&mut limits, most)?,
            Count::Rate => self.bound_rate(table, &mut limits, most)?,
        }
        if let Some(size) = table.size {
            limits.sources = size.clamp(SOURCES, MOST_SOURCES);
        }
        if self.has_ipv6 {
            self.differences.push(match table.key {
                Key::Ipv4 => "clients of IPv6 have the limit, too: each /64 is a source",
                Key::Ipv6 | Key::Other => "each /64 of IPv6 is a source, not each address",
            });
        }
        if table.has_peers {
            self.differences
                .push("connections to other proxies do not count");
        }
        self.limits = Some(limits);
        self.used.insert(name);
        Ok(())
    }

    /// The table of a counter, and whether a connection is in it already.
    fn counted_in(&self, counter: &Counter) -> Result<(String, bool), NotLimit> {
        match counter {
            Counter::Slot(slot) => match self.slots.get(slot) {
                Some(table) => Ok((table.clone(), true)),
                None => Err(NotLimit::Never("no rule before it counts: it is never met")),
            },
            Counter::Source(table) => {
                let table = table.as_deref().unwrap_or(self.proxy);
                let is_counted = self.slots.values().any(|tracked| tracked == table);
                Ok((table.to_owned(), is_counted))
            }
        }
    }

    /// Whether a table counts for this frontend, and for no other.
    fn is_alone(&self, table: &str) -> Result<(), NotLimit> {
        let counting = self.tables.counting.get(table);
        let is_own = counting.is_some_and(|all| all.contains(self.proxy));
        match counting.map_or(0, BTreeSet::len) {
            0 => Err(NotLimit::Never(
                "no rule counts in its table: it is never met",
            )),
            1 if is_own => Ok(()),
            _ => Err(NotLimit::Lost(
                "its table counts for several frontends, and a limit is of one",
            )),
        }
    }

    fn bound_rate(
        &mut self,
        table: &Table,
        limits: &mut Limits,
        most: u32,
    ) -> Result<(), NotLimit> {
        use NotLimit::Lost;
        let period = table.period.ok_or(NOT_STORED)?;
        if !(MIN_PERIOD..=LONGEST_PERIOD).contains(&period) {
            return Err(Lost("the period of a rate is from 100ms to a day"));
        }
        limits.rate = match limits.rate {
            Some(known) if known.period != period => {
                return Err(Lost("a source has one rate"));
            }
            Some(known) if known.count < most => Some(known),
            _ => Some(Rate {
                count: most,
                period,
            }),
        };
        self.differences.push(
            "connections that are rejected do not count: a source above the rate gets as many as it may, not none",
        );
        if table.expire.is_some_and(|expire| expire < period) {
            self.differences
                .push("a source is remembered for the whole period, whatever `expire` says");
        }
        Ok(())
    }

    /// The tables that limits are made of.
    pub(super) fn tables_of_limits(self) -> BTreeSet<String> {
        self.used
    }
}

#[cfg(test)]
mod tests;
