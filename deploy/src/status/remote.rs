//! Another node, asked over ssh for what it shows of itself.
//!
//! The user, the key and the jump host are in ssh's own configuration. Never prompts for a
//! password.

use std::net::IpAddr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use api::outpost::Node;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

/// How long a node may take in all: its own questions have bounds within it.
const TIME: Duration = Duration::from_secs(60);

/// The most that a node may say: a hundred times what one says of six services.
const LENGTH: u64 = 4 << 20;

/// Never prompts; gives a silent node up, before and after it has let us in; the server's banner is no
/// error.
const OPTIONS: [&str; 12] = [
    "-T",
    "-x",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=5",
    "-o",
    "ServerAliveInterval=5",
    "-o",
    "ServerAliveCountMax=3",
    "-o",
    "LogLevel=ERROR",
];

/// By its whole path, which the paths of sudo and of shells without a login often lack; with sudo
/// where it is wanted.
const COMMAND: &str = "sh -c 'ask=\"/usr/local/bin/outpost status --node --json\"; \
    if [ \"$(id -u)\" = 0 ]; then exec $ask; else exec sudo -n $ask; fi'";

/// Asks a node. One whose services are not well answers all the same.
///
/// # Errors
///
/// When it does not answer in time, or with something else; with what was said of that.
pub(super) async fn ask(login: &str, address: IpAddr) -> anyhow::Result<Node> {
    let mut command = Command::new("ssh");
    command
        .args(OPTIONS)
        .args(["-l", login, "--", &address.to_string(), COMMAND]);
    match tokio::time::timeout(TIME, answer(command)).await {
        Ok(answer) => answer,
        Err(_) => bail!("it took longer than {} s", TIME.as_secs()),
    }
}

/// Runs ssh to its end.
async fn answer(mut command: Command) -> anyhow::Result<Node> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("cannot run ssh")?;
    let (out, complaint) = tokio::join!(all(child.stdout.take()), all(child.stderr.take()));
    let status = child.wait().await.context("cannot wait for ssh")?;
    let status = format!("ssh ended with {status}");
    serde_json::from_slice(&out).map_err(|_| anyhow!("{}", last_line(&complaint).unwrap_or(status)))
}

/// Everything that there is to read, within bounds.
async fn all(stream: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut octets = Vec::new();
    if let Some(stream) = stream {
        // Keep what was read before an error.
        let _error = stream.take(LENGTH).read_to_end(&mut octets).await;
    }
    octets
}

/// Programs say at the end why they end.
fn last_line(octets: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(octets);
    let mut lines = text.lines().map(str::trim);
    let line = lines.rfind(|line| !line.is_empty())?;
    Some(line.chars().filter(|letter| !letter.is_control()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of a program in the place of ssh.
    async fn said(script: &str) -> Result<Node, String> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        answer(command).await.map_err(|error| format!("{error:#}"))
    }

    #[tokio::test]
    async fn a_node_that_is_not_well_answers_all_the_same() {
        let expected = Ok(Node {
            node: "m0".to_owned(),
            ..Node::default()
        });
        assert_eq!(said("echo '{\"node\": \"m0\"}'; exit 69").await, expected);
    }

    #[tokio::test]
    async fn a_reason_is_told_when_there_is_no_answer() {
        for (script, expected) in [
            (
                "echo first >&2; echo 'Connection timed out' >&2; echo >&2; exit 255",
                "Connection timed out",
            ),
            ("echo nonsense; exit 0", "ssh ended with exit status: 0"),
            ("exit 255", "ssh ended with exit status: 255"),
            ("printf 'a\\033[2Jb' >&2; exit 1", "a[2Jb"),
        ] {
            assert_eq!(said(script).await, Err(expected.to_owned()), "{script}");
        }
    }

    #[tokio::test]
    async fn what_a_node_says_has_an_end() {
        assert!(said("yes | head -c 20000000").await.is_err());
    }
}
