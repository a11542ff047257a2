//! `OpenMetrics` text rewritten as Prometheus text format 0.0.4. Pure.
//!
//! The two differ in few things: `OpenMetrics` names a counter without `_total` and an info metric
//! without `_info` where it describes it, carries units, exemplars and an end mark, and has types
//! the older format lacks.

use std::fmt::Write;

/// Rewrites what `prometheus_client` wrote.
pub(super) fn from_openmetrics(text: &str) -> String {
    let mut rewritten = String::with_capacity(text.len());
    // Help comes before the type that tells which name it is for.
    let mut help = None;
    for line in text.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = described.split_once(' ');
        } else if let Some(described) = line.strip_prefix("# TYPE ") {
            let Some((name, kind)) = described.split_once(' ') else {
                continue;
            };
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "stateset" => ("", "gauge"),
                "unknown" => ("", "untyped"),
                other => ("", other),
            };
            if let Some((_, words)) = help.take().filter(|(helped, _)| *helped == name) {
                push_line(
                    &mut rewritten,
                    format_args!("# HELP {name}{suffix} {words}"),
                );
            }
            push_line(&mut rewritten, format_args!("# TYPE {name}{suffix} {kind}"));
        } else if !line.starts_with('#') {
            push_line(&mut rewritten, format_args!("{}", without_exemplar(line)));
        }
    }
    rewritten
}

fn push_line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("a String takes whatever is written to it");
}

/// Cuts ` # {trace="…"} 0.5` off, but not a `#` in the text of a label.
fn without_exemplar(line: &str) -> &str {
    let mut quoted = false;
    let mut escaped = false;
    for (index, letter) in line.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '#' if !quoted => return line.get(..index).unwrap_or(line).trim_end(),
            _ => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_types_and_ends_are_those_of_the_older_format() {
        let open = "# HELP queries Queries received.\n# TYPE queries counter\nqueries_total{zone=\"a # b\"} 7\n\
                    # HELP build What runs.\n# TYPE build info\nbuild_info{version=\"1\"} 1\n\
                    # HELP latency_seconds Time.\n# TYPE latency_seconds histogram\n# UNIT latency_seconds seconds\n\
                    latency_seconds_bucket{le=\"0.1\"} 3 # {trace=\"x\"} 0.05\n\
                    # TYPE odd unknown\nodd 1\n# EOF\n";
        let expected = "# HELP queries_total Queries received.\n# TYPE queries_total counter\nqueries_total{zone=\"a # b\"} 7\n\
                    # HELP build_info What runs.\n# TYPE build_info gauge\nbuild_info{version=\"1\"} 1\n\
                    # HELP latency_seconds Time.\n# TYPE latency_seconds histogram\n\
                    latency_seconds_bucket{le=\"0.1\"} 3\n\
                    # TYPE odd untyped\nodd 1\n";
        assert_eq!(from_openmetrics(open), expected);
    }

    #[test]
    fn a_quote_inside_a_label_hides_nothing() {
        assert_eq!(
            without_exemplar(r##"a{b="\"# c"} 1 # {} 2"##),
            r##"a{b="\"# c"} 1"##
        );
        assert_eq!(without_exemplar(r#"a{b="\\"} 1"#), r#"a{b="\\"} 1"#);
    }
}
