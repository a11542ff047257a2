//! The command line of `node-hosts`, and the environment variables of the script that it replaces.

#![expect(
    clippy::doc_markdown,
    reason = "these comments are what `--help` prints"
)]

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use config_text::Problem;
use daemon::args::{OverrideArgs, ServeArgs, StatusArgs};
use daemon::config::{Common, HumanDuration, Problems};
use node_hosts::Service;
use node_hosts::answer::Allow;
use node_hosts::block::NodeResolver;
use node_hosts::services::MAX_SERVICES;
use proto::endpoint::Endpoint;

use super::DEFAULT_ADMIN;

/// The port of a nameserver that names none.
const DNS_PORT: u16 = 53;
/// The most nameservers.
const MAX_NAMESERVERS: usize = 8;
/// The domain of a cluster that names none.
const DOMAIN: &str = "cluster.local";

/// `node-hosts` and its verb.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct NodeHosts {
    #[command(subcommand)]
    pub verb: Option<NodeHostsVerb>,
    #[command(flatten)]
    pub serve: ServeArgs<NodeHostsArgs>,
}

/// The verb of `node-hosts`.
#[derive(Debug, Subcommand)]
pub enum NodeHostsVerb {
    /// Show the state of the running process
    Status(StatusArgs),
}

/// The services and the file.
#[derive(Clone, Debug, Default, Args)]
pub struct NodeHostsArgs {
    /// A service, relative to the cluster's domain, such as image-registry.openshift-image-registry.svc; with a dot at the
    /// end the whole name; may be repeated [env: SERVICES, with commas or blanks between]
    #[arg(long = "service", value_name = "NAME")]
    pub services: Vec<String>,

    /// A server to ask, the cluster's DNS; may be repeated: the next one gets the query when one fails [env: NAMESERVER, or
    /// DNS_DEFAULT_SERVICE_HOST]
    #[arg(long = "nameserver", value_name = "IP[:PORT]")]
    pub nameservers: Vec<String>,

    /// The cluster's domain [env: CLUSTER_DOMAIN] [default: cluster.local]
    #[arg(long, value_name = "DOMAIN")]
    pub cluster_domain: Option<String>,

    /// The hosts file
    #[arg(long, value_name = "FILE", default_value = "/etc/hosts")]
    pub hosts_file: PathBuf,

    /// Take over the lines of OpenShift's node-resolver
    ///
    /// Their addresses count until the first lookup has ended, and they move into the block. Without this flag they stay.
    #[arg(long)]
    pub replace_node_resolver: bool,

    /// Remove a service whose name does not exist for this long, by three denials in a row [default: keep it]
    #[arg(long, value_name = "DURATION")]
    pub remove_after: Option<HumanDuration>,

    /// Write loopback addresses too
    #[arg(long)]
    pub allow_loopback: bool,

    /// Remove the block at SIGTERM [default: leave it]
    #[arg(long)]
    pub clean: bool,

    #[command(flatten)]
    pub overrides: OverrideArgs,
}

/// The legal form of the arguments.
#[derive(Clone, Debug)]
pub struct Config {
    pub common: Common,
    pub services: Vec<Service>,
    pub nameservers: Vec<SocketAddr>,
    pub hosts_file: PathBuf,
    pub node_resolver: NodeResolver,
    pub remove_after: Option<Duration>,
    pub allow: Allow,
    pub is_clean: bool,
    pub healthd: Option<Endpoint>,
}

impl NodeHostsArgs {
    /// Reads the arguments, and for those that are not given the variables.
    ///
    /// # Errors
    /// All problems.
    pub fn read(&self, variable: impl Fn(&str) -> Option<String>) -> Result<Config, Problems> {
        let mut problems = Problems::default();
        let given = |given: &[String], variables: &[&str]| {
            let mut values = given.to_vec();
            for name in variables {
                if values.is_empty() {
                    values = words(&variable(name).unwrap_or_default());
                }
            }
            values
        };
        let domain = self.cluster_domain.clone();
        let domain = domain.or_else(|| variable("CLUSTER_DOMAIN").filter(|it| !it.is_empty()));
        let domain = domain.unwrap_or_else(|| DOMAIN.to_owned());
        let mut services: Vec<Service> = Vec::new();
        for text in given(&self.services, &["SERVICES"]) {
            match Service::new(&text, &domain) {
                Ok(service) if services.contains(&service) => {}
                Ok(service) => services.push(service),
                Err(error) => problems.push(Problem::new(error)),
            }
        }
        let mut nameservers = Vec::new();
        let variables = ["NAMESERVER", "DNS_DEFAULT_SERVICE_HOST"];
        for text in given(&self.nameservers, &variables) {
            match nameserver(&text) {
                Some(address) => nameservers.push(address),
                None => problems.push(Problem::new(format!("`{text}` is no address of a server"))),
            }
        }
        if problems.0.is_empty() {
            check_counts(services.len(), nameservers.len(), &mut problems);
        }
        let mut common = Common::with_admin(DEFAULT_ADMIN);
        self.overrides.admin.apply(&mut common);
        problems.unless_empty(Config {
            common,
            services,
            nameservers,
            hosts_file: self.hosts_file.clone(),
            node_resolver: match self.replace_node_resolver {
                true => NodeResolver::Replace,
                false => NodeResolver::Keep,
            },
            remove_after: self.remove_after.map(|it| it.0),
            allow: match self.allow_loopback {
                true => Allow::Loopback,
                false => Allow::Nothing,
            },
            is_clean: self.clean,
            healthd: self.overrides.healthd.clone().and_then(|it| it.0),
        })
    }
}

fn check_counts(n_services: usize, n_nameservers: usize, problems: &mut Problems) {
    let mut wrong = |text: String| problems.push(Problem::new(text));
    if n_services == 0 {
        wrong("no service: name one with --service, or in SERVICES".to_owned());
    }
    if n_services > MAX_SERVICES {
        wrong(format!("more than {MAX_SERVICES} services"));
    }
    if n_nameservers == 0 {
        wrong("no server to ask: name one with --nameserver, or in NAMESERVER".to_owned());
    }
    if n_nameservers > MAX_NAMESERVERS {
        wrong(format!("more than {MAX_NAMESERVERS} servers to ask"));
    }
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| c == ',' || c.is_ascii_whitespace());
    words
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

fn nameserver(text: &str) -> Option<SocketAddr> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => Some(SocketAddr::new(address, DNS_PORT)),
        Err(_) => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &NodeHostsArgs, variables: &[(&str, &str)]) -> Result<Config, Problems> {
        args.read(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn asked(config: &Config) -> Vec<String> {
        let services = config.services.iter();
        services.map(|service| service.asked.to_string()).collect()
    }

    #[test]
    fn the_variables_of_the_script_are_understood() {
        let config = read(
            &NodeHostsArgs::default(),
            &[
                ("SERVICES", "a.x.svc, b.x.svc  c.x.svc,a.x.svc"),
                ("NAMESERVER", "172.30.0.10"),
                ("CLUSTER_DOMAIN", "example.local."),
            ],
        )
        .unwrap();
        let names = ["a", "b", "c"].map(|it| format!("{it}.x.svc.example.local."));
        assert_eq!(asked(&config), names);
        assert_eq!(
            config.nameservers,
            [SocketAddr::from(([172, 30, 0, 10], 53))]
        );
        assert_eq!(config.remove_after, None);
    }

    #[test]
    fn arguments_come_before_variables_and_have_defaults() {
        let args = NodeHostsArgs {
            services: vec!["z.x.svc".to_owned()],
            nameservers: ["fd00::10", "[fd00::10]", "[fd00::10]:5300", "10.0.0.1:5300"]
                .map(str::to_owned)
                .to_vec(),
            ..NodeHostsArgs::default()
        };
        let variables = [
            ("SERVICES", "a.x.svc"),
            ("NAMESERVER", "10.9.9.9"),
            ("CLUSTER_DOMAIN", ""),
        ];
        let config = read(&args, &variables).unwrap();
        assert_eq!(asked(&config), ["z.x.svc.cluster.local."]);
        let servers: Vec<String> = config.nameservers.iter().map(ToString::to_string).collect();
        let expected = [
            "[fd00::10]:53",
            "[fd00::10]:53",
            "[fd00::10]:5300",
            "10.0.0.1:5300",
        ];
        assert_eq!(servers, expected);
        let older = [
            ("SERVICES", "a.x.svc"),
            ("DNS_DEFAULT_SERVICE_HOST", "10.9.9.9"),
        ];
        let config = read(&NodeHostsArgs::default(), &older).unwrap();
        assert_eq!(config.nameservers, [SocketAddr::from(([10, 9, 9, 9], 53))]);
    }

    #[test]
    fn every_problem_is_named() {
        let many = "a.svc ".repeat(2) + &(0..40).map(|n| format!("s{n} ")).collect::<String>();
        for (variables, expected) in [
            (
                &[("SERVICES", ""), ("NAMESERVER", "")][..],
                "no service: name one with --service, or in SERVICES\n\
                 no server to ask: name one with --nameserver, or in NAMESERVER",
            ),
            (
                &[("SERVICES", "a..b"), ("NAMESERVER", "dns.example")],
                "`a..b` is not the name of a service",
            ),
            (
                &[("SERVICES", many.as_str()), ("NAMESERVER", "10.0.0.1")],
                "more than 32 services",
            ),
        ] {
            let problems = read(&NodeHostsArgs::default(), variables).unwrap_err();
            let told = problems.to_string();
            assert!(told.contains(expected), "{told}");
        }
    }
}
