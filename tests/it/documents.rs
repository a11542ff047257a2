//! The documents tell of existing things: files, headings, and every command with its verbs and flags.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::binaries::{binary, checkout};
use tests::daemon::run;

/// Programs whose commands are held against their help.
const PROGRAMS: [&str; 8] = [
    "clusterd",
    "dns-authd",
    "dns-recursor",
    "healthd",
    "lb-proxy",
    "outpost",
    "registry-svc",
    "timesync-agent",
];

/// Settings of PowerDNS that its servers' command lines may have besides flags of ours.
const PEERS_FILES: [&str; 3] = ["--pdns-conf", "--config-dir", "--recursor-conf"];

#[test]
fn every_link_leads_to_a_file_and_a_heading_of_it() {
    let mut broken = Vec::new();
    for document in documents() {
        let text = prose(&read(&document));
        let links = text.split("](").skip(1);
        for link in links.filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => document.clone(),
                file => document.parent().unwrap().join(file),
            };
            let is_there = target.exists()
                && (heading.is_empty() || anchors(&read(&target)).iter().any(|it| it == heading));
            if !is_there {
                broken.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(
        broken.is_empty(),
        "links to nowhere:\n{}",
        broken.join("\n")
    );
}

#[test]
fn every_command_in_the_documents_is_one_that_the_programs_know() {
    let mut help = Help::default();
    let (mut n_seen, mut wrong) = (0, Vec::new());
    for document in documents() {
        for line in commands(&read(&document)) {
            n_seen += 1;
            if let Err(why) = help.understands(&line) {
                wrong.push(format!(
                    "{}: `{}`: {why}",
                    document.display(),
                    line.join(" ")
                ));
            }
        }
    }
    assert!(n_seen > 100, "only {n_seen} commands were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn commands_that_no_program_knows_are_noticed() {
    let mut help = Help::default();
    for (line, is_known) in [
        ("outpost key generate --output site", true),
        ("outpost key generate site", false),
        ("outpost render", true),
        ("outpost render --outptu x", false),
        ("outpost frobnicate", false),
        ("registry-svc verify --admin=127.0.0.1:1", true),
        ("dns-authd import nosuch file", false),
        ("dns-authd serve --pdns-conf x --launch=bind", true),
        ("dns-authd serve --launch=bind", false),
    ] {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let understood = help.understands(&words);
        assert_eq!(understood.is_ok(), is_known, "{line}: {understood:?}");
    }
}

#[test]
fn every_verb_has_help_that_fits_a_terminal() {
    let mut help = Help::default();
    let mut todo: Vec<Vec<String>> = PROGRAMS.map(|program| vec![program.to_owned()]).to_vec();
    while let Some(path) = todo.pop() {
        let page = help.page(&path).clone();
        let shown = path.join(" ");
        let first = page.text.lines().next().unwrap_or_default();
        let is_said = !first.is_empty() && !first.starts_with("Usage");
        assert!(is_said, "{shown} --help does not say first what it does");
        for line in page.text.lines() {
            assert!(line.chars().count() <= 100, "{shown} --help: {line}");
        }
        todo.extend(page.verbs.iter().map(|verb| {
            let verb = std::iter::once(verb.clone());
            path.iter().cloned().chain(verb).collect()
        }));
    }
    assert!(help.0.len() > 60, "only {} pages were found", help.0.len());
}

//--- Help

/// Pages of `--help`, by program and verbs.
#[derive(Default)]
struct Help(BTreeMap<Vec<String>, Page>);

#[derive(Clone, Default)]
struct Page {
    text: String,
    verbs: Vec<String>,
    takes_words: bool,
    /// Each flag, and whether a value follows it.
    flags: BTreeMap<String, bool>,
}

impl Help {
    fn page(&mut self, path: &[String]) -> &Page {
        self.0.entry(path.to_vec()).or_insert_with(|| {
            let (program, verbs) = path.split_first().unwrap();
            let mut command = Command::new(binary(program));
            // As in a terminal that is narrower than what pages are wrapped at.
            command.args(verbs).arg("--help").env("COLUMNS", "100");
            let (status, text, stderr) = run(command);
            assert!(status.success(), "{path:?} --help: {stderr}");
            Page::read(text)
        })
    }

    /// Whether the program takes the verbs, flags and words of a command line.
    fn understands(&mut self, line: &[String]) -> Result<(), String> {
        let (program, mut words) = line.split_first().unwrap();
        let mut path = vec![program.clone()];
        while let Some((verb, rest)) = words.split_first()
            && self.page(&path).verbs.contains(verb)
        {
            path.push(verb.clone());
            words = rest;
        }
        let page = self.page(&path).clone();
        let is_peers = words
            .iter()
            .any(|word| PEERS_FILES.contains(&word.as_str()));
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (flag, value) = match word.split_once('=') {
                Some((flag, value)) => (flag, Some(value)),
                None => (word.as_str(), None),
            };
            match page.flags.get(flag) {
                Some(true) if value.is_none() => drop(words.next()),
                Some(_) => {}
                None if flag.starts_with("--") && is_peers => {}
                None if flag.starts_with('-') => return Err(format!("no flag {flag}")),
                // A verb with verbs of its own may take words too (`outpost bundle list`).
                None if page.takes_words => {}
                None => return Err(format!("nothing takes {word}")),
            }
        }
        Ok(())
    }
}

impl Page {
    fn read(text: String) -> Self {
        let mut page = Self::default();
        let mut section = "";
        for line in text.lines() {
            if !line.starts_with(' ') && line.ends_with(':') {
                section = line;
            } else if let Some(usage) = line.strip_prefix("Usage: ") {
                let own = usage.replace("[OPTIONS]", "").replace("<COMMAND>", "");
                let own = own.replace("[COMMAND]", "");
                let after_flags = own.rsplit("--").next().unwrap_or_default();
                let words = match own.contains("--") {
                    // `--output <DIR> [SITE]`: the first belongs to the flag.
                    true => after_flags.split_whitespace().count() > 2,
                    false => own.contains(['<', '[']),
                };
                page.takes_words = words;
            } else if section == "Commands:" {
                let verb = line.strip_prefix("  ").and_then(|it| it.split(' ').next());
                let verb = verb.filter(|verb| !verb.is_empty() && *verb != "help");
                page.verbs.extend(verb.map(str::to_owned));
            } else if line.trim_start().starts_with('-') {
                let names = line.trim_start().split("  ").next().unwrap_or_default();
                // `--watch[=<TIME>]`: a value may follow, within the same word.
                let (names, may_follow) = match names.split_once("[=") {
                    Some((names, _)) => (names, true),
                    None => (names, false),
                };
                let has_value = !may_follow && names.contains(['<', '[']);
                for name in names.split([' ', ',']).filter(|it| it.starts_with('-')) {
                    let name = name.trim_end_matches("...").to_owned();
                    // Examples below the options may begin with a flag too.
                    page.flags.entry(name).or_insert(has_value);
                }
            }
        }
        page.text = text;
        page
    }
}

//--- Documents

fn documents() -> Vec<PathBuf> {
    let mut documents = Vec::new();
    for folder in ["", "docs", "docs/deploy", "tests/bench"] {
        let entries = std::fs::read_dir(checkout().join(folder)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        documents.extend(paths.filter(|path| path.extension().is_some_and(|it| it == "md")));
    }
    documents.sort();
    documents
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// A document without its blocks of code.
fn prose(text: &str) -> String {
    let outside = text.split("```").step_by(2);
    outside.collect::<Vec<_>>().join("\n")
}

/// The anchors of headings, as forges make them from the text.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let words = line.trim_start_matches('#').trim().to_lowercase();
            let kept = words
                .chars()
                .filter(|it| it.is_alphanumeric() || " -_".contains(*it));
            kept.collect::<String>().replace(' ', "-")
        })
        .collect()
}

/// The command lines of our programs: lines of blocks for the shell, and what stands between backticks.
fn commands(text: &str) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for block in text.split("```").skip(1).step_by(2) {
        let Some(block) = block.strip_prefix("sh\n") else {
            continue;
        };
        for line in block.replace("\\\n", " ").lines() {
            let line = line.split(" #").next().unwrap_or_default();
            lines.extend(line.split(['|', ';', '&', '>']).map(str::to_owned));
        }
    }
    let prose = prose(text);
    let spans = prose.split('`').skip(1).step_by(2);
    lines.extend(spans.filter(|span| span.contains(' ')).map(str::to_owned));
    lines.iter().filter_map(|line| command(line)).collect()
}

fn command(line: &str) -> Option<Vec<String>> {
    let words = line.split_whitespace();
    let words: Vec<String> = words
        .skip_while(|word| *word == "sudo")
        .map(|word| word.trim_start_matches("./").to_owned())
        .filter(|word| word != "…")
        .collect();
    let is_ours = PROGRAMS.contains(&words.first()?.as_str());
    is_ours.then_some(words)
}
