//! How servers are checked: `option httpchk`, `http-check` and their like.

use config::{Class, Notes};

use super::lexer::{Line, Word, joined};
use super::tcp_check::TcpCheck;

/// The check of a server. The server's line says whether it uses TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Check {
    /// A connection.
    #[default]
    Connect,
    /// A request.
    Http(HttpCheck),
    /// A conversation, of `tcp-check` rules.
    Rules,
    /// A conversation that an option stands for.
    Tcp(TcpCheck),
}

/// A request, and what the answer must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HttpCheck {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) host: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    /// None for any of 2xx and 3xx.
    pub(super) status: Option<u16>,
    pub(super) body: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) is_tls: bool,
}

impl Default for HttpCheck {
    /// `option httpchk` without anything.
    fn default() -> Self {
        Self {
            method: "OPTIONS".to_owned(),
            path: "/".to_owned(),
            host: None,
            headers: Vec::new(),
            status: None,
            body: None,
            port: None,
            is_tls: false,
        }
    }
}

impl Check {
    /// `option httpchk [[<method>] <uri> [<version>]]`.
    pub(super) fn http(words: &[Word]) -> Self {
        let mut check = HttpCheck::default();
        let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        match words.as_slice() {
            [] => {}
            [path] => (*path).clone_into(&mut check.path),
            [method, path, rest @ ..] => {
                (*method).clone_into(&mut check.method);
                (*path).clone_into(&mut check.path);
                // Headers used to be smuggled in behind the version.
                for header in rest.join(" ").split("\r\n").skip(1) {
                    if let Some((name, value)) = header.split_once(':') {
                        check.header(name.trim(), value.trim());
                    }
                }
            }
        }
        Self::Http(check)
    }

    /// An `http-check` line; only counts with `option httpchk`.
    pub(super) fn http_rule(&mut self, line: &Line, notes: &mut Notes) {
        let Some(at) = line.position() else { return };
        let Self::Http(check) = self else {
            notes.lost(
                Class::Behaviour,
                at,
                &line.text(),
                "there is no `option httpchk`",
            );
            return;
        };
        let arguments = line.from(2);
        let result = match line.word(1) {
            Some("send") => check.send(arguments),
            Some("expect") => check.expect(arguments),
            Some("connect") => check.connect(arguments),
            Some("comment") => Ok(()),
            Some("disable-on-404") => {
                Err("`lb-proxy backend drain` takes a server out gently".to_owned())
            }
            _ => Err("it has no counterpart".to_owned()),
        };
        if let Err(reason) = result {
            notes.lost(Class::Behaviour, at, &line.text(), reason);
        }
    }
}

impl HttpCheck {
    fn header(&mut self, name: &str, value: &str) {
        if name.eq_ignore_ascii_case("host") {
            self.host = Some(value.to_owned());
        } else if !name.is_empty() {
            self.headers.push((name.to_owned(), value.to_owned()));
        }
    }

    fn send(&mut self, words: &[Word]) -> Result<(), String> {
        let mut words = words.iter().map(|word| word.text.as_str());
        while let Some(word) = words.next() {
            let value = words.next().ok_or("its value is missing")?;
            match word {
                "meth" => value.clone_into(&mut self.method),
                "uri" => value.clone_into(&mut self.path),
                "ver" => {}
                "hdr" => {
                    let content = words.next().ok_or("its value is missing")?;
                    self.header(value, content);
                }
                _ => return Err(format!("`{word}` has no counterpart")),
            }
        }
        Ok(())
    }

    fn expect(&mut self, words: &[Word]) -> Result<(), String> {
        let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        match words.as_slice() {
            ["status", status] => match status.parse() {
                Ok(status @ 100..=999) => self.status = Some(status),
                Ok(_) => return Err("it is no HTTP status".to_owned()),
                // 200-399 is what counts anyway.
                Err(_) if *status == "200-399" => self.status = None,
                Err(_) => return Err("healthd expects one status".to_owned()),
            },
            ["string", body] => self.body = Some((*body).to_owned()),
            _ => return Err("healthd expects a status, and a text in the body".to_owned()),
        }
        Ok(())
    }

    fn connect(&mut self, words: &[Word]) -> Result<(), String> {
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            match word.text.as_str() {
                "default" => {}
                "ssl" => self.is_tls = true,
                "port" => {
                    let port = rest.next().and_then(|port| port.text.parse().ok());
                    self.port = Some(port.ok_or("its port is no number")?);
                }
                "sni" => self.host = rest.next().map(|name| name.text.clone()),
                _ => return Err(format!("`{}` has no counterpart", joined(words))),
            }
        }
        Ok(())
    }
}
