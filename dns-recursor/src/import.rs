//! Other forwarders' configurations as one of this server, in TOML.
//!
//! The `peer-…` crates read the formats. A setting without a counterpart becomes a comment, `# not carried:
//! …`, and a remark with its place.

pub mod recursor_conf;

use std::path::Path;

use config_text::toml::{line, list, quoted};
use config_text::{Files, Problem};
use peer_forwarder::{Forward, Forwarder, Policy, Remark, Setting};

/// A configuration of this server, and remarks for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    pub toml: String,
    pub remarks: Vec<String>,
}

/// Imports the Corefile of `CoreDNS`.
///
/// # Errors
/// Every error of the file.
pub fn corefile(path: &Path, files: &mut dyn Files) -> Result<Conversion, Vec<Problem>> {
    Ok(write(path, &peer_corefile::read(path, files)?))
}

/// Imports a dnsmasq.conf.
///
/// # Errors
/// Every error of the file and of those that it includes.
pub fn dnsmasq(path: &Path, files: &mut dyn Files) -> Result<Conversion, Vec<Problem>> {
    Ok(write(path, &peer_dnsmasq::read(path, files)?))
}

fn write(from: &Path, forwarder: &Forwarder) -> Conversion {
    let mut toml = String::new();
    line(&mut toml, format_args!("# From {}.", from.display()));
    for remark in &forwarder.remarks {
        if let Remark::NotCarried { what, reason, .. } = remark {
            line(&mut toml, format_args!("# not carried: {what}: {reason}"));
        }
    }
    line(&mut toml, format_args!("version = \"v1\""));
    let listen = list(forwarder.listen.iter());
    line(&mut toml, format_args!("listen = {listen}"));
    if forwarder.open {
        let everybody = list(["0.0.0.0/0", "::/0"].iter());
        line(&mut toml, format_args!("allow-from = {everybody}"));
    }
    for (section, lines) in sections(&forwarder.settings) {
        line(
            &mut toml,
            format_args!("\n[{section}]\n{}", lines.join("\n")),
        );
    }
    for forward in &forwarder.forwards {
        write_forward(&mut toml, forward);
    }
    Conversion {
        toml,
        remarks: forwarder.remarks.iter().map(ToString::to_string).collect(),
    }
}

/// The sections of the file with their lines, in the order in which the settings begin them.
fn sections(settings: &[Setting]) -> Vec<(&'static str, Vec<String>)> {
    let mut sections: Vec<(&str, Vec<String>)> = Vec::new();
    for setting in settings {
        let seconds = |ttl: &u32| quoted(&format!("{ttl}s"));
        let (section, key, value) = match setting {
            Setting::Entries(n) => ("cache", "entries", n.to_string()),
            Setting::NegativeEntries(n) => ("cache", "negative-entries", n.to_string()),
            Setting::MinTtl(ttl) => ("cache", "min-ttl", seconds(ttl)),
            Setting::MaxTtl(ttl) => ("cache", "max-ttl", seconds(ttl)),
            Setting::NegativeMaxTtl(ttl) => ("cache", "negative-max-ttl", seconds(ttl)),
            Setting::StaleMaxAge(age) => ("stale", "max-age", quoted(age)),
            Setting::MaxQuestions(n) => ("resolve", "max-questions", n.to_string()),
            Setting::PrivateReverse => ("local", "private-reverse", true.to_string()),
            Setting::Version(text) => ("local", "version", quoted(text)),
        };
        let text = format!("{key} = {value}");
        match sections.iter_mut().find(|(name, _)| *name == section) {
            Some((_, lines)) => lines.push(text),
            None => sections.push((section, vec![text])),
        }
    }
    sections
}

fn write_forward(toml: &mut String, forward: &Forward) {
    let upstreams = list(forward.upstreams.iter());
    let zone = quoted(&forward.zone);
    line(
        toml,
        format_args!("\n[[forward]]\nzone = {zone}\nupstreams = {upstreams}\nrecursive = true"),
    );
    let policy = forward.policy.map(|policy| match policy {
        Policy::Sequential => "sequential",
        Policy::RoundRobin => "round-robin",
        Policy::Random => "random",
    });
    if let Some(policy) = policy {
        line(toml, format_args!("policy = \"{policy}\""));
    }
    if forward.tcp {
        line(toml, format_args!("protocol = \"tcp\""));
    }
}

#[cfg(test)]
mod tests;
