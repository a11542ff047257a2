//! The pdns.conf of the `PowerDNS` authoritative server: the settings that have a counterpart.
//!
//! ```text
//! launch=bind
//! local-address=127.0.0.1
//! local-port=5301
//! bind-config=/etc/pdns/bind.conf
//! enable-lua-records=yes
//! ```
//!
//! Lines are read as `pdns_server` reads them, by [`pdns_settings`]. Settings of the command
//! line come after those of the files. `include-dir` is followed.
//!
//! A setting that pdns knows but that has no counterpart here is listed in
//! [`PdnsConf::dropped`] with the reason; one that pdns does not know either is an error, as it
//! is for pdns.
//!
//! Reads files only through [`Files`], and never panics on any input.

mod keys;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use config_text::{Files, OneFile, Rejected};
use dns_wire::edns::UDP_PAYLOADS;
use ipnet::IpNet;
pub use pdns_settings::Dropped;
use pdns_settings::{Setting, Settings, items};

/// The settings of a pdns.conf that have a counterpart here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PdnsConf {
    /// The addresses to listen on for queries.
    pub listen: Vec<SocketAddr>,
    /// The zone list.
    pub bind_config: PathBuf,
    /// The interval of checks of zone files; `None` is never.
    pub check_interval: Option<Duration>,
    /// The options for reading master files.
    pub zone_files: ZoneFiles,
    /// The treatment of `LUA` records.
    pub lua: Lua,
    /// The settings of answers.
    pub answers: Answers,
    /// Networks that may transfer zones.
    pub transfers: Transfers,
    /// The servers to notify of new versions.
    pub notify: Notify,
    /// The settings of the network.
    pub network: Network,
    /// Settings without a counterpart here.
    pub dropped: Vec<Dropped>,
    /// Every file that was read, pdns.conf itself first.
    pub files: Vec<PathBuf>,
}

/// The options for reading master files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneFiles {
    /// `default-ttl`: the TTL of records without a TTL in any file.
    pub default_ttl: u32,
    /// `max-include-depth`.
    pub include_depth: usize,
    /// `max-generate-steps`; 0 is no limit.
    pub generate_steps: u32,
    /// `bind-ignore-broken-records`: records outside the zone are left out, not refused.
    pub skip_out_of_zone: bool,
}

/// The treatment of `LUA` records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lua {
    /// `enable-lua-records`.
    pub records: LuaRecords,
    /// `lua-records-exec-limit`: the most instructions of one run; `None` is no limit.
    pub exec_limit: Option<u32>,
    /// `lua-health-checks-interval`.
    pub check_interval: Duration,
    /// `lua-records-insert-whitespace`: a blank goes between the strings of a record.
    pub whitespace: bool,
}

/// `enable-lua-records`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LuaRecords {
    /// `LUA` records are not answered.
    No,
    /// Every query starts with a fresh state.
    Yes,
    /// State is kept from query to query.
    Shared,
}

/// The settings of answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// `any-to-tcp`: ANY over UDP gets TC.
    pub any_to_tcp: bool,
    /// `edns-subnet-processing`.
    pub client_subnet: bool,
    /// `udp-truncation-threshold`: the longest answer over UDP; one of [`UDP_PAYLOADS`].
    pub udp_limit: u16,
    /// `version-string`: the answer to `version.bind`.
    pub version: Version,
    /// `server-id`: the answer to `id.server`.
    pub server_id: ServerId,
}

/// `server-id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerId {
    /// The host's name.
    Host,
    /// No answer.
    Disabled,
    /// This text.
    Text(String),
}

/// `version-string`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Version {
    /// Name and version of the server.
    Full,
    /// The name of the server.
    Name,
    /// No answer.
    Anonymous,
    /// This text.
    Text(String),
}

/// Networks that may transfer zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfers {
    /// `disable-axfr`.
    pub disabled: bool,
    /// `allow-axfr-ips`.
    pub allowed: Vec<IpNet>,
}

/// The servers to notify of new versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notify {
    /// `primary`, or `master`: whether anybody is.
    pub enabled: bool,
    /// `also-notify`.
    pub also: Vec<SocketAddr>,
    /// Whether the servers of NS records are: an empty `only-notify` leaves all of them out.
    pub name_servers: bool,
}

/// The settings of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// `receiver-threads`.
    pub receivers: usize,
    /// `max-tcp-connections`.
    pub tcp_connections: usize,
    /// `tcp-idle-timeout`.
    pub tcp_idle: Duration,
}

/// Reads the pdns.conf at `path`, its includes, and then `arguments`: settings of
/// `pdns_server`'s command line, without their `--`.
///
/// # Errors
/// When a file cannot be read, a setting is unknown or its value makes no sense, or there is no
/// zone list for the bind backend.
pub fn parse(
    path: &Path,
    files: &mut dyn Files,
    arguments: &[(String, String)],
) -> Result<PdnsConf, Rejected> {
    Reader(Settings::read(&keys::CATALOGUE, path, files, arguments)).finish()
}

/// Reads a pdns.conf from octets, with nothing to include.
pub fn parse_bytes(text: &[u8]) -> Result<PdnsConf, Rejected> {
    parse(Path::new("pdns.conf"), &mut OneFile(text), &[])
}

//--- Values

const DNS_PORT: u16 = 53;
const UDP_LIMIT: &str = "udp-truncation-threshold";

/// The effective limit: pdns, too, uses at least 512.
fn clamped(udp_limit: u16) -> u16 {
    udp_limit.clamp(*UDP_PAYLOADS.start(), *UDP_PAYLOADS.end())
}

/// Settings that become a [`PdnsConf`].
struct Reader(Settings);

impl Reader {
    fn finish(mut self) -> Result<PdnsConf, Rejected> {
        let bind_config = self.demand_bind();
        let port = self.0.number("local-port", DNS_PORT);
        let conf = PdnsConf {
            listen: self.0.addresses("local-address", port).unwrap_or_else(|| {
                let any = [
                    IpAddr::from(Ipv4Addr::UNSPECIFIED),
                    Ipv6Addr::UNSPECIFIED.into(),
                ];
                any.map(|address| SocketAddr::new(address, port)).to_vec()
            }),
            bind_config,
            check_interval: match self.0.number("bind-check-interval", 0) {
                0 => None,
                seconds => Some(Duration::from_secs(seconds)),
            },
            zone_files: ZoneFiles {
                default_ttl: self.0.number("default-ttl", 3600),
                include_depth: self.0.number("max-include-depth", 20),
                generate_steps: self.0.number("max-generate-steps", 0),
                skip_out_of_zone: self.0.switch("bind-ignore-broken-records", false),
            },
            lua: self.lua(),
            answers: self.answers(),
            transfers: Transfers {
                disabled: self.0.switch("disable-axfr", false),
                allowed: self.networks("allow-axfr-ips"),
            },
            notify: Notify {
                enabled: self.0.switch("primary", self.0.switch("master", false)),
                also: self.0.addresses("also-notify", 53).unwrap_or_default(),
                name_servers: self.notifies_name_servers(),
            },
            network: Network {
                receivers: self.0.number("receiver-threads", 1),
                tcp_connections: self.0.number("max-tcp-connections", 20),
                tcp_idle: Duration::from_secs(self.0.number("tcp-idle-timeout", 5)),
            },
            dropped: self.dropped(),
            files: Vec::new(),
        };
        let (problems, files) = self.0.into_parts();
        if !problems.is_empty() {
            let problems = problems.into_iter().collect();
            return Err(Rejected { problems, files });
        }
        Ok(PdnsConf { files, ..conf })
    }

    /// The zone list of the bind backend, which must be there.
    fn demand_bind(&mut self) -> PathBuf {
        let launch = self.0.get("launch").cloned();
        let bind = launch
            .as_ref()
            .is_some_and(|it| items(&it.value).any(|item| item == "bind"));
        if !bind {
            let position = launch.and_then(|setting| setting.position);
            let message = "`launch=bind` is missing: only the bind backend's zones are served";
            self.0.problem(position, message.to_owned());
        }
        match self.0.get("bind-config") {
            Some(setting) if !setting.value.is_empty() => PathBuf::from(&setting.value),
            _ => {
                self.0.problem(
                    None,
                    "`bind-config` is missing: it names the zone list".to_owned(),
                );
                PathBuf::new()
            }
        }
    }

    fn lua(&mut self) -> Lua {
        let records = match self.0.get("enable-lua-records") {
            None => LuaRecords::No,
            Some(setting) => match setting.value.as_str() {
                "no" | "off" => LuaRecords::No,
                "shared" => LuaRecords::Shared,
                _ => LuaRecords::Yes,
            },
        };
        let limit: i64 = self.0.number("lua-records-exec-limit", 1000);
        Lua {
            records,
            exec_limit: u32::try_from(limit).ok().filter(|limit| *limit > 0),
            check_interval: Duration::from_secs(self.0.number("lua-health-checks-interval", 5)),
            // Before 5.0 pdns joined with a blank and had no such setting.
            whitespace: self.0.switch("lua-records-insert-whitespace", true),
        }
    }

    fn answers(&mut self) -> Answers {
        let version = match self.0.get("version-string") {
            None => Version::Full,
            Some(setting) => match setting.value.as_str() {
                "full" => Version::Full,
                "powerdns" => Version::Name,
                "anonymous" => Version::Anonymous,
                text => Version::Text(text.to_owned()),
            },
        };
        let server_id = match self.0.get("server-id") {
            None => ServerId::Host,
            Some(setting) => match setting.value.as_str() {
                "" => ServerId::Host,
                "disabled" => ServerId::Disabled,
                text => ServerId::Text(text.to_owned()),
            },
        };
        Answers {
            any_to_tcp: self.0.switch("any-to-tcp", true),
            client_subnet: self.0.switch("edns-subnet-processing", false),
            udp_limit: clamped(self.0.number(UDP_LIMIT, 1232)),
            version,
            server_id,
        }
    }

    /// The settings that are not carried over, or only in part.
    fn dropped(&self) -> Vec<Dropped> {
        let mut dropped = self.0.dropped();
        if let Some(setting) = self.0.get("launch") {
            let is_other = |item: &&str| *item != "bind";
            dropped.extend(items(&setting.value).filter(is_other).map(|item| Dropped {
                key: "launch".to_owned(),
                value: item.to_owned(),
                reason: "only the zones of the bind backend are served, not those of this one",
                position: setting.position.clone(),
            }));
        }
        if let Some(setting) = self.0.get(UDP_LIMIT)
            && let Ok(limit) = setting.value.parse::<u16>()
            && limit > *UDP_PAYLOADS.end()
        {
            dropped.push(Dropped {
                key: UDP_LIMIT.to_owned(),
                value: setting.value.clone(),
                reason: "no answer over UDP is longer than 4096 octets",
                position: setting.position.clone(),
            });
        }
        dropped
    }

    /// Networks that may transfer zones; without the setting only this host.
    /// Whether NOTIFY goes to name servers. `only-notify` has no counterpart but this.
    fn notifies_name_servers(&self) -> bool {
        let setting = self.0.get("only-notify");
        setting.is_none_or(|setting| items(&setting.value).next().is_some())
    }

    fn networks(&mut self, key: &str) -> Vec<IpNet> {
        let setting = self.0.get(key).cloned().unwrap_or_else(|| Setting {
            value: "127.0.0.0/8,::1".to_owned(),
            position: None,
        });
        let mut networks = Vec::new();
        for item in items(&setting.value) {
            let network = item
                .parse()
                .or_else(|_| item.parse::<IpAddr>().map(IpNet::from));
            match network {
                Ok(network) => networks.push(network),
                Err(_) => {
                    let message = format!("`{key}` takes networks, not `{item}`");
                    self.0.problem(setting.position.clone(), message);
                }
            }
        }
        networks
    }
}

#[cfg(test)]
mod tests;
