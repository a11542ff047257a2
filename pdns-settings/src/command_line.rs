//! Settings on a command line: `--daemon=no` and the like, which are too many to be flags of ours.

/// Takes a peer's settings off a command line: what stays, and each setting with its value.
///
/// Only where one of `files`, the flags that name the peer's files, is there; only in the peer's
/// form, with `=` or without a value; and never a flag of `own`, named without its `--`.
#[must_use]
pub fn split(
    arguments: Vec<String>,
    files: &[&str],
    own: &[&str],
) -> (Vec<String>, Vec<(String, String)>) {
    let names_a_file = |argument: &String| {
        files.iter().any(|flag| {
            let rest = argument.strip_prefix(flag);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        })
    };
    if !arguments.iter().any(names_a_file) {
        return (arguments, Vec::new());
    }
    let mut kept = Vec::new();
    let mut settings = Vec::new();
    for argument in arguments {
        let long = argument.strip_prefix("--").filter(|rest| !rest.is_empty());
        let key = long.map(|rest| rest.split_once('=').map_or(rest, |(key, _)| key));
        match (long, key) {
            (Some(long), Some(key)) if !own.contains(&key) => {
                let value = long.split_once('=').map_or("yes", |(_, value)| value);
                settings.push((key.to_owned(), value.to_owned()));
            }
            _ => kept.push(argument),
        }
    }
    (kept, settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, kept: &str, settings: &[(&str, &str)]) {
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let expected: Vec<(String, String)> = settings
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let found = split(words(line), &["--pdns-conf"], &["pdns-conf", "log-level"]);
        assert_eq!(found, (words(kept), expected), "{line}");
    }

    #[test]
    fn settings_are_told_from_flags() {
        check("serve --daemon=no", "serve --daemon=no", &[]);
        check(
            "serve --pdns-conference --daemon",
            "serve --pdns-conference --daemon",
            &[],
        );
        check(
            "serve --pdns-conf x --daemon=no --guardian --log-level debug --a=b=c",
            "serve --pdns-conf x --log-level debug",
            &[("daemon", "no"), ("guardian", "yes"), ("a", "b=c")],
        );
        check(
            "--pdns-conf=x -- -v --=y",
            "--pdns-conf=x -- -v",
            &[("", "y")],
        );
    }
}
