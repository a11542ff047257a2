//! The command line: `serve`, `check`, `status`, and the verbs that are clusterd's own.

mod get;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use cluster::{Key, Kind, Object};
use daemon::args::{ServeArgs, StatusArgs};
use daemon::{errln, exit, run};
use proto::cluster::link::Link;
use proto::endpoint::Endpoint;

use crate::config::{Config, DEFAULT_ADMIN, Overrides, Source};
use crate::service::Clusterd;
use crate::status;

/// How long a command waits for the first snapshot of the daemon.
const FIRST: Duration = Duration::from_secs(10);

/// Watches the Kubernetes API once for all services of the node, and publishes its objects
///
/// Subscribers get a snapshot of nodes, namespaces, Services and `EndpointSlices` over gRPC on a Unix socket, and every change.
/// clusterd keeps the last snapshot on disk: it serves it after a restart while the API is away. In place of the API it can
/// follow a directory of manifests. It writes nothing to the API.
///
/// Exit codes: 0 done, 64 usage, 69 not there, 70 failure, 77 no permission, 78 configuration.
#[derive(Debug, Parser)]
#[command(name = "clusterd", version = daemon::version!(), max_term_width = 100)]
pub struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run in the foreground until SIGTERM
    ///
    /// SIGHUP reads the file again.
    Serve {
        #[command(flatten)]
        serve: ServeArgs<ConfigArgs>,
        #[command(flatten)]
        overrides: Overrides,
    },
    /// Check a configuration file, and print every problem with its place
    ///
    /// The files that it names are read too: kubeconfig, certificates, token, manifests.
    Check(ConfigArgs),
    /// Show what the running daemon knows
    Status(StatusArgs),
    /// Print objects and their changes as they happen
    Watch(watch::Args),
    /// Print objects
    Get(get::Args),
}

/// The configuration file.
#[derive(Clone, Debug, Default, clap::Args)]
struct ConfigArgs {
    /// Configuration file (TOML, `version = "v1"`)
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The socket of the running daemon.
#[derive(Clone, Debug, clap::Args)]
struct Daemon {
    /// Unix socket of the running daemon
    #[arg(long, value_name = "PATH", default_value = ::config::clusterd::SOCKET)]
    socket: PathBuf,
}

impl Daemon {
    /// A link to the daemon; an error is said, and ends with its exit code.
    async fn connect(&self, name: &str) -> Result<Link, ExitCode> {
        let endpoint = Endpoint::Unix(self.socket.clone());
        if let Err(error) = proto::endpoint::connect(&endpoint).await {
            errln!("{endpoint}: {}", exit::chain(&error));
            return Err(exit::code(exit::UNAVAILABLE));
        }
        Ok(Link::start(Some(endpoint), name))
    }
}

/// Objects to show.
#[derive(Clone, Debug, clap::Args)]
struct Selection {
    /// Kind of the objects: node, namespace, service, endpointslice, dns; all of them unless given
    kind: Option<Kind>,

    /// Name of an object, or namespace/name, or namespace/ for all of a namespace
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

impl Selection {
    fn covers(&self, object: &Object) -> bool {
        self.covers_key(&object.key())
    }

    fn covers_key(&self, key: &Key) -> bool {
        let is_kind = self.kind.is_none_or(|kind| kind == key.kind);
        is_kind
            && self
                .name
                .as_ref()
                .is_none_or(|name| match name.split_once('/') {
                    Some((namespace, "")) => key.namespace == namespace,
                    Some((namespace, name)) => key.namespace == namespace && key.name == name,
                    None => key.name == *name,
                })
    }
}

/// An object in a line.
fn line(object: &Object) -> String {
    let key = object.key();
    let detail = match object {
        Object::Node(node) => {
            let addresses = node
                .addresses
                .iter()
                .map(|address| address.address.as_str());
            let addresses = addresses.collect::<Vec<_>>().join(" ");
            let cordoned = if node.unschedulable { " cordoned" } else { "" };
            format!("{addresses} ready={:?}{cordoned}", node.ready).to_lowercase()
        }
        Object::Namespace(_) => String::new(),
        Object::Service(service) => {
            let ips = service.cluster_ips.iter().map(ToString::to_string);
            let ips = match service.headless {
                true => "headless".to_owned(),
                false => ips.collect::<Vec<_>>().join(" "),
            };
            let ports = service.ports.iter();
            let ports = ports.map(|port| format!("{}/{}", port.port, port.protocol.name()));
            format!(
                "{:?} {ips} {}",
                service.kind,
                ports.collect::<Vec<_>>().join(",")
            )
        }
        Object::EndpointSlice(slice) => {
            let n_ready = slice
                .endpoints
                .iter()
                .filter(|endpoint| endpoint.ready)
                .count();
            let n_endpoints = slice.endpoints.len();
            format!("{}: {n_ready} of {n_endpoints} ready", slice.service)
        }
        Object::Dns(dns) => {
            let zones = dns.servers.iter().flat_map(|server| &server.zones);
            let zones: Vec<&str> = zones.map(String::as_str).collect();
            format!("forwards {}", zones.join(" "))
        }
    };
    format!("{key}  {detail}").trim_end().to_owned()
}

impl Command {
    /// Does what the command line says.
    #[must_use]
    pub fn run(self) -> ExitCode {
        match self.verb {
            Verb::Serve { serve, overrides } => run::serve::<Clusterd, _>(&serve, |args| {
                Config::load(args.config.as_deref(), &overrides)
            }),
            Verb::Check(args) => {
                let checked = Config::load(args.config.as_deref(), &Overrides::default())
                    .and_then(Config::with_files);
                run::check(checked, |config| match &config.source {
                    Source::Api(_) => "the source is the API".to_owned(),
                    Source::Manifests(directory) => {
                        format!("the source is {}", directory.display())
                    }
                })
            }
            Verb::Status(args) => run::status(&args, DEFAULT_ADMIN, status::render),
            Verb::Watch(args) => run::verb(watch::run(args)),
            Verb::Get(args) => run::verb(get::run(args)),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use cluster::{Meta, Node, NodeAddress, Ready, Service};

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Command::command().debug_assert();
    }

    #[test]
    fn objects_are_selected_by_kind_and_name() {
        let key = |kind, namespace: &str, name: &str| Key {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let service = key(Kind::Service, "shop", "web");
        for (kind, name, covers) in [
            (None, None, true),
            (Some(Kind::Service), Some("web"), true),
            (Some(Kind::Service), Some("shop/web"), true),
            (Some(Kind::Service), Some("shop/"), true),
            (Some(Kind::Node), None, false),
            (None, Some("shop"), false),
            (None, Some("other/web"), false),
        ] {
            let name = name.map(str::to_owned);
            let selection = Selection { kind, name };
            assert_eq!(selection.covers_key(&service), covers, "{selection:?}");
        }
    }

    #[test]
    fn an_object_is_one_line() {
        let meta = Meta {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            ..Meta::default()
        };
        let service = Service {
            meta,
            headless: true,
            ..Service::default()
        };
        let service = Object::Service(Box::new(service));
        assert_eq!(line(&service), "service shop/web  ClusterIP headless");
        let node = Node {
            meta: Meta {
                name: "n".to_owned(),
                ..Meta::default()
            },
            addresses: vec![NodeAddress {
                kind: "InternalIP".to_owned(),
                address: "192.0.2.1".to_owned(),
            }],
            ready: Ready::True,
            unschedulable: true,
            ..Node::default()
        };
        assert_eq!(
            line(&Object::Node(node)),
            "node n  192.0.2.1 ready=true cordoned"
        );
    }
}
