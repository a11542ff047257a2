//! Time: the agent on a machine or on loopback, Debian's chronyd and chronyc beside it, a client of NTP, and servers that say
//! what a test wants them to say.
//!
//! Nothing here touches a clock: chronyd always runs with `-x`, the agent with `--no-clock`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::binaries::binary;
use crate::daemon::{Daemon, http_get, run};
use crate::netns::Machine;
use crate::scratch::{Scratch, at, loopback};
use crate::wait;

/// How long anything may take. Wide: the machine may be building at the same time.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The port of an agent of the tests, on an address of its own.
pub const PORT: u16 = 11_123;
const ADMIN: u16 = 9406;

//--- The agent

/// An agent's address and files; the process is started from them.
#[derive(Debug)]
pub struct Agent {
    /// The address of all its listeners.
    pub ip: Ipv4Addr,
    /// Configuration, drift, keys, sockets.
    pub files: Scratch,
    namespace: Option<Command>,
}

/// The address of the agent in the same network.
type Asked = io::Result<(u16, String)>;

impl Agent {
    /// On a loopback address of its own, with these lines of chrony.conf besides where it listens.
    #[must_use]
    pub fn on_loopback(lines: &str) -> Self {
        let agent = Self {
            ip: loopback(),
            files: private("time"),
            namespace: None,
        };
        agent.configure(lines);
        agent
    }

    /// On a machine, at the ports that everybody knows.
    #[must_use]
    pub fn on(machine: &Machine, ip: Ipv4Addr, lines: &str) -> Self {
        let agent = Self {
            ip,
            files: private("time"),
            namespace: Some(machine.command("env")),
        };
        agent.files.write("chrony.conf", &agent.text(lines));
        agent
    }

    /// Writes its chrony.conf again.
    pub fn configure(&self, lines: &str) {
        self.files.write("chrony.conf", &self.text(lines));
    }

    fn text(&self, lines: &str) -> String {
        let listen = if self.namespace.is_some() {
            // The wildcard, as on a node.
            String::new()
        } else {
            format!(
                "port {PORT}\nbindaddress {}\ncmdport {}\nbindcmdaddress {}\n",
                self.ip,
                self.command_port(),
                self.ip
            )
        };
        format!(
            "{listen}bindcmdaddress {}\ndriftfile {}\n{lines}\n",
            self.command_socket().display(),
            self.drift_file().display()
        )
    }

    /// The address at which it answers chronyc: a port of its own, because chronyd's rules have it on `::1` too.
    #[must_use]
    pub fn command_port(&self) -> u16 {
        let [_, _, third, fourth] = self.ip.octets();
        20_000 + u16::from_be_bytes([third, fourth]) % 20_000
    }

    /// The socket for chronyc of the same user.
    #[must_use]
    pub fn command_socket(&self) -> PathBuf {
        self.files.join("chronyd.sock")
    }

    /// The directory of its state.
    #[must_use]
    pub fn drift_file(&self) -> PathBuf {
        self.files.join("drift")
    }

    /// The address for clients.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        at(self.ip, if self.namespace.is_some() { 123 } else { PORT })
    }

    /// The address of its admin listener.
    #[must_use]
    pub fn admin(&self) -> SocketAddr {
        at(self.ip, ADMIN)
    }

    /// A verb of its command line, in its network.
    #[must_use]
    pub fn command(&self, verb: &str) -> Command {
        let mut command = self.inside(binary("timesync-agent"));
        command.arg(verb);
        command
    }

    /// Any program, in its network.
    fn inside(&self, program: PathBuf) -> Command {
        match &self.namespace {
            None => Command::new(program),
            Some(env) => {
                let mut command = Command::new(env.get_program());
                command.args(env.get_args()).arg(program);
                command
            }
        }
    }

    /// The command that serves; healthd is not told.
    #[must_use]
    pub fn serve(&self) -> Command {
        self.serve_with("none")
    }

    /// The command that serves, and where healthd is.
    #[must_use]
    pub fn serve_with(&self, healthd: &str) -> Command {
        let mut command = self.command("serve");
        command
            .arg("--no-clock")
            .arg("--chrony-conf")
            .arg(self.files.join("chrony.conf"))
            .args(["--healthd", healthd, "--admin"])
            .arg(self.admin().to_string());
        command
    }

    /// The command that serves by a configuration of its own, which leaves the clock alone, reads the same
    /// chrony.conf and has these lines too.
    #[must_use]
    pub fn serve_by(&self, admin: SocketAddr, lines: &str) -> Command {
        let text = format!(
            "version = \"v1\"\ncorrect-clock = false\nchrony-conf = \"{}\"\n\
             admin.listen = \"{admin}\"\nhealth.endpoint = \"none\"\n{lines}",
            self.files.join("chrony.conf").display(),
        );
        let mut command = self.command("serve");
        command
            .arg("--config")
            .arg(self.files.write("config.toml", &text));
        command
    }

    /// Starts it, and waits until it serves; it need not be synchronised.
    #[must_use]
    pub fn start(&self) -> Daemon {
        Daemon::start("timesync-agent", self.serve())
    }

    /// Asks its admin listener.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub fn get(&self, path: &str) -> Asked {
        if self.namespace.is_none() {
            return http_get(self.admin(), path);
        }
        // The listener is in another network: a client there asks.
        let mut command = self.inside("curl".into());
        command
            .args(["-s", "-m", "2", "-w", "\n%{http_code}"])
            .arg(format!("http://{}{path}", self.admin()));
        let (_, text, _) = run(command);
        let (body, code) = text.rsplit_once('\n').unwrap_or(("", ""));
        match code.parse() {
            Ok(code) if code != 0 => Ok((code, body.to_owned())),
            _ => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }

    /// Its status.
    ///
    /// # Panics
    ///
    /// Panics if it does not answer.
    #[must_use]
    pub fn status(&self) -> Value {
        let (_, body) = self
            .get("/status")
            .unwrap_or_else(|error| panic!("status of {}: {error}", self.ip));
        let status: Value = serde_json::from_str(&body).expect("status is JSON");
        status["detail"].clone()
    }

    /// Waits until it is in one of these states, and returns what it says then.
    #[track_caller]
    pub fn wait_state(&self, states: &[&str]) -> Value {
        self.wait_status(
            &format!("{} is {}", self.ip, states.join(" or ")),
            |status| states.iter().any(|state| status["state"] == *state),
        )
    }

    /// Waits until its status is as wanted, and returns it.
    #[track_caller]
    pub fn wait_status(&self, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let start = std::time::Instant::now();
        loop {
            if self.get("/status").is_ok() {
                last = self.status();
            }
            if is_wanted(&last) {
                return last;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "waited in vain: {what}\n{last:#}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Runs chronyc: exit code and output.
    #[must_use]
    pub fn chronyc(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = self.inside("chronyc".into());
        if self.namespace.is_some() {
            command.arg("-h").arg("127.0.0.1");
        } else {
            command.arg("-h").arg(self.ip.to_string());
            command.arg("-p").arg(self.command_port().to_string());
        }
        chronyc(command, arguments)
    }

    /// Runs chronyc through its Unix socket.
    #[must_use]
    pub fn chronyc_unix(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = self.inside("chronyc".into());
        command.arg("-h").arg(self.command_socket());
        chronyc(command, arguments)
    }

    /// Waits until clients get a time that is this many seconds ahead of the clock of this machine, to `within`. What one
    /// exchange measures is off by half of what this process waited for its turn meanwhile.
    #[track_caller]
    pub fn wait_offset(&self, ahead: f64, within: f64) {
        wait::for_it("clients are given the time", PATIENCE, || {
            ask(self.address()).is_ok_and(|reply| (reply.offset - ahead).abs() < within)
        });
    }
}

fn chronyc(mut command: Command, arguments: &[&str]) -> (Option<i32>, String) {
    command.args(arguments);
    let (status, stdout, stderr) = run(command);
    (status.code(), stdout + &stderr)
}

//--- chronyd

/// A running chronyd that leaves the clock alone. Dropped, it is killed.
#[derive(Debug)]
pub struct Chronyd {
    child: Child,
    files: Scratch,
}

impl Chronyd {
    /// Starts it on a machine.
    ///
    /// # Panics
    ///
    /// Panics if it is not installed.
    #[must_use]
    pub fn on(machine: &Machine, lines: &str) -> Self {
        Self::start(machine.command("chronyd"), lines)
    }

    /// Starts it on loopback, without privileges; `lines` say at which port.
    #[must_use]
    pub fn on_loopback(lines: &str) -> Self {
        let program = ["/usr/sbin/chronyd", "/sbin/chronyd"];
        let program = program
            .into_iter()
            .find(|path| std::path::Path::new(path).exists());
        Self::start(Command::new(program.unwrap_or("chronyd")), lines)
    }

    /// Starts this program in place of the installed one, on loopback.
    #[must_use]
    pub fn of(program: &std::path::Path, lines: &str) -> Self {
        Self::start(Command::new(program), lines)
    }

    fn start(mut command: Command, lines: &str) -> Self {
        let files = private("chronyd");
        let text = format!(
            "pidfile {}\nbindcmdaddress {}\n{lines}\n",
            files.join("pid").display(),
            files.join("chronyd.sock").display(),
        );
        let config = files.write("chrony.conf", &text);
        let log = std::fs::File::create(files.join("log")).expect("scratch file is made");
        let user = own_user();
        command
            // In the foreground, and the clock is left alone.
            .args(["-x", "-U", "-d", "-u", &user, "-f"])
            .arg(config)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a descriptor"))
            .stderr(log);
        let child = command.spawn().expect("chronyd is installed");
        let chronyd = Self { child, files };
        // It says that it starts before it has the socket.
        wait::for_it("chronyd begins", PATIENCE, || {
            chronyd.command_socket().exists()
        });
        chronyd
    }

    /// The socket for chronyc of the same user.
    #[must_use]
    pub fn command_socket(&self) -> PathBuf {
        self.files.join("chronyd.sock")
    }

    /// Its log.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.files.join("log")).unwrap_or_default()
    }

    /// Runs chronyc on it.
    #[must_use]
    pub fn chronyc(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new("chronyc");
        command.arg("-h").arg(self.files.join("chronyd.sock"));
        chronyc(command, arguments)
    }

    /// Waits until it follows a server, and returns the fields of `chronyc -c tracking`.
    #[track_caller]
    pub fn wait_synchronised(&self) -> Vec<String> {
        wait::until("chronyd is synchronised", PATIENCE, || {
            let (code, text) = self.chronyc(&["-c", "tracking"]);
            let fields: Vec<String> = text.trim().split(',').map(str::to_owned).collect();
            let is_synchronised = code == Some(0)
                && fields.len() == 14
                && fields[13] == "Normal"
                && fields[0] != "7F7F0101"
                && fields[2] != "0";
            is_synchronised.then_some(fields)
        })
    }
}

impl Drop for Chronyd {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            eprintln!("--- log of chronyd\n{}---", self.log());
        }
    }
}

/// A directory that no other user may read: chronyd has no command socket in another.
fn private(label: &str) -> Scratch {
    let files = Scratch::new(label);
    let mode = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(files.path(), mode).expect("it is ours");
    files
}

/// The user who runs the tests.
fn own_user() -> String {
    let (_, name, _) = run({
        let mut id = Command::new("id");
        id.arg("-un");
        id
    });
    name.trim().to_owned()
}

/// Asks a server once, as a host at boot does: how far this machine's clock is off, by chronyd's word. Nothing is set.
///
/// # Panics
///
/// Panics if it gets no answer, with what it said.
#[must_use]
pub fn chronyd_measures(mut command: Command, server: &str) -> f64 {
    let user = own_user();
    let files = private("chronyd");
    command.args(["-Q", "-U", "-u", &user, "-t", "30", server, "cmdport 0"]);
    command.arg(format!("pidfile {}", files.join("pid").display()));
    let (status, stdout, stderr) = run(command);
    let text = stdout + &stderr;
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "by");
    let seconds = at.and_then(|at| words.get(at + 1)?.parse().ok());
    assert!(status.success() && seconds.is_some(), "{text}");
    seconds.unwrap_or(f64::NAN)
}

//--- A client

/// A server's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// LI, VN, mode.
    pub head: u8,
    /// Stratum.
    pub stratum: u8,
    /// Root delay in seconds.
    pub root_delay: f64,
    /// Root dispersion in seconds.
    pub root_dispersion: f64,
    /// Reference ID.
    pub reference_id: u32,
    /// Originate timestamp.
    pub originate: u64,
    /// Receive timestamp.
    pub receive: u64,
    /// Transmit timestamp.
    pub transmit: u64,
    /// The offset of the server's clock, in seconds; positive if ahead.
    pub offset: f64,
    /// The bytes after the header.
    pub rest: Vec<u8>,
}

impl Reply {
    /// LI.
    #[must_use]
    pub fn leap(&self) -> u8 {
        self.head >> 6
    }

    /// VN.
    #[must_use]
    pub fn version(&self) -> u8 {
        (self.head >> 3) & 7
    }

    /// The mode.
    #[must_use]
    pub fn mode(&self) -> u8 {
        self.head & 7
    }

    fn read(octets: &[u8], sent: u64, came: u64) -> Option<Self> {
        let word = |at: usize| Some(u32::from_be_bytes(octets.get(at..at + 4)?.try_into().ok()?));
        let stamp = |at: usize| Some(u64::from_be_bytes(octets.get(at..at + 8)?.try_into().ok()?));
        let (receive, transmit) = (stamp(32)?, stamp(40)?);
        Some(Self {
            head: *octets.first()?,
            stratum: *octets.get(1)?,
            root_delay: f64::from(word(4)?) / 65_536.0,
            root_dispersion: f64::from(word(8)?) / 65_536.0,
            reference_id: word(12)?,
            originate: stamp(24)?,
            receive,
            transmit,
            offset: (difference(receive, sent) + difference(transmit, came)) / 2.0,
            rest: octets.get(48..)?.to_vec(),
        })
    }
}

/// A request of a client: version 4, with this transmit timestamp.
#[must_use]
pub fn request(transmit: u64) -> [u8; 48] {
    let mut octets = [0; 48];
    octets[0] = 4 << 3 | 3;
    octets[40..].copy_from_slice(&transmit.to_be_bytes());
    octets
}

/// Asks once, from a new port.
///
/// # Errors
///
/// When there is no answer within a second, or one that is none.
pub fn ask(server: SocketAddr) -> io::Result<Reply> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    ask_over(&socket, |_| {})
}

/// Asks until there is an answer, from a new port each time: for a server that is to answer, however busy the machine is.
#[track_caller]
#[must_use]
pub fn ask_patiently(server: SocketAddr) -> Reply {
    wait::until("an answer", PATIENCE, || ask(server).ok())
}

/// Asks once over a connected socket with a request that may be changed before it is sent.
///
/// # Errors
///
/// When there is no answer in time, or one that is none.
pub fn ask_over(socket: &UdpSocket, change: impl FnOnce(&mut Vec<u8>)) -> io::Result<Reply> {
    let sent = now();
    let mut octets = request(sent).to_vec();
    change(&mut octets);
    socket.send(&octets)?;
    let mut buffer = [0; 1024];
    loop {
        let length = wait::uninterrupted(|| socket.recv(&mut buffer))?;
        let came = now();
        assert!(length <= octets.len(), "an answer longer than its request");
        let reply = Reply::read(&buffer[..length], sent, came).ok_or(io::ErrorKind::InvalidData)?;
        // A late answer to an earlier request is passed over.
        if octets.get(40..48) == Some(&reply.originate.to_be_bytes()) {
            return Ok(reply);
        }
    }
}

/// The wall clock as an NTP timestamp.
#[must_use]
pub fn now() -> u64 {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    let seconds = since_1970.as_secs() + 2_208_988_800;
    let fraction = (u64::from(since_1970.subsec_nanos()) << 32) / 1_000_000_000;
    seconds << 32 | fraction
}

/// By how many seconds a timestamp is after another.
#[must_use]
pub fn difference(one: u64, other: u64) -> f64 {
    #[expect(
        clippy::cast_possible_wrap,
        reason = "a difference of timestamps is signed"
    )]
    let signed = one.wrapping_sub(other) as i64;
    #[expect(clippy::cast_precision_loss, reason = "a test needs no nanosecond")]
    let seconds = signed as f64 / 4_294_967_296.0;
    seconds
}

//--- A server

/// The answers of a server of the tests.
#[derive(Clone, Debug)]
pub struct Says {
    /// The offset of its clock, in seconds; positive if ahead.
    pub ahead: f64,
    /// Stratum.
    pub stratum: u8,
    /// LI.
    pub leap: u8,
    /// Root delay in whole seconds.
    pub root_delay: u16,
    /// Root dispersion in whole seconds.
    pub root_dispersion: u16,
    /// Reference ID: at stratum 0 a kiss.
    pub reference_id: u32,
    /// Whether it says anything.
    pub is_silent: bool,
}

impl Default for Says {
    fn default() -> Self {
        Self {
            ahead: 0.0,
            stratum: 1,
            leap: 0,
            root_delay: 0,
            root_dispersion: 0,
            reference_id: u32::from_be_bytes(*b"TEST"),
            is_silent: false,
        }
    }
}

/// A server with given answers, on a thread of its own.
#[derive(Debug)]
pub struct Server {
    /// Its address.
    pub address: SocketAddr,
    says: Arc<Mutex<Says>>,
    n_requests: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// On a loopback address of its own, at the port that everybody knows how to write.
    ///
    /// # Panics
    ///
    /// Panics if it cannot be had.
    #[must_use]
    pub fn on_loopback(says: Says) -> Self {
        let socket = UdpSocket::bind((loopback(), 0)).expect("loopback has addresses");
        Self::start(socket, says)
    }

    /// On a machine, at port 123.
    ///
    /// # Panics
    ///
    /// Panics if it cannot be had.
    #[must_use]
    pub fn on(machine: &Machine, ip: Ipv4Addr, says: Says) -> Self {
        let socket = machine.inside(|| UdpSocket::bind((ip, 123)).expect("the port is free"));
        Self::start(socket, says)
    }

    fn start(socket: UdpSocket, says: Says) -> Self {
        socket
            .set_read_timeout(Some(Duration::from_millis(50)))
            .expect("a positive time");
        let address = socket.local_addr().expect("it is bound");
        let says = Arc::new(Mutex::new(says));
        let (n_requests, stop) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let thread = std::thread::spawn({
            let (says, n, stop) = (
                Arc::clone(&says),
                Arc::clone(&n_requests),
                Arc::clone(&stop),
            );
            move || {
                while !stop.load(Ordering::Relaxed) {
                    answer(&socket, &says, &n);
                }
            }
        });
        Self {
            address,
            says,
            n_requests,
            stop,
            thread: Some(thread),
        }
    }

    /// As `server` in a chrony.conf, with further options.
    #[must_use]
    pub fn line(&self, options: &str) -> String {
        format!(
            "server {} port {} {options}\n",
            self.address.ip(),
            self.address.port()
        )
    }

    /// Has it say something else from here on.
    pub fn say(&self, change: impl FnOnce(&mut Says)) {
        change(&mut self.says.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// How often it was asked.
    #[must_use]
    pub fn n_requests(&self) -> u64 {
        self.n_requests.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn answer(socket: &UdpSocket, says: &Mutex<Says>, n_requests: &AtomicU64) {
    let mut buffer = [0; 1024];
    let Ok((length, from)) = socket.recv_from(&mut buffer) else {
        return;
    };
    let says = says.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if length < 48 || buffer[0] & 7 != 3 {
        return;
    }
    n_requests.fetch_add(1, Ordering::Relaxed);
    if says.is_silent {
        return;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an offset of a test is small"
    )]
    let stamp = || now().wrapping_add((says.ahead * 4_294_967_296.0) as i64 as u64);
    let mut reply = [0; 48];
    reply[0] = says.leap << 6 | (buffer[0] & 0x38) | 4;
    reply[1] = says.stratum;
    reply[2] = buffer[2];
    // 2⁻²³ s, about 120 ns.
    reply[3] = 0xe9;
    // 16 bits of seconds before those of the fraction.
    reply[4..6].copy_from_slice(&says.root_delay.to_be_bytes());
    reply[8..10].copy_from_slice(&says.root_dispersion.to_be_bytes());
    reply[12..16].copy_from_slice(&says.reference_id.to_be_bytes());
    reply[16..24].copy_from_slice(&stamp().to_be_bytes());
    reply[24..32].copy_from_slice(&buffer[40..48]);
    reply[32..40].copy_from_slice(&stamp().to_be_bytes());
    reply[40..48].copy_from_slice(&stamp().to_be_bytes());
    // The client may have gone.
    drop(socket.send_to(&reply, from));
}
