use super::*;
use serde::Deserialize;
use std::time::Duration;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Spec {
    #[serde(default)]
    log: LogSpec,
    #[serde(default)]
    admin: AdminSpec,
    #[serde(default)]
    drain: Option<HumanDuration>,
    #[serde(default)]
    listen: Vec<toml::Spanned<String>>,
    #[serde(default)]
    zones: Vec<Zone>,
    #[serde(default)]
    cache: Option<Cache>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Zone {
    name: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Cache {
    max_size: ByteSize,
    #[serde(default)]
    mode: Mode,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    #[default]
    Shared,
    Sharded,
}

fn problems_of(text: &str) -> Vec<String> {
    match Document::inline("site.toml", text).parse::<Spec>() {
        Ok(spec) => vec![format!("{spec:?}")],
        Err(problems) => problems.0.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn a_full_document_is_read() {
    let text = "version = \"v1\"\ndrain = \"3s\"\nlisten = [\"127.0.0.1:53\"]\n\
                [log]\nlevel = \"debug\"\nformat = \"json\"\n[admin]\nlisten = \"127.0.0.1:9999\"\n\
                [cache]\nmax-size = \"64MiB\"\nmode = \"sharded\"\n[[zones]]\nname = \"a.\"\n";
    let spec: Spec = Document::inline("x", text).parse().unwrap();
    let default_admin = "127.0.0.1:9402".parse().unwrap();
    let common = Common::new(spec.log, spec.admin, spec.drain, default_admin);
    assert_eq!(common.drain, Duration::from_secs(3));
    assert_eq!(common.log.level, crate::log::Level::Debug);
    assert_eq!(common.admin, "127.0.0.1:9999".parse().ok());
    assert_eq!(spec.zones[0].name, "a.");
    let cache = spec.cache.unwrap();
    assert_eq!((cache.max_size.0, cache.mode), (64 << 20, Mode::Sharded));
}

#[test]
fn a_problem_names_its_place_and_the_nearest_key() {
    for (text, expected) in [
        (
            "version = \"v1\"\nlisen = []\n",
            "site.toml:2:1: unknown key `lisen`, did you mean `listen`?",
        ),
        (
            "version = \"v1\"\n[log]\n  levle = \"info\"\n",
            "site.toml:3:3: unknown key `levle`, did you mean `level`?",
        ),
        (
            "version = \"v1\"\n[[zones]]\nname = \"a\"\n[[zones]]\nnmae = \"b\"\n",
            "site.toml:5:1: unknown key `nmae`, did you mean `name`?",
        ),
        (
            "version = \"v1\"\nlog = { level = \"info\", colour = true }\n",
            "site.toml:2:25: unknown key `colour`, known here: `level`, `format`",
        ),
        (
            "version = \"v1\"\nlog.level = \"loud\"\n",
            "site.toml:2:13: unknown value `loud`, known here: `error`, `warn`, `info`, `debug`, `trace`",
        ),
        (
            "version = \"v1\"\nlog.level = \"inof\"\n",
            "site.toml:2:13: unknown value `inof`, did you mean `info`?",
        ),
        (
            "version = \"v1\"\n\ndrain = \"soon\"\n",
            "site.toml:3:9: `soon` is not a duration; write a number and a unit, as in \"250ms\", \"2s\", \"5m\", \"1h\" or \"7d\"",
        ),
        (
            "version = \"v1\"\ndrain = 5\n",
            "site.toml:2:9: invalid type: integer `5`, expected a duration with its unit, as in \"2s\"",
        ),
        (
            "version = \"v1\"\n# été\n[cache]\n",
            "site.toml:3:1: missing key `max-size`",
        ),
        (
            "version = \"v1\"\n[admin]\nlisten = \"9402\"\n",
            "site.toml:3:10: invalid value: string \"9402\", expected an address with its port, as in \"127.0.0.1:9402\", or \"none\"",
        ),
        (
            "drain = \"1s\"\n",
            "site.toml:1:1: missing key `version`; a file of this kind begins with version = \"v1\"",
        ),
        (
            "version = \"v2\"\n",
            "site.toml:1:11: unknown version `v2`, this build reads `v1`",
        ),
        (
            "version = 1\n",
            "site.toml:1:11: `version` is a text, as in version = \"v1\"",
        ),
    ] {
        assert_eq!(problems_of(text), [expected], "{text}");
    }
}

#[test]
fn every_problem_is_told_in_one_go() {
    let text = "version = \"v1\"\nlisen = []\ndrain = \"soon\"\n[log]\nlevle = \"x\"\n\
                [cache]\nmax-size = \"big\"\n[[zones]]\nname = \"a\"\nnmae = 1\n";
    let found = problems_of(text);
    assert_eq!(found.len(), 5, "{found:#?}");
    for (place, key) in [
        (":2:1:", "lisen"),
        (":3:9:", "soon"),
        (":5:1:", "levle"),
        (":7:12:", "big"),
        (":10:1:", "nmae"),
    ] {
        assert!(
            found
                .iter()
                .any(|line| line.contains(place) && line.contains(key)),
            "{place} {key} in {found:#?}"
        );
    }
}

#[test]
fn a_syntax_error_has_its_place() {
    let found = problems_of("version = \"v1\"\nlisten = [\n\"a\"\nname = 3\n");
    assert!(found[0].starts_with("site.toml:"), "{found:?}");
    let found = problems_of("version = \"v1\"\ndrain = \"1s\"\ndrain = \"2s\"\n");
    assert!(found[0].starts_with("site.toml:3:1: "), "{found:?}");
}

#[test]
fn the_admin_listener_can_be_turned_off() {
    let text = "version = \"v1\"\n[admin]\nlisten = \"none\"\n";
    let spec: Spec = Document::inline("x", text).parse().unwrap();
    let common = Common::new(
        spec.log,
        spec.admin,
        spec.drain,
        "127.0.0.1:1".parse().unwrap(),
    );
    assert_eq!(common.admin, None);
    assert_eq!(common.drain, Duration::from_secs(10));
}

#[test]
fn a_version_may_be_a_variant_or_a_tag() {
    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Variants {
        V1(Zone),
        V2 { names: Vec<String> },
    }
    #[derive(Debug, Deserialize)]
    #[serde(tag = "version", rename_all = "kebab-case")]
    enum Tagged {
        V1(Zone),
    }
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Field {
        version: String,
    }
    let first = Document::inline("x", "version = \"v1\"\nname = \"a\"\n");
    let Variants::V1(zone) = first.parse().unwrap() else {
        panic!("another version");
    };
    assert_eq!(zone.name, "a");
    let Tagged::V1(zone) = first.parse().unwrap();
    assert_eq!(zone.name, "a");
    let second = Document::inline("x", "names = [\"a\"]\nversion = \"v2\"\n");
    let Variants::V2 { names } = second.parse().unwrap() else {
        panic!("another version");
    };
    assert_eq!(names, ["a"]);
    let third = Document::inline("x", "version = \"v3\"\n");
    let error = third.parse::<Variants>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "x:1:11: unknown version `v3`, this build reads `v1`, `v2`"
    );
    let bare = Document::inline("x", "version = \"v1\"\n");
    assert_eq!(bare.parse::<Field>().unwrap().version, "v1");
    let wrong = Document::inline("x", "version = \"v1\"\nnaem = \"a\"\n");
    let error = wrong.parse::<Variants>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "x:2:1: unknown key `naem`, did you mean `name`?"
    );
}

#[test]
fn spans_of_values_become_places() {
    let text = "version = \"v1\"\nlisten = [\"a\",\n  \"bé\", \"c\"]\n";
    let document = Document::inline("site.toml", text);
    let spec: Spec = document.parse().unwrap();
    let problem = document.problem(spec.listen[2].span(), "no address");
    assert_eq!(problem.to_string(), "site.toml:3:9: no address");
    let past_the_end = document.problem(9999..9999, "x");
    assert_eq!(past_the_end.position.unwrap().line, 4);
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = Document::read("/nonexistent/site.toml").unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("cannot read configuration file /nonexistent/site.toml: No such file"),
        "{text}"
    );
    // A stream without an end is read no further than a file may be long.
    let error = Document::read("/dev/zero").unwrap_err();
    assert!(error.to_string().contains("larger than"), "{error}");
    assert!(Document::read("/").is_err());
}
