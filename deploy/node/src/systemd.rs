//! The service manager of the node, asked and told with `systemctl`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use daemon::errln;
use tokio::process::Command;

/// How long the manager may take to say how a unit is.
const SHOW_TIME: Duration = Duration::from_secs(10);

/// The time that a stop may take beyond the unit's limit.
const BEYOND: Duration = Duration::from_secs(15);

/// The stop time of a unit that sets none: the manager's own default.
const STOP_TIME: Duration = Duration::from_secs(90);

/// The properties to read of a unit.
const PROPERTIES: &str = "LoadState,ActiveState,SubState,Result,ConditionResult,NRestarts,InvocationID,MainPID,\
     ExecMainStatus,TimeoutStopUSec,WatchdogUSec,WatchdogTimestampMonotonic,ActiveEnterTimestampMonotonic,\
     TriggeredBy,ExecStart,StatusText";

/// How a unit is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit(BTreeMap<String, String>);

impl Unit {
    /// A property as the manager writes it; empty if it has none.
    pub fn get(&self, property: &str) -> &str {
        self.0.get(property).map_or("", String::as_str)
    }

    /// Whether there is such a unit.
    pub fn is_known(&self) -> bool {
        self.get("LoadState") == "loaded"
    }

    /// Whether it has said that it is ready, and has not ended since.
    pub fn is_active(&self) -> bool {
        matches!(self.get("ActiveState"), "active" | "reloading")
    }

    /// Whether nothing of it runs, nor will.
    pub fn is_at_rest(&self) -> bool {
        matches!(self.get("ActiveState"), "inactive" | "failed")
    }

    /// How often it was started again since it was started.
    pub fn n_restarts(&self) -> u64 {
        self.get("NRestarts").parse().unwrap_or(0)
    }

    /// Whether its process is a container's.
    pub fn is_container(&self) -> bool {
        self.get("ExecStart").contains("/podman ")
    }

    /// The id of this run of it.
    pub fn run(&self) -> (&str, u64) {
        (self.get("InvocationID"), self.n_restarts())
    }

    /// The socket units that hand sockets to it.
    pub fn sockets(&self) -> impl Iterator<Item = &str> {
        self.get("TriggeredBy")
            .split_whitespace()
            .filter(|name| name.ends_with(".socket"))
    }

    /// In two words and why.
    pub fn describe(&self) -> String {
        let state = format!("{} ({})", self.get("ActiveState"), self.get("SubState"));
        let more = match (self.get("ConditionResult"), self.get("Result")) {
            ("no", _) => ", its condition is not met".to_owned(),
            (_, "" | "success") => String::new(),
            (_, result) => format!(", {result}, exit status {}", self.get("ExecMainStatus")),
        };
        let text = self.get("StatusText");
        match text.is_empty() {
            true => state + &more,
            false => format!("{state}{more}: {text}"),
        }
    }
}

/// How a unit is.
///
/// # Errors
/// When the manager does not say.
pub async fn show(unit: &str) -> anyhow::Result<Unit> {
    let arguments = ["show", "--property", PROPERTIES, unit];
    let text = run("systemctl", arguments, SHOW_TIME).await?;
    Ok(parse(&text))
}

/// The ports on which a socket unit listens.
///
/// # Errors
/// When the manager does not say.
pub async fn ports(socket: &str) -> anyhow::Result<Vec<u16>> {
    let arguments = ["show", "--property", "Listen", socket];
    let text = run("systemctl", arguments, SHOW_TIME).await?;
    Ok(listens(&text))
}

fn parse(text: &str) -> Unit {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    Unit(
        pairs
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
    )
}

/// Lines such as `Listen=192.168.7.13:53 (Datagram)`; paths have no ports.
fn listens(text: &str) -> Vec<u16> {
    let words = text
        .lines()
        .filter_map(|line| line.strip_prefix("Listen="))
        .flat_map(str::split_whitespace);
    words
        .filter_map(|word| word.rsplit_once(':')?.1.parse().ok())
        .collect()
}

/// Starts a unit and waits until it is ready.
///
/// # Errors
/// When it is not within the time, or ends.
pub async fn start(unit: &str, patience: Duration) -> anyhow::Result<()> {
    run("systemctl", ["start", unit], patience).await?;
    Ok(())
}

/// Stops a unit and waits until nothing of it runs.
///
/// # Errors
/// When it does not end, even killed.
pub async fn stop(unit: &str) -> anyhow::Result<()> {
    let allowed = span(show(unit).await?.get("TimeoutStopUSec")).unwrap_or(STOP_TIME);
    run("systemctl", ["stop", unit], allowed + BEYOND).await?;
    let after = show(unit).await?;
    if !after.is_at_rest() {
        bail!("{unit} is {} after it was stopped", after.describe());
    }
    forget_failure(unit).await;
    Ok(())
}

/// Makes a unit that has failed one that does not run.
pub async fn forget_failure(unit: &str) {
    let seen = show(unit).await.unwrap_or_default();
    if seen.get("ActiveState") != "failed" {
        return;
    }
    if let Err(error) = run("systemctl", ["reset-failed", unit], SHOW_TIME).await {
        errln!("outpost: {unit} stays failed: {error:#}");
    }
}

/// The lines that a unit's processes wrote to the journal, and how to read more of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// The last lines, the newest last.
    pub lines: Vec<String>,
    /// The command that shows all of it.
    pub command: String,
}

/// The last lines that a unit's own processes wrote since a moment, in seconds since 1970. Without any, those
/// that the manager wrote of the unit; empty when the journal cannot be read.
pub async fn log(unit: &str, since: u64) -> Log {
    let since = format!("--since=@{since}");
    let own = format!("_SYSTEMD_UNIT={unit}");
    // The journal may not have taken up the last lines of a process that has just ended.
    drop(run("journalctl", ["--sync"], SHOW_TIME).await);
    let mut lines = Vec::new();
    for of in [own, format!("--unit={unit}")] {
        if lines.is_empty() {
            let count = format!("--lines={LOG_LINES}");
            let arguments = ["--no-pager", "--quiet", "--output=cat", &count, &since, &of];
            let text = run("journalctl", arguments, SHOW_TIME).await;
            lines = text.as_deref().map(log_lines).unwrap_or_default();
        }
    }
    Log {
        lines,
        command: format!("journalctl --no-pager --unit={unit} {since}"),
    }
}

/// Lines for a terminal: the last of them, each of bounded length, without control characters.
fn log_lines(text: &str) -> Vec<String> {
    let all: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = all.split_at(all.len().saturating_sub(LOG_LINES)).1;
    let clean = |line: &&str| {
        let letters = line.chars().take(LOG_LINE);
        letters
            .map(|letter| if letter.is_control() { ' ' } else { letter })
            .collect()
    };
    last.iter().map(clean).collect()
}

/// How many lines of a process are shown.
const LOG_LINES: usize = 10;

/// How many characters of a line are shown.
const LOG_LINE: usize = 400;

/// A time as systemctl prints it: `1min 30s`, `500ms`, `infinity`.
fn span(text: &str) -> Option<Duration> {
    if text.is_empty() {
        return None;
    }
    let parts = text.split_whitespace().map(|part| {
        let digits = part.find(|letter: char| !letter.is_ascii_digit())?;
        let (number, unit) = part.split_at_checked(digits)?;
        let number: u64 = number.parse().ok()?;
        Some(match unit {
            "us" => Duration::from_micros(number),
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "min" => Duration::from_secs(number * 60),
            "h" => Duration::from_secs(number * 3600),
            _ => return None,
        })
    });
    parts.sum()
}

/// Runs a program to its end and gives its output.
///
/// # Errors
/// When it cannot be run, takes too long or fails; with what it said.
pub async fn run<A: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = A>,
    patience: Duration,
) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let shown = command.as_std().get_args().map(OsStr::to_string_lossy);
    let shown: Vec<_> = shown.collect();
    let shown = format!("{program} {}", shown.join(" "));
    let ended = tokio::time::timeout(patience, command.output()).await;
    let Ok(ended) = ended else {
        bail!("`{shown}` took longer than {} s", patience.as_secs());
    };
    let ended = ended.with_context(|| format!("cannot run `{shown}`"))?;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr);
        let said = said.lines().next().unwrap_or("it says nothing");
        bail!("`{shown}` failed ({}): {said}", ended.status);
    }
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_read() {
        let unit = parse(
            "LoadState=loaded\nActiveState=active\nSubState=running\nNRestarts=3\nInvocationID=ab\n\
             TriggeredBy=outpost-dns-authd.socket path.path\nExecStart={ path=/usr/bin/podman ; argv[]=/usr/bin/podman run x }\n",
        );
        assert!(unit.is_known() && unit.is_active() && !unit.is_at_rest() && unit.is_container());
        assert_eq!(unit.run(), ("ab", 3));
        assert_eq!(
            unit.sockets().collect::<Vec<_>>(),
            ["outpost-dns-authd.socket"]
        );
        assert_eq!(unit.describe(), "active (running)");
        let unit = parse("ActiveState=inactive\nSubState=dead\nConditionResult=no\n");
        assert!(unit.is_at_rest() && !unit.is_known());
        assert_eq!(unit.describe(), "inactive (dead), its condition is not met");
        let unit = parse(
            "ActiveState=failed\nSubState=failed\nConditionResult=yes\nResult=exit-code\nExecMainStatus=78\nStatusText=start failed: x\n",
        );
        let told = "failed (failed), exit-code, exit status 78: start failed: x";
        assert_eq!(unit.describe(), told);
    }

    #[test]
    fn ports_and_spans_are_read() {
        let text =
            "Listen=0.0.0.0:53 (Datagram)\nListen=[::]:53 (Stream)\nListen=/run/x.sock (Stream)\n";
        assert_eq!(listens(text), [53, 53]);
        for (text, expected) in [
            ("1min 30s", Some(Duration::from_secs(90))),
            ("500ms", Some(Duration::from_millis(500))),
            ("infinity", None),
            ("", None),
        ] {
            assert_eq!(span(text), expected, "{text}");
        }
    }

    #[test]
    fn lines_of_a_journal_are_bounded() {
        let many: String = (0..50).map(|number| format!("{number}\n\n")).collect();
        let lines = log_lines(&many);
        assert_eq!((lines.len(), lines[0].as_str()), (LOG_LINES, "40"));
        let wide = "a\u{1b}[2J".to_owned() + &"b".repeat(1000);
        let lines = log_lines(&wide);
        assert!(lines[0].starts_with("a [2Jb"), "{lines:?}");
        assert_eq!(lines[0].chars().count(), LOG_LINE);
    }

    #[test]
    fn a_program_that_fails_is_quoted_and_one_that_hangs_is_ended() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let second = Duration::from_secs(5);
            assert_eq!(run("echo", ["a", "b"], second).await.unwrap(), "a b\n");
            let error = run("sh", ["-c", "echo no >&2; exit 3"], second).await;
            let text = error.unwrap_err().to_string();
            assert!(
                text.contains("exit status: 3") && text.ends_with(": no"),
                "{text}"
            );
            let error = run("sleep", ["60"], Duration::from_millis(20)).await;
            assert!(error.unwrap_err().to_string().contains("took longer"));
            assert!(run("/nonexistent", ["x"], second).await.is_err());
        });
    }
}
