//! dns-authd while clients take whole zones, and take their time.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tests::dns::{A, AXFR, NOERROR, Question, SERVFAIL, ask_a, ask_tcp};
use tests::wait;

use super::{addresses, start};

/// The records that `$GENERATE` makes: more octets than the buffers of a connection hold.
const RECORDS: usize = 60_000;

fn zone() -> String {
    let text = "x".repeat(200);
    format!(
        "$TTL 60\n@ SOA a b 1 2 3 4 60\n NS a\na A 192.0.2.1\n$GENERATE 1-{RECORDS} n$ TXT \"{text}\"\n"
    )
}

/// Requests the zone and reads only the length of the first message: the rest is on its way by then.
fn request(server: SocketAddr) -> (TcpStream, usize) {
    let mut stream = TcpStream::connect(server).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let query = Question::new("example.com", AXFR).without_edns().to_wire(7);
    let length = u16::try_from(query.len()).unwrap().to_be_bytes();
    stream.write_all(&[&length[..], &query].concat()).unwrap();
    let first = read_length(&mut stream);
    (stream, first)
}

fn read_length(stream: &mut TcpStream) -> usize {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    usize::from(u16::from_be_bytes(length))
}

/// Reads a message; returns its response code and its number of answers.
fn read_message(stream: &mut TcpStream, length: usize) -> (u8, usize) {
    let mut message = vec![0; length];
    stream.read_exact(&mut message).unwrap();
    let n_answers = usize::from(u16::from_be_bytes([message[6], message[7]]));
    (message[3] & 0x0f, n_answers)
}

#[test]
fn clients_that_do_not_read_their_transfers_delay_no_other() {
    let (site, daemon) = start(
        &zone(),
        "transfers = { allow = [\"127.0.0.0/8\"], at-once = 3, rate = \"0\" }\n\
         tcp.idle = \"10m\"\ntcp.per-client = 100",
    );
    let server = site.authority();
    let mut slow: Vec<(TcpStream, usize)> = (0..3).map(|_| request(server)).collect();
    for _ in 0..50 {
        let answer = ask_tcp(server, &Question::new("a.example.com", A)).unwrap();
        assert_eq!(answer.addresses(), addresses(&["192.0.2.1"]));
        assert!(ask_a(server, "a.example.com").is_ok());
    }
    // No more than the bound are under way: the next one has to come again.
    let (mut refused, length) = request(server);
    assert_eq!(read_message(&mut refused, length), (SERVFAIL, 0));
    // Each of the slow ones gets the whole zone, the SOA record twice, when it reads at last.
    let (mut first, mut length) = slow.remove(0);
    let mut n_records = 0;
    loop {
        let (rcode, n_answers) = read_message(&mut first, length);
        assert_eq!(rcode, NOERROR);
        n_records += n_answers;
        if n_records >= RECORDS + 4 {
            break;
        }
        length = read_length(&mut first);
    }
    assert_eq!(n_records, RECORDS + 4);
    // Those that leave make room.
    drop(slow);
    wait::for_it("there is room", Duration::from_secs(60), || {
        let (mut next, length) = request(server);
        read_message(&mut next, length).0 == NOERROR
    });
    daemon.stop();
}
