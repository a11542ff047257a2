//! The commands that there are, by HAProxy's names, and the level that each needs.

use std::fmt::Write as _;
use std::time::Duration;

use config::lb_proxy::StatsLevel as Level;

use crate::sessions;

/// The longest silence that `set timeout cli` allows.
const LONGEST_TIMEOUT: Duration = Duration::from_hours(24);

/// A command that a connection's level allows, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The command.
    pub verb: Verb,
    /// The words after its name.
    pub arguments: Vec<String>,
}

/// The commands that are about the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `disable server`
    DisableServer,
    /// `enable server`
    EnableServer,
    /// `get weight`
    GetWeight,
    /// `set maxconn server`
    SetMaxconn,
    /// `set server`
    SetServer,
    /// `set weight`
    SetWeight,
    /// `show backend`
    ShowBackend,
    /// `show cli sockets`
    ShowSockets,
    /// `show info`
    ShowInfo,
    /// `show servers conn`
    ShowServersConn,
    /// `show servers state`
    ShowServersState,
    /// `show sess`
    ShowSess,
    /// `show stat`
    ShowStat,
    /// `show version`
    ShowVersion,
    /// `shutdown session`
    ShutdownSession,
    /// `shutdown sessions server`
    ShutdownSessions,
}

impl Command {
    /// The command as it was written, with single blanks.
    #[must_use]
    pub fn line(&self) -> String {
        let entry = COMMANDS
            .iter()
            .find(|entry| entry.does == Does::Run(self.verb));
        let mut words: Vec<&str> = entry.map_or_else(Vec::new, |entry| entry.name.to_vec());
        words.extend(self.arguments.iter().map(String::as_str));
        words.join(" ")
    }

    /// The number of the one session that it is about.
    #[must_use]
    pub fn session(&self) -> Option<u64> {
        let is_about_sessions = self.lists_sessions();
        let first = self.arguments.first().filter(|_| is_about_sessions)?;
        sessions::number(first)
    }

    /// Whether its answer lists sessions.
    #[must_use]
    pub const fn lists_sessions(&self) -> bool {
        matches!(self.verb, Verb::ShowSess | Verb::ShutdownSession)
    }
}

/// A line of words as the connection takes it.
#[derive(Debug)]
pub(crate) enum Parsed {
    Command(Command),
    /// Answered at once.
    Text(String),
    /// There is no such command, or the level does not allow it.
    Refused(String),
    /// With a prompt, or without one again.
    Prompt,
    Quit,
    /// The level becomes this one.
    Lower(Level),
    Timeout(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Run(Verb),
    Help,
    Prompt,
    Quit,
    Lower(Level),
    SetTimeout,
    ShowLevel,
}

/// A command as `help` has it.
#[derive(Debug)]
struct Entry {
    name: &'static [&'static str],
    needs: Level,
    does: Does,
    usage: &'static str,
    help: &'static str,
}

const fn entry(
    name: &'static [&'static str],
    needs: Level,
    does: Does,
    (usage, help): (&'static str, &'static str),
) -> Entry {
    Entry {
        name,
        needs,
        does,
        usage,
        help,
    }
}

/// The commands, in the order of `help`.
static COMMANDS: [Entry; 23] = [
    entry(
        &["disable", "server"],
        Level::Admin,
        Does::Run(Verb::DisableServer),
        (
            "disable server (DEPRECATED)",
            "disable a server for maintenance (use 'set server' instead)",
        ),
    ),
    entry(
        &["enable", "server"],
        Level::Admin,
        Does::Run(Verb::EnableServer),
        (
            "enable server  (DEPRECATED)",
            "enable a disabled server (use 'set server' instead)",
        ),
    ),
    entry(
        &["get", "weight"],
        Level::User,
        Does::Run(Verb::GetWeight),
        ("get weight <bk>/<srv>", "report a server's current weight"),
    ),
    entry(
        &["operator"],
        Level::Operator,
        Does::Lower(Level::Operator),
        (
            "operator",
            "lower the level of the current CLI session to operator",
        ),
    ),
    entry(
        &["set", "maxconn", "server"],
        Level::Admin,
        Does::Run(Verb::SetMaxconn),
        (
            "set maxconn server <bk>/<srv>",
            "change a server's maxconn setting",
        ),
    ),
    entry(
        &["set", "server"],
        Level::Admin,
        Does::Run(Verb::SetServer),
        (
            "set server <bk>/<srv> [opts]",
            "change a server's state or weight",
        ),
    ),
    entry(
        &["set", "timeout"],
        Level::User,
        Does::SetTimeout,
        ("set timeout [cli] <delay>", "change a timeout setting"),
    ),
    entry(
        &["set", "weight"],
        Level::Admin,
        Does::Run(Verb::SetWeight),
        (
            "set weight <bk>/<srv>  (DEPRECATED)",
            "change a server's weight (use 'set server' instead)",
        ),
    ),
    entry(
        &["show", "backend"],
        Level::User,
        Does::Run(Verb::ShowBackend),
        (
            "show backend",
            "list backends in the current running config",
        ),
    ),
    entry(
        &["show", "cli", "level"],
        Level::User,
        Does::ShowLevel,
        (
            "show cli level",
            "display the level of the current CLI session",
        ),
    ),
    entry(
        &["show", "cli", "sockets"],
        Level::Operator,
        Does::Run(Verb::ShowSockets),
        ("show cli sockets", "dump list of cli sockets"),
    ),
    entry(
        &["show", "info"],
        Level::User,
        Does::Run(Verb::ShowInfo),
        (
            "show info [desc|json|typed|float]*",
            "report information about the running process",
        ),
    ),
    entry(
        &["show", "servers", "conn"],
        Level::User,
        Does::Run(Verb::ShowServersConn),
        (
            "show servers conn [<backend>]",
            "dump server connections status (all or for a single backend)",
        ),
    ),
    entry(
        &["show", "servers", "state"],
        Level::User,
        Does::Run(Verb::ShowServersState),
        (
            "show servers state [<backend>]",
            "dump volatile server information (all or for a single backend)",
        ),
    ),
    entry(
        &["show", "sess"],
        Level::Operator,
        Does::Run(Verb::ShowSess),
        (
            "show sess [id]",
            "report the list of current sessions or dump this exact session",
        ),
    ),
    entry(
        &["show", "stat"],
        Level::User,
        Does::Run(Verb::ShowStat),
        (
            "show stat [desc|json|no-maint|typed|up]*",
            "report counters for each proxy and server",
        ),
    ),
    entry(
        &["show", "version"],
        Level::User,
        Does::Run(Verb::ShowVersion),
        ("show version", "show version of the current process"),
    ),
    entry(
        &["shutdown", "session"],
        Level::Admin,
        Does::Run(Verb::ShutdownSession),
        ("shutdown session [id]", "kill a specific session"),
    ),
    entry(
        &["shutdown", "sessions", "server"],
        Level::Admin,
        Does::Run(Verb::ShutdownSessions),
        (
            "shutdown sessions server <bk>/<srv>",
            "kill sessions on a server",
        ),
    ),
    entry(
        &["user"],
        Level::User,
        Does::Lower(Level::User),
        ("user", "lower the level of the current CLI session to user"),
    ),
    entry(
        &["help"],
        Level::User,
        Does::Help,
        ("help [<command>]", "list matching or all commands"),
    ),
    entry(
        &["prompt"],
        Level::User,
        Does::Prompt,
        ("prompt", "toggle interactive mode with prompt"),
    ),
    entry(&["quit"], Level::User, Does::Quit, ("quit", "disconnect")),
];

/// The commands that every list ends with.
const ALWAYS: [&str; 3] = ["help", "prompt", "quit"];

/// Finds the command of a line.
pub(crate) fn parse(words: Vec<String>, level: Level) -> Parsed {
    let found = COMMANDS
        .iter()
        .find(|entry| entry.n_common(&words) == entry.name.len());
    let Some(found) = found else {
        return Parsed::Refused(unknown(&words, level));
    };
    if level < found.needs {
        return Parsed::Refused("Permission denied\n".to_owned());
    }
    let mut arguments = words;
    arguments.drain(..found.name.len());
    match found.does {
        Does::Run(verb) => Parsed::Command(Command { verb, arguments }),
        Does::Help => Parsed::Text(help(&arguments, level)),
        Does::Prompt => Parsed::Prompt,
        Does::Quit => Parsed::Quit,
        Does::Lower(level) => Parsed::Lower(level),
        Does::ShowLevel => Parsed::Text(format!("{level}\n")),
        Does::SetTimeout => set_timeout(&arguments),
    }
}

impl Entry {
    /// The first words of a line that are those of the command's name.
    fn n_common(&self, words: &[String]) -> usize {
        let pairs = self.name.iter().zip(words);
        pairs
            .take_while(|(name, word)| **name == word.as_str())
            .count()
    }
}

//--- Help

/// Says that there is no such command, and names those that begin alike.
fn unknown(words: &[String], level: Level) -> String {
    let begins_alike = |entry: &Entry| entry.n_common(words) > 0;
    match COMMANDS.iter().any(begins_alike) {
        true => list(
            "Unknown command, but maybe one of the following ones is a better match:",
            words,
            level,
        ),
        false => list(
            "Unknown command. Please enter one of the following commands only:",
            &[],
            level,
        ),
    }
}

fn help(words: &[String], level: Level) -> String {
    list(
        "The following commands are valid at this level:",
        words,
        level,
    )
}

/// The commands that share the most words with a line, or all of them, and those that every list ends with.
fn list(title: &str, words: &[String], level: Level) -> String {
    let n_most = COMMANDS
        .iter()
        .map(|entry| entry.n_common(words))
        .max()
        .unwrap_or(0);
    let mut text = format!("{title}\n");
    for entry in &COMMANDS {
        let is_alike = entry.n_common(words) == n_most;
        let is_always = entry.name.first().is_some_and(|name| ALWAYS.contains(name));
        if level >= entry.needs && (is_alike || is_always) {
            // Writing to a string does not fail.
            let _written = writeln!(text, "  {:<40}: {}", entry.usage, entry.help);
        }
    }
    text
}

//--- Time-out

fn set_timeout(arguments: &[String]) -> Parsed {
    let mut arguments = arguments.iter().map(String::as_str);
    let text = match (arguments.next(), arguments.next()) {
        (Some("cli"), Some(text)) => match seconds(text) {
            Some(timeout) => return Parsed::Timeout(timeout.min(LONGEST_TIMEOUT)),
            None => "Invalid timeout value.\n",
        },
        (Some("cli"), None) => "Expects an integer value.\n",
        _ => "'set timeout' only supports 'cli'.\n",
    };
    Parsed::Text(text.to_owned())
}

/// A time as HAProxy writes it, in seconds without a unit.
fn seconds(text: &str) -> Option<Duration> {
    let end = text.find(|character: char| !character.is_ascii_digit());
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let number: u64 = number.parse().ok()?;
    let time = match unit {
        "us" => Duration::from_micros(number),
        "ms" => Duration::from_millis(number),
        "" | "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number.checked_mul(60)?),
        "h" => Duration::from_secs(number.checked_mul(3_600)?),
        "d" => Duration::from_secs(number.checked_mul(86_400)?),
        _ => return None,
    };
    (!time.is_zero()).then_some(time)
}
