//! The nodes of a site, each asked over ssh for what `outpost` prints there.
//!
//! The user, the key and the jump host are in ssh's own configuration. Never prompts for a
//! password.

use std::net::IpAddr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use api::outpost::Reached;
use serde::de::DeserializeOwned;
use site::Site;
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
const COMMAND: &str = "sh -c 'if [ \"$(id -u)\" = 0 ]; then exec \"$@\"; else exec sudo -n \"$@\"; fi' \
    sh /usr/local/bin/outpost";

/// Asks all nodes of a site for the JSON that `outpost` with these words prints there. All at once: one that is silent delays no
/// other.
pub(crate) async fn ask_all<T>(site: &Site, login: &str, words: &[&str]) -> Vec<Reached<T>>
where
    T: DeserializeOwned + Send + 'static,
{
    let line = command_line(words);
    let asked: Vec<_> = site
        .nodes
        .iter()
        .map(|node| {
            let (login, address, line) = (login.to_owned(), node.address(), line.clone());
            tokio::spawn(async move { ask::<T>(&login, address, &line).await })
        })
        .collect();
    let mut reached = Vec::new();
    for (node, asked) in site.nodes.iter().zip(asked) {
        reached.push(
            match asked.await.unwrap_or_else(|error| Err(error.into())) {
                Ok(answer) => Reached::Node(answer),
                Err(error) => Reached::Unreachable {
                    node: node.name.clone(),
                    error: format!("{error:#}"),
                },
            },
        );
    }
    reached
}

/// The line for the shell of another node. A word is one there too, whatever characters it has.
fn command_line(words: &[&str]) -> String {
    let quoted = words
        .iter()
        .map(|word| format!(" '{}'", word.replace('\'', "'\\''")));
    std::iter::once(COMMAND.to_owned()).chain(quoted).collect()
}

/// The lines for a node that did not answer.
pub(crate) fn unreachable(name: &str, reason: &str) -> String {
    format!("{name}\n  ! it cannot be asked: {reason}\n")
}

/// Asks a node. One whose services are not well answers all the same.
///
/// # Errors
///
/// When it does not answer in time, or with something else; with what was said of that.
async fn ask<T: DeserializeOwned>(login: &str, address: IpAddr, line: &str) -> anyhow::Result<T> {
    let mut command = Command::new("ssh");
    command
        .args(OPTIONS)
        .args(["-l", login, "--", &address.to_string(), line]);
    match tokio::time::timeout(TIME, answer(command)).await {
        Ok(answer) => answer,
        Err(_) => bail!("it took longer than {} s", TIME.as_secs()),
    }
}

/// Runs ssh to its end.
async fn answer<T: DeserializeOwned>(mut command: Command) -> anyhow::Result<T> {
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
    use api::outpost::Node;

    use super::*;

    #[test]
    fn a_word_is_one_word_of_the_other_shell() {
        for word in ["api.example.org", "*.apps", "it's $(id) \"x\" \\", ""] {
            let line = command_line(&["explain", word]);
            // The command itself prints its words, one a line, instead of running another program.
            let line = line.replace(
                "exec \"$@\"; else exec sudo -n \"$@\"",
                "printf \"%s\\n\" \"$@\"; else printf \"%s\\n\" \"$@\"",
            );
            let shell = std::process::Command::new("sh")
                .args(["-c", &line])
                .output();
            let said = String::from_utf8(shell.unwrap().stdout).unwrap();
            assert_eq!(said, format!("/usr/local/bin/outpost\nexplain\n{word}\n"));
        }
    }

    #[test]
    fn a_node_without_an_answer_has_a_line_with_the_reason() {
        assert!(unreachable("master-1", "no route").contains("cannot be asked: no route"));
    }

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
