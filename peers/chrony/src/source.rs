//! `server`, `pool`, `peer`: the servers to query, and how.

use config::Class;
use config::timesync_agent::{
    Family, Host, MAX_POLL, MAX_POOL_SOURCES, MAX_SAMPLES, MAX_STRATUM, MIN_POLL, Source,
};

use super::Reader;
use super::line::{Line, Word};
use super::values::Options;

/// A line that names a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Server,
    Pool,
    Peer,
}

/// Every option of chrony 4.8.
pub(super) const OPTIONS: &[&str] = &[
    "asymmetry",
    "auto_offline",
    "burst",
    "certset",
    "copy",
    "extfield",
    "filter",
    "iburst",
    "ipv4",
    "ipv6",
    "key",
    "maxdelay",
    "maxdelaydevratio",
    "maxdelayquant",
    "maxdelayratio",
    "maxpoll",
    "maxsamples",
    "maxsources",
    "maxunreach",
    "mindelay",
    "minpoll",
    "minsamples",
    "minstratum",
    "noselect",
    "nts",
    "ntsport",
    "offline",
    "offset",
    "polltarget",
    "port",
    "prefer",
    "presend",
    "require",
    "trust",
    "version",
    "xleave",
];

/// The longest span that makes sense in seconds anywhere: chronyd bends it to this, too.
const MAX_DELAY: f64 = 1000.0;
/// As large as chronyd takes ratios.
const MAX_RATIO: f64 = 1e6;

/// A partly parsed line.
struct Draft {
    source: Source,
    maxpoll_given: bool,
}

impl Reader<'_> {
    /// A line `server|pool|peer HOST [option]…`.
    pub(super) fn source(&mut self, line: &Line<'_>, kind: Kind) {
        let n_problems = self.problems.len();
        let Some(host) = line.words.first().copied() else {
            let message = format!("`{}` names no host", line.name.text);
            return self.problem(line.end(), message);
        };
        self.host_makes_sense(line, host);
        let mut draft = Draft {
            source: Source::new(host.text),
            maxpoll_given: false,
        };
        let mut options = Options::new(line, 1);
        while let Some(option) = options.take() {
            self.source_option(&mut options, option, &mut draft);
        }
        if self.problems.len() > n_problems {
            return;
        }
        let Draft {
            source,
            maxpoll_given,
        } = draft;
        let mut source = self.polls(line, source, maxpoll_given);
        if kind != Kind::Pool {
            source.maxsources = None;
        }
        let others = match kind {
            Kind::Pool => &mut self.config.pool,
            Kind::Server => &mut self.config.server,
            Kind::Peer => &mut self.config.peer,
        };
        let twin = others.iter().any(|other| {
            other.host == source.host
                && other.port == source.port
                && other.maxsources == source.maxsources
        });
        if twin {
            let message = format!("`{}` is named twice; once is enough", host.text);
            return self.odd(line.at(host), &message);
        }
        others.push(source);
    }

    fn host_makes_sense(&mut self, line: &Line<'_>, host: Word<'_>) {
        if matches!(Host::parse(host.text), Host::Address(_)) {
            return;
        }
        let plain = |letter: char| letter.is_alphanumeric() || "-._%".contains(letter);
        if !host.text.chars().all(plain) {
            let message = format!(
                "`{}` is neither an address nor a name; a port is given as in `{} HOST port 123`",
                host.text, line.name.text
            );
            self.odd(line.at(host), &message);
        }
    }

    /// As chronyd has it, the longest polling interval gives way to the shortest.
    fn polls(&mut self, line: &Line<'_>, mut options: Source, maxpoll_given: bool) -> Source {
        if options.maxpoll < options.minpoll {
            if maxpoll_given {
                let how = format!(
                    "{} is taken for {}, as `minpoll` is",
                    options.maxpoll, options.minpoll
                );
                self.differs(&line.start(), "maxpoll", &how);
            }
            options.maxpoll = options.minpoll;
        }
        options
    }

    fn source_option<'t>(
        &mut self,
        options: &mut Options<'_, 't>,
        option: Word<'t>,
        draft: &mut Draft,
    ) {
        let to = &mut draft.source;
        match option.text.to_ascii_lowercase().as_str() {
            "iburst" => to.iburst = true,
            "burst" => to.burst = true,
            "xleave" => to.xleave = true,
            "copy" => to.copy = true,
            "noselect" => to.noselect = true,
            "prefer" => to.prefer = true,
            "trust" => to.trust = true,
            "require" => to.require = true,
            "offline" => (to.offline, to.auto_offline) = (true, false),
            "auto_offline" => (to.offline, to.auto_offline) = (false, true),
            "ipv4" => to.family = Some(Family::V4),
            "ipv6" => to.family = Some(Family::V6),
            "nts" => {
                let message = "NTS is not spoken here, and a source that is to be authenticated is \
                               not asked without: use `key`, or leave `nts` out";
                self.problem(options.line.at(option), message);
            }
            _ => {
                if OPTIONS.iter().any(|known| option.is(known)) {
                    if let Some(value) = self.value(options, option) {
                        self.source_value(options.line, option, value, draft);
                    }
                } else {
                    self.unknown_option(options.line, option, OPTIONS.iter().copied());
                }
            }
        }
    }

    #[expect(clippy::too_many_lines, reason = "a few lines for each key")]
    fn source_value(
        &mut self,
        line: &Line<'_>,
        option: Word<'_>,
        value: Word<'_>,
        draft: &mut Draft,
    ) {
        /// Sets what was read, if it could be.
        fn set<T>(to: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *to = value;
            }
        }
        let to = &mut draft.source;
        match option.text.to_ascii_lowercase().as_str() {
            "port" => set(&mut to.port, self.port(line, value)),
            "minpoll" => set(
                &mut to.minpoll,
                self.integer(line, value, MIN_POLL..=MAX_POLL),
            ),
            "maxpoll" => {
                draft.maxpoll_given = true;
                set(
                    &mut to.maxpoll,
                    self.integer(line, value, MIN_POLL..=MAX_POLL),
                );
            }
            "polltarget" => set(
                &mut to.polltarget,
                self.integer(line, value, 1..=MAX_SAMPLES),
            ),
            "presend" => to.presend = self.integer(line, value, MIN_POLL..=i8::MAX),
            "version" => to.version = self.integer(line, value, 1..=4),
            "key" => {
                to.key = value.text.parse().ok().filter(|&id| id > 0);
                if to.key.is_none() {
                    let message = format!("`{}` is no number of a key", value.text);
                    self.problem(line.at(value), message);
                }
            }
            "maxdelay" => set(&mut to.max_delay, self.float(line, value, 0.0..=MAX_DELAY)),
            "maxdelayratio" => {
                to.max_delay_ratio = self
                    .float(line, value, 0.0..=MAX_RATIO)
                    .filter(|r| *r > 0.0);
            }
            "maxdelaydevratio" => set(
                &mut to.max_delay_deviation_ratio,
                self.float(line, value, 0.0..=MAX_RATIO),
            ),
            "maxdelayquant" => {
                let number = self.float(line, value, 0.0..=0.95);
                to.max_delay_quantile = number.filter(|q| *q > 0.0).map(|q| q.max(0.05));
            }
            "mindelay" => {
                to.min_delay = self
                    .float(line, value, 0.0..=MAX_DELAY)
                    .filter(|d| *d > 0.0);
            }
            "asymmetry" => to.asymmetry = self.float(line, value, -0.5..=0.5),
            "offset" => set(&mut to.offset, self.float(line, value, -1e9..=1e9)),
            "filter" => {
                to.filter = self
                    .integer(line, value, 0..=MAX_SAMPLES)
                    .filter(|n| *n > 0);
            }
            "minsamples" => to.min_samples = self.integer(line, value, 0..=MAX_SAMPLES),
            "maxsamples" => {
                to.max_samples = self
                    .integer(line, value, 0..=MAX_SAMPLES)
                    .filter(|n| *n > 0);
            }
            "minstratum" => set(
                &mut to.min_stratum,
                self.integer(line, value, 0..=MAX_STRATUM),
            ),
            "maxunreach" => set(&mut to.max_unreach, self.integer(line, value, 0..=u32::MAX)),
            "maxsources" => {
                let most = u32::try_from(MAX_POOL_SOURCES).unwrap_or(1);
                let wanted = self.integer(line, value, 1..=most);
                to.maxsources = wanted.map(|wanted| wanted as usize).or(to.maxsources);
            }
            "extfield" => {
                let what = format!("extfield {}", value.text);
                self.lost(Class::Behaviour, &line.at(option), &what, "it is not sent");
            }
            // Options of NTS, without effect when NTS is off.
            "certset" | "ntsport" => {}
            _ => self.unknown_option(line, option, OPTIONS.iter().copied()),
        }
    }
}
