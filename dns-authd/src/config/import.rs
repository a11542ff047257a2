//! A peer's files as this server's TOML.

use config_text::toml::{list, quoted};
use dns_lua::LuaSettings;
use peer_bind::{NamedConf, ZoneDecl, ZoneKind};
use peer_pdns::{LuaRecords, PdnsConf, ServerId, Version};

/// A pdns.conf and its zone list as a configuration file of this server.
#[must_use]
pub fn pdns_conf(pdns: &PdnsConf, named: &NamedConf) -> String {
    let mut page = Page::new();
    let files: Vec<String> = pdns
        .files
        .iter()
        .chain(&named.files)
        .map(|file| file.display().to_string())
        .collect();
    page.line(&format!("# From {}.", files.join(", ")));
    for dropped in &pdns.dropped {
        let (key, value, reason) = (&dropped.key, &dropped.value, dropped.reason);
        page.line(&format!("# not carried: {key}={value}: {reason}"));
    }
    if let Some(message) = super::peer::not_notified(named) {
        page.line(&format!("# not carried: {message}"));
    }
    page.line("version = \"v1\"");
    page.line(&format!("listen = {}", list(&pdns.listen)));
    if pdns.network.receivers != 0 {
        page.line(&format!("threads = {}", pdns.network.receivers));
    }
    page.zones_section(pdns, named);
    page.rest(pdns);
    page.zones(named);
    page.text
}

/// A named.conf as a configuration file of this server.
#[must_use]
pub fn named_conf(named: &NamedConf) -> String {
    let mut page = Page::new();
    page.line("version = \"v1\"");
    page.section("zones");
    page.directory(named);
    page.zones(named);
    page.text
}

struct Page {
    text: String,
}

impl Page {
    const fn new() -> Self {
        Self {
            text: String::new(),
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn section(&mut self, name: &str) {
        self.line(&format!("\n[{name}]"));
    }

    /// The directory of `$INCLUDE`. One without a root is relative to the directory of the list.
    fn directory(&mut self, named: &NamedConf) {
        if named.directory.is_absolute() {
            let directory = named.directory.display().to_string();
            self.line(&format!("directory = {}", quoted(&directory)));
        }
    }

    fn zones_section(&mut self, pdns: &PdnsConf, named: &NamedConf) {
        self.section("zones");
        self.directory(named);
        match pdns.check_interval {
            Some(interval) => {
                self.line(&format!("check-interval = \"{}s\"", interval.as_secs()));
            }
            None => {
                self.line("check-interval = \"never\"");
                self.line("notify = false");
            }
        }
        self.line(&format!("default-ttl = {}", pdns.zone_files.default_ttl));
        self.line(&format!(
            "include-depth = {}",
            pdns.zone_files.include_depth
        ));
        self.line(&format!(
            "generate-steps = {}",
            pdns.zone_files.generate_steps
        ));
        if pdns.zone_files.skip_out_of_zone {
            self.line("skip-out-of-zone = true");
        }
    }

    fn rest(&mut self, pdns: &PdnsConf) {
        self.section("lua");
        self.line(&format!("enabled = {}", pdns.lua.records != LuaRecords::No));
        let limit = pdns.lua.exec_limit.unwrap_or(0);
        self.line(&format!("instructions = {limit}"));
        self.line(&format!("insert-whitespace = {}", pdns.lua.whitespace));
        if pdns.lua.check_interval != LuaSettings::default().interval {
            self.section("health");
            let seconds = pdns.lua.check_interval.as_secs();
            self.line(&format!("interval = \"{seconds}s\""));
        }
        self.section("answers");
        match &pdns.answers.version {
            Version::Full => self.line("version = \"Outpost dns-authd\""),
            Version::Name => self.line("version = \"Outpost dns-authd\""),
            Version::Anonymous => self.line("version = \"none\""),
            Version::Text(text) => self.line(&format!("version = {}", quoted(text))),
        }
        match &pdns.answers.server_id {
            ServerId::Host => {}
            ServerId::Disabled => self.line("id = \"none\""),
            ServerId::Text(id) => self.line(&format!("id = {}", quoted(id))),
        }
        if pdns.answers.any_to_tcp {
            self.line("any = \"all-over-tcp\"");
        }
        self.line(&format!("udp-payload = {}", pdns.answers.udp_limit));
        if pdns.answers.client_subnet {
            self.line("client-subnet = true");
        }
        self.section("tcp");
        let connections = pdns.network.tcp_connections;
        self.line(&format!("connections = {connections}"));
        self.line(&format!("per-client = {connections}"));
        let idle = pdns.network.tcp_idle.as_secs();
        self.line(&format!("idle = \"{idle}s\""));
        if !pdns.transfers.disabled && !pdns.transfers.allowed.is_empty() {
            self.section("transfers");
            self.line(&format!("allow = {}", list(&pdns.transfers.allowed)));
        }
    }

    fn zones(&mut self, named: &NamedConf) {
        for warning in &named.warnings {
            self.line(&format!("# not carried: {warning}"));
        }
        for zone in &named.zones {
            match (&zone.file, zone.is_served()) {
                (Some(file), true) => {
                    self.line("\n[[zone]]");
                    self.line(&format!("name = {}", quoted(&zone.name.to_string())));
                    self.line(&format!("file = {}", quoted(&file.display().to_string())));
                }
                _ => self.line(&format!(
                    "# not carried: zone {}: {}",
                    zone.name,
                    kind(zone)
                )),
            }
        }
    }
}

fn kind(zone: &ZoneDecl) -> String {
    match &zone.kind {
        ZoneKind::Secondary => "secondary zones are not transferred here".to_owned(),
        ZoneKind::Primary | ZoneKind::Native => "it has no file".to_owned(),
        ZoneKind::Other(word) => format!("no zone is of type {word} here"),
    }
}
