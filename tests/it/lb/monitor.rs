//! The pages that OpenShift's probes and keepalived's scripts ask for, beside HAProxy's.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use tests::binaries::binary;
use tests::daemon::{Daemon, run};
use tests::lb::Place;
use tests::scratch::at;
use tests::stream::{PATIENCE, is_listened_on};
use tests::wait;

/// As in OpenShift's haproxy.cfg, on addresses of the test.
fn file(place: &Place, socket: &str) -> String {
    format!(
        " stats socket {socket} level admin\ndefaults\n mode tcp\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
         frontend main\n bind {}\n default_backend masters\n\
         listen health_check_http_url\n bind {}\n mode http\n monitor-uri /haproxy_ready\n option dontlognull\n\
         listen monitor_http_url\n bind {}\n mode http\n acl masters_down nbsrv(masters) lt 1\n \
         monitor-uri /haproxy_monitor\n monitor fail if masters_down\n\
         backend masters\n server master-0 {}\n server master-1 {}\n",
        place.front(),
        at(place.ip, 9444),
        at(place.ip, 9454),
        at(place.ip, 7001),
        at(place.ip, 7002),
    )
}

/// The status, the type and the body of an answer.
fn ask(address: SocketAddr, request: &str) -> (String, Option<String>, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
        .write_all(format!("{request}\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().to_owned();
    let kind = lines.find_map(|line| line.strip_prefix("content-type: ").map(str::to_owned));
    (status, kind, body.to_owned())
}

/// The answers to every kind of request: with both masters, with one, and with none.
fn answers(
    place: &Place,
    command: impl Fn(&str),
) -> Vec<(String, (String, Option<String>, String))> {
    let (ready, monitor) = (at(place.ip, 9444), at(place.ip, 9454));
    wait::for_it("the pages are there", PATIENCE, || {
        is_listened_on(ready) && is_listened_on(monitor)
    });
    let mut answers = Vec::new();
    for change in [
        "",
        "disable server masters/master-0",
        "disable server masters/master-1",
        "enable server masters/master-0",
    ] {
        if !change.is_empty() {
            command(change);
        }
        for request in [
            "GET /haproxy_ready HTTP/1.1",
            "GET /haproxy_ready HTTP/1.0",
            "HEAD /haproxy_ready HTTP/1.1",
            "GET /haproxy_ready?x HTTP/1.1",
            "GET / HTTP/1.1",
            "GET /haproxy_monitor HTTP/1.1",
        ] {
            for address in [ready, monitor] {
                let asked = format!("{change}: {} {request}", address.port());
                answers.push((asked, ask(address, request)));
            }
        }
    }
    answers
}

fn send(socket: &str, line: &str) {
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "\n", "{line}");
}

#[test]
fn probes_get_haproxys_answers_from_its_own_file() {
    let place = Place::new();
    let path = place.files.join("stats.sock").display().to_string();
    let text = file(&place, &path);
    let haproxy = place.start_haproxy(&text);
    let theirs = answers(&place, |line| send(&path, line));
    drop(haproxy);
    let _gone = std::fs::remove_file(&path);

    let mut import = Command::new(binary("lb-proxy"));
    let written = place.files.write("import.cfg", &format!("global\n{text}"));
    import.args(["import", "haproxy.cfg"]).arg(written);
    let (status, toml, stderr) = run(import);
    assert!(status.success(), "{stderr}");
    let toml = toml.replace("version = \"v1\"\n", "");
    let lb_proxy: Daemon = place.start(&toml);
    let ours = answers(&place, |line| send(&path, line));
    assert_eq!(ours.len(), 48);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    lb_proxy.stop();
}
