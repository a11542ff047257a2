//! A session in the words of a hand-over, and back.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use balance::pool::{Eligibility, Registry, Server, ServerSettings, Settings};
use balance::table::{AcceptProxy, Backend, Frontend, Policy, Route, Table};
use daemon::clock;
use l4_core::handover::{self as message, Connection};
use l4_core::proxy_protocol;

use super::Shared;
use super::connection::{Duration32, Epoch, FrozenSession, Session, Stage};
use super::pipes::Pipe;
use super::pump::{End, Flow, FlowParts, Readiness, Side};

//--- Out

impl FrozenSession {
    /// The description for another process, besides the session's descriptors and held octets.
    pub(crate) fn describe(&self, epoch: Epoch) -> Connection {
        let session = &self.0;
        let name = |name: Option<&Arc<str>>| name.map_or_else(String::new, ToString::to_string);
        let target = session.target.as_ref();
        let named = session.named.as_deref().cloned().unwrap_or_default();
        let server_signs = session.server.as_ref().map_or(0, |s| s.signs.lasting());
        let (up, down) = self.held();
        Connection {
            frontend: session.frontend.name.to_string(),
            backend: name(session.backend_name()),
            server: name(target.map(|server| &server.name)),
            server_address: target.map(|server| server.address),
            peer: Some(session.peer),
            proxied_source: named.source,
            proxied_destination: named.destination,
            server_name: named.server_name.map_or_else(String::new, String::from),
            stage: match session.stage {
                Stage::Inspecting => message::Stage::Inspecting,
                Stage::Queued | Stage::Pausing => message::Stage::Choosing,
                Stage::Connecting => message::Stage::Connecting,
                Stage::Relaying => message::Stage::Relaying,
            },
            up: describe_flow(&session.up, up),
            down: describe_flow(&session.down, down),
            client_signs: session.client.signs.lasting(),
            server_signs,
            accepted: epoch.unix(session.accepted),
            queued: session.queued.into(),
            connected: session.connected.into(),
            retries: session.retries,
            has_server: session.server.is_some(),
            header_done: session
                .early
                .as_ref()
                .is_some_and(|early| early.header_done),
            extensions: session
                .early
                .as_ref()
                .map_or_else(Vec::new, |early| early.extensions.clone()),
            chosen_in_service: target.is_some_and(|server| server.eligibility.keeps_sessions()),
        }
    }

    /// Client, server, and both ends of each pipe with bytes in it.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let session = &self.0;
        let mut fds = vec![session.client.socket.as_fd()];
        fds.extend(session.server.as_ref().map(|side| side.socket.as_fd()));
        for flow in [&session.up, &session.down] {
            if let Some((pipe, _)) = flow.piped() {
                fds.extend([pipe.read.as_fd(), pipe.write.as_fd()]);
            }
        }
        fds
    }

    /// Octets that wait to be sent, up and down; those that were looked into count among them.
    pub(crate) fn held(&self) -> (&[u8], &[u8]) {
        let session = &self.0;
        let up = match &session.early {
            Some(early) => &early.bytes,
            None => session.up.held(),
        };
        (up, session.down.held())
    }
}

fn describe_flow(flow: &Flow, held: &[u8]) -> message::Flow {
    message::Flow {
        moved: flow.moved,
        end: flow.end.to_number(),
        held: u32::try_from(held.len()).unwrap_or(u32::MAX),
        in_pipe: flow.piped().map_or(0, |(_, in_pipe)| in_pipe),
    }
}

//--- In

/// Makes sessions from another process's description, for the newest table. Frontends and servers that it does not
/// have any more are made up, so that their sessions can continue.
pub(crate) struct Assembler {
    shared: Arc<Shared>,
    table: Arc<Table>,
    frontends: HashMap<String, Arc<Frontend>>,
    backends: HashMap<String, Arc<Backend>>,
    servers: HashMap<(String, String, SocketAddr), Arc<Server>>,
}

impl Assembler {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let table = shared.cell.current();
        Self {
            shared,
            table,
            frontends: HashMap::new(),
            backends: HashMap::new(),
            servers: HashMap::new(),
        }
    }

    /// The session, unless its parts do not fit together.
    pub(crate) fn assemble(
        &mut self,
        it: Connection,
        descriptors: Vec<OwnedFd>,
        up: Vec<u8>,
        down: Vec<u8>,
    ) -> Option<FrozenSession> {
        let mut fds = descriptors.into_iter();
        let client = Side::new(fds.next()?, Readiness::from_lasting(it.client_signs));
        let server = if it.has_server {
            let readiness = Readiness::from_lasting(it.server_signs);
            Some(Side::new(fds.next()?, readiness))
        } else {
            None
        };
        let epoch = self.shared.epoch;
        let accepted = epoch.at_unix(it.accepted);
        let frontend = self.frontend(&it.frontend);
        let id = self.shared.new_id();
        let mut session = Session::new(id, client, it.peer?, frontend, accepted);
        session.stage = match it.stage {
            message::Stage::Inspecting => Stage::Inspecting,
            message::Stage::Choosing => Stage::Queued,
            message::Stage::Connecting => Stage::Connecting,
            message::Stage::Relaying => Stage::Relaying,
        };
        let connects = matches!(session.stage, Stage::Connecting | Stage::Relaying);
        if connects != server.is_some() || it.extensions.len() > proxy_protocol::LONGEST {
            return None;
        }
        session.server = server;
        session.queued = Duration32::from(it.queued);
        session.connected = Duration32::from(it.connected);
        session.retries = it.retries;
        session.counted = (it.up.moved, it.down.moved);
        if it.proxied_source.is_some() {
            session.named().source = it.proxied_source;
            session.named().destination = it.proxied_destination;
        }
        if !it.server_name.is_empty() {
            session.named().server_name = Some(it.server_name.into());
        }
        let (mut up_held, mut up_pipe, mut down_pipe) = (up, None, None);
        if session.stage != Stage::Relaying {
            let early = session.early();
            early.header_done = it.header_done;
            early.extensions = it.extensions;
            early.bytes = std::mem::take(&mut up_held);
        }
        for (flow, place) in [(it.up, &mut up_pipe), (it.down, &mut down_pipe)] {
            if flow.in_pipe > 0 {
                let (read, write) = (fds.next()?, fds.next()?);
                *place = Some((Pipe { read, write }, flow.in_pipe));
            }
        }
        session.up = resume(it.up, up_held, up_pipe);
        session.down = resume(it.down, down, down_pipe);
        if !it.backend.is_empty() {
            let known = self.table.backend(&it.backend).cloned();
            session.backend = match (known, connects) {
                (Some(backend), _) => Some(backend),
                // A session without a server is routed again.
                (None, false) => None,
                (None, true) => Some(self.lost_backend(&it.backend)),
            };
        }
        if connects {
            let backend = session.backend.clone()?;
            let chosen = match it.chosen_in_service {
                true => Eligibility::Up { since: None },
                false => Eligibility::Down,
            };
            let server = self.server(&backend, it.server, it.server_address?, chosen)?;
            session.slot = Some(server.load.adopt());
            session.target = Some(server);
        }
        admit(&mut session);
        Some(FrozenSession(session))
    }

    fn frontend(&mut self, name: &str) -> Arc<Frontend> {
        if let Some(frontend) = self.table.frontend(name) {
            return Arc::clone(frontend);
        }
        let lost = self.frontends.entry(name.to_owned()).or_insert_with(|| {
            let mut frontend = Frontend::new(name, Vec::new(), Route::default());
            frontend.route.inspect_timeout = Route::INSPECT_TIMEOUT;
            Arc::new(frontend)
        });
        Arc::clone(lost)
    }

    fn lost_backend(&mut self, name: &str) -> Arc<Backend> {
        let lost = self.backends.entry(name.to_owned()).or_insert_with(|| {
            Arc::new(Backend {
                pool: Registry::new().pool(Settings::new(name)),
                policy: Policy::default(),
            })
        });
        Arc::clone(lost)
    }

    /// The server of a session as it was when it was `chosen`: later changes take effect
    /// when the session is adopted.
    fn server(
        &mut self,
        backend: &Backend,
        name: String,
        address: SocketAddr,
        chosen: Eligibility,
    ) -> Option<Arc<Server>> {
        let known = backend
            .pool
            .servers
            .iter()
            .find(|server| *server.name == *name && server.address == address);
        if let Some(server) = known
            && (server.eligibility.keeps_sessions() || !chosen.keeps_sessions())
        {
            return Some(Arc::clone(server));
        }
        let key = (backend.pool.name.to_string(), name, address);
        if let Some(made_up) = self.servers.get(&key) {
            return Some(Arc::clone(made_up));
        }
        if let Some(server) = known {
            let mut before = Server::clone(server);
            before.eligibility = chosen;
            let before = Arc::new(before);
            self.servers.insert(key, Arc::clone(&before));
            return Some(before);
        }
        let mut server = ServerSettings::new(key.1.as_str(), address);
        server.eligibility = Eligibility::Drain;
        let mut settings = Settings::new(key.0.as_str());
        settings.servers.push(server);
        let pool = Registry::new().pool(settings);
        let lost = Arc::clone(pool.servers.first()?);
        self.servers.insert(key, Arc::clone(&lost));
        Some(lost)
    }
}

/// Counts a session against its source. A client that comes through another proxy is counted once its header has
/// named that.
fn admit(session: &mut Session) {
    let is_named =
        session.stage != Stage::Inspecting || session.frontend.accept_proxy == AcceptProxy::No;
    if is_named && let Some(limits) = &session.frontend.limits {
        session.admission = Some(limits.adopt(session.source().ip(), clock::now()));
    }
}

fn resume(flow: message::Flow, held: Vec<u8>, pipe: Option<(Pipe, u32)>) -> Flow {
    let end = End::from_number(flow.end);
    Flow::resumed(flow.moved, end, FlowParts { held, pipe })
}
