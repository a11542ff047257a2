//! Encrypted transports: Unbound as the upstream over TLS and HTTPS, dns-recursor over QUIC, and kdig as the client.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use tests::certificate::{of_server, pin};
use tests::daemon::{Daemon, run};
use tests::dns::{NOERROR, SERVFAIL, ask_a};
use tests::scratch::{Scratch, at, loopback};
use tests::site::Site;
use tests::wait;

use super::addresses;

const PATIENCE: Duration = Duration::from_secs(20);
const NAME: &str = "dns.example";

/// A server with a certificate.
struct Identity {
    files: Scratch,
    certificate: PathBuf,
    key: PathBuf,
}

impl Identity {
    fn new(label: &str) -> Self {
        let files = Scratch::new(label);
        let [certificate, key] = ["crt", "key"].map(|kind| files.join(&format!("dns.{kind}")));
        of_server(&certificate, &key, NAME);
        Self {
            files,
            certificate,
            key,
        }
    }

    /// Starts Unbound, which answers every name below `test` itself, over TLS and HTTPS at these addresses.
    fn unbound(&self, [tls, https]: [SocketAddr; 2], more: &str) -> Daemon {
        let text = format!(
            "server:\n  directory: \"\"\n  chroot: \"\"\n  username: \"\"\n  pidfile: \"\"\n  use-syslog: no\n  \
             do-daemonize: no\n  logfile: \"\"\n  num-threads: 1\n  log-queries: yes\n  \
             interface: {}@{}\n  interface: {}@{}\n  tls-port: {}\n  https-port: {}\n  \
             tls-service-key: {:?}\n  tls-service-pem: {:?}\n  \
             local-zone: \"test.\" redirect\n  local-data: \"test. 60 A 192.0.2.1\"\n{more}\
             remote-control:\n  control-enable: no\n",
            tls.ip(),
            tls.port(),
            https.ip(),
            https.port(),
            tls.port(),
            https.port(),
            self.key,
            self.certificate,
        );
        let mut command = Command::new("unbound");
        command.arg("-d").arg("-c");
        command.arg(self.files.write("unbound.conf", &text));
        let unbound = Daemon::spawn("unbound", command);
        for address in [tls, https] {
            wait::for_it("Unbound listens", PATIENCE, || {
                std::net::TcpStream::connect(address).is_ok()
            });
        }
        unbound
    }
}

fn two_addresses() -> [SocketAddr; 2] {
    [at(loopback(), 8853), at(loopback(), 8443)]
}

/// A resolver that forwards everything in this way.
fn forwarding(upstreams: &[String], protocol: &str, tls: &str) -> (Site, Daemon) {
    let site = Site::new();
    let text = format!(
        "[[forward]]\nzone = \".\"\nrecursive = true\nupstreams = {upstreams:?}\nprotocol = \"{protocol}\"\n\
         [forward.tls]\n{tls}\n"
    );
    site.configure_recursor(&text, "");
    let daemon = site.start("dns-recursor");
    (site, daemon)
}

fn named(address: SocketAddr) -> String {
    format!("{address}#{NAME}")
}

/// Asks this many new names.
fn ask_all(site: &Site, part: &str, count: usize) {
    for n in 0..count {
        let answer = ask_a(site.resolver(), &format!("{part}{n}.test")).unwrap();
        assert_eq!(answer.rcode, u16::from(NOERROR), "{part}{n}");
        assert_eq!(addresses(&answer), ["192.0.2.1"], "{part}{n}");
    }
}

#[test]
fn upstreams_are_asked_over_tls_and_https_and_have_to_prove_who_they_are() {
    let (identity, other) = (Identity::new("unbound"), Identity::new("other"));
    let [tls, https] = two_addresses();
    let unbound = identity.unbound([tls, https], "");
    let ca = |of: &Identity| format!("ca = {:?}", of.certificate);
    let pinned = format!("pins = [{:?}]", pin(&identity.certificate));
    for (address, protocol) in [(tls, "tls"), (https, "https")] {
        for (how, name) in [
            (ca(&identity), named(address)),
            (
                format!("server-name = {NAME:?}\n{}", ca(&identity)),
                address.to_string(),
            ),
            (pinned.clone(), address.to_string()),
            (
                "authentication = \"opportunistic\"".to_owned(),
                address.to_string(),
            ),
        ] {
            let (site, daemon) = forwarding(&[name], protocol, &how);
            ask_all(&site, protocol, 20);
            daemon.stop();
        }
        let asked = unbound.log().matches("secret").count();
        for (how, name) in [
            (ca(&other), named(address)),
            (ca(&identity), format!("{address}#wrong.example")),
            (ca(&identity), address.to_string()),
            (
                format!("pins = [{:?}]", pin(&other.certificate)),
                address.to_string(),
            ),
        ] {
            let (site, daemon) = forwarding(&[name], protocol, &how);
            let answer = ask_a(site.resolver(), "secret.test").unwrap();
            assert_eq!(answer.rcode, u16::from(SERVFAIL), "{protocol} {how}");
            daemon.wait_log("certificate is refused");
            daemon.stop();
        }
        assert_eq!(unbound.log().matches("secret").count(), asked);
    }
}

#[test]
fn a_server_that_closes_idle_connections_loses_no_query() {
    let identity = Identity::new("unbound");
    let [tls, https] = two_addresses();
    let _unbound = identity.unbound([tls, https], "  tcp-idle-timeout: 100\n");
    let ca = format!("ca = {:?}", identity.certificate);
    for (address, protocol) in [(tls, "tls"), (https, "https")] {
        let (site, _daemon) = forwarding(&[named(address)], protocol, &ca);
        for n in 0..12 {
            ask_all(&site, &format!("{protocol}-{n}-"), 1);
            // Around the time at which the connection is closed.
            thread::sleep(Duration::from_millis(60 + 10 * n));
        }
    }
}

#[test]
fn the_next_upstream_answers_for_one_that_is_silent_closed_or_not_trusted() {
    let (identity, other) = (Identity::new("unbound"), Identity::new("other"));
    let [tls, https] = two_addresses();
    let _unbound = identity.unbound([tls, https], "");
    let untrusted = two_addresses();
    let _other = other.unbound(untrusted, "");
    let silent = TcpListener::bind(at(loopback(), 8853)).unwrap();
    let closed = at(loopback(), 8853);
    let ca = format!("ca = {:?}", identity.certificate);
    for first in [silent.local_addr().unwrap(), closed, untrusted[0]] {
        let (site, _daemon) = forwarding(&[named(first), named(tls)], "tls", &ca);
        ask_all(&site, "over", 10);
    }
}

#[test]
fn queries_are_answered_over_tls_https_and_quic_and_upstreams_are_asked_over_quic() {
    let identity = Identity::new("server");
    let upstream = Site::new();
    let [dot, doh] = [8853, 8443].map(|port| at(upstream.ip, port));
    let more = format!(
        "[tls]\ncertificate = {:?}\nkey = {:?}\nlisten = [\"{dot}\"]\ndoh = [\"{doh}\"]\ndoq = [\"{dot}\"]\n\
         [[name]]\nname = \"*.test\"\naddresses = [\"192.0.2.1\"]\n",
        identity.certificate, identity.key
    );
    upstream.configure_recursor("", &more);
    let served = upstream.start("dns-recursor");
    // Debian's kdig is built without QUIC: dns-recursor asks over that, below.
    for (address, how) in [(dot, "+tls"), (doh, "+https")] {
        let mut kdig = Command::new("kdig");
        kdig.arg(format!("@{}", address.ip()))
            .args(["-p", &address.port().to_string(), how])
            .arg(format!("+tls-ca={}", identity.certificate.display()))
            .arg(format!("+tls-hostname={NAME}"))
            .args(["+short", "+timeout=5", "+retry=1", "www.test", "A"]);
        let (status, stdout, stderr) = run(kdig);
        assert!(status.success(), "{how}: {stderr}");
        assert_eq!(stdout.trim(), "192.0.2.1", "{how}: {stderr}");
    }
    let ca = format!("ca = {:?}", identity.certificate);
    for (address, protocol) in [(dot, "tls"), (doh, "https"), (dot, "quic")] {
        let (site, daemon) = forwarding(&[named(address)], protocol, &ca);
        ask_all(&site, protocol, 20);
        daemon.stop();
    }
    served.stop();
}
