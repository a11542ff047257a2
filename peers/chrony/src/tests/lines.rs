//! How lines are taken apart, and what is said of those that make no sense.

use super::*;

#[test]
fn lines_are_taken_apart_as_chronyd_does() {
    let settings = quiet(
        "\t  SERVER\tNTP.Example.ORG \x0b IBurst MINPOLL\r 4  \n! a\n ; b\n#c\n  % d\n#\n\n  RtcSync  \n",
    );
    let source = settings.server.first().unwrap();
    assert_eq!(source.host, Host::Name("NTP.Example.ORG".to_owned()));
    assert!(source.iburst && settings.clock.rtcsync);
    assert_eq!(source.minpoll, 4);
    // A comment behind a directive is none.
    assert_eq!(
        problem("rtcsync # always"),
        "chrony.conf:1:9: `rtcsync` has too many arguments; a comment stands on a line of its own"
    );
    // Another encoding in a comment harms nobody, nor does a last line without an end.
    assert!(
        parse_bytes(b"# f\xfcr alle\nrtcsync")
            .unwrap()
            .draft
            .config
            .clock
            .rtcsync
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn every_problem_has_its_place_and_the_nearest_word() {
    for (text, expected) in [
        (
            "rtcsinc",
            "chrony.conf:1:1: chrony knows no directive `rtcsinc`; did you mean `rtcsync`?",
        ),
        (
            "\nfrobnicate 1",
            "chrony.conf:2:1: chrony knows no directive `frobnicate`",
        ),
        ("server", "chrony.conf:1:7: `server` names no host"),
        (
            "server a ibrust",
            "chrony.conf:1:10: `server` has no option `ibrust`; did you mean `iburst`?",
        ),
        (
            "server a minpoll",
            "chrony.conf:1:17: `minpoll` has no value",
        ),
        (
            "server ä minpoll x",
            "chrony.conf:1:18: `x` is no whole number",
        ),
        (
            "server a key 0",
            "chrony.conf:1:14: `0` is no number of a key",
        ),
        (
            "server a port 70000",
            "chrony.conf:1:15: `70000` is no port, 0 to 65535",
        ),
        (
            "driftfile",
            "chrony.conf:1:10: `driftfile` has too few arguments",
        ),
        (
            "driftfile a b",
            "chrony.conf:1:13: `driftfile` has no option `b`",
        ),
        (
            "makestep 1",
            "chrony.conf:1:11: `makestep` has too few arguments",
        ),
        ("makestep 1 x", "chrony.conf:1:12: `x` is no whole number"),
        ("makestep nan 1", "chrony.conf:1:10: `nan` is no number"),
        (
            "local stratum 16",
            "chrony.conf:1:15: `16` is no stratum from 1 to 15",
        ),
        (
            "log traking",
            "chrony.conf:1:5: `log` has no option `traking`; did you mean `tracking`?",
        ),
        (
            "allow 1.2.3.4/33",
            "chrony.conf:1:7: a prefix of 33 bits is too long for 1.2.3.4",
        ),
        (
            "allow all example.org/8",
            "chrony.conf:1:11: `example.org/8` is no network",
        ),
        (
            "allow 1.2.3.4 b",
            "chrony.conf:1:15: `b` is one word too many",
        ),
        (
            "bindaddress example.org",
            "chrony.conf:1:13: `example.org` is no address",
        ),
        (
            "refclock PHC",
            "chrony.conf:1:13: `refclock` takes a driver and its parameter, as in `refclock PHC /dev/ptp0`",
        ),
        (
            "refclock PCH /dev/ptp0",
            "chrony.conf:1:10: no reference clock has the driver `PCH`; did you mean `PHC`?",
        ),
        (
            "refclock SHM x",
            "chrony.conf:1:14: `x` is no parameter of SHM",
        ),
        (
            "refclock PHC /dev/ptp0:pps",
            "chrony.conf:1:14: driver PHC has no option `pps`",
        ),
        (
            "refclock PHC /dev/ptp0 refid ABCDE",
            "chrony.conf:1:30: `ABCDE` is no refid, which has one to four letters",
        ),
        (
            "refclock PPS /dev/pps0 lock GPS",
            "chrony.conf:1:29: no reference clock has the refid `GPS`",
        ),
        (
            "leapsecmode smear",
            "chrony.conf:1:13: `smear` is none of `system`, `step`, `slew`, `ignore`",
        ),
        (
            "hwtimestamp eth0 rxfilter x",
            "chrony.conf:1:27: `x` is none of `none`, `ntp`, `ptp`, `all`",
        ),
        (
            "include /none",
            "chrony.conf:1:9: cannot read /none: entity not found",
        ),
        (
            "server a nts",
            "chrony.conf:1:10: NTS is not spoken here, and a source that is to be authenticated is not asked without: use `key`, or leave `nts` out",
        ),
    ] {
        let mut files = Tree::new(&[("chrony.conf", text)]);
        let rejected = parse(Path::new("chrony.conf"), &mut files).expect_err(text);
        assert_eq!(rejected.to_string(), expected, "{text}");
    }
    assert_eq!(
        parse_bytes(b"foo\nbar\n").unwrap_err().problems.0.len(),
        2,
        "all problems are told"
    );
}

#[test]
fn numbers_out_of_range_are_bent_and_told() {
    let conf = parse_bytes(
        b"server a minpoll 99\nserver b minpoll 8 maxpoll 3\nserver c minpoll 12\nserver d version 9\n\
          pool e maxsources 99\nratelimit interval -30 burst 0 leak 9\nminsources 0\nmaxslewrate 1e9\n",
    )
    .unwrap();
    let config = conf.draft.config;
    let polls: Vec<(i8, i8)> = config
        .server
        .iter()
        .chain(&config.pool)
        .map(|source| (source.minpoll, source.maxpoll))
        .collect();
    assert_eq!(polls, [(24, 24), (8, 8), (12, 12), (6, 10), (6, 10)]);
    assert_eq!(config.server[3].version, Some(4));
    assert_eq!(config.pool[0].maxsources, Some(16));
    let limit = RateLimit {
        interval: Some(-19),
        burst: 1,
        leak: 4,
        kod: 0,
    };
    assert_eq!(config.serve.rate_limit, Some(limit));
    assert_eq!(config.selection.min_sources, 1);
    assert_eq!(config.clock.max_slew_rate, 100_000.0);
    let notes = conf.draft.notes;
    assert_eq!(notes.len(), 9, "{notes:?}");
}
