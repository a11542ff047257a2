//! An attacker at each kind of listener: hundreds of connections from one address that ask nothing, or half of something,
//! while a client of another address is served.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tests::binaries::binary;
use tests::certificate::self_signed;
use tests::daemon::{Daemon, http_get, metric, run};
use tests::dns::{A, NOERROR, Question, check, receive_tcp, send_tcp};
use tests::lb::{Place, pair};
use tests::registry::Registry;
use tests::scratch::at;
use tests::site::Site;
use tests::stream::{connect_from, try_connect_from};
use tests::wait;

const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const CLIENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// Connections of an attacker: more than any listener here has places.
const MANY: usize = 300;

/// How often the client comes while the attack lasts.
const TIMES: usize = 20;

const ZONE: &str = "@ SOA ns hostmaster 1 2 3 4 5\n NS ns\nns A 192.0.2.53\n";

/// Requests of an attacker: none, half of one, and a whole one, after which it is idle.
const HTTP: [&str; 3] = [
    "",
    "GET / HTTP/1.1\r\nHo",
    "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n",
];

/// Opens connections from the attacker's address, each with the same octets.
fn attack(to: SocketAddr, octets: &[u8]) -> Vec<TcpStream> {
    (0..MANY)
        .filter_map(|_| {
            let mut stream = try_connect_from(ATTACKER, to).ok()?;
            // It may be closed already.
            drop(stream.write_all(octets));
            Some(stream)
        })
        .collect()
}

/// Lets the client come while there is an attack with each of these octets.
fn served(to: SocketAddr, attacks: &[&[u8]], come: impl Fn()) {
    for octets in attacks {
        let mut attackers = attack(to, octets);
        for _ in 0..TIMES {
            come();
            // Those that gave way come again.
            for stream in attackers.iter_mut().take(MANY / TIMES) {
                if let Ok(again) = try_connect_from(ATTACKER, to) {
                    *stream = again;
                    drop(stream.write_all(octets));
                }
            }
        }
    }
}

/// What a client is answered over HTTP.
fn get(mut stream: impl std::io::Read + std::io::Write, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn ask_from(source: Ipv4Addr, server: SocketAddr, name: &str) {
    let question = Question::new(name, A);
    let mut stream = connect_from(source, server);
    send_tcp(&mut stream, &question.to_wire(7)).unwrap();
    let answer = check(7, &question, &receive_tcp(&mut stream).unwrap()).unwrap();
    assert_eq!(answer.rcode, u16::from(NOERROR));
}

/// The listener of this name in `/status`.
fn streams(admin: SocketAddr, listener: &str) -> Value {
    let (_, body) = http_get(admin, "/status").unwrap();
    let status: Value = serde_json::from_str(&body).unwrap();
    let all = status["streams"].as_array().unwrap();
    let named = all.iter().find(|one| one["listener"] == listener);
    named.unwrap_or_else(|| panic!("{body}")).clone()
}

fn displaced(admin: SocketAddr, listener: &str) {
    let seen = streams(admin, listener);
    assert!(seen["ended"]["displaced"].as_u64() > Some(0), "{seen}");
    assert!(seen["open"].as_u64() <= seen["places"].as_u64(), "{seen}");
    let (_, metrics) = http_get(admin, "/metrics").unwrap();
    let name =
        format!("outpost_streams_ended_total{{listener=\"{listener}\",reason=\"displaced\"}}");
    assert!(metric(&metrics, &name) > Some(0.0), "{metrics}");
}

//--- DNS

#[test]
fn dns_over_tcp_of_both_servers_is_answered() {
    let site = Site::new();
    let few = "tcp.connections = 40";
    site.configure_authd(&[("example.com", ZONE)], few);
    site.configure_recursor(&site.forward("example.com"), few);
    let _daemons = [site.start("dns-authd"), site.start("dns-recursor")];
    let query = Question::new("ns.example.com", A).to_wire(1);
    let length = u16::try_from(query.len()).unwrap().to_be_bytes();
    let query = [&length, query.as_slice()].concat();
    let attacks: [&[u8]; 3] = [b"", &query[..9], &query];
    for (service, server) in [
        ("dns-authd", site.authority()),
        ("dns-recursor", site.resolver()),
    ] {
        served(server, &attacks, || {
            ask_from(CLIENT, server, "ns.example.com");
        });
        displaced(site.admin(service), "dns-tcp");
    }
}

#[test]
fn a_resolver_with_few_descriptors_still_asks_its_upstreams() {
    let site = Site::new();
    site.configure_authd(&[("example.com", &format!("{ZONE}* A 192.0.2.80\n"))], "");
    site.configure_recursor(&site.forward("example.com"), "");
    let _authd = site.start("dns-authd");
    let mut command = Command::new("prlimit");
    command.arg("--nofile=96:96").arg(binary("dns-recursor"));
    command.args(["serve", "--config"]);
    command.arg(site.files.join("dns-recursor.toml"));
    let _recursor = Daemon::start("dns-recursor", command);
    let _attackers = attack(site.resolver(), b"\0");
    for number in 0..20 {
        // No answer to these is in the cache.
        ask_from(CLIENT, site.resolver(), &format!("n{number}.example.com"));
    }
}

/// Starts dns-authd with few places, a certificate and these encrypted listeners.
fn encrypted(site: &Site, listeners: &str) -> Daemon {
    let [certificate, key] = ["crt", "key"].map(|kind| site.files.join(&format!("dns.{kind}")));
    self_signed(&certificate, &key, "dns.example.com");
    let more = format!(
        "tcp.connections = 40\ntls.certificate = \"{}\"\ntls.key = \"{}\"\n{listeners}",
        certificate.display(),
        key.display()
    );
    site.configure_authd(&[("example.com", ZONE)], &more);
    site.start("dns-authd")
}

/// Has kdig ask from the client's address, over an encrypted transport.
fn kdig(server: SocketAddr, transport: &str) {
    let mut kdig = Command::new("kdig");
    kdig.arg(format!("@{}", server.ip()));
    kdig.args(["-p", &server.port().to_string(), "-b", "127.0.0.3"]);
    kdig.args([transport, "+short", "+timeout=5", "+retry=0"]);
    kdig.args(["ns.example.com", "A"]);
    let (_, stdout, stderr) = run(kdig);
    assert_eq!(stdout, "192.0.2.53\n", "{stderr}");
}

#[test]
fn dns_over_tls_and_https_are_answered() {
    let site = Site::new();
    let (dot, doh) = (at(site.ip, 8853), at(site.ip, 8443));
    let _authd = encrypted(
        &site,
        &format!("tls.dot = [\"{dot}\"]\ntls.doh = [\"{doh}\"]"),
    );
    // Nothing, and the beginning of a handshake.
    let attacks: [&[u8]; 2] = [b"", b"\x16\x03\x01\x02"];
    served(dot, &attacks, || {
        kdig(dot, "+tls");
    });
    served(doh, &attacks, || {
        // The query of RFC 8484 §4.1.1, for a name of another zone: REFUSED is an answer.
        let query = "AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB";
        curl(&format!("https://{doh}/dns-query?dns={query}"), "200");
    });
    displaced(site.admin("dns-authd"), "dns-tcp");
}

/// The first datagrams of clients that begin connections over QUIC. Each is encrypted with a key of its own (RFC 9001 §5.2), so
/// they cannot be made up, and a server has to take each for a client.
fn first_datagrams(number: usize) -> Vec<Vec<u8>> {
    let sink = UdpSocket::bind((ATTACKER, 0)).unwrap();
    sink.set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let port = sink.local_addr().unwrap().port().to_string();
    let mut clients: Vec<_> = (0..number)
        .map(|_| {
            let mut kdig = Command::new("kdig");
            kdig.arg(format!("@{ATTACKER}")).args(["-p", &port]);
            kdig.args(["+quic", "+timeout=2", "+retry=0", "ns.example.com", "A"]);
            kdig.stdout(Stdio::null()).stderr(Stdio::null());
            kdig.spawn().unwrap()
        })
        .collect();
    // By the identifier that the client has made up for the server (RFC 9000 §17.2): they repeat themselves.
    let mut first = BTreeMap::new();
    let mut buffer = [0; 2048];
    while first.len() < number {
        let length = sink.recv(&mut buffer).unwrap();
        let datagram = &buffer[..length];
        let end = 6 + usize::from(datagram[5]);
        first
            .entry(datagram[6..end].to_vec())
            .or_insert_with(|| datagram.to_vec());
    }
    for client in &mut clients {
        client.wait().unwrap();
    }
    first.into_values().collect()
}

#[test]
fn dns_over_quic_is_answered() {
    let site = Site::new();
    let doq = at(site.ip, 8853);
    let _authd = encrypted(&site, &format!("tls.doq = [\"{doq}\"]"));
    let datagrams = first_datagrams(30);
    // Each from an address of its own, which its owner may not even have: none of them continues.
    let attackers: Vec<UdpSocket> = (1..=30)
        .map(|last| UdpSocket::bind((Ipv4Addr::new(127, 0, 9, last), 0)).unwrap())
        .collect();
    let attack = || {
        for (attacker, datagram) in attackers.iter().zip(&datagrams) {
            attacker.send_to(datagram, doq).unwrap();
        }
    };
    let admin = site.admin("dns-authd");
    let open = || streams(admin, "dns-quic")["open"].as_u64().unwrap();
    // A quarter of the places of everybody is for handshakes; a client that comes then has to prove its address.
    wait::for_it(
        "the attack takes what it can",
        Duration::from_secs(60),
        || {
            attack();
            open() >= 8
        },
    );
    for _ in 0..TIMES {
        attack();
        kdig(doq, "+quic");
    }
    let seen = streams(admin, "dns-quic");
    assert!(seen["open"].as_u64() <= seen["places"].as_u64(), "{seen}");
    assert!(open() <= 12, "{seen}");
}

/// Has curl ask from the client's address, without a look at the certificate.
fn curl(url: &str, expected: &str) {
    let mut curl = Command::new("curl");
    curl.args([
        "-sSk",
        "-m",
        "10",
        "--interface",
        "127.0.0.3",
        "-o",
        "/dev/null",
    ]);
    curl.args(["-w", "%{http_code}", url]);
    let (_, stdout, stderr) = run(curl);
    assert_eq!(stdout, expected, "{url}: {stderr}");
}

//--- HTTP

#[test]
fn the_registry_is_answered_in_the_clear_and_over_tls() {
    let few = "[limits]\nconnections = 40\n\n";
    let access = "[access]\nanonymous = \"all\"\n";
    let open = Registry::with(&format!("plain = true\n\n{few}{access}"));
    let _open = open.start();
    let address: SocketAddr = open.name().parse().unwrap();
    let octets = HTTP.map(str::as_bytes);
    served(address, &octets, || {
        let answer = get(connect_from(CLIENT, address), "/v2/");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    });
    displaced(open.admin(), "registry");
    let secured = Registry::open();
    let [certificate, key] = ["crt", "key"].map(|kind| secured.files.join(&format!("r.{kind}")));
    self_signed(&certificate, &key, "registry.example.com");
    let tls = format!(
        "[[tls.certificates]]\ncertificate = \"{}\"\nkey = \"{}\"\n\n",
        certificate.display(),
        key.display()
    );
    secured.configure(&format!("{tls}{few}{access}"));
    let _secured = secured.start();
    let address: SocketAddr = secured.name().parse().unwrap();
    served(address, &[b"", b"\x16\x03\x01\x02"], || {
        curl(&format!("https://{address}/v2/"), "200");
    });
    displaced(secured.admin(), "registry");
}

#[test]
fn a_push_that_stands_still_for_a_while_is_not_ended_by_an_attack() {
    let registry = Registry::with(
        "plain = true\n\n[limits]\nconnections = 40\n\n[access]\nanonymous = \"all\"\n",
    );
    let _registry = registry.start();
    let address: SocketAddr = registry.name().parse().unwrap();
    let begin = "POST /v2/a/blobs/uploads/ HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let mut stream = connect_from(CLIENT, address);
    stream.write_all(begin.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let location = answer
        .lines()
        .find_map(|line| line.strip_prefix("Location: "));
    let location = location.unwrap_or_else(|| panic!("{answer}"));
    let path = location.split_once("/v2/").unwrap().1;
    let mut push = connect_from(CLIENT, address);
    let head = format!(
        "PATCH /v2/{path} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nConnection: close\r\n\r\n01234"
    );
    push.write_all(head.as_bytes()).unwrap();
    served(address, &HTTP.map(str::as_bytes), || {});
    push.write_all(b"56789").unwrap();
    let mut answer = String::new();
    push.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
}

#[test]
fn the_admin_listeners_of_a_service_answer() {
    let place = Place::new();
    let text = pair(&place, "", "", &[at(place.ip, 1)]);
    let _lb = place.start(&text);
    let octets = HTTP.map(str::as_bytes);
    served(place.admin(), &octets, || {
        // The attacker's own address is one of many clients, and is answered too.
        for source in [CLIENT, ATTACKER] {
            let answer = get(connect_from(source, place.admin()), "/livez");
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
    });
    displaced(place.admin(), "admin");
    let path = place.admin_socket();
    let open = |octets: &[u8]| unix(&path, octets);
    for octets in HTTP {
        let attackers: Vec<UnixStream> =
            (0..MANY).filter_map(|_| open(octets.as_bytes())).collect();
        for _ in 0..TIMES {
            let answer = get(UnixStream::connect(&path).unwrap(), "/livez");
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        drop(attackers);
    }
    displaced(place.admin(), "admin-socket");
}

fn unix(path: &Path, octets: &[u8]) -> Option<UnixStream> {
    let mut stream = UnixStream::connect(path).ok()?;
    drop(stream.write_all(octets));
    Some(stream)
}

#[test]
fn the_published_page_is_shown() {
    let site = Site::new();
    let [certificate, key] = ["crt", "key"].map(|kind| site.files.join(&format!("page.{kind}")));
    self_signed(&certificate, &key, "status.example");
    let page = at(site.ip, 9444);
    let config = format!(
        "version = \"v1\"\nlisten = [\"unix:{}\"]\nstate = \"{}\"\nadmin.listen = \"{}\"\n\
         [page.tls]\nlisten = [\"{page}\"]\ncertificate = \"{}\"\nkey = \"{}\"\nopen = true\n",
        site.socket().display(),
        site.files.join("page-state").display(),
        site.admin("healthd"),
        certificate.display(),
        key.display(),
    );
    site.files.write("healthd.toml", &config);
    let _healthd = site.start("healthd");
    wait::for_it("the page is published", Duration::from_secs(20), || {
        streams(site.admin("healthd"), "page")["places"].is_u64()
            && try_connect_from(CLIENT, page).is_ok()
    });
    served(page, &[b"", b"\x16\x03\x01\x02"], || {
        curl(&format!("https://{page}/"), "200");
    });
    displaced(site.admin("healthd"), "page");
}
