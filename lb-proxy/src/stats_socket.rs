//! Unix sockets where HAProxy's runtime commands are answered; the crate [`haproxy_cli`] understands and answers them.
//!
//! A process at the socket has a role by its user and its groups, as at the admin socket ([`daemon::caller`]): root, the
//! process's own user and operators get the socket's level, all others nothing. Changes are decisions of operators like
//! those of `lb-proxy backend`: they are logged, kept on disk and shown with the user who made them.

mod figures;

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ::config::lb_proxy::StatsSocket;
use balance::pool::MAX_WEIGHT;
use daemon::accept::Acceptor;
use daemon::caller::{self, Access, Role};
use daemon::clock;
use daemon::connections::{Connections, Opening, Placed, Policy, Table};
use daemon::life::Life;
use daemon::listen::path::{self, Bound};
use haproxy_cli::{Answer, Command, Conversation, Request, ServerState, Step};
use l4::access_log::Log;
use l4::relay::{Engine, Filter};
use proto::health::{AdminState, Terms};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use crate::bind::until_bound;
use crate::datagrams::Datagrams;
use crate::decisions::Decisions;
use crate::kernel_path::KernelPath;
use crate::routes;
use crate::table_builder::{NoSuchServer, TableBuilder};

/// Connections to all sockets at a time.
const MOST_CONNECTIONS: usize = 32;

/// The octets that are read at once.
const READ: usize = 4 << 10;

/// The longest reason of a decision, in characters.
const LONGEST_REASON: usize = 200;

/// How often a socket that cannot be bound is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// The answer to a process without a role.
const DENIED: &str = "Permission denied\n\n";

/// The parts of the proxy that commands are about.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) engine: Arc<Engine>,
    pub(crate) builder: Arc<TableBuilder>,
    pub(crate) datagrams: Datagrams,
    pub(crate) kernel: KernelPath,
    pub(crate) decisions: Decisions,
    pub(crate) log: Log,
    pub(crate) life: Life,
    pub(crate) board: Arc<Board>,
    /// The start of the process.
    pub(crate) started: Instant,
}

/// The sockets, each with whether it is bound; and how commands have ended.
#[derive(Debug, Default)]
pub(crate) struct Board {
    sockets: Vec<(StatsSocket, AtomicBool)>,
    counts: Counts,
}

impl Board {
    /// The sockets of a configuration, none bound yet.
    pub(crate) fn new(sockets: &[StatsSocket]) -> Arc<Self> {
        let sockets = sockets
            .iter()
            .map(|socket| (socket.clone(), AtomicBool::new(false)));
        Arc::new(Self {
            sockets: sockets.collect(),
            counts: Counts::default(),
        })
    }

    fn set_up(&self, place: usize) {
        if let Some((_, is_up)) = self.sockets.get(place) {
            is_up.store(true, Ordering::Relaxed);
        }
    }

    /// The path of each socket, its level, and whether it is bound.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = (String, String, bool)> {
        self.sockets.iter().map(|(socket, is_up)| {
            let (path, level) = (socket.path.display().to_string(), socket.level.to_string());
            (path, level, is_up.load(Ordering::Relaxed))
        })
    }

    /// Each result of commands, and its count.
    pub(crate) fn by_result(&self) -> [(&'static str, u64); 4] {
        let Counts {
            answered,
            done,
            failed,
            refused,
        } = &self.counts;
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            ("answered", load(answered)),
            ("done", load(done)),
            ("failed", load(failed)),
            ("refused", load(refused)),
        ]
    }
}

/// How commands have ended; they only go up.
#[derive(Debug, Default)]
struct Counts {
    answered: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Answers at the sockets of a configuration, until the tasks are aborted; the sockets' files go then.
///
/// A socket that cannot be bound is tried again, and stops nothing else: a predecessor has it until it has handed over.
pub(crate) fn serve(subject: Subject, table: &Table) -> Vec<JoinHandle<()>> {
    if subject.board.sockets.is_empty() {
        return Vec::new();
    }
    let policy = Policy::of(MOST_CONNECTIONS).with_source(MOST_CONNECTIONS);
    let connections = Connections::new("stats-socket", policy);
    table.add(&connections);
    let acceptor = Acceptor::new(connections, Opening::Request);
    let subject = Arc::new(subject);
    let sockets = subject.board.sockets.iter().enumerate();
    let serve = |(place, (settings, _)): (usize, &(StatsSocket, AtomicBool))| {
        let socket = Socket {
            place,
            settings: settings.clone(),
            subject: Arc::clone(&subject),
            acceptor: acceptor.clone(),
        };
        tokio::spawn(socket.serve())
    };
    sockets.map(serve).collect()
}

/// One socket.
struct Socket {
    place: usize,
    settings: StatsSocket,
    subject: Arc<Subject>,
    acceptor: Acceptor,
}

impl Socket {
    /// Serves until it is dropped.
    async fn serve(self) {
        let report = |error: Box<dyn Error + Send + Sync>| {
            tracing::warn!(
                error = &*error as &dyn Error,
                "A stats socket cannot be bound yet"
            );
        };
        let (listener, access, _bound) = until_bound(RETRY, || self.bind(), report).await;
        let (path, level) = (self.settings.path.display(), self.settings.level);
        tracing::info!(%path, %level, "Answering HAProxy's runtime commands");
        self.subject.board.set_up(self.place);
        loop {
            let (stream, _) = self.acceptor.next(&listener).await;
            let role = access.role(stream.get_ref());
            let (subject, settings) = (Arc::clone(&self.subject), self.settings.clone());
            tokio::spawn(async move {
                if let Err(error) = converse(stream, role, &settings, &subject).await {
                    tracing::debug!(%error, "A connection to a stats socket ended early");
                }
            });
        }
    }

    fn bind(&self) -> Result<(UnixListener, Access, Bound), Box<dyn Error + Send + Sync>> {
        let (listener, bound) = path::listen(&self.settings.path)?;
        let access = Access::to(&self.settings.path)?;
        Ok((UnixListener::from_std(listener)?, access, bound))
    }
}

//--- Connections

async fn converse(
    mut stream: Placed<UnixStream>,
    role: Role,
    settings: &StatsSocket,
    subject: &Subject,
) -> io::Result<()> {
    // The conversation has time-outs of its own.
    let _answering = stream.place().answer();
    let timeout = settings.timeout.get();
    if role == Role::Other {
        count(&subject.board.counts.refused);
        tracing::warn!(path = %settings.path.display(), "A process that is no operator's was refused at a stats socket");
        return caller::refuse(&mut stream, DENIED, timeout).await;
    }
    let by = user(stream.get_ref());
    let mut conversation = Conversation::new(settings.level, timeout);
    let mut octets = [0; READ];
    loop {
        let text = match conversation.step() {
            Step::Read => {
                let reading = stream.read(&mut octets);
                let n_read = tokio::time::timeout(conversation.timeout(), reading).await??;
                match octets.get(..n_read) {
                    Some(read) if !read.is_empty() => conversation.receive(read),
                    _ => return Ok(()),
                }
                continue;
            }
            Step::Run(command) => {
                let answer = subject.run(&command, &by).await;
                conversation.framed(&answer)
            }
            Step::Write(text) => {
                count(&subject.board.counts.answered);
                text
            }
            Step::Refuse(text) => {
                count(&subject.board.counts.refused);
                text
            }
            Step::End => return stream.shutdown().await,
        };
        write(&mut stream, &text, conversation.timeout()).await?;
    }
}

async fn write(stream: &mut Placed<UnixStream>, text: &str, timeout: Duration) -> io::Result<()> {
    tokio::time::timeout(timeout, stream.write_all(text.as_bytes())).await?
}

/// The user of a connection, for the terms of its decisions.
fn user(stream: &UnixStream) -> String {
    match stream.peer_cred() {
        Ok(peer) => format!("uid {}", peer.uid()),
        Err(_) => String::new(),
    }
}

//--- Commands

impl Subject {
    /// Runs a command; returns its answer.
    async fn run(&self, command: &Command, by: &str) -> String {
        let request = match haproxy_cli::answer(command, &self.figures(command).await) {
            Answer::Text(text) => {
                count(&self.board.counts.answered);
                return text;
            }
            Answer::Request(request) => request,
        };
        let line = command.line();
        tracing::info!(command = line, by, "A command of HAProxy");
        match self.perform(request, &line, by).await {
            Ok(()) => {
                count(&self.board.counts.done);
                String::new()
            }
            Err(sentence) => {
                count(&self.board.counts.failed);
                format!("{sentence}\n")
            }
        }
    }

    async fn perform(&self, request: Request, line: &str, by: &str) -> Result<(), String> {
        // As exact as it is shown.
        let now = u64::try_from(clock::since_1970().as_millis()).unwrap_or(u64::MAX);
        let terms = Terms {
            since: Some(Duration::from_millis(now)),
            until: None,
            reason: reason(line),
            by: by.to_owned(),
        };
        let decided = match request {
            Request::State {
                backend,
                server,
                state,
            } => {
                let state = match state {
                    ServerState::Up | ServerState::Down => AdminState::Ready,
                    ServerState::Drain => AdminState::Drain,
                    ServerState::Maintenance => AdminState::Maintenance,
                };
                self.builder.set_state(&backend, &server, state, terms)
            }
            Request::Weight {
                backend,
                server,
                weight,
            } => {
                let weight = self.weight(&backend, &server, weight.min(MAX_WEIGHT));
                self.builder.set_weight(&backend, &server, weight, terms)
            }
            Request::MaxConnections {
                backend,
                server,
                most,
            } => self
                .builder
                .set_max_connections(&backend, &server, Some(most), terms),
            Request::EndSession(id) => {
                return self
                    .reset(Filter {
                        id: Some(id),
                        ..Filter::all()
                    })
                    .await;
            }
            Request::EndSessions { backend, server } => {
                let (backend, server) = (Some(backend), Some(server));
                return self
                    .reset(Filter {
                        backend,
                        server,
                        ..Filter::all()
                    })
                    .await;
            }
        };
        decided.map_err(|NoSuchServer(..)| "No such server.".to_owned())?;
        let saved = self.decisions.save_soon().await;
        saved.map_err(|error| format!("Holds until a restart: {error}"))
    }

    /// A weight as the builder takes it: the configured one is no decision.
    fn weight(&self, backend: &str, server: &str, weight: u16) -> Option<u16> {
        let view = self.builder.view();
        let config = view.config.as_deref();
        let configured = config.and_then(|config| config.server(backend, server));
        let is_configured = configured.is_some_and(|server| server.weight == weight);
        (!is_configured).then_some(weight)
    }

    async fn reset(&self, filter: Filter) -> Result<(), String> {
        let (engine, builder) = (Arc::clone(&self.engine), Arc::clone(&self.builder));
        let (datagrams, kernel) = (self.datagrams.clone(), self.kernel.clone());
        routes::reset(filter, engine, builder, datagrams, kernel).await;
        Ok(())
    }
}

/// The reason of a decision: the command, in one line.
fn reason(line: &str) -> String {
    let plain = line.chars().map(|character| match character.is_control() {
        true => ' ',
        false => character,
    });
    plain.take(LONGEST_REASON).collect()
}
