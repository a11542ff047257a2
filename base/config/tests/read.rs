//! Reading of configuration files: all problems at once, each with its place.

use std::time::Duration;

use serde::Deserialize;

use config::{Admin, AdminListen, ByteSize, Document, HumanDuration, Log, LogLevel, at};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Spec {
    #[serde(default)]
    log: Log,
    #[serde(default)]
    admin: Admin<9402>,
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
    assert_eq!(spec.drain, Some(HumanDuration(Duration::from_secs(3))));
    assert_eq!(spec.log.level, LogLevel::Debug);
    assert_eq!(spec.admin.listen.address(), "127.0.0.1:9999".parse().ok());
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
            "site.toml:3:10: an IP address is missing in `9402`; write an IP address and a port, as in \"127.0.0.1:9402\", or \"none\"",
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
    assert_eq!(spec.admin.listen, AdminListen::None);
    let absent: Spec = Document::inline("x", "version = \"v1\"\n[admin]\n")
        .parse()
        .unwrap();
    assert_eq!(absent.admin.listen.address(), "127.0.0.1:9402".parse().ok());
}

#[test]
fn rules_between_keys_are_checked_beside_wrong_values() {
    let text = "version = \"v1\"\n[[zones]]\nname = \"a\"\n[[zones]]\nname = \"a\"\n[log]\nlevel = \"x\"\n";
    let document = Document::inline("x", text);
    let parsed = document.parse_with::<Spec>(|spec, check| {
        assert_eq!(spec.zones.len(), 2);
        check.problem(&at!["zones", 1, "name"], "twice");
        check.problem(&at!["zones", 0, "kind"], "no kind");
    });
    let found: Vec<String> = parsed
        .unwrap_err()
        .0
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        found,
        [
            "x:2:1: no kind",
            "x:5:8: twice",
            "x:7:9: unknown value `x`, known here: `error`, `warn`, `info`, `debug`, `trace`"
        ]
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
fn wrong_values_are_known_as_lost() {
    let text = "version = \"v1\"\nlisten = [1, \"a\"]\ndrian = \"1s\"\n[[zones]]\nname = \"a\"\n\
                [[zones]]\nnmae = \"b\"\n[[zones]]\nname = 5\n[cache]\nmax-size = \"big\"\n";
    let document = Document::inline("x", text);
    let problems = document.parse_with::<Spec>(|spec, check| {
        assert_eq!(spec.zones.len(), 1);
        for way in [
            &at!["listen"][..],
            &at!["drian"],
            &at!["drain"],
            &at!["zones"],
            &at!["cache"],
        ] {
            assert!(check.is_lost(way), "{way:?}");
        }
        for way in [&at!["log"][..], &at!["zones", 0, "name"], &at!["listen", 0]] {
            assert!(!check.is_lost(way), "{way:?}");
        }
    });
    assert_eq!(problems.unwrap_err().0.len(), 5);
}

#[test]
fn a_lost_value_is_found_where_its_item_has_moved_to() {
    #[derive(Debug, Deserialize)]
    struct Items {
        item: Vec<Item>,
    }
    #[derive(Debug, Deserialize)]
    struct Item {
        #[serde(rename = "name")]
        _name: String,
        size: Option<ByteSize>,
    }
    let text = "version = \"v1\"\n[[item]]\nname = \"a\"\n[[item]]\nname = 1\n[[item]]\nname = \"b\"\nsize = \"x\"\n";
    let document = Document::inline("x", text);
    let problems = document.parse_with::<Items>(|items, check| {
        assert_eq!(items.item.len(), 2);
        assert_eq!(items.item[1].size, None);
        assert!(check.is_lost(&at!["item", 1, "size"]));
        // The second item with its wrong name is no more: the name of the third is good.
        assert!(!check.is_lost(&at!["item", 1, "name"]));
    });
    assert_eq!(problems.unwrap_err().0.len(), 2);
}
