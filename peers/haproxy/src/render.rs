//! Proxies as the configuration of this proxy: the whole file, and what is left out of it whole.

mod backend;
mod check;
mod frontend;
mod server;

use std::collections::BTreeMap;
use std::path::Path;

use config_text::import_report::Remarks;
use config_text::toml::{duration, line};

use super::proxy::{Proxy, proxies};
use super::reasons::{self, Disposition};
use super::tree::{Kind, Tree};
use super::values::time;
use super::{HostInfo, ImportReport};

/// The whole file.
pub(super) fn import(
    files: &[(&Path, &[u8])],
    tree: &Tree,
    surroundings: &dyn HostInfo,
) -> ImportReport {
    let mut remarks = Remarks::default();
    let mut keys = BTreeMap::new();
    for line in &tree.conditional {
        if let Some(at) = line.position() {
            remarks.not_carried(at, &line.text(), "whether it applies is for HAProxy to say");
        }
    }
    for section in &tree.sections {
        match section.kind {
            Kind::Global => section
                .lines
                .iter()
                .for_each(|line| global(line, &mut keys, &mut remarks)),
            Kind::Other => {
                if let Some(at) = section.head.position() {
                    remarks.not_carried(at, &section.head.text(), "the section has no counterpart");
                }
            }
            _ => {}
        }
    }
    let mut proxies = proxies(tree, &mut remarks, surroundings);
    proxies.retain(|proxy| is_carried(proxy, &mut remarks));
    let mut site = Site {
        proxies: &proxies,
        remarks,
        surroundings,
    };
    let mut body = site.frontends();
    body.push_str(&site.backends());
    let mut top = String::new();
    for (key, value) in keys {
        line(&mut top, format_args!("{key} = {value}"));
    }
    if proxies
        .iter()
        .any(|proxy| proxy.is_frontend() && proxy.logs)
    {
        top.push_str("\n[access-log]\ntarget = \"stdout\"\nformat = \"text\"\n");
    }
    let names: Vec<String> = files
        .iter()
        .map(|(path, _)| path.display().to_string())
        .collect();
    let head = format!(
        "# From {}.\n",
        names.join(" and ").replace(char::is_control, " ")
    );
    site.remarks
        .finish(&head, &format!("version = \"v1\"\n{top}{body}"))
}

/// A line of `global`.
fn global(rule: &super::Line, keys: &mut BTreeMap<&str, String>, remarks: &mut Remarks) {
    let Some(at) = rule.position() else { return };
    let value = rule.word(1).unwrap_or_default();
    match rule.word(0) {
        Some("nbthread") => match value.parse::<u16>() {
            Ok(workers @ 1..) => drop(keys.insert("workers", workers.to_string())),
            _ => remarks.not_carried(at, &rule.text(), "its value is no number that fits"),
        },
        Some("maxconn") => match value.parse::<u32>() {
            Ok(number @ 1..) => drop(keys.insert("max-connections", number.to_string())),
            _ => remarks.not_carried(at, &rule.text(), "its value is no number that fits"),
        },
        Some("hard-stop-after") => match time(value) {
            Some(value) => drop(keys.insert("drain", duration(value))),
            None => remarks.not_carried(at, &rule.text(), "its value is no time"),
        },
        _ => {
            if let Disposition::Lost(reason) = reasons::global(rule) {
                remarks.not_carried(at, &rule.text(), reason);
            }
        }
    }
}

/// Says why a section is left out whole.
fn is_carried(proxy: &Proxy<'_>, remarks: &mut Remarks) -> bool {
    let what = format!("section {}", proxy.name);
    if proxy.is_disabled {
        remarks.not_carried(&proxy.at, &what, "it is disabled");
    } else if proxy.is_for_haproxy() {
        let reason = "it leads to no server: the admin listener has /status, /metrics and /readyz";
        remarks.not_carried(&proxy.at, &what, reason);
    } else if proxy.is_frontend() && proxy.binds.is_empty() {
        remarks.not_carried(&proxy.at, &what, "it listens nowhere");
        // Others may use what `listen` has for servers.
        return !proxy.servers.is_empty();
    } else {
        if proxy.is_http {
            let how = "HTTP is passed through as it is: no header is read or added";
            remarks.differs(&proxy.at, &what, how);
        }
        return true;
    }
    false
}

struct Site<'a, 'b> {
    proxies: &'a [Proxy<'b>],
    remarks: Remarks,
    surroundings: &'a dyn HostInfo,
}

impl Site<'_, '_> {
    fn backend_exists(&self, name: &str) -> bool {
        self.proxies
            .iter()
            .any(|proxy| proxy.is_backend() && proxy.name == name)
    }

    /// The frontends that lead to a backend.
    fn leading_to(&self, name: &str) -> impl Iterator<Item = &Proxy<'_>> {
        self.proxies.iter().filter(move |proxy| {
            let is_default = proxy
                .default_backend
                .is_some_and(|(default, _)| default == name);
            let is_used = proxy
                .use_backends
                .iter()
                .any(|rule| rule.word(1) == Some(name));
            proxy.is_frontend() && (is_default || is_used || proxy.name == name)
        })
    }
}
