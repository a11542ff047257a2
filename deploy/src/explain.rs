//! `outpost explain`: how this node answers a name, or serves an address, and why.
//!
//! Follows the way of a client through the services of the node: dns-recursor; dns-authd, if the route leads there; lb-proxy
//! about the addresses of the answer; healthd about the targets that the answer and the servers follow. Each service explains
//! its own part. Changes nothing, and asks no other node.

mod chain;

use std::path::PathBuf;
use std::process::ExitCode;

use api::explain::Tell as _;
use api::explain::node::{Explanation, Part};
use config_text::web::with_query;
use daemon::{exit, outln, run};
use serde::de::DeserializeOwned;
use site::service::Service;
use site_node::paths::NodePaths;
use site_node::process::Process;
use site_node::{record, systemd};

use self::chain::Subject;
use crate::args::ExplainArgs;
use crate::json::print_json;
use crate::up::run_dir::RunDir;

/// The path at which every service explains.
const PATH: &str = "/explain";

/// Explains a name or an address.
pub(crate) fn run(args: &ExplainArgs) -> ExitCode {
    run::verb(async {
        let explanation = explain(args, &Here::of(args)).await;
        match args.json {
            true => print_json(&explanation),
            false => outln!("{}", explanation.told().trim_end()),
        }
        exit::code(match explanation.is_whole() {
            true => exit::OK,
            false => exit::UNAVAILABLE,
        })
    })
}

/// The services that answer.
enum Here {
    /// Those of `outpost up`, in its run directory.
    Up(PathBuf),
    /// Those of this node.
    Node(NodePaths),
}

impl Here {
    fn of(args: &ExplainArgs) -> Self {
        let default = RunDir::default_path();
        let is_up_here = !args.node && default.exists();
        match &args.run_dir {
            Some(run_dir) => Self::Up(run_dir.clone()),
            None if is_up_here => Self::Up(default),
            None => Self::Node(NodePaths::below("/".as_ref())),
        }
    }

    /// The process of a service; the reason when the node does not have it, or cannot say so.
    async fn process<T>(&self, service: Service) -> Result<Process, Part<T>> {
        let paths = match self {
            Self::Up(directory) => {
                return Ok(Process::at(RunDir::admin_socket(directory, service)));
            }
            Self::Node(paths) => paths,
        };
        let live = record::live(paths, service);
        match systemd::show(&live.unit(service)).await {
            Ok(unit) if unit.is_known() => Ok(Process::at_or(
                paths.admin_socket(service, live),
                site::paths::admin(service),
            )),
            Ok(_) => Err(Part::None("this node does not have it".to_owned())),
            Err(error) => Err(Part::Unreachable(format!("{error:#}"))),
        }
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        service: Service,
        parameters: &[(&str, Option<String>)],
    ) -> Part<T> {
        let process = match self.process(service).await {
            Ok(process) => process,
            Err(part) => return part,
        };
        match process.get_json(&with_query(PATH, parameters)).await {
            Ok(Ok(answer)) => Part::Answer(answer),
            Ok(Err(refusal)) if refusal.status == 404 => Part::None(refusal.text),
            Ok(Err(refusal)) => Part::Unreachable(refusal.text),
            Err(error) => Part::Unreachable(exit::chain(&error)),
        }
    }
}

async fn explain(args: &ExplainArgs, here: &Here) -> Explanation {
    let subject = Subject::of(&args.about);
    let rtype = match subject {
        Subject::Name => Some(args.rtype.to_uppercase()),
        Subject::Address | Subject::Port => None,
    };
    let question = |client: Option<String>| {
        [
            ("name", Some(args.about.clone())),
            ("type", rtype.clone()),
            ("client", client),
        ]
    };
    let client = args.client.map(|client| client.to_string());
    let (mut dns_recursor, mut dns_authd) = (no_name(), no_name());
    if matches!(subject, Subject::Name) {
        dns_recursor = here
            .ask(Service::DnsRecursor, &question(client.clone()))
            .await;
        dns_authd = match chain::leads_to_authority(&dns_recursor) {
            // dns-authd sees the resolver of the node, not its client, unless the client asks dns-authd itself.
            Ok(()) => {
                let asker = match dns_recursor {
                    Part::Answer(_) => None,
                    Part::None(_) | Part::Unreachable(_) => client.clone(),
                };
                here.ask(Service::DnsAuthd, &question(asker)).await
            }
            Err(why) => Part::None(why),
        };
    }
    let places = match subject {
        Subject::Name => chain::places(dns_recursor.answer(), dns_authd.answer()),
        Subject::Address | Subject::Port => vec![args.about.clone()],
    };
    let lb_proxy = match places.is_empty() {
        true => Part::None(NO_ADDRESS.to_owned()),
        false => {
            let about = places.join(",");
            here.ask(Service::LbProxy, &[("about", Some(about))]).await
        }
    };
    let targets = chain::targets(&places, dns_authd.answer(), lb_proxy.answer());
    let healthd = match targets.is_empty() {
        true => Part::None(NO_ADDRESS.to_owned()),
        false => {
            let target = targets.join(",");
            here.ask(Service::Healthd, &[("target", Some(target))])
                .await
        }
    };
    let node = rustix::system::uname();
    Explanation {
        node: node.nodename().to_string_lossy().into_owned(),
        about: args.about.clone(),
        rtype,
        client,
        dns_recursor,
        dns_authd,
        healthd,
        lb_proxy,
    }
}

const NO_ADDRESS: &str = "the answer has no address";

fn no_name<T>() -> Part<T> {
    Part::None("the question is about an address".to_owned())
}
