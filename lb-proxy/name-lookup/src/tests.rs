use server_names::message::{Kind, Record};
use tokio::net::TcpListener;

use super::*;

/// A resolver that answers over UDP that the answer is cut, and over TCP with one address.
async fn cut(udp: UdpSocket, tcp: TcpListener) {
    let mut buffer = [0; 512];
    let (length, from) = udp.recv_from(&mut buffer).await.unwrap();
    let mut response = buffer[..length].to_vec();
    // QR, TC.
    response[2] = 0x82;
    udp.send_to(&response, from).await.unwrap();
    let (mut stream, _) = tcp.accept().await.unwrap();
    let length = usize::from(stream.read_u16().await.unwrap());
    let mut response = vec![0; length];
    stream.read_exact(&mut response).await.unwrap();
    response[2] = 0x81;
    response[7] = 1;
    response.extend_from_slice(b"\xc0\x0c\0\x01\0\x01\0\0\0\x09\0\x04\xc0\0\x02\x07");
    let length = u16::try_from(response.len()).unwrap().to_be_bytes();
    stream
        .write_all(&[&length, response.as_slice()].concat())
        .await
        .unwrap();
}

#[tokio::test]
async fn an_answer_that_is_cut_comes_over_tcp_from_the_next_server() {
    // A port at which nothing answers, and one for both protocols.
    let closed = UdpSocket::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let (udp, tcp) = loop {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()).await {
            break (udp, tcp);
        }
    };
    let open = udp.local_addr().unwrap();
    tokio::spawn(cut(udp, tcp));
    let resolvers = Resolvers {
        nameservers: [closed, open].map(config::DnsAddress).into(),
        ..Resolvers::default()
    };
    let question = Question {
        name: "www.example".parse().unwrap(),
        kind: Kind::V4,
    };
    let (_, outcome) = look_up(Arc::new(resolvers), question).await;
    let expected = Record::Address([192, 0, 2, 7].into());
    assert_eq!(
        outcome,
        Outcome::Found {
            records: [expected].into(),
            ttl: Duration::from_secs(9)
        }
    );
}

#[test]
fn a_source_address_leads_to_its_family_alone() {
    let address: ServerAddress = "www.example:80".parse().unwrap();
    let server = file::Server::new("s", address);
    let mut backend = file::Backend::new("b");
    let families = |backend: &file::Backend| entry(backend, &server).unwrap().families;
    assert_eq!(families(&backend), Families::Prefer(Family::V6));
    backend.source_address = Some(config::Ip([192, 0, 2, 9].into()));
    assert_eq!(families(&backend), Families::Only(Family::V4));
}
