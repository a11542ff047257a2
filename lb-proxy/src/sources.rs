//! The activity of the sources of frontends with limits: as JSON from the running proxy, and in lines for
//! people. It corresponds to HAProxy's `show table`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use api::lb_proxy::{Source, Sources};
use balance::limits::{Limits, Rules};
use config_text::counted;
use daemon::config::HumanDuration;

use crate::config::Config;
use crate::table_builder::View;

/// The most sources of a frontend that are shown: enough to see who knocks, whatever is in the table.
const MOST: usize = 50;

/// The frontends with limits, or the one that is `wanted`, each with its busiest sources.
pub(crate) fn of_frontends(
    view: &View,
    wanted: Option<&str>,
    now: Instant,
) -> BTreeMap<String, Sources> {
    let config = view.config.as_deref();
    let frontends = view.table.frontends.iter().filter_map(|frontend| {
        let limits = frontend.limits.as_ref()?;
        let name = &*frontend.name;
        if wanted.is_some_and(|wanted| wanted != name) {
            return None;
        }
        let rules = config.map(|config| rules(config, name)).unwrap_or_default();
        Some((name.to_owned(), of_frontend(limits, rules, now)))
    });
    frontends.collect()
}

fn rules(config: &Config, name: &str) -> Rules {
    let mut frontends = config.frontends.iter();
    let frontend = frontends.find(|frontend| &*frontend.name == name);
    let limits = frontend.and_then(|frontend| frontend.limits.as_ref());
    limits.map(|limits| limits.rules).unwrap_or_default()
}

fn of_frontend(limits: &Limits, rules: Rules, now: Instant) -> Sources {
    let sources = limits.busiest(MOST, now).into_iter().map(|source| Source {
        address: source.address.to_string(),
        connections: source.connections,
        rate: source.rate,
    });
    Sources {
        most_connections: rules.connections,
        most_rate: rules.rate.map(|rate| rate.count),
        period_seconds: rules.rate.map(|rate| rate.period.as_secs_f64()),
        room: limits.capacity(),
        sources: sources.collect(),
    }
}

/// The output of `sources`.
#[must_use]
pub fn render(frontends: &BTreeMap<String, Sources>) -> String {
    let mut text = String::new();
    for (name, frontend) in frontends {
        // Writing to a string does not fail.
        let _written = write_frontend(&mut text, name, frontend);
    }
    text
}

fn write_frontend(text: &mut String, name: &str, frontend: &Sources) -> std::fmt::Result {
    let period = frontend.period_seconds.unwrap_or_default();
    let period = HumanDuration(Duration::try_from_secs_f64(period).unwrap_or_default());
    write!(text, "frontend {name}: a source may")?;
    match (frontend.most_connections, frontend.most_rate) {
        (Some(most), None) => writeln!(text, " have {}", counted(most, "connection"))?,
        (None, Some(most)) => {
            let most = counted(most, "connection");
            writeln!(text, " begin {most} in {period}")?;
        }
        (Some(most), Some(rate)) => {
            let most = counted(most, "connection");
            writeln!(text, " have {most}, and begin {rate} in {period}")?;
        }
        (None, None) => writeln!(text, " do as it likes")?,
    }
    for source in &frontend.sources {
        let connections = counted(source.connections, "connection");
        write!(text, "  {} {connections}", source.address)?;
        match frontend.most_rate {
            Some(_) => writeln!(text, ", {} begun in {period}", source.rate)?,
            None => writeln!(text)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use daemon::clock;
    use daemon::config::Document;

    use super::*;
    use crate::config::Config;
    use crate::table_builder::TableBuilder;

    const TWO: &str = r#"version = "v1"
[[frontend]]
name = "api"
listen = ["127.0.0.1:1"]
backend = "api"
limits = { connections = 70, rate = "100/10s" }
[[frontend]]
name = "web"
listen = ["127.0.0.1:2"]
backend = "api"
limits = { connections = 7 }
[[frontend]]
name = "free"
listen = ["127.0.0.1:3"]
backend = "api"
[[backend]]
name = "api"
[[backend.server]]
name = "a"
address = "192.0.2.1:6443"
"#;

    fn builder() -> Arc<TableBuilder> {
        let config = Config::from_document(&Document::inline("x", TWO.to_owned())).unwrap();
        TableBuilder::new(config, Arc::default(), 1)
    }

    #[test]
    fn the_busiest_sources_are_shown_and_no_more_than_so_many() {
        let builder = builder();
        let view = builder.view();
        let limits = view.table.frontends[0].limits.clone().unwrap();
        let now = clock::now();
        let mut held = Vec::new();
        for last in 1..=90_u8 {
            for _ in 0..if last == 7 { 3 } else { 1 } {
                held.push(limits.admit([192, 0, 2, last].into(), now).unwrap());
            }
        }
        let shown = of_frontends(&view, Some("api"), now);
        let sources = &shown["api"].sources;
        assert_eq!(sources.len(), MOST);
        assert_eq!(sources[0].address, "192.0.2.7");
        let text = render(&shown);
        assert!(
            text.starts_with(
                "frontend api: a source may have 70 connections, and begin 100 in 10s\n  \
                 192.0.2.7 3 connections, 3 begun in 10s\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn only_frontends_with_limits_have_sources() {
        let view = builder().view();
        let shown = of_frontends(&view, None, clock::now());
        let names: Vec<_> = shown.keys().collect();
        assert_eq!(names, ["api", "web"]);
        assert_eq!(shown["web"].most_rate, None);
        let text = render(&of_frontends(&view, Some("web"), clock::now()));
        assert_eq!(text, "frontend web: a source may have 7 connections\n");
        assert_eq!(render(&of_frontends(&view, Some("free"), clock::now())), "");
    }
}
