use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use health::{CheckStep, Content, DnsProbe, Expectation, HttpProbe, Verify};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

const CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/server.pem");
const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/server.key");
const OTHER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/other.pem");

fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}

fn target(kind: TargetKind, address: SocketAddr) -> Target {
    Target {
        kind,
        address,
        source: None,
    }
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Probes and says what was found, as `+ reason` or `- reason`.
async fn find(target: &Target) -> String {
    let finding = Prober::new().probe(target, Duration::from_secs(5)).await;
    let sign = if finding.good { '+' } else { '-' };
    format!("{sign} {}", finding.reason)
}

#[test]
fn a_tcp_target_is_up_when_it_accepts() {
    block_on(async {
        let (listener, address) = listener().await;
        assert_eq!(find(&target(TargetKind::Tcp, address)).await, "+ connected");
        let from = Target {
            source: Some([127, 0, 0, 9].into()),
            ..target(TargetKind::Tcp, address)
        };
        assert_eq!(find(&from).await, "+ connected");
        listener.accept().await.unwrap();
        let (_, peer) = listener.accept().await.unwrap();
        assert_eq!(peer.ip(), IpAddr::from([127, 0, 0, 9]));
        let nowhere = Target {
            source: Some([192, 0, 2, 1].into()),
            ..from
        };
        assert_eq!(
            find(&nowhere).await,
            "- cannot probe from 192.0.2.1: address not available"
        );
        drop(listener);
        assert_eq!(
            find(&target(TargetKind::Tcp, address)).await,
            "- connection refused"
        );
    });
}

#[test]
fn a_target_that_does_not_answer_in_time_is_down() {
    block_on(async {
        let (_listener, address) = listener().await;
        let silent = target(TargetKind::Http(HttpProbe::default()), address);
        let timeout = Duration::from_millis(150);
        let finding = Prober::new().probe(&silent, timeout).await;
        assert!(!finding.good);
        assert_eq!(finding.reason, "no answer within 150ms");
        assert!(finding.latency >= Duration::from_millis(150));
    });
}

/// Answers one request with this text and returns the request.
async fn answer<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, text: &[u8]) -> String {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            break;
        }
    }
    drop(stream.write_all(text).await);
    drop(stream.shutdown().await);
    String::from_utf8(request).unwrap()
}

/// What a server says, what is expected of it, and what is found.
fn http_table() -> Vec<(&'static str, HttpProbe, &'static str)> {
    let expecting = |status: u16, body: Option<&str>, byte_limit| HttpProbe {
        status,
        body: body.map(str::to_owned),
        byte_limit,
        ..HttpProbe::default()
    };
    let page = "HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\nhello world";
    let chunks =
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";
    vec![
        (page, expecting(200, None, None), "+ status 200"),
        (page, expecting(204, None, None), "- status 200, not 204"),
        (
            page,
            expecting(200, Some("o w"), None),
            "+ status 200, text found",
        ),
        (
            page,
            expecting(200, Some("owl"), None),
            "- status 200, text not found",
        ),
        (
            page,
            expecting(200, Some("world"), Some(11)),
            "+ status 200, text found",
        ),
        (
            page,
            expecting(200, Some("world"), Some(10)),
            "- status 200, text not found",
        ),
        (
            chunks,
            expecting(200, Some("hello"), None),
            "+ status 200, text found",
        ),
        (
            "HTTP/1.0 200 OK\r\n\r\nuntil the end",
            expecting(200, Some("the end"), None),
            "+ status 200, text found",
        ),
        (
            "HTTP/1.1 302 Found\r\nlocation: /x\r\n\r\n",
            expecting(200, None, None),
            "- status 302, not 200",
        ),
        (
            "HTTP/1.1 503 Service Unavailable\r\n\r\n",
            expecting(503, None, None),
            "+ status 503",
        ),
        (
            "SSH-2.0-OpenSSH_9.2\r\n",
            expecting(200, None, None),
            "- invalid HTTP version parsed",
        ),
        (
            "",
            expecting(200, None, None),
            "- connection closed before message completed",
        ),
    ]
}

#[test]
fn an_http_target_is_up_when_its_response_is_the_expected_one() {
    block_on(async {
        let (listener, address) = listener().await;
        for (text, probe, expected) in http_table() {
            let target = target(TargetKind::Http(probe), address);
            let serve = async {
                let (stream, _) = listener.accept().await.unwrap();
                answer(stream, text.as_bytes()).await
            };
            let (found, _) = tokio::join!(find(&target), serve);
            assert_eq!(found, expected, "{text}");
        }
    });
}

#[test]
fn an_http_request_says_what_the_target_says() {
    block_on(async {
        let (listener, address) = listener().await;
        let ask = async |probe: HttpProbe| {
            let target = target(TargetKind::Http(probe), address);
            let serve = async {
                let (stream, _) = listener.accept().await.unwrap();
                answer(stream, b"HTTP/1.1 200 OK\r\n\r\n").await
            };
            tokio::join!(find(&target), serve).1
        };
        let plain = ask(HttpProbe::default()).await;
        assert!(plain.starts_with("GET / HTTP/1.1\r\n"), "{plain}");
        assert!(plain.contains(&format!("host: {address}\r\n")), "{plain}");
        assert!(plain.contains("user-agent: outpost-healthd/"), "{plain}");
        let full = ask(HttpProbe {
            method: "OPTIONS".to_owned(),
            host: "console.apps.ocp4.redhat.ren".to_owned(),
            path: "/health?full".to_owned(),
            user_agent: "me".to_owned(),
            headers: vec![("X-Probe".to_owned(), "yes".to_owned())],
            ..HttpProbe::default()
        })
        .await;
        assert!(
            full.starts_with("OPTIONS /health?full HTTP/1.1\r\n"),
            "{full}"
        );
        for line in [
            "host: console.apps.ocp4.redhat.ren\r\n",
            "user-agent: me\r\n",
            "x-probe: yes\r\n",
        ] {
            assert!(full.contains(line), "{full}");
        }
    });
}

#[test]
fn a_request_that_cannot_be_sent_is_a_bad_result_and_no_panic() {
    let broken = [
        HttpProbe {
            method: "GE T".to_owned(),
            ..HttpProbe::default()
        },
        HttpProbe {
            path: "/ /".to_owned(),
            ..HttpProbe::default()
        },
        HttpProbe {
            host: "a\r\nb".to_owned(),
            ..HttpProbe::default()
        },
        HttpProbe {
            headers: vec![("a b".to_owned(), String::new())],
            ..HttpProbe::default()
        },
    ];
    block_on(async {
        let (_listener, address) = listener().await;
        for probe in broken {
            let found = find(&target(TargetKind::Http(probe), address)).await;
            assert!(found.starts_with("- "), "{found}");
        }
        let name = DnsProbe {
            name: "a..b".to_owned(),
            ..DnsProbe::default()
        };
        let found = find(&target(TargetKind::Dns(name), address)).await;
        assert!(found.starts_with("- \"a..b\""), "{found}");
    });
}

fn acceptor() -> TlsAcceptor {
    let certificates: Vec<_> = CertificateDer::pem_file_iter(CERTIFICATE)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let key = PrivateKeyDer::from_pem_file(KEY).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

#[test]
fn a_certificate_is_checked_as_the_target_says() {
    let checking = |host: &str, verify| HttpProbe {
        host: host.to_owned(),
        verify,
        ..HttpProbe::default()
    };
    let ca = |file: &str| Verify::Ca(file.to_owned());
    let table = [
        (checking("", Verify::Off), "+ status 200"),
        (checking("other.example", Verify::Off), "+ status 200"),
        (checking("", ca(CERTIFICATE)), "+ status 200"),
        (
            checking("api.ocp4.redhat.ren:6443", ca(CERTIFICATE)),
            "+ status 200",
        ),
        (
            checking("other.example", ca(CERTIFICATE)),
            "- TLS: invalid peer certificate: certificate not valid for name \"other.example\"",
        ),
        (checking("", ca(OTHER)), "- TLS: invalid peer certificate"),
        (
            checking("", ca("/nonexistent.pem")),
            "- cannot read /nonexistent.pem",
        ),
    ];
    block_on(async {
        let (listener, address) = listener().await;
        let acceptor = acceptor();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        answer(stream, b"HTTP/1.1 200 OK\r\n\r\n").await;
                    }
                });
            }
        });
        for (probe, expected) in table {
            let found = find(&target(TargetKind::Https(probe.clone()), address)).await;
            assert!(found.starts_with(expected), "{probe:?}: {found}");
        }
        let plain = find(&target(TargetKind::Http(HttpProbe::default()), address)).await;
        assert!(plain.starts_with("- "), "{plain}");
    });
}

#[test]
fn a_grpc_target_is_up_when_it_says_serving() {
    block_on(async {
        let (listener, address) = listener().await;
        let (reporter, service) = tonic_health::server::health_reporter();
        let status = tonic_health::ServingStatus::NotServing;
        reporter.set_service_status("closed", status).await;
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        tokio::spawn(
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(incoming),
        );
        for (service, expected) in [
            ("", "+ serving"),
            ("closed", "- not serving"),
            ("missing", "- no service \"missing\""),
        ] {
            let kind = TargetKind::Grpc {
                service: service.to_owned(),
            };
            assert_eq!(find(&target(kind, address)).await, expected);
        }
    });
}

/// Answers one datagram with what `make` makes of it.
async fn respond(socket: &UdpSocket, make: impl Fn(&mut Vec<u8>)) {
    let mut datagram = vec![0; 512];
    let (length, peer) = socket.recv_from(&mut datagram).await.unwrap();
    datagram.truncate(length);
    // What answers something else is waited past.
    socket.send_to(b"noise", peer).await.unwrap();
    make(&mut datagram);
    socket.send_to(&datagram, peer).await.unwrap();
}

#[test]
fn a_dns_target_is_up_when_it_answers_as_expected() {
    block_on(async {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        for (rcode, expected, found) in [
            (0, Some(0), "+ NOERROR"),
            (3, Some(0), "- NXDOMAIN, not NOERROR"),
            (3, Some(3), "+ NXDOMAIN"),
            (5, None, "+ REFUSED"),
        ] {
            let query = DnsProbe {
                name: "ocp4.redhat.ren.".to_owned(),
                rtype: 6,
                rcode: expected,
            };
            let target = target(TargetKind::Dns(query), address);
            let served = respond(&socket, |message| {
                assert!(message.ends_with(b"\x04ocp4\x06redhat\x03ren\x00\x00\x06\x00\x01"));
                message[2] |= 0x80;
                message[3] = rcode;
            });
            assert_eq!(tokio::join!(find(&target), served).0, found);
        }
        drop(socket);
        let gone = target(TargetKind::Dns(DnsProbe::default()), address);
        assert_eq!(find(&gone).await, "- connection refused");
    });
}

#[test]
fn an_ntp_target_is_up_when_its_clock_is_synchronised() {
    block_on(async {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let target = target(TargetKind::Ntp, address);
        for (leap, found) in [(0, "+ stratum 3"), (3, "- clock not synchronised")] {
            let served = respond(&socket, |packet| {
                assert_eq!((packet.len(), packet[0]), (48, 0x23));
                let (head, transmit) = packet.split_at_mut(40);
                head[24..32].copy_from_slice(transmit);
                head[0] = leap << 6 | 0x24;
                head[1] = 3;
            });
            assert_eq!(tokio::join!(find(&target), served).0, found);
        }
    });
}

#[test]
fn reasons_are_short_and_printable() {
    let long = "ü\n".repeat(500);
    let reason = shorten(long);
    assert!(reason.len() <= MAX_REASON && !reason.contains('\n'));
    assert_eq!(shorten("connected".to_owned()), "connected");
}

/// Serves one connection after the other: what `answers` has for what a client sends, a line for a line.
async fn line_server(
    answers: &'static [(&'static str, &'static str)],
    greeting: &'static str,
) -> SocketAddr {
    let (listener, address) = listener().await;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut said = Vec::new();
            drop(stream.write_all(greeting.as_bytes()).await);
            while stream
                .read_buf(&mut said)
                .await
                .is_ok_and(|length| length > 0)
            {
                let text = String::from_utf8_lossy(&said);
                let answer = answers.iter().find(|(request, _)| *request == text);
                if let Some((_, answer)) = answer {
                    // In pieces, as a network may have it.
                    for octet in answer.as_bytes() {
                        drop(stream.write_all(&[*octet]).await);
                    }
                    said.clear();
                }
            }
        }
    });
    address
}

#[test]
fn a_tcp_check_is_a_conversation() {
    let sends = |text: &str| CheckStep::Send(text.into());
    let expects = |text: &str| {
        CheckStep::Expect(Expectation {
            content: Content::Octets(text.into()),
            is_wanted: true,
        })
    };
    let redis = vec![
        sends("PING\r\n"),
        expects("+PONG\r\n"),
        sends("info replication\r\n"),
        expects("role:master"),
    ];
    block_on(async {
        let master = line_server(
            &[
                ("PING\r\n", "+PONG\r\n"),
                ("info replication\r\n", "$16\r\nrole:master\r\n"),
            ],
            "",
        );
        let master = target(TargetKind::TcpCheck(redis.clone()), master.await);
        assert_eq!(find(&master).await, "+ 4 steps");
        let replica = line_server(
            &[
                ("PING\r\n", "+PONG\r\n"),
                ("info replication\r\n", "$15\r\nrole:slave\r\n"),
            ],
            "",
        );
        let replica = target(TargetKind::TcpCheck(redis.clone()), replica.await);
        let timeout = Duration::from_millis(300);
        let finding = Prober::new().probe(&replica, timeout).await;
        assert!(!finding.good);
        assert_eq!(finding.reason, "no answer within 300ms");
        // A server that greets by itself.
        let smtp = line_server(&[("QUIT\r\n", "221 bye\r\n")], "220 mx\r\n").await;
        let steps = vec![expects("220 "), sends("QUIT\r\n"), expects("221 ")];
        let smtp = target(TargetKind::TcpCheck(steps), smtp);
        assert_eq!(find(&smtp).await, "+ 3 steps");
        // One that closes.
        let (listener, address) = listener().await;
        tokio::spawn(async move { while listener.accept().await.is_ok() {} });
        let closes = target(TargetKind::TcpCheck(vec![expects("ok")]), address);
        assert_eq!(find(&closes).await, "- step 1: closed, not \"ok\"");
        let connects = target(TargetKind::TcpCheck(Vec::new()), address);
        assert_eq!(find(&connects).await, "+ connected");
    });
}

#[test]
fn a_target_that_talks_without_end_is_down_soon() {
    block_on(async {
        let (listener, address) = listener().await;
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                while stream.write_all(&[b'x'; 1000]).await.is_ok() {}
            }
        });
        let wanted = CheckStep::Expect(Expectation {
            content: Content::Octets(b"ok".to_vec()),
            is_wanted: true,
        });
        let talks = target(TargetKind::TcpCheck(vec![wanted]), address);
        let found = find(&talks).await;
        assert!(found.starts_with("- step 1: \"xxx"), "{found}");
    });
}
