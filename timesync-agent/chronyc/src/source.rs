//! A source that chronyc's `add server`, `add pool` and `add peer` give, field by field.

use super::status::Status;
use super::wire::{Input, Output};
use time_model::settings::{
    Family, Host, MAX_POLL, MAX_POOL_SOURCES, MAX_STRATUM, MIN_POLL, SelectOptions, SourceOptions,
    SourceSettings,
};

/// Octets of the name.
const NAME: usize = 256;
/// chronyc has no option for "none" where a number is sent.
const NO_PRESEND: i32 = 100;
/// An asymmetry above this is none.
const MOST_ASYMMETRY: f64 = 0.5;

/// As many samples as a source may have, in a configuration and here.
const MOST_SAMPLES: u32 = 1024;

/// `REQ_ADDSRC_*`: the kind of a source.
mod kind {
    pub(super) const SERVER: u32 = 1;
    pub(super) const PEER: u32 = 2;
    pub(super) const POOL: u32 = 3;
}

/// `REQ_ADDSRC_*`: options without a value.
#[rustfmt::skip]
mod flag {
    pub(super) const ONLINE: u32 = 0x1;
    pub(super) const AUTO_OFFLINE: u32 = 0x2;
    pub(super) const IBURST: u32 = 0x4;
    pub(super) const PREFER: u32 = 0x8;
    pub(super) const NOSELECT: u32 = 0x10;
    pub(super) const TRUST: u32 = 0x20;
    pub(super) const REQUIRE: u32 = 0x40;
    pub(super) const INTERLEAVED: u32 = 0x80;
    pub(super) const BURST: u32 = 0x100;
    pub(super) const NTS: u32 = 0x200;
    pub(super) const COPY: u32 = 0x400;
    pub(super) const IPV4: u32 = 0x2000;
    pub(super) const IPV6: u32 = 0x4000;
}

/// The options of selection among flags.
pub(super) fn select_options(flags: u32) -> SelectOptions {
    let has = |flag| flags & flag != 0;
    SelectOptions {
        noselect: has(flag::NOSELECT),
        prefer: has(flag::PREFER),
        trust: has(flag::TRUST),
        require: has(flag::REQUIRE),
    }
}

/// `ADD_SOURCE`; options that are not given have chronyc's own default in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewSource {
    pub kind: u32,
    /// None if it does not end, or is not text.
    pub name: Option<String>,
    pub port: u32,
    pub minpoll: i32,
    pub maxpoll: i32,
    pub presend: i32,
    pub min_stratum: u32,
    pub polltarget: u32,
    pub version: u32,
    pub max_sources: u32,
    pub min_samples: i32,
    pub max_samples: i32,
    pub key: u32,
    pub max_delay: f64,
    pub max_delay_ratio: f64,
    pub max_delay_deviation_ratio: f64,
    pub min_delay: f64,
    pub asymmetry: f64,
    pub offset: f64,
    pub flags: u32,
    pub filter: i32,
}

impl NewSource {
    pub(super) fn read(from: &mut Input<'_>) -> Option<Self> {
        let kind = from.u32()?;
        let (name, rest) = from.0.split_at_checked(NAME)?;
        from.0 = rest;
        let end = name.iter().position(|octet| *octet == 0);
        let name = end.and_then(|end| name.get(..end));
        let name = name.and_then(|name| String::from_utf8(name.to_vec()).ok());
        let mut source = Self {
            kind,
            name,
            port: from.u32()?,
            minpoll: from.i32()?,
            maxpoll: from.i32()?,
            presend: from.i32()?,
            min_stratum: from.u32()?,
            polltarget: from.u32()?,
            version: from.u32()?,
            max_sources: from.u32()?,
            min_samples: from.i32()?,
            max_samples: from.i32()?,
            key: from.u32()?,
            ..Self::default()
        };
        // The port of NTS.
        from.u32()?;
        source.max_delay = from.float()?;
        source.max_delay_ratio = from.float()?;
        source.max_delay_deviation_ratio = from.float()?;
        source.min_delay = from.float()?;
        source.asymmetry = from.float()?;
        source.offset = from.float()?;
        source.flags = from.u32()?;
        source.filter = from.i32()?;
        // Certificates, and what later versions have: a quantile of delays, and room for more.
        for _ in 0..3 {
            from.u32()?;
        }
        Some(source)
    }

    pub(super) fn write(&self, to: &mut Output) {
        to.u32(self.kind);
        let name = self.name.as_deref().unwrap_or_default().as_bytes();
        let name = name.get(..name.len().min(NAME - 1)).unwrap_or_default();
        to.0.extend(name);
        to.zeros(NAME - name.len());
        to.u32(self.port);
        to.u32(self.minpoll.cast_unsigned());
        to.u32(self.maxpoll.cast_unsigned());
        to.u32(self.presend.cast_unsigned());
        to.u32(self.min_stratum);
        to.u32(self.polltarget);
        to.u32(self.version);
        to.u32(self.max_sources);
        to.u32(self.min_samples.cast_unsigned());
        to.u32(self.max_samples.cast_unsigned());
        to.u32(self.key);
        to.zeros(4);
        to.float(self.max_delay);
        to.float(self.max_delay_ratio);
        to.float(self.max_delay_deviation_ratio);
        to.float(self.min_delay);
        to.float(self.asymmetry);
        to.float(self.offset);
        to.u32(self.flags);
        to.u32(self.filter.cast_unsigned());
        to.zeros(12);
    }

    /// As the program believes it.
    ///
    /// # Errors
    ///
    /// Reasons for a refusal: a malformed name, an unknown kind, or an option that only the configuration has.
    pub fn settings(&self) -> Result<SourceSettings, Status> {
        let pool = match self.kind {
            kind::SERVER | kind::PEER => None,
            kind::POOL => {
                let wanted = usize::try_from(self.max_sources).unwrap_or(usize::MAX);
                Some(wanted.clamp(1, MAX_POOL_SOURCES))
            }
            _ => return Err(Status::Invalid),
        };
        let name = self.name.as_deref().ok_or(Status::InvalidName)?;
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-._:%".contains(letter);
        if name.is_empty() || !name.chars().all(plain) {
            return Err(Status::InvalidName);
        }
        if self.flags & flag::NTS != 0 {
            return Err(Status::NotEnabled);
        }
        Ok(SourceSettings {
            host: Host::parse(name),
            pool,
            is_peer: self.kind == kind::PEER,
            options: self.options()?,
        })
    }

    fn options(&self) -> Result<SourceOptions, Status> {
        let has = |flag| self.flags & flag != 0;
        let poll = |poll: i32| {
            let poll = i8::try_from(poll).ok();
            poll.filter(|poll| (MIN_POLL..=MAX_POLL).contains(poll))
                .ok_or(Status::Invalid)
        };
        let minpoll = poll(self.minpoll)?;
        let positive = |value: f64| Some(value).filter(|value| *value > 0.0);
        let at_most = |n: u32| n.min(MOST_SAMPLES);
        let samples = |n: i32| u32::try_from(n).ok().filter(|n| *n > 0).map(at_most);
        Ok(SourceOptions {
            port: u16::try_from(self.port).map_err(|_| Status::Invalid)?,
            minpoll,
            maxpoll: poll(self.maxpoll)?.max(minpoll),
            polltarget: self.polltarget.clamp(1, MOST_SAMPLES),
            iburst: has(flag::IBURST),
            burst: has(flag::BURST),
            presend: i8::try_from(self.presend)
                .ok()
                .filter(|presend| i32::from(*presend) < NO_PRESEND),
            xleave: has(flag::INTERLEAVED),
            version: u8::try_from(self.version)
                .ok()
                .filter(|version| (1..=4).contains(version)),
            key: Some(self.key).filter(|key| *key != 0),
            offline: !has(flag::ONLINE),
            auto_offline: has(flag::ONLINE) && has(flag::AUTO_OFFLINE),
            max_delay: self.max_delay.max(0.0),
            max_delay_ratio: positive(self.max_delay_ratio),
            max_delay_deviation_ratio: self.max_delay_deviation_ratio.max(0.0),
            min_delay: positive(self.min_delay),
            asymmetry: Some(self.asymmetry).filter(|value| value.abs() <= MOST_ASYMMETRY),
            offset: self.offset,
            filter: samples(self.filter),
            min_samples: u32::try_from(self.min_samples).ok().map(at_most),
            max_samples: samples(self.max_samples),
            noselect: has(flag::NOSELECT),
            prefer: has(flag::PREFER),
            trust: has(flag::TRUST),
            require: has(flag::REQUIRE),
            copy: has(flag::COPY),
            min_stratum: u8::try_from(self.min_stratum).map_or(MAX_STRATUM, |n| n.min(MAX_STRATUM)),
            family: match (has(flag::IPV4), has(flag::IPV6)) {
                (true, false) => Some(Family::V4),
                (false, true) => Some(Family::V6),
                _ => None,
            },
            ..SourceOptions::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As chronyc 4.3 sends `add server NAME`.
    fn plain(name: &str) -> NewSource {
        NewSource {
            kind: kind::SERVER,
            name: Some(name.to_owned()),
            port: 123,
            minpoll: 6,
            maxpoll: 10,
            presend: NO_PRESEND,
            polltarget: 8,
            max_sources: 4,
            min_samples: -1,
            max_samples: -1,
            max_delay: 3.0,
            max_delay_deviation_ratio: 10.0,
            asymmetry: 1.0,
            flags: flag::ONLINE,
            ..NewSource::default()
        }
    }

    #[test]
    fn what_is_not_said_is_as_in_a_configuration() {
        let settings = plain("192.0.2.1").settings().unwrap();
        assert_eq!(settings.host, Host::Address("192.0.2.1".parse().unwrap()));
        assert_eq!(
            (settings.pool, settings.options),
            (None, SourceOptions::default())
        );
    }

    #[test]
    fn every_option_is_taken_up() {
        let source = NewSource {
            kind: kind::POOL,
            port: 124,
            minpoll: -3,
            maxpoll: -5,
            presend: 9,
            min_stratum: 5,
            polltarget: 11,
            version: 3,
            max_sources: 99,
            min_samples: 5,
            max_samples: 33,
            key: 77,
            max_delay: 1.0,
            max_delay_ratio: 2.0,
            max_delay_deviation_ratio: 4.0,
            min_delay: 0.5,
            asymmetry: 0.25,
            offset: 0.125,
            flags: 0x5fd,
            filter: 6,
            ..plain("ntp.example.org")
        };
        let settings = source.settings().unwrap();
        let expected = SourceOptions {
            port: 124,
            minpoll: -3,
            maxpoll: -3,
            polltarget: 11,
            iburst: true,
            burst: true,
            presend: Some(9),
            xleave: true,
            version: Some(3),
            key: Some(77),
            max_delay: 1.0,
            max_delay_ratio: Some(2.0),
            max_delay_deviation_ratio: 4.0,
            min_delay: Some(0.5),
            asymmetry: Some(0.25),
            offset: 0.125,
            filter: Some(6),
            min_samples: Some(5),
            max_samples: Some(33),
            noselect: true,
            prefer: true,
            trust: true,
            require: true,
            copy: true,
            min_stratum: 5,
            ..SourceOptions::default()
        };
        assert_eq!(settings.options, expected);
        assert_eq!(settings.pool, Some(MAX_POOL_SOURCES));
        let mut octets = Output::default();
        source.write(&mut octets);
        // 372 octets of chronyc's packet but for its heading.
        assert_eq!(octets.0.len(), 352);
        assert_eq!(NewSource::read(&mut Input(&octets.0)), Some(source));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let nameless = NewSource {
            name: None,
            ..plain("")
        };
        for (source, status) in [
            (
                NewSource {
                    kind: 4,
                    ..plain("a")
                },
                Status::Invalid,
            ),
            (
                NewSource {
                    flags: flag::NTS,
                    ..plain("a")
                },
                Status::NotEnabled,
            ),
            (
                NewSource {
                    port: 65_536,
                    ..plain("a")
                },
                Status::Invalid,
            ),
            (
                NewSource {
                    minpoll: 99,
                    ..plain("a")
                },
                Status::Invalid,
            ),
            (nameless, Status::InvalidName),
            (plain(""), Status::InvalidName),
            (plain("a b"), Status::InvalidName),
        ] {
            assert_eq!(source.settings(), Err(status), "{source:?}");
        }
    }
}
