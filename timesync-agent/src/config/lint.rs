//! What is said and does nothing.

use crate::settings::{DEFAULT_MAX_UNREACH, Settings, SourceOptions};

/// A sentence on each setting that does nothing, seeing what else is set.
#[must_use]
pub fn unused(settings: &Settings) -> Vec<String> {
    let (clock, logs) = (&settings.clock, &settings.logs);
    let of_sources = |has: fn(&SourceOptions) -> bool| {
        let mut sources = settings.sources.iter();
        sources.any(|source| has(&source.options))
    };
    let said = [
        (
            logs.temperature && clock.temperature.is_none(),
            "`log tempcomp` does nothing without `tempcomp`",
        ),
        (
            logs.selection,
            "`log selection` does nothing: what was selected is in `tracking` and in the metrics",
        ),
        (
            logs.directory.is_none() && (logs.measurements || logs.statistics || logs.tracking),
            "`log` does nothing without `logdir`",
        ),
        (
            of_sources(|options| options.max_unreach != DEFAULT_MAX_UNREACH),
            "`maxunreach` does nothing: a source that is not reached is not selected once its distance is too large",
        ),
        (
            !settings.server.is_open() && settings.local.is_some() && settings.sources.is_empty(),
            "`local` is for clients, and nobody is allowed to ask: say `allow`",
        ),
    ];
    let said = said.into_iter().filter(|(is_said, _)| *is_said);
    said.map(|(_, sentence)| sentence.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chrony_conf::parse_bytes;

    #[test]
    fn what_does_nothing_is_told() {
        for (text, word) in [
            ("logdir /l\nlog tempcomp", "tempcomp"),
            ("log selection", "log selection"),
            ("log tracking", "logdir"),
            ("server a maxunreach 8", "maxunreach"),
            ("local stratum 10", "allow"),
        ] {
            let said = unused(&parse_bytes(text.as_bytes()).unwrap().settings);
            assert_eq!(said.len(), 1, "{text}: {said:?}");
            assert!(said[0].contains(word), "{text}: {said:?}");
        }
        let quiet = "server a iburst\ntempcomp /t 30 /points\nallow\nsmoothtime 400 0.001\nlocal stratum 10\nlogdir /l\nlog tracking\nmakestep 1 3\nrtcsync";
        assert_eq!(
            unused(&parse_bytes(quiet.as_bytes()).unwrap().settings),
            [""; 0]
        );
    }
}
