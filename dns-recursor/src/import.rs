//! Other forwarders' files as configurations of this server.
//!
//! Each reader understands one format as far as it has a counterpart here, and writes what it
//! understood as TOML. What it did not becomes a comment, `# not carried: …`, and a remark with
//! its place. Reads nothing but through [`Files`].

pub mod corefile;
pub mod dnsmasq;
mod reverse;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use config_text::toml::{line, list, quoted};
pub use config_text::{Files, Position, Problem};

/// A peer's file in this server's terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The configuration.
    pub toml: String,
    /// What was not carried over, and what is odd.
    pub remarks: Vec<Problem>,
}

/// The configuration as it grows.
#[derive(Debug, Default)]
struct Page {
    comments: String,
    top: String,
    sections: Vec<(&'static str, Vec<String>)>,
    forwards: String,
    remarks: Vec<Problem>,
}

impl Page {
    /// Something is lost.
    fn not_carried(&mut self, at: &Position, what: &str, reason: &str) {
        let what = what.replace(['\n', '\r'], " ");
        line(
            &mut self.comments,
            format_args!("# not carried: {what}: {reason}"),
        );
        self.remark(at, format!("`{what}` is not carried over: {reason}"));
    }

    fn remark(&mut self, at: &Position, message: String) {
        self.remarks.push(Problem {
            position: Some(at.clone()),
            message,
        });
    }

    /// A key at the top of the file.
    fn top(&mut self, key: &str, value: impl fmt::Display) {
        line(&mut self.top, format_args!("{key} = {value}"));
    }

    /// A key of a section; the first value it is given counts.
    fn set(&mut self, section: &'static str, key: &str, value: impl fmt::Display) {
        let text = format!("{key} = {value}");
        let known = self.sections.iter_mut().find(|(name, _)| *name == section);
        match known {
            Some((_, lines))
                if lines
                    .iter()
                    .any(|line| line.starts_with(&format!("{key} ="))) => {}
            Some((_, lines)) => lines.push(text),
            None => self.sections.push((section, vec![text])),
        }
    }

    fn forward(&mut self, forward: &Forward) {
        let upstreams = list(forward.upstreams.iter());
        let zone = quoted(&forward.zone);
        line(
            &mut self.forwards,
            format_args!("\n[[forward]]\nzone = {zone}\nupstreams = {upstreams}"),
        );
        line(&mut self.forwards, format_args!("recursive = true"));
        if let Some(policy) = forward.policy {
            line(&mut self.forwards, format_args!("policy = \"{policy}\""));
        }
        if forward.tcp {
            line(&mut self.forwards, format_args!("protocol = \"tcp\""));
        }
    }

    fn finish(self, from: &Path) -> Imported {
        let Self {
            comments,
            top,
            sections,
            forwards,
            remarks,
        } = self;
        let mut toml = format!(
            "# From {}.\n{comments}version = \"v1\"\n{top}",
            from.display()
        );
        for (name, lines) in sections {
            line(&mut toml, format_args!("\n[{name}]\n{}", lines.join("\n")));
        }
        toml.push_str(&forwards);
        Imported { toml, remarks }
    }
}

/// A zone and who answers for it.
struct Forward {
    zone: String,
    upstreams: Vec<SocketAddr>,
    policy: Option<&'static str>,
    tcp: bool,
}

/// An address, with `separator` and a port behind it or not.
fn address(text: &str, separator: char, port: u16) -> Option<SocketAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(SocketAddr::new(address, port));
    }
    if separator == ':' {
        let bare = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let bare = bare.and_then(|bare| bare.parse().ok());
        return bare
            .map(|address| SocketAddr::new(address, port))
            .or_else(|| text.parse().ok());
    }
    let (address, port) = text.split_once(separator)?;
    Some(SocketAddr::new(address.parse().ok()?, port.parse().ok()?))
}

/// The name servers of a resolv.conf (resolv.conf(5)).
fn name_servers(path: &Path, files: &mut dyn Files) -> Result<Vec<SocketAddr>, String> {
    let text = files
        .read(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let text = String::from_utf8_lossy(&text);
    let servers = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("nameserver")).then_some(())?;
        // A zone id, as in fe80::1%eth0, has no counterpart.
        address(words.next()?, ':', 53)
    });
    Ok(servers.collect())
}

fn position(file: &Arc<Path>, line: usize, column: usize) -> Position {
    Position {
        file: Arc::clone(file),
        line,
        column,
    }
}
