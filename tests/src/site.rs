//! A node's services on a loopback address of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;

use crate::binaries::binary;
use crate::daemon::{Daemon, http_get};
use crate::scratch::{Scratch, at, loopback};

/// The addresses of a node's services, and their files.
#[derive(Debug)]
pub struct Site {
    /// The address of all services.
    pub ip: Ipv4Addr,
    /// Configuration, zones, sockets, state.
    pub files: Scratch,
}

impl Default for Site {
    fn default() -> Self {
        Self::new()
    }
}

impl Site {
    /// A node with healthd's configuration and no zones.
    #[must_use]
    pub fn new() -> Self {
        let site = Self {
            ip: loopback(),
            files: Scratch::new("site"),
        };
        let (socket, state) = (site.socket(), site.files.join("state"));
        site.files.write(
            "healthd.toml",
            &format!(
                "version = \"v1\"\nadmin.listen = \"{}\"\nlisten = [\"unix:{}\"]\nstate = \"{}\"\n",
                site.admin("healthd"),
                socket.display(),
                state.display(),
            ),
        );
        site
    }

    /// Configures dns-authd: its zones, each with the text of its file, and further lines.
    pub fn configure_authd(&self, zones: &[(&str, &str)], more: &str) {
        let mut text = format!(
            "version = \"v1\"\nlisten = [\"{}\"]\nadmin.listen = \"{}\"\n\
             health.endpoint = \"unix:{}\"\n{more}\n{}\n",
            self.authority(),
            self.admin("dns-authd"),
            self.socket().display(),
            // Tests edit zones without a thought for the serial, unless it is their subject.
            match more.contains("serial-must-rise") {
                true => "",
                false => "zones.serial-must-rise = false",
            },
        );
        for (name, zone) in zones {
            let file = format!("{name}.zone");
            self.files.write(&file, zone);
            text.push_str(&format!(
                "\n[[zone]]\nname = \"{name}\"\nfile = \"{file}\"\n"
            ));
        }
        self.files.write("dns-authd.toml", &text);
    }

    /// Configures dns-recursor: what it forwards, and further lines.
    pub fn configure_recursor(&self, forwards: &str, more: &str) {
        let text = format!(
            "version = \"v1\"\nlisten = [\"{}\"]\nadmin.listen = \"{}\"\n{more}\n\n{forwards}\n",
            self.resolver(),
            self.admin("dns-recursor"),
        );
        self.files.write("dns-recursor.toml", &text);
    }

    /// The configuration of dns-recursor that forwards a zone to dns-authd.
    #[must_use]
    pub fn forward(&self, zone: &str) -> String {
        format!(
            "[[forward]]\nzone = \"{zone}\"\nupstreams = [\"{}\"]\n",
            self.authority()
        )
    }

    /// The address of dns-authd.
    #[must_use]
    pub fn authority(&self) -> SocketAddr {
        at(self.ip, 5301)
    }

    /// The address of dns-recursor.
    #[must_use]
    pub fn resolver(&self) -> SocketAddr {
        at(self.ip, 5300)
    }

    /// The admin listener of a service.
    #[must_use]
    pub fn admin(&self, service: &str) -> SocketAddr {
        let port = match service {
            "healthd" => 9401,
            "dns-authd" => 9402,
            _ => 9403,
        };
        at(self.ip, port)
    }

    /// The socket at which a service that [`start`](Self::start) starts takes changes.
    #[must_use]
    pub fn admin_socket(&self, service: &str) -> PathBuf {
        self.files.join(&format!("{service}.admin"))
    }

    /// healthd's socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.files.join("healthd.sock")
    }

    /// The command that serves.
    #[must_use]
    pub fn serve(&self, service: &str) -> Command {
        let mut command = Command::new(binary(service));
        let config = self.files.join(&format!("{service}.toml"));
        command.arg("serve").arg("--config").arg(config);
        command
    }

    /// Starts a service and waits until it is ready.
    #[must_use]
    pub fn start(&self, service: &str) -> Daemon {
        let mut serve = self.serve(service);
        serve.arg("--admin-socket").arg(self.admin_socket(service));
        Daemon::start(service, serve)
    }

    /// Asks the admin listener of a service.
    ///
    /// # Panics
    ///
    /// Panics if it does not answer.
    #[must_use]
    pub fn get(&self, service: &str, path: &str) -> (u16, String) {
        http_get(self.admin(service), path)
            .unwrap_or_else(|error| panic!("{service}{path}: {error}"))
    }
}
