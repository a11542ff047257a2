//! The command port: sockets where chronyc is answered.
//!
//! Runs on the runtime's thread, and sees snapshots alone; passes commands to the [`Control`].

use parking_lot::Mutex;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use daemon::clock;
use daemon::latest::Latest;
use ipnet::IpNet;
use tokio::net::{UdpSocket, UnixDatagram};
use tokio::task::JoinHandle;

use crate::views::Views;
use chronyc::MAX_LENGTH;
use chronyc::answer::{Answer, ControlRequest, Facts, answer, is_own};
use chronyc::reply::{Reply, Report, Status};
use chronyc::request::{Refused, Request};
use ntp::responder::{Acl, Tables};
use random::Random;
use time_model::settings::{AccessRule, Settings};
use time_model::time::UnixTime;

/// The future result of a command.
pub type Outcome = Pin<Box<dyn Future<Output = (Status, Report)> + Send>>;

/// Executes commands.
pub trait Control: Send + Sync + 'static {
    /// Does it.
    fn perform(&self, errand: ControlRequest) -> Outcome;
}

/// The settings that decide on requests.
#[derive(Clone, Debug)]
struct Policy {
    access: Acl,
    command_access: Acl,
    open: Vec<String>,
    client_log: bool,
    rate_limit: Option<time_model::settings::RateLimit>,
}

impl Policy {
    /// The same with one more rule, for who asks for the time or for commands.
    fn with(&self, commands: bool, rule: &AccessRule) -> Self {
        let mut policy = self.clone();
        let access = match commands {
            true => &mut policy.command_access,
            false => &mut policy.access,
        };
        access.add(rule, |_| Vec::new());
        policy
    }

    fn new(settings: &Settings, mut resolve: impl FnMut(&str) -> Vec<IpAddr>) -> Self {
        let commands = &settings.commands;
        // The own node may ask unless the settings forbid it.
        let own: [IpNet; 2] = [
            IpNet::new_assert(Ipv4Addr::new(127, 0, 0, 0).into(), 8),
            IpNet::new_assert(Ipv6Addr::LOCALHOST.into(), 128),
        ];
        let own = own.map(|network| AccessRule {
            allow: true,
            all: false,
            clients: time_model::settings::ClientMatch::Network(network),
        });
        let rules: Vec<AccessRule> = own.into_iter().chain(commands.access.clone()).collect();
        Self {
            access: Acl::from_rules(&settings.server.access, &mut resolve),
            command_access: Acl::from_rules(&rules, &mut resolve),
            open: commands.open.clone(),
            client_log: !settings.server.no_client_log,
            rate_limit: commands.rate_limit,
        }
    }
}

/// The state that all sockets share.
struct Shared {
    views: Views,
    tables: Arc<Tables>,
    policy: Arc<Latest<Policy>>,
    random: Mutex<Random>,
    control: Box<dyn Control>,
}

/// Sockets where chronyc is answered.
pub struct Server {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
    listeners: Vec<String>,
    /// The socket in the file system, to be removed at the end.
    path: Option<PathBuf>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("listeners", &self.listeners)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Opens the sockets that the settings name, on this runtime. Logs and leaves out a socket that fails to open: the agent
    /// keeps the time without chronyc, too.
    pub fn start(
        settings: &Settings,
        views: Views,
        tables: Arc<Tables>,
        random: Random,
        control: Box<dyn Control>,
        resolve: impl FnMut(&str) -> Vec<IpAddr>,
    ) -> Self {
        let shared = Arc::new(Shared {
            views,
            tables,
            policy: Latest::new(Policy::new(settings, resolve)),
            random: Mutex::new(random),
            control,
        });
        let mut server = Self {
            shared,
            tasks: Vec::new(),
            listeners: Vec::new(),
            path: None,
        };
        for address in settings.commands.listen() {
            match server.listen_udp(address, settings.commands.bind_device.as_deref()) {
                Ok(address) => server.listeners.push(format!("commands udp {address}")),
                Err(error) => tracing::warn!(%address, %error, "Cannot listen for chronyc"),
            }
        }
        if let Some(path) = settings.commands.socket.path() {
            match server.listen_unix(path) {
                Ok(()) => server
                    .listeners
                    .push(format!("commands unix:{}", path.display())),
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "Cannot listen for chronyc");
                }
            }
        }
        server
    }

    /// The addresses of the sockets, as text.
    #[must_use]
    pub fn listeners(&self) -> &[String] {
        &self.listeners
    }

    /// Takes up who may ask, and what; sockets stay as they are.
    pub fn reload(&self, settings: &Settings, resolve: impl FnMut(&str) -> Vec<IpAddr>) {
        self.shared.policy.publish(Policy::new(settings, resolve));
    }

    fn listen_udp(&mut self, address: SocketAddr, device: Option<&str>) -> io::Result<SocketAddr> {
        let socket = std::net::UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        let socket = UdpSocket::from_std(socket)?;
        if let Some(device) = device {
            socket.bind_device(Some(device.as_bytes()))?;
        }
        let address = socket.local_addr()?;
        let shared = Arc::clone(&self.shared);
        self.tasks.push(tokio::spawn(async move {
            // One more than the longest request, to tell what is longer.
            let mut buffer = [0; MAX_LENGTH + 1];
            loop {
                let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
                    continue;
                };
                let datagram = buffer.get(..length).unwrap_or_default();
                if !shared.may_ask(from.ip()) {
                    continue;
                }
                if let Some(reply) = shared.reply(datagram, false).await {
                    // Answers a repeated request again.
                    let _sent = socket.send_to(&reply, from).await;
                }
            }
        }));
        Ok(address)
    }

    fn listen_unix(&mut self, path: &Path) -> io::Result<()> {
        if let Some(directory) = path.parent()
            && !directory.exists()
        {
            fs::create_dir_all(directory)?;
            fs::set_permissions(directory, fs::Permissions::from_mode(0o750))?;
        }
        if UnixDatagram::unbound()?.connect(path).is_ok() {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "another daemon answers there",
            ));
        }
        // The socket of a process that ended without removing it.
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = UnixDatagram::bind(path)?;
        self.path = Some(path.to_owned());
        fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
        let shared = Arc::clone(&self.shared);
        self.tasks.push(tokio::spawn(async move {
            let mut buffer = [0; MAX_LENGTH + 1];
            loop {
                let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
                    continue;
                };
                let datagram = buffer.get(..length).unwrap_or_default();
                let reply = shared.reply(datagram, true).await;
                if let (Some(reply), Some(to)) = (reply, from.as_pathname()) {
                    let _sent = socket.send_to(&reply, to).await;
                }
            }
        }));
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        if let Some(path) = &self.path {
            // The client has gone.
            let _removed = fs::remove_file(path);
        }
    }
}

impl Shared {
    fn may_ask(&self, from: IpAddr) -> bool {
        let policy = self.policy.current();
        if !policy.command_access.is_allowed(from.to_canonical()) {
            return false;
        }
        let limit = policy.rate_limit.as_ref().filter(|_| !is_own(from));
        if !policy.client_log {
            return true;
        }
        let mut random = self.random.lock();
        self.tables.command(from, now(), limit, &mut random)
    }

    async fn reply(&self, datagram: &[u8], is_local: bool) -> Option<Vec<u8>> {
        let (command, sequence, status, report) = match Request::parse(datagram) {
            Err(Refused::Silently) => return None,
            Err(Refused::With {
                command,
                sequence,
                status,
            }) => (command, sequence, status, Report::Null),
            Ok(request) => {
                let answer = {
                    let (view, policy) = (self.views.now(), self.policy.current());
                    let facts = Facts {
                        view: &view,
                        tables: &self.tables,
                        client_log: policy.client_log,
                        access: &policy.access,
                        command_access: &policy.command_access,
                        open: &policy.open,
                    };
                    answer(&request.command, &facts, is_local)
                };
                let (status, report) = match answer {
                    Answer::Reply(status, report) => (status, report),
                    Answer::ControlRequest(errand) => {
                        tracing::debug!(command = ?request.command, "Command");
                        self.perform(errand).await
                    }
                };
                (request.command.number(), request.sequence, status, report)
            }
        };
        let reply = Reply {
            command,
            sequence,
            status,
            report,
        };
        Some(reply.to_octets(datagram.len()))
    }

    /// Executes a command. The access list of commands is kept here, too.
    async fn perform(&self, errand: ControlRequest) -> (Status, Report) {
        let access = match &errand {
            ControlRequest::Access { commands, rule } => Some((*commands, rule.clone())),
            _ => None,
        };
        let (status, report) = self.control.perform(errand).await;
        if let (Status::Success, Some((commands, rule))) = (status, access) {
            let policy = self.policy.current().with(commands, &rule);
            self.policy.publish(policy);
        }
        (status, report)
    }
}

fn now() -> UnixTime {
    let since = clock::since_1970();
    UnixTime(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
