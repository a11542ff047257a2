//! The admin listener's own paths, beside the common ones.
//!
//! | path | does |
//! | --- | --- |
//! | `GET /sessions?frontend=&backend=&server=&client=&id=` | lists sessions, flows of datagrams and what the kernel forwards, as JSON |
//! | `POST /sessions/kill` with the same parameters | resets them, and says how many |
//! | `GET /backends/overrides` | the operators' overrides, for a successor |
//! | `POST /backends/state?backend=&server=&state=` | `ready`, `drain` or `maintenance` |
//! | `POST /backends/weight?backend=&server=&weight=` | a number or `reset` |
//! | `POST /backends/max-connections?backend=&server=&most=` | a number, `none` or `reset` |
//! | `GET /sources?frontend=` | the busiest sources of frontends with limits |

use std::net::IpAddr;
use std::sync::Arc;

use api::lb_proxy::{Flow, Killed, Path, Relayed, Session};
use daemon::admin::{Reply, Request, Routes};
use daemon::clock;
use daemon::decision;
use ipnet::IpNet;
use l4::relay::{Engine, Filter, SessionInfo};
use l4_core::flow::FlowInfo;
use netfilter::{Forwarded, KernelFrontend};
use proto::health::{AdminState, Terms};

use crate::datagrams::Datagrams;
use crate::decisions::{self, Decisions};
use crate::kernel_path::{self, KernelPath};
use crate::self_check;
use crate::table_builder::{NoSuchServer, TableBuilder, View};

use crate::sources;

/// The most flows that `/sessions` shows.
const FLOWS: usize = 10_000;

/// The most sessions forwarded by the kernel that it shows.
const FORWARDED: usize = 10_000;

/// Takes an operator's decision; says what it is, or why it is none.
type Decide = fn(&Request, &TableBuilder) -> Result<String, Reply>;

/// Adds the paths.
pub(crate) fn add(
    routes: &Routes,
    engine: &Arc<Engine>,
    builder: &Arc<TableBuilder>,
    datagrams: &Datagrams,
    kernel: &KernelPath,
    decisions: &Decisions,
) {
    let asked = (Arc::clone(engine), Arc::clone(builder), datagrams.clone());
    routes.get("/sessions", move |request| {
        let (engine, builder, datagrams) = asked.clone();
        sessions(request, engine, builder, datagrams)
    });
    let asked = (Arc::clone(engine), Arc::clone(builder), datagrams.clone());
    let kernel = kernel.clone();
    routes.post("/sessions/kill", move |request| {
        let (engine, builder, datagrams) = asked.clone();
        kill(request, engine, builder, datagrams, kernel.clone())
    });
    let checked = (Arc::clone(engine), Arc::clone(builder));
    routes.self_check(move || {
        let (engine, builder) = &checked;
        let checked = self_check::run(engine.listening().len(), &builder.view());
        async move { checked }
    });
    let known = Arc::clone(builder);
    routes.get("/backends/overrides", move |_| {
        let reply = Reply::json(200, &decisions::overrides(&known.view()));
        async move { reply }
    });
    let known = Arc::clone(builder);
    routes.get("/sources", move |request| {
        let wanted = request.parameter("frontend");
        let reply = Reply::json(
            200,
            &sources::of_frontends(&known.view(), wanted.as_deref(), clock::now()),
        );
        async move { reply }
    });
    let decide: [(&str, Decide); 3] = [
        ("/backends/state", set_state),
        ("/backends/weight", set_weight),
        ("/backends/max-connections", set_max_connections),
    ];
    for (path, decide) in decide {
        let (builder, decisions) = (Arc::clone(builder), decisions.clone());
        routes.post(path, move |request| {
            let decided = decide(&request, &builder);
            let decisions = decisions.clone();
            async move {
                let told = match decided {
                    Ok(told) => told,
                    Err(reply) => return reply,
                };
                match decisions.save_soon().await {
                    Ok(()) => Reply::text(200, told),
                    Err(error) => {
                        let told = told.trim_end();
                        Reply::text(500, format!("{told} until a restart: {error}\n"))
                    }
                }
            }
        });
    }
}

//--- Sessions

fn filter(request: &Request) -> Result<Filter, Reply> {
    let bad = |key: &str| Reply::text(400, format!("`{key}` cannot be understood\n"));
    let id = match request.parameter("id") {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| bad("id"))?),
    };
    let client: Option<IpNet> = match request.parameter("client") {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| bad("client"))?),
    };
    Ok(Filter {
        id,
        frontend: request.parameter("frontend"),
        backend: request.parameter("backend"),
        server: request.parameter("server"),
        client,
    })
}

/// Whether a flow of datagrams, or a session that the kernel forwards, is meant. It has no number, and
/// its backend is its frontend's.
fn fits(
    filter: &Filter,
    view: &View,
    frontend: &str,
    server: Option<&str>,
    client: IpAddr,
) -> bool {
    filter.id.is_none()
        && filter.frontend.as_ref().is_none_or(|name| name == frontend)
        && filter
            .backend
            .as_ref()
            .is_none_or(|name| backend_of(view, frontend) == Some(name))
        && filter
            .server
            .as_ref()
            .is_none_or(|name| Some(name.as_str()) == server)
        && filter
            .client
            .is_none_or(|network| network.contains(&client))
}

fn backend_of<'a>(view: &'a View, frontend: &str) -> Option<&'a str> {
    let config = view.config.as_deref()?;
    let mut frontends = config.frontends.iter();
    let own = frontends.find(|known| *known.name == *frontend)?;
    own.backend.as_deref()
}

/// The frontends that the kernel forwards.
fn kernel_frontends(view: &View) -> Vec<KernelFrontend> {
    let config = view.config.as_deref();
    config.map_or_else(Vec::new, |config| {
        kernel_path::frontends(config, &view.table)
    })
}

async fn sessions(
    request: Request,
    engine: Arc<Engine>,
    builder: Arc<TableBuilder>,
    datagrams: Datagrams,
) -> Reply {
    let filter = match filter(&request) {
        Ok(filter) => filter,
        Err(reply) => return reply,
    };
    // The workers answer, which takes them a moment.
    let listed = tokio::task::spawn_blocking(move || {
        let mut sessions = engine.sessions(&filter);
        sessions.sort_by_key(|session| session.id);
        let view = builder.view();
        let flows = datagrams.flows(FLOWS, |frontend, flow| {
            let server = Some(&*flow.server.name);
            fits(&filter, &view, frontend, server, flow.client.ip())
        });
        let frontends = kernel_frontends(&view);
        let forwarded = netfilter::Sessions::new(&frontends).list(FORWARDED, |session| {
            let (server, client) = (session.server.as_deref(), session.client.ip());
            fits(&filter, &view, &session.frontend, server, client)
        });
        let forwarded = forwarded.unwrap_or_else(|error| {
            tracing::warn!(%error, "The kernel does not tell what it forwards");
            Vec::new()
        });
        let sessions = sessions.iter().map(relayed);
        let flows = flows.iter().map(|(frontend, info)| flow(frontend, info));
        let forwarded = forwarded
            .iter()
            .map(|session| forwarded_by_kernel(session, backend_of(&view, &session.frontend)));
        sessions
            .chain(flows)
            .chain(forwarded)
            .collect::<Vec<Session>>()
    });
    Reply::json(200, &listed.await.unwrap_or_default())
}

fn relayed(session: &SessionInfo) -> Session {
    Session::Relayed(Relayed {
        id: session.id,
        frontend: session.frontend.to_string(),
        backend: session.backend.as_deref().map(str::to_owned),
        server: session.server.as_deref().map(str::to_owned),
        server_address: session.server_address.map(|address| address.to_string()),
        client: session.client.to_string(),
        local: session.local.map(|address| address.to_string()),
        state: session.state.as_str().to_owned(),
        age_seconds: session.age.as_secs_f64(),
        bytes_in: session.bytes_in,
        bytes_out: session.bytes_out,
    })
}

fn flow(frontend: &str, flow: &FlowInfo) -> Session {
    Session::Flow(Flow {
        frontend: frontend.to_owned(),
        server: flow.server.name.to_string(),
        server_address: flow.server.address.to_string(),
        client: flow.client.to_string(),
        local: flow.local.map(|address| address.to_string()),
        state: "flow".to_owned(),
        idle_seconds: flow.idle.as_secs_f64(),
        requests: flow.requests,
        responses: flow.responses,
    })
}

fn forwarded_by_kernel(session: &Forwarded, backend: Option<&str>) -> Session {
    Session::Forwarded(api::lb_proxy::Forwarded {
        path: Path::Kernel,
        frontend: session.frontend.to_string(),
        backend: backend.map(str::to_owned),
        server: session.server.as_deref().map(str::to_owned),
        server_address: session.server_address.to_string(),
        client: session.client.to_string(),
        local: session.local.to_string(),
        state: session.state.as_str().to_owned(),
    })
}

async fn kill(
    request: Request,
    engine: Arc<Engine>,
    builder: Arc<TableBuilder>,
    datagrams: Datagrams,
    kernel: KernelPath,
) -> Reply {
    let filter = match filter(&request) {
        Ok(filter) => filter,
        Err(reply) => return reply,
    };
    // Nothing said is a slip, not a wish.
    if filter == Filter::all() && request.parameter("all").is_none() {
        return Reply::text(400, "which sessions? say all=1 for every one\n");
    }
    let killed = reset(filter, engine, builder, datagrams, kernel).await;
    Reply::json(200, &Killed { killed })
}

/// Resets the sessions that are meant, and says how many there were.
pub(crate) async fn reset(
    filter: Filter,
    engine: Arc<Engine>,
    builder: Arc<TableBuilder>,
    datagrams: Datagrams,
    kernel: KernelPath,
) -> u64 {
    tracing::info!(?filter, "An operator resets sessions");
    let n_killed = tokio::task::spawn_blocking(move || {
        let view = builder.view();
        let n_flows = datagrams.kill(|frontend, flow| {
            let server = Some(&*flow.server.name);
            fits(&filter, &view, frontend, server, flow.client.ip())
        });
        let frontends = kernel_frontends(&view);
        let is_meant = |session: &Forwarded| {
            let (server, client) = (session.server.as_deref(), session.client.ip());
            fits(&filter, &view, &session.frontend, server, client)
        };
        let sessions = netfilter::Sessions::new(&frontends);
        let forwarded = sessions.kill(is_meant, || kernel.pause());
        let n_forwarded = forwarded.unwrap_or_else(|error| {
            tracing::warn!(%error, "The kernel does not end what it forwards");
            0
        });
        let n_killed = engine.kill(&filter) + n_flows;
        u64::try_from(n_killed)
            .unwrap_or(u64::MAX)
            .saturating_add(n_forwarded)
    });
    n_killed.await.unwrap_or(0)
}

//--- Servers

fn server(request: &Request) -> Result<(String, String), Reply> {
    match (request.parameter("backend"), request.parameter("server")) {
        (Some(backend), Some(server)) => Ok((backend, server)),
        _ => Err(Reply::text(400, "which server? say backend= and server=\n")),
    }
}

fn set_state(request: &Request, builder: &TableBuilder) -> Result<String, Reply> {
    let (backend, server) = server(request)?;
    let Some(state) = request.parameter("state").as_deref().and_then(state_of) else {
        return Err(Reply::text(400, "state= is ready, drain or maintenance\n"));
    };
    let terms = terms(request, state == AdminState::Ready)?;
    let set = builder.set_state(&backend, &server, state, terms);
    changed(set, format!("{backend}/{server} is {state}\n"))
}

fn set_weight(request: &Request, builder: &TableBuilder) -> Result<String, Reply> {
    let (backend, server) = server(request)?;
    let weight = match request.parameter("weight").as_deref() {
        Some("reset") => None,
        Some(text) => match text.parse() {
            Ok(weight) if weight <= balance::pool::MAX_WEIGHT => Some(weight),
            _ => {
                let words = "weight= is a number from 0 to 256, or reset\n";
                return Err(Reply::text(400, words));
            }
        },
        None => return Err(Reply::text(400, "weight= is missing\n")),
    };
    let told = match weight {
        Some(weight) => format!("{backend}/{server} has weight {weight}\n"),
        None => format!("{backend}/{server} has its configured weight\n"),
    };
    let terms = terms(request, weight.is_none())?;
    changed(builder.set_weight(&backend, &server, weight, terms), told)
}

fn set_max_connections(request: &Request, builder: &TableBuilder) -> Result<String, Reply> {
    let (backend, server) = server(request)?;
    let most = match request.parameter("most").as_deref() {
        Some("reset") => None,
        Some("none") => Some(0),
        Some(text) => match text.parse() {
            Ok(most @ 1..) => Some(most),
            _ => {
                return Err(Reply::text(
                    400,
                    "most= is a number from 1, none or reset\n",
                ));
            }
        },
        None => return Err(Reply::text(400, "most= is missing\n")),
    };
    let told = match most {
        None => format!("{backend}/{server} has its configured limit\n"),
        Some(0) => format!("{backend}/{server} has no limit\n"),
        Some(most) => format!("{backend}/{server} may have {most} sessions at a time\n"),
    };
    let terms = terms(request, most.is_none())?;
    let set = builder.set_max_connections(&backend, &server, most, terms);
    changed(set, told)
}

/// The terms of a decision; one that takes another back has no end.
fn terms(request: &Request, takes_back: bool) -> Result<Terms, Reply> {
    let terms = decision::read(request, clock::since_1970());
    let terms = terms.map_err(|error| Reply::text(400, format!("{error}\n")))?;
    match takes_back && terms.until.is_some() {
        true => Err(Reply::text(
            400,
            "a decision that takes another back has no end\n",
        )),
        false => Ok(terms),
    }
}

fn changed(result: Result<(), NoSuchServer>, told: String) -> Result<String, Reply> {
    match result {
        Ok(()) => Ok(told),
        Err(error) => Err(Reply::text(404, format!("{error}\n"))),
    }
}

fn state_of(text: &str) -> Option<AdminState> {
    match text {
        "ready" => Some(AdminState::Ready),
        "drain" => Some(AdminState::Drain),
        "maintenance" => Some(AdminState::Maintenance),
        _ => None,
    }
}
