//! Requests and their answers on one connection.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use oci::digest::{Algorithm, Digest};

use crate::LIMIT;

/// A connection over which one request follows the other.
pub(super) struct Connection {
    stream: BufReader<TcpStream>,
    /// Whether the disk may fail meanwhile: a change that is refused for that has no answer.
    may_fail: bool,
}

pub(super) struct Response {
    pub(super) status: u16,
    location: Option<String>,
    pub(super) body: Vec<u8>,
}

impl Response {
    /// Where the next request goes: the path, wherever it is said to be.
    pub(super) fn location(&self) -> String {
        let location = self.location.clone().expect("a location");
        match location.split_once("://") {
            Some((_, rest)) => rest
                .get(rest.find('/').expect("a path")..)
                .unwrap()
                .to_owned(),
            None => location,
        }
    }
}

impl Connection {
    pub(super) fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
            may_fail: false,
        })
    }

    /// One to a registry whose disk may fail.
    pub(super) fn open_to(address: SocketAddr, may_fail: bool) -> io::Result<Self> {
        Ok(Self {
            may_fail,
            ..Self::open(address)?
        })
    }

    /// What a reference leads to.
    pub(super) fn target(&mut self, path: &str) -> Option<Digest> {
        let found = self.ask("GET", path, "", b"").unwrap();
        (found.status == 200).then(|| Digest::of(Algorithm::Sha256, &found.body))
    }

    pub(super) fn expect(
        &mut self,
        method: &str,
        path: &str,
        media_type: &str,
        body: &[u8],
        status: u16,
    ) -> io::Result<Response> {
        let response = self.ask(method, path, media_type, body)?;
        let text = String::from_utf8_lossy(&response.body);
        assert_eq!(response.status, status, "{method} {path}: {text}");
        Ok(response)
    }

    pub(super) fn ask(
        &mut self,
        method: &str,
        path: &str,
        media_type: &str,
        body: &[u8],
    ) -> io::Result<Response> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: registry.example.org\r\n");
        request += &format!("Content-Length: {}\r\n", body.len());
        if !media_type.is_empty() {
            request += &format!("Content-Type: {media_type}\r\n");
        }
        request += "\r\n";
        let mut octets = request.into_bytes();
        octets.extend_from_slice(body);
        self.stream.get_mut().write_all(&octets)?;
        let (mut status, mut length, mut location) = (0, 0, None);
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(": ") {
                match name.to_ascii_lowercase().as_str() {
                    "content-length" => length = value.parse().expect("a number"),
                    "location" => location = Some(value.to_owned()),
                    _ => {}
                }
            } else {
                let word = line.split(' ').nth(1);
                status = word.and_then(|word| word.parse().ok()).expect("a status");
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        if self.may_fail && method != "GET" && (status == 405 || status >= 500) {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        Ok(Response {
            status,
            location,
            body,
        })
    }
}
