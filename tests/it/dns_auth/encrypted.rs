//! dns-authd over TLS and HTTPS, asked by kdig and curl.

use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tests::binaries::binary;
use tests::certificate::self_signed;
use tests::daemon::{Daemon, metric, run};
use tests::dns::ask_a;
use tests::scratch::at;
use tests::site::Site;

use super::ZONE;

const NAME: &str = "dns.example.com";

/// The query of RFC 8484 §4.1.1, `www.example.com` A, in base64url.
const QUERY: &str = "AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB";

/// dns-authd that gets queries over TLS and HTTPS.
struct Secured {
    site: Site,
    certificate: PathBuf,
    dot: SocketAddr,
    doh: SocketAddr,
    daemon: Daemon,
}

impl Secured {
    fn start(more: &str) -> Self {
        let site = Site::new();
        let [certificate, key] = ["crt", "key"].map(|kind| site.files.join(&format!("dns.{kind}")));
        self_signed(&certificate, &key, NAME);
        let (dot, doh) = (at(site.ip, 8853), at(site.ip, 8443));
        let tls = format!(
            "tls.certificate = \"{}\"\ntls.key = \"{}\"\ntls.dot = [\"{dot}\"]\ntls.doh = [\"{doh}\"]\n{more}",
            certificate.display(),
            key.display()
        );
        site.configure_authd(&[("example.com", ZONE)], &tls);
        let daemon = site.start("dns-authd");
        Self {
            site,
            certificate,
            dot,
            doh,
            daemon,
        }
    }

    /// The response to kdig, or its error.
    fn kdig(&self, server: SocketAddr, how: &[&str], name: &str, rtype: &str) -> (bool, String) {
        let mut kdig = Command::new("kdig");
        kdig.arg(format!("@{}", server.ip()))
            .args(["-p", &server.port().to_string()])
            .args(how)
            .arg(format!("+tls-ca={}", self.certificate.display()))
            .arg(format!("+tls-hostname={NAME}"))
            .args(["+short", "+timeout=5", "+retry=0", name, rtype]);
        let (status, stdout, stderr) = run(kdig);
        (status.success(), format!("{stdout}{stderr}"))
    }

    /// The head and the body, as text, that curl is answered.
    fn curl(&self, arguments: &[&str], target: &str) -> (String, String) {
        let mut curl = Command::new("curl");
        let body = self.site.files.join("body");
        curl.args([
            "--silent",
            "--show-error",
            "--dump-header",
            "-",
            "--max-time",
            "10",
        ])
        .arg("--output")
        .arg(&body)
        .arg("--cacert")
        .arg(&self.certificate)
        .args([
            "--resolve",
            &format!("{NAME}:{}:{}", self.doh.port(), self.doh.ip()),
        ])
        .args(arguments)
        .arg(format!("https://{NAME}:{}{target}", self.doh.port()));
        let (status, head, stderr) = run(curl);
        assert!(status.success(), "{head}{stderr}");
        let body = std::fs::read(&body).unwrap_or_default();
        (
            head.to_lowercase(),
            String::from_utf8_lossy(&body).into_owned(),
        )
    }
}

#[test]
fn the_same_answers_come_over_tls_and_https() {
    let secured = Secured::start("");
    let (dot, doh) = (secured.dot, secured.doh);
    for (server, how) in [
        (dot, &["+tls"][..]),
        (doh, &["+https"]),
        (doh, &["+https", "+https-get"]),
    ] {
        for (name, rtype, expected) in [
            ("MaiL.example.com", "A", "192.0.2.25"),
            ("x.wild.example.com", "A", "192.0.2.80"),
            ("huge.example.com", "TXT", "\"x\""),
        ] {
            let (is_answered, text) = secured.kdig(server, how, name, rtype);
            assert!(is_answered, "{how:?}: {text}");
            let is_right = text.lines().any(|line| line == expected);
            assert!(is_right, "{how:?} {name}: {text}");
        }
    }
    secured.daemon.stop();
}

#[test]
fn https_says_what_it_takes_and_how_long_it_stays_fresh() {
    let secured = Secured::start("");
    let asked = format!("/dns-query?dns={QUERY}");
    for version in ["--http2", "--http1.1"] {
        let (head, body) = secured.curl(&[version], &asked);
        assert!(head.contains(" 200"), "{head}");
        assert!(
            head.contains("content-type: application/dns-message\r\n"),
            "{head}"
        );
        assert!(head.contains("cache-control: max-age="), "{head}");
        assert!(body.contains("www"), "{body:?}");
        assert_eq!(head.starts_with("http/2"), version == "--http2", "{head}");
    }
    let media = "Content-Type: application/dns-message";
    let long = "x".repeat(5000);
    for (arguments, target, status) in [
        (&["--request", "PUT"][..], "/dns-query", " 405"),
        (&[], "/", " 404"),
        (&[], "/dns-query?dns=AAA", " 400"),
        (&[], "/dns-query", " 400"),
        (&["--data", "x"], "/dns-query", " 415"),
        (&["--data", "x", "--header", media], "/dns-query", " 400"),
        (&["--data", &long, "--header", media], "/dns-query", " 413"),
    ] {
        for version in ["--http2", "--http1.1"] {
            let (head, body) = secured.curl(&[&[version], arguments].concat(), target);
            assert!(head.contains(status), "{target}: {head}");
            assert!(body.ends_with('\n'), "a line says why: {body:?}");
            assert_eq!(
                head.contains("allow: get, post"),
                status == " 405",
                "{head}"
            );
        }
    }
    secured.daemon.stop();
}

#[test]
fn a_certificate_that_cannot_be_used_is_told_and_keeps_a_reload_from_changing_anything() {
    let secured = Secured::start("");
    let site = &secured.site;
    let answers = || {
        ask_a(site.authority(), "mail.example.com")
            .unwrap()
            .answers
            .len()
    };
    assert_eq!(answers(), 1);
    let pem = std::fs::read(&secured.certificate).unwrap();
    std::fs::write(&secured.certificate, "none").unwrap();

    let mut check = Command::new(binary("dns-authd"));
    check
        .args(["check", "--config"])
        .arg(site.files.join("dns-authd.toml"));
    let (status, stdout, stderr) = run(check);
    let said = format!("{stdout}{stderr}");
    assert_eq!(status.code(), Some(78), "{said}");
    assert!(said.contains("holds no certificate"), "{said}");

    let good = std::fs::read_to_string(site.files.join("dns-authd.toml")).unwrap();
    site.files
        .write("dns-authd.toml", &format!("allow-from = []\n{good}"));
    secured.daemon.hang_up();
    secured.daemon.wait_log("holds no certificate");
    let metrics = || site.get("dns-authd", "/metrics").1;
    tests::wait::for_it("the reload is refused", Duration::from_secs(20), || {
        metric(&metrics(), "outpost_reload_failed_total") == Some(1.0)
    });
    assert_eq!(answers(), 1, "everybody may still ask");

    std::fs::write(&secured.certificate, pem).unwrap();
    let other = good.replace("tls.doh", "tls.doh-path = \"/other\"\ntls.doh");
    site.files.write("dns-authd.toml", &other);
    secured.daemon.hang_up();
    secured.daemon.wait_log("keys=tls.doh-path");
    secured.daemon.stop();
}

#[test]
fn connections_of_https_are_bounded_and_silent_ones_closed() {
    let secured = Secured::start("tcp.per-client = 2\ntcp.idle = \"2s\"");
    let ask = || secured.kdig(secured.doh, &["+https"], "mail.example.com", "A");
    let held = [(); 2].map(|()| TcpStream::connect(secured.doh).unwrap());
    // It takes the place of one that says nothing. The other one's time ends.
    assert!(ask().0, "there is room for one that asks");
    for mut silent in held {
        silent
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let read = tests::wait::uninterrupted(|| silent.read(&mut [0]));
        assert_eq!(read.unwrap_or(0), 0, "closed");
    }
    secured.daemon.stop();
}
