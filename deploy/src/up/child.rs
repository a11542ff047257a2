//! One run of a service process: started, listened to, and waited for.
//!
//! A single task owns the process, so a signal never goes to a process id that another process got
//! in the meantime. It reads what the process writes and what it says on its
//! notification socket (`sd_notify(3)`), and reports the end after the last line.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::net::UnixDatagram;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use site::service::Service;
use site_up::event::Ending;

/// The command to run, and how it reports.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The service of the process.
    pub(crate) service: Service,
    /// The binary.
    pub(crate) program: PathBuf,
    /// Its configuration file.
    pub(crate) config: PathBuf,
    /// The path of its notification socket.
    pub(crate) notify: PathBuf,
    /// The path of its admin socket.
    pub(crate) admin: PathBuf,
}

/// A report of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// It is ready.
    Ready(Service),
    /// It wrote a line.
    Line(Service, String),
    /// It is gone.
    Ended(Service, Ending),
}

/// A request to a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Stop, please.
    Terminate,
    /// Stop.
    Kill,
}

/// A process that runs.
#[derive(Debug)]
pub(crate) struct Running {
    /// Its process id.
    pub(crate) pid: u32,
    orders: mpsc::Sender<Order>,
}

impl Running {
    /// Passes an order on. A child that is gone does not mind.
    pub(crate) fn order(&self, order: Order) {
        // The queue has room for every order that a child ever gets.
        let _full = self.orders.try_send(order);
    }
}

/// Starts a process.
///
/// Has to run on the main thread: the kernel ties the life of a child to the thread that made it.
///
/// # Errors
///
/// When the process or its notification socket cannot be made.
pub(crate) fn spawn(plan: &Plan, reports: mpsc::Sender<Report>) -> io::Result<Running> {
    remove_if_there(&plan.notify)?;
    let notify = UnixDatagram::bind(&plan.notify)?;
    // The link to this very binary works even when the file was replaced by a newer build.
    let mut child = Command::new("/proc/self/exe")
        .arg0("outpost")
        .arg("exec-child")
        .arg(std::process::id().to_string())
        .arg(&plan.program)
        .args(["serve", "--config"])
        .arg(&plan.config)
        .arg("--admin-socket")
        .arg(&plan.admin)
        .env("NOTIFY_SOCKET", &plan.notify)
        .env_remove("WATCHDOG_USEC")
        .env_remove("WATCHDOG_PID")
        .env_remove("LISTEN_FDS")
        .env_remove("LISTEN_PID")
        .env_remove("LISTEN_FDNAMES")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C at the terminal is for `outpost`, which stops the services in order.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let pid = child
        .id()
        .ok_or_else(|| io::Error::other("the process ended at once"))?;
    let (orders, received) = mpsc::channel(ORDERS);
    let service = plan.service;
    if let Some(output) = child.stdout.take() {
        tokio::spawn(read_lines(service, output, reports.clone()));
    }
    let errors = child
        .stderr
        .take()
        .map(|errors| tokio::spawn(read_lines(service, errors, reports.clone())));
    let notify_path = plan.notify.clone();
    tokio::spawn(async move {
        let ending = attend(service, child, notify, received, &reports).await;
        if let Some(errors) = errors {
            // A grandchild could hold the pipe open for ever.
            drop(tokio::time::timeout(LAST_LINES, errors).await);
        }
        drop(remove_if_there(&notify_path));
        drop(reports.send(Report::Ended(service, ending)).await);
    });
    Ok(Running { pid, orders })
}

/// Waits for the end of the process, carries out orders, and passes its notifications on.
async fn attend(
    service: Service,
    mut child: Child,
    notify: UnixDatagram,
    mut orders: mpsc::Receiver<Order>,
    reports: &mpsc::Sender<Report>,
) -> Ending {
    let mut datagram = [0; NOTIFICATION];
    loop {
        tokio::select! {
            status = child.wait() => return status.map_or_else(
                |error| Ending::NotRun(error.to_string()),
                ending,
            ),
            order = orders.recv() => signal(&child, order.unwrap_or(Order::Kill)),
            received = notify.recv(&mut datagram) => match received {
                Ok(length) if says_ready(datagram.get(..length).unwrap_or_default()) => {
                    drop(reports.send(Report::Ready(service)).await);
                }
                Ok(_) => {}
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
        }
    }
}

fn signal(child: &Child, order: Order) {
    // `id` is empty once the process was waited for: then there is no process to signal.
    let pid = child
        .id()
        .and_then(|pid| i32::try_from(pid).ok())
        .and_then(Pid::from_raw);
    let signal = match order {
        Order::Terminate => Signal::TERM,
        Order::Kill => Signal::KILL,
    };
    if let Some(pid) = pid {
        // It may have become a zombie in this moment, which is what we want.
        let _gone = kill_process(pid, signal);
    }
}

fn ending(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Code(code),
        (None, Some(signal)) => Ending::Signal(signal),
        (None, None) => Ending::NotRun(status.to_string()),
    }
}

/// Whether a notification has the line `READY=1`.
fn says_ready(datagram: &[u8]) -> bool {
    datagram
        .split(|byte| *byte == b'\n')
        .any(|line| line == b"READY=1")
}

/// Passes lines on; a line longer than [`LINE`] is cut, bytes that are no UTF-8 are replaced.
async fn read_lines(service: Service, from: impl AsyncRead + Unpin, reports: mpsc::Sender<Report>) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut from).take(LINE).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
        if !text.is_empty() && reports.send(Report::Line(service, text)).await.is_err() {
            return;
        }
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// A child gets at most one of each order.
const ORDERS: usize = 4;
/// Longest notification: systemd's own limit is smaller.
const NOTIFICATION: usize = 4096;
/// Longest piece of a line that is passed on whole.
const LINE: u64 = 4096;
/// How long to read on after the end of a process.
const LAST_LINES: Duration = Duration::from_millis(300);
