//! DNS cookies (RFC 7873), beside the clients of BIND and Knot.

use std::net::SocketAddr;
use std::process::Command;

use tests::daemon::{metric, run};
use tests::site::Site;

const ZONE: &str = "@ SOA ns hostmaster 1 2 3 4 5\n NS ns\nns A 192.0.2.53\n";

/// The secret of a site: all its servers accept a cookie that one of them has made.
const SECRET: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf\n";

/// What a client prints of a query with these arguments.
fn ask(program: &str, server: SocketAddr, how: &[&str]) -> String {
    let mut command = Command::new(program);
    command
        .arg(format!("@{}", server.ip()))
        .args(["-p", &server.port().to_string()])
        .args(how)
        .args(["ns.example.com", "A"]);
    let (status, stdout, stderr) = run(command);
    assert!(status.success(), "{stdout}{stderr}");
    stdout
}

/// A server with the site's secret.
fn server(more: &str) -> Site {
    let site = Site::new();
    let secret = site.files.write("cookie.secret", SECRET);
    let cookies = format!(
        "cookies.cookie-secret-file = \"{}\"\n{more}",
        secret.display()
    );
    site.configure_authd(&[("example.com", ZONE)], &cookies);
    site
}

/// The cookie that dig was given.
fn cookie_of(printed: &str) -> String {
    let line = printed.lines().find(|line| line.contains("; COOKIE: "));
    let line = line.unwrap_or_else(|| panic!("{printed}"));
    // dig compares the client's part itself.
    assert!(line.ends_with("(good)"), "{line}");
    line.split_whitespace().nth(2).unwrap().to_owned()
}

#[test]
fn dig_and_kdig_learn_a_cookie_that_every_server_of_the_site_accepts() {
    let one = server("cookies.require-server-cookie = true");
    let other = server("cookies.require-server-cookie = true");
    let _daemons = [one.start("dns-authd"), other.start("dns-authd")];
    // Both come again by themselves when they are asked for a cookie.
    for (program, how) in [
        ("dig", ["+cookie", "+badcookie"]),
        ("kdig", ["+cookie", "+badcookie"]),
    ] {
        let answer = ask(program, one.authority(), &how);
        assert!(
            answer.contains("NOERROR") && answer.contains("192.0.2.53"),
            "{program}: {answer}"
        );
    }
    let cookie = cookie_of(&ask("dig", one.authority(), &["+cookie", "+badcookie"]));
    let with = format!("+cookie={cookie}");
    let answer = ask("dig", other.authority(), &[&with, "+nobadcookie"]);
    assert!(answer.contains("192.0.2.53"), "{answer}");
    // Another octet in it, and it is nobody's.
    let last = if cookie.ends_with('0') { '1' } else { '0' };
    let forged = format!("+cookie={}{last}", &cookie[..cookie.len() - 1]);
    let answer = ask("dig", other.authority(), &[&forged, "+nobadcookie"]);
    assert!(answer.contains("BADCOOKIE"), "{answer}");
    // A client without cookies is answered.
    let answer = ask("dig", other.authority(), &["+nocookie"]);
    assert!(
        answer.contains("192.0.2.53") && !answer.contains("COOKIE"),
        "{answer}"
    );
    let metrics = other.get("dns-authd", "/metrics").1;
    for proves in ["proven", "bad"] {
        let name = format!("dns_authd_cookie_queries_total{{proves=\"{proves}\"}}");
        assert_eq!(metric(&metrics, &name), Some(1.0), "{metrics}");
    }
}
