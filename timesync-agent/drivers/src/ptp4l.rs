//! ptp4l, asked over its socket for the offset of its clock.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use clocks::pmc;
use clocks::refclock::Observation;
use time_model::view::PtpView;

use crate::{AT_ONCE, local, told};

/// ptp4l, which says by how much its clock is off.
#[derive(Debug)]
pub(crate) struct Ptp4l {
    socket: OwnedFd,
    server: PathBuf,
    client: pmc::Client,
    /// The name of the socket, beside ptp4l's; without, it has one that the kernel chose.
    beside: Option<PathBuf>,
}

impl Ptp4l {
    pub(crate) fn open(server: &Path, domain: u8) -> io::Result<Self> {
        Ok(Self {
            socket: local::bind(None)?,
            server: server.to_owned(),
            client: pmc::Client::new(domain),
            beside: None,
        })
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// The view of it, as the clock at this place of the configuration.
    pub(crate) fn view(&self, clock: usize) -> PtpView {
        self.client.view(clock)
    }

    /// Asks once for each data set; the answers come to the socket.
    pub(crate) fn ask(&mut self) {
        if self.client.is_unheard() {
            self.rename();
        }
        for id in pmc::Client::WANTED {
            let request = self.client.request(id);
            // ptp4l may be away; then nothing comes.
            drop(local::send(&self.socket, &request, &self.server));
        }
    }

    /// Takes the other kind of name. One that the kernel chose is known in one network namespace, a path where directories are the
    /// same: between containers either may be missing, and then answers do not arrive.
    fn rename(&mut self) {
        let beside = self.beside.take();
        if let Some(path) = &beside {
            drop(std::fs::remove_file(path));
        }
        let path = beside.is_none().then(|| {
            let mut path = self.server.as_os_str().to_owned();
            path.push(format!(".timesync-agent.{}", std::process::id()));
            PathBuf::from(path)
        });
        if let Some(path) = &path {
            // The socket of an earlier process with that number.
            drop(std::fs::remove_file(path));
        }
        if let Ok(socket) = local::bind(path.as_deref()) {
            self.socket = socket;
            self.beside = path;
        }
    }

    pub(crate) fn receive(&mut self, rate: f64) -> Vec<Observation> {
        let mut buffer = [0; pmc::LONGEST];
        let mut all = Vec::new();
        for _ in 0..AT_ONCE {
            let Ok(length) = local::receive(&self.socket, &mut buffer) else {
                break;
            };
            let datagram = buffer.get(..length).unwrap_or_default();
            if let Some(measured) = self.client.handle(datagram) {
                all.push(told(measured.local, measured.master, measured.leap, rate));
            }
        }
        all
    }
}

impl Drop for Ptp4l {
    fn drop(&mut self) {
        if let Some(path) = &self.beside {
            drop(std::fs::remove_file(path));
        }
    }
}
