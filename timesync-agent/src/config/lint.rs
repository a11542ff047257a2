//! Settings without effect.

use time_model::settings::{
    ClientSettings, DEFAULT_MAX_UNREACH, LogFile, RefclockDriver, RefclockOptions,
    RefclockSettings, Settings, SourceOptions,
};

/// A hardware clock that is read so seldom, every 16 s, has no line ([`NicClock`](clocks::nic::NicClock)) to put a stamp on.
const TOO_SELDOM: i8 = 4;

/// A sentence on each setting that does nothing, seeing what else is set.
#[must_use]
pub fn unused(settings: &Settings) -> Vec<String> {
    let (clock, logs) = (&settings.clock, &settings.logs);
    let of_sources = |has: fn(&SourceOptions) -> bool| {
        let mut sources = settings.sources.iter();
        sources.any(|source| has(&source.options))
    };
    let of_clocks = |has: fn(&RefclockOptions) -> bool| {
        let mut clocks = settings.refclocks.iter();
        clocks.any(|clock| has(&clock.options))
    };
    let said = [
        (
            logs.has(LogFile::Tempcomp) && clock.temperature.is_none(),
            "`log tempcomp` does nothing without `tempcomp`",
        ),
        (
            logs.directory.is_none() && !logs.write.is_empty(),
            "`log` does nothing without `logdir`",
        ),
        (
            of_sources(|options| options.max_unreach != DEFAULT_MAX_UNREACH),
            "`maxunreach` does nothing: a source that did not answer eight times in a row is not selected at all",
        ),
        (
            of_sources(|options| {
                let default = SourceOptions::default().max_delay_deviation_ratio;
                options.max_delay_deviation_ratio.to_bits() != default.to_bits()
            }),
            "`maxdelaydevratio` does nothing: the longer a round trip, the less its sample counts; `maxdelayratio` and `maxdelayquant` leave samples out",
        ),
        (
            settings.client.min_samples != ClientSettings::default().min_samples
                || of_sources(|options| options.min_samples.is_some())
                || of_clocks(|options| options.min_samples.is_some()),
            "`minsamples` does nothing: no sample is dropped because others do not fit, it counts less as it ages",
        ),
        (
            of_clocks(|options| options.local),
            "`local` of a reference clock does not steady the clock: such a clock is shown, and never followed",
        ),
        (
            of_clocks(|options| options.max_unreach != DEFAULT_MAX_UNREACH),
            "`maxunreach` of a reference clock does nothing: one that said nothing eight times in a row is not selected at all",
        ),
        (
            settings.refclocks.iter().any(is_read_too_seldom),
            "`extpps` does nothing with a `dpoll` above 3: the clock that stamps the pulses is read too seldom to know when they came",
        ),
        (
            settings
                .sources
                .iter()
                .any(|source| source.is_peer && source.options.key.is_none()),
            "a peer without `key`: anyone who sends packets with its address can disturb the exchange with it",
        ),
        (
            settings.sources.iter().any(|source| {
                let options = &source.options;
                let has_bursts = options.iburst || options.burst || options.presend.is_some();
                source.is_peer && (has_bursts || options.xleave)
            }),
            "`iburst`, `burst`, `presend` and `xleave` of a peer do nothing: each side sends one packet in a polling interval, in basic mode",
        ),
        (
            !settings.server.is_open() && settings.local.is_some() && settings.sources.is_empty(),
            "`local` is for clients, and no client is allowed: add `allow`",
        ),
    ];
    let said = said.into_iter().filter(|(is_said, _)| *is_said);
    said.map(|(_, sentence)| sentence.to_owned()).collect()
}

/// A hardware clock that stamps pulses takes readings next to them.
fn is_read_too_seldom(clock: &RefclockSettings) -> bool {
    let stamps_pulses = match &clock.driver {
        RefclockDriver::Phc { options, .. } => options.external_pulses.is_some(),
        _ => false,
    };
    stamps_pulses && clock.options.driver_poll >= TOO_SELDOM
}

#[cfg(test)]
mod tests {
    use super::*;
    use peer_chrony::parse_bytes;

    fn settings(text: &str) -> Settings {
        Settings::new(&parse_bytes(text.as_bytes()).unwrap().draft.config)
    }

    #[test]
    fn what_does_nothing_is_told() {
        for (text, word) in [
            ("logdir /l\nlog tempcomp", "tempcomp"),
            ("log selection", "logdir"),
            ("log tracking", "logdir"),
            ("log refclocks", "logdir"),
            ("server a maxunreach 8", "maxunreach"),
            ("refclock SHM 0 maxunreach 8", "maxunreach"),
            ("server a maxdelaydevratio 4", "maxdelaydevratio"),
            ("server a minsamples 8", "minsamples"),
            ("peer a", "without `key`"),
            ("peer a key 7 iburst", "of a peer do nothing"),
            ("minsamples 8", "minsamples"),
            ("refclock SHM 0 minsamples 8", "minsamples"),
            ("refclock PHC /dev/ptp0 local", "local"),
            ("refclock PHC /dev/ptp0:extpps dpoll 4 poll 6", "extpps"),
            ("local stratum 10", "allow"),
        ] {
            let said = unused(&settings(text));
            assert_eq!(said.len(), 1, "{text}: {said:?}");
            assert!(said[0].contains(word), "{text}: {said:?}");
        }
        let quiet = "server a iburst\npeer b key 7\nrefclock PHC /dev/ptp0:extpps dpoll 3 poll 6\nrefclock PHC /dev/ptp1 dpoll 4 poll 6\ntempcomp /t 30 /points\nallow\nsmoothtime 400 0.001\nlocal stratum 10\nlogdir /l\nlog tracking\nmakestep 1 3\nrtcsync";
        assert_eq!(unused(&settings(quiet)), [""; 0]);
    }
}
