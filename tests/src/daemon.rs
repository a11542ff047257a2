//! A process under test: started, waited for, signalled, killed.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::scratch::Scratch;
use crate::wait;

/// A running daemon. Dropped, it is killed.
#[derive(Debug)]
pub struct Daemon {
    label: String,
    child: Child,
    log: Arc<Mutex<String>>,
    notify: UnixDatagram,
    /// Every state it has told to its service manager.
    told: Arc<Mutex<String>>,
    /// Keeps the directory of the notify socket.
    _scratch: Scratch,
}

impl Daemon {
    /// Starts `command` and waits until it says that it is ready.
    ///
    /// # Panics
    ///
    /// Panics, with what it logged, if it ends before or does not get ready in time.
    #[must_use]
    pub fn start(label: &str, command: Command) -> Self {
        let mut daemon = Self::spawn(label, command);
        daemon.wait_told("READY=1");
        daemon
    }

    /// Starts `command` and waits for nothing.
    ///
    /// # Panics
    ///
    /// Panics if the program cannot be started.
    #[must_use]
    pub fn spawn(label: &str, mut command: Command) -> Self {
        let scratch = Scratch::new(label);
        let path = scratch.join("notify");
        let notify = UnixDatagram::bind(&path).expect("notify socket is bound");
        let told = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&told);
        let messages = notify.try_clone().expect("a descriptor is left");
        std::thread::spawn(move || collect(&messages, &sink));
        command.env("NOTIFY_SOCKET", &path).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{label}: {error}"));
        let stderr = child.stderr.take().expect("stderr is piped");
        let log = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut log = locked(&sink);
                log.push_str(&line);
                log.push('\n');
            }
        });
        Self {
            label: label.to_owned(),
            child,
            log,
            notify,
            told,
            _scratch: scratch,
        }
    }

    /// Its log so far.
    #[must_use]
    pub fn log(&self) -> String {
        locked(&self.log).clone()
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until its log has `text`.
    ///
    /// # Panics
    ///
    /// Panics if that takes too long.
    pub fn wait_log(&self, text: &str) {
        let start = Instant::now();
        while !self.log().contains(text) {
            let in_time = start.elapsed() < PATIENCE;
            assert!(
                in_time,
                "{} did not log {text:?}:\n{}",
                self.label,
                self.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until it has told its service manager `state`, such as `READY=1`.
    ///
    /// # Panics
    ///
    /// Panics if it ends instead, or takes too long.
    pub fn wait_told(&mut self, state: &str) {
        let start = Instant::now();
        let has_told = |told: &Mutex<String>| locked(told).lines().any(|line| line == state);
        while !has_told(&self.told) {
            if let Some(status) = self.child.try_wait().expect("own child") {
                // The log's thread may be a moment behind.
                std::thread::sleep(Duration::from_millis(100));
                panic!(
                    "{} ended with {status} before {state}:\n{}",
                    self.label,
                    self.log()
                );
            }
            let in_time = start.elapsed() < PATIENCE;
            assert!(
                in_time,
                "{} did not tell {state}:\n{}",
                self.label,
                self.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Forgets what it told, so that the next [`Self::wait_told`] waits for news.
    pub fn forget_told(&mut self) {
        locked(&self.told).clear();
    }

    /// Sends a signal.
    ///
    /// # Panics
    ///
    /// Panics if the process is gone.
    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(id.expect("process ids are positive"), signal)
            .unwrap_or_else(|error| panic!("{} takes no signal: {error}", self.label));
    }

    /// Asks it to load its files again.
    pub fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    /// Kills it as a crash would, and waits until it is gone.
    pub fn kill(mut self) {
        self.child.kill().expect("own child");
        self.child.wait().expect("own child");
    }

    /// Asks it to end, and waits for that.
    ///
    /// # Panics
    ///
    /// Panics if it does not end in time, or not with success.
    pub fn stop(mut self) {
        self.signal(Signal::TERM);
        let status = self.wait();
        assert!(
            status.success(),
            "{} ended with {status}:\n{}",
            self.label,
            self.log()
        );
    }

    /// Waits until it ends by itself.
    ///
    /// # Panics
    ///
    /// Panics if it does not end in time.
    pub fn wait(&mut self) -> ExitStatus {
        let label = self.label.clone();
        wait::until(&format!("{label} ends"), PATIENCE, || {
            self.child.try_wait().expect("own child")
        })
    }

    /// Whether it still runs.
    ///
    /// # Panics
    ///
    /// Panics if the operating system forgot its own child.
    #[must_use]
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("own child").is_none()
    }
}

fn locked(text: &Mutex<String>) -> MutexGuard<'_, String> {
    text.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Collects what a daemon tells its service manager, until its socket is shut down. A service manager always reads: a few messages fill
/// the queue, and then a daemon waits, as NSD does when it loads a zone.
fn collect(messages: &UnixDatagram, told: &Mutex<String>) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = wait::uninterrupted(|| messages.recv(&mut buffer)) {
        let mut told = locked(told);
        told.push_str(&String::from_utf8_lossy(&buffer[..length]));
        told.push('\n');
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        drop(self.notify.shutdown(Shutdown::Both));
        if std::thread::panicking() {
            eprintln!("--- log of {}\n{}---", self.label, self.log());
        }
    }
}

/// Runs a command to its end: exit status, what it printed, what it complained about.
///
/// # Panics
///
/// Panics if it cannot be started.
#[must_use]
pub fn run(mut command: Command) -> (ExitStatus, String, String) {
    let output = command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status, text(&output.stdout), text(&output.stderr))
}

/// Asks an admin listener for `path`: status and body.
///
/// # Errors
///
/// Fails if no process listens there, or none answers within two seconds.
pub fn http_get(address: SocketAddr, path: &str) -> std::io::Result<(u16, String)> {
    let limit = Duration::from_secs(2);
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text.as_str(), ""));
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or(0);
    let chunked = head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked");
    Ok((
        status,
        if chunked {
            unchunk(body)
        } else {
            body.to_owned()
        },
    ))
}

fn unchunk(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let Ok(size) = usize::from_str_radix(size.trim(), 16) else {
            break;
        };
        let Some(chunk) = rest.get(..size) else { break };
        whole.push_str(chunk);
        body = rest.get(size + 2..).unwrap_or("");
    }
    whole
}

/// The value of a metric with exactly these labels (`name{a="b"}`), from the text of `/metrics`.
#[must_use]
pub fn metric(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find(|line| {
        line.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with(' '))
    })?;
    line.rsplit(' ').next()?.parse().ok()
}

/// How long a daemon may take for anything. Wide: the machine may be building at the same time.
const PATIENCE: Duration = Duration::from_secs(20);
