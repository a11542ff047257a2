//! A small DNS client over UDP and TCP.
//!
//! The question must come back as it was asked, letter case included.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

pub use dns_strict::{
    A, AAAA, ANY, AXFR, CNAME, DNAME, Data, Edns, FORMERR, IXFR, MX, Message, NOERROR, NOTIMP, NS,
    NXDOMAIN, OPT, PTR, Question, REFUSED, Record, SERVFAIL, SOA, SRV, TXT, name_to_wire,
};

use crate::wait;

/// How long an answer may take: as long as a client of a name server waits.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks over UDP, from a new port.
///
/// # Errors
///
/// Fails if there is no answer within five seconds, or not a proper one.
pub fn ask(server: SocketAddr, question: &Question) -> Result<Message, String> {
    let id = next_id();
    let raw = exchange_udp(server, &question.to_wire(id), PATIENCE)?;
    check(id, question, &raw)
}

/// Asks for addresses over UDP.
///
/// # Errors
///
/// As [`ask`].
pub fn ask_a(server: SocketAddr, name: &str) -> Result<Message, String> {
    ask(server, &Question::new(name, A))
}

/// The generation of healthd's that an authoritative server answers by, from CHAOS TXT `generation.outpost`; `None` when it
/// names none.
///
/// # Panics
///
/// Panics if there is no answer in time.
#[must_use]
pub fn generation(server: SocketAddr) -> Option<u64> {
    let mut query = b"\x12\x34\0\0\0\x01\0\0\0\0\0\0".to_vec();
    query.extend(b"\x0ageneration\x07outpost\0\0\x10\0\x03");
    let reply = exchange_udp(server, &query, PATIENCE).expect("a reply");
    // The record is last, and its text is all that it has: digits to the end of the message.
    let digits = reply.iter().rev();
    let n_digits = digits.take_while(|octet| octet.is_ascii_digit()).count();
    let digits = reply.get(reply.len() - n_digits..)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Asks over TCP.
///
/// # Errors
///
/// As [`ask`].
pub fn ask_tcp(server: SocketAddr, question: &Question) -> Result<Message, String> {
    let id = next_id();
    let mut stream = connect(server)?;
    send_tcp(&mut stream, &question.to_wire(id))?;
    check(id, question, &receive_tcp(&mut stream)?)
}

/// Opens a TCP connection with time limits.
///
/// # Errors
///
/// Says why it cannot.
pub fn connect(server: SocketAddr) -> Result<TcpStream, String> {
    let limit = PATIENCE;
    let stream = TcpStream::connect_timeout(&server, limit).map_err(|error| error.to_string())?;
    stream
        .set_read_timeout(Some(limit))
        .map_err(|error| error.to_string())?;
    stream
        .set_nodelay(true)
        .map_err(|error| error.to_string())?;
    Ok(stream)
}

/// Sends a message with its length.
///
/// # Errors
///
/// Says why it cannot.
pub fn send_tcp(stream: &mut TcpStream, wire: &[u8]) -> Result<(), String> {
    let length = u16::try_from(wire.len()).map_err(|error| error.to_string())?;
    let framed = [&length.to_be_bytes(), wire].concat();
    stream.write_all(&framed).map_err(|error| error.to_string())
}

/// Receives a message with its length.
///
/// # Errors
///
/// Says why it cannot.
pub fn receive_tcp(stream: &mut TcpStream) -> Result<Vec<u8>, String> {
    let mut length = [0; 2];
    stream
        .read_exact(&mut length)
        .map_err(|error| error.to_string())?;
    let mut wire = vec![0; usize::from(u16::from_be_bytes(length))];
    stream
        .read_exact(&mut wire)
        .map_err(|error| error.to_string())?;
    Ok(wire)
}

/// Sends any bytes over UDP and takes what comes back.
///
/// # Errors
///
/// Fails if nothing comes back in time.
pub fn exchange_udp(server: SocketAddr, wire: &[u8], limit: Duration) -> Result<Vec<u8>, String> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).map_err(|error| error.to_string())?;
    // Connected: an answer from another address than the one asked is never seen.
    socket.connect(server).map_err(|error| error.to_string())?;
    socket
        .set_read_timeout(Some(limit))
        .map_err(|error| error.to_string())?;
    socket.send(wire).map_err(|error| error.to_string())?;
    let mut buffer = vec![0; 65_535];
    let length =
        wait::uninterrupted(|| socket.recv(&mut buffer)).map_err(|error| error.to_string())?;
    buffer.truncate(length);
    Ok(buffer)
}

/// Reads `raw` and holds it against the question.
///
/// # Errors
///
/// Says what does not fit.
pub fn check(id: u16, question: &Question, raw: &[u8]) -> Result<Message, String> {
    let message = Message::read(raw)?;
    if message.id != id || !message.response || message.opcode != question.opcode {
        return Err(format!("not an answer to what was asked: {message:?}"));
    }
    let asked = (with_dot(&question.name), question.rtype, question.class);
    if message.questions.iter().any(|got| *got != asked) {
        return Err(format!(
            "asked {asked:?}, the answer is to {:?}",
            message.questions
        ));
    }
    Ok(message)
}

/// The name with its final dot.
#[must_use]
pub fn with_dot(name: &str) -> String {
    if name.ends_with('.') {
        name.to_owned()
    } else {
        format!("{name}.")
    }
}

/// A message id that differs from the last.
pub(crate) fn next_id() -> u16 {
    use std::sync::atomic::{AtomicU16, Ordering};
    static NEXT: AtomicU16 = AtomicU16::new(0x5a17);
    NEXT.fetch_add(0x3a5f, Ordering::Relaxed)
}
