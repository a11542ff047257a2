//! `tcp-check` rules, and the options that stand for some (configuration.txt §4.2, HAProxy's check.c).

use ::tcp_check::Conversation;
use config::{CheckStep, Class, Hex, Notes};

use super::lexer::{Line, Word};

/// A conversation with a server, as far as it can be had here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TcpCheck {
    pub(super) steps: Vec<CheckStep>,
    pub(super) port: Option<u16>,
    /// A rule has no counterpart, so that the others say something else than they did there.
    pub(super) is_lost: bool,
    n_connects: usize,
}

/// The consequence of a rule that is lost.
const CONNECTS: &str = "a server is up when it accepts a connection";

impl TcpCheck {
    fn of(steps: Vec<CheckStep>) -> Self {
        Self {
            steps,
            ..Self::default()
        }
    }

    /// A `tcp-check` line.
    pub(super) fn rule(&mut self, line: &Line, notes: &mut Notes) {
        let Some(at) = line.position() else { return };
        let words = line.from(2);
        let result = match line.word(1) {
            Some("connect") => self.connect(words),
            Some("send") => text(words).and_then(|octets| self.step(CheckStep::sends(&octets))),
            Some("send-binary") => text(words)
                .and_then(|text| hex(&text))
                .and_then(|octets| self.step(CheckStep::sends(&octets))),
            Some("expect") => self.expect(words),
            Some("comment") => Ok(()),
            _ => Err("it has no counterpart".to_owned()),
        };
        if let Err(reason) = result {
            self.is_lost = true;
            let reason = format!("{reason}; {CONNECTS}");
            notes.lost(Class::Behaviour, at, &line.text(), reason);
        }
    }

    fn step(&mut self, step: CheckStep) -> Result<(), String> {
        // The import must refuse a step that a probe refuses.
        Conversation::new(&[step.step()?])?;
        self.steps.push(step);
        Ok(())
    }

    fn connect(&mut self, words: &[Word]) -> Result<(), String> {
        self.n_connects += 1;
        if self.n_connects > 1 || !self.steps.is_empty() {
            return Err("a check has one connection".to_owned());
        }
        let mut words = words.iter().map(|word| word.text.as_str());
        while let Some(word) = words.next() {
            match word {
                "default" | "linger" => {}
                "comment" => drop(words.next()),
                "port" => {
                    let port = words.next().and_then(|port| port.parse().ok());
                    self.port = Some(port.ok_or("its port is no number")?);
                }
                _ => return Err(format!("`{word}` has no counterpart")),
            }
        }
        Ok(())
    }

    fn expect(&mut self, words: &[Word]) -> Result<(), String> {
        let mut is_wanted = true;
        let mut words = words.iter().map(|word| word.text.as_str());
        loop {
            let word = words.next().ok_or("its pattern is missing")?;
            let mut value = || words.next().ok_or("its value is missing");
            match word {
                "!" => is_wanted = !is_wanted,
                // Words for the log.
                "comment" | "ok-status" | "error-status" | "tout-status" | "on-success"
                | "on-error" | "status-code" => {
                    value()?;
                }
                "string" => {
                    let octets = octets(value()?);
                    return self.step(CheckStep::expects(&octets, is_wanted));
                }
                "binary" => {
                    let octets = hex(value()?.as_bytes())?;
                    return self.step(CheckStep::expects(&octets, is_wanted));
                }
                "rstring" => {
                    let pattern = value()?;
                    return self.step(CheckStep::expects_pattern(pattern, is_wanted));
                }
                _ => return Err(format!("`{word}` has no counterpart")),
            }
        }
    }
}

/// The data of `send` and `send-binary`.
fn text(words: &[Word]) -> Result<Vec<u8>, String> {
    let data = words.first().ok_or("its data is missing")?;
    Ok(octets(&data.text))
}

/// Letters as octets: those above ASCII come of `\xHH`.
fn octets(text: &str) -> Vec<u8> {
    let octets: Option<Vec<u8>> = text
        .chars()
        .map(|letter| u8::try_from(letter).ok())
        .collect();
    octets.unwrap_or_else(|| text.as_bytes().to_vec())
}

fn hex(text: &[u8]) -> Result<Vec<u8>, String> {
    let text = String::from_utf8_lossy(text);
    let hex: Hex = text
        .parse()
        .map_err(|error: config::TextError| error.to_string())?;
    Ok(hex.0)
}

//--- Options

/// The conversation that an option stands for; none when the option has no counterpart.
pub(super) fn option(name: &str, words: &[Word]) -> Option<TcpCheck> {
    let word = |index: usize| words.get(index).map(|word| word.text.as_str());
    let user = match (word(0), word(1)) {
        (Some("user"), Some(user)) => Some(user),
        _ => None,
    };
    let fits = |pattern: &str| CheckStep::expects_pattern(pattern, true);
    let steps = match (name, user) {
        ("redis-check", _) => vec![
            CheckStep::sends(b"*1\r\n$4\r\nPING\r\n"),
            CheckStep::expects(b"+PONG\r\n", true),
        ],
        ("smtpchk", _) => {
            let hello = match (word(0), word(1)) {
                (Some(verb @ ("HELO" | "EHLO")), Some(name)) => format!("{verb} {name}\r\n"),
                _ => "HELO localhost\r\n".to_owned(),
            };
            vec![
                fits(r"^2[0-9]{2}[- \r]"),
                CheckStep::sends(hello.as_bytes()),
                fits(r"^2[0-9]{2}[- \r]"),
                CheckStep::sends(b"QUIT\r\n"),
                fits(r"^2[0-9]{2}[- \r]"),
            ]
        }
        // A packet that is the first of its server, and no error.
        ("mysql-check", None) => vec![fits(MYSQL_GREETING)],
        ("mysql-check", Some(_)) if word(2) == Some("pre-41") => return None,
        ("mysql-check", Some(user)) => vec![
            fits(MYSQL_GREETING),
            CheckStep::sends(&mysql_login(user)?),
            fits(r"(?s)^.{3}\x02[^\xff]"),
            // COM_QUIT.
            CheckStep::sends(&[1, 0, 0, 0, 1]),
        ],
        ("pgsql-check", Some(user)) => vec![
            CheckStep::sends(&pgsql_start(user)?),
            // A request for a proof, of a kind that there is (PostgreSQL §55.7), and no error.
            fits(r"(?s)^R.{4}\x00\x00\x00[\x00-\x0c]"),
            // Terminate.
            CheckStep::sends(b"X\0\0\0\x04"),
        ],
        // An anonymous bind (RFC 4511 §4.2), and its success.
        ("ldap-check", _) => vec![
            CheckStep::sends(b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\x00\x80\x00"),
            fits(r"(?s)^\x30.{1,5}\x02\x01\x01\x61.{1,5}\x0a\x01\x00"),
        ],
        // Either a handshake or an alert: both are of TLS.
        ("ssl-hello-chk", _) => vec![CheckStep::sends(CLIENT_HELLO), fits(r"^[\x15\x16]")],
        _ => return None,
    };
    Some(TcpCheck::of(steps))
}

const MYSQL_GREETING: &str = r"(?s)^.{3}\x00[^\xff]";

/// `HandshakeResponse41` without a password.
fn mysql_login(user: &str) -> Option<Vec<u8>> {
    let mut packet = vec![0; 3];
    // The second packet of the exchange; LONG_PASSWORD, PROTOCOL_41 and SECURE_CONNECTION; 16 MiB; UTF-8.
    packet.extend([1, 0x01, 0x82, 0, 0, 0, 0, 0, 1, 0x21]);
    packet.extend([0; 23]);
    packet.extend(user.as_bytes());
    packet.extend([0, 0]);
    let length = u8::try_from(packet.len().checked_sub(4)?).ok()?;
    *packet.first_mut()? = length;
    Some(packet)
}

/// `StartupMessage` of version 3.0.
fn pgsql_start(user: &str) -> Option<Vec<u8>> {
    let mut message = vec![0, 3, 0, 0];
    for text in [
        "user",
        user,
        "database",
        user,
        "application_name",
        "haproxy",
        "",
    ] {
        message.extend(text.as_bytes());
        message.push(0);
    }
    let length = u32::try_from(message.len().checked_add(4)?).ok()?;
    Some([length.to_be_bytes().to_vec(), message].concat())
}

/// A ClientHello of TLS 1.2 (RFC 5246 §7.4.1.2) with suites that servers have.
const CLIENT_HELLO: &[u8] = &[
    0x16, 0x03, 0x01, 0x00, 0x5d, 0x01, 0x00, 0x00, 0x59, 0x03, 0x03, //
    0x48, 0x41, 0x50, 0x72, 0x6f, 0x78, 0x79, 0x53, 0x53, 0x4c, 0x43, 0x48, 0x4b, 0x0a, 0x48, 0x41,
    0x50, 0x72, 0x6f, 0x78, 0x79, 0x53, 0x53, 0x4c, 0x43, 0x48, 0x4b, 0x0a, 0x48, 0x41, 0x50, 0x72,
    0x00, // no session
    0x00, 0x0c, 0xc0, 0x2b, 0xc0, 0x2f, 0xc0, 0x2c, 0xc0, 0x30, 0x00, 0x9c, 0x00, 0x2f, //
    0x01, 0x00, // no compression
    0x00, 0x24, //
    0x00, 0x0a, 0x00, 0x08, 0x00, 0x06, 0x00, 0x1d, 0x00, 0x17, 0x00, 0x18, // groups
    0x00, 0x0b, 0x00, 0x02, 0x01, 0x00, // point formats
    0x00, 0x0d, 0x00, 0x0e, 0x00, 0x0c, 0x04, 0x03, 0x08, 0x04, 0x04, 0x01, 0x05, 0x03, 0x05, 0x01,
    0x02, 0x01, // signatures
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ::tcp_check::Next;

    use super::*;
    use crate::NoHostInfo;

    /// The check of a backend with these lines, and the notes about it.
    fn check(lines: &str) -> (Option<config::lb_proxy::HealthCheck>, String) {
        let text = format!("listen l\nbind :1\n{lines}server s 192.0.2.1:1 check\n");
        let files = [(Path::new("h"), text.as_bytes())];
        let draft = crate::import(&files, &NoHostInfo).unwrap();
        let check = draft.config.backend[0].check.clone();
        let notes: Vec<String> = draft.notes.iter().map(ToString::to_string).collect();
        (check, notes.join("\n"))
    }

    fn steps(lines: &str) -> Vec<CheckStep> {
        let (check, notes) = check(lines);
        assert_eq!(notes, "", "{lines}");
        check.unwrap().steps.unwrap_or_default()
    }

    #[test]
    fn rules_become_steps() {
        let lines = "option tcp-check\ntcp-check connect port 6379 comment \"the master\"\n\
             tcp-check send PING\\r\\n\ntcp-check expect comment \"it answers\" string +PONG\n\
             tcp-check send-binary 0D0a\ntcp-check expect ! rstring ^-ERR\n\
             tcp-check expect min-recv-is-no-word 2\n";
        let (found, notes) = check(lines);
        assert!(
            notes.contains("`min-recv-is-no-word` has no counterpart"),
            "{notes}"
        );
        assert!(notes.contains(CONNECTS), "{notes}");
        assert_eq!(found.unwrap().kind, Some(config::lb_proxy::Kind::Tcp));
        let lines = lines.replace("tcp-check expect min-recv-is-no-word 2\n", "");
        let (found, notes) = check(&lines);
        assert_eq!(notes, "");
        let found = found.unwrap();
        assert_eq!(found.port.map(config::Whole::get), Some(6379));
        let expected = [
            CheckStep::sends(b"PING\r\n"),
            CheckStep::expects(b"+PONG", true),
            CheckStep::sends(b"\r\n"),
            CheckStep::expects_pattern("^-ERR", false),
        ];
        assert_eq!(found.steps.unwrap_or_default(), expected);
        assert_eq!(found.kind, Some(config::lb_proxy::Kind::TcpCheck));
    }

    #[test]
    fn a_check_without_rules_connects() {
        let (found, notes) = check("option tcp-check\n");
        assert_eq!(found.unwrap().kind, Some(config::lb_proxy::Kind::Tcp));
        assert_eq!(notes, "");
        // Without the option the rules count for nothing, there too.
        let (found, notes) = check("tcp-check send x\n");
        assert_eq!(found.unwrap().kind, Some(config::lb_proxy::Kind::Tcp));
        assert!(notes.contains("there is no `option tcp-check`"), "{notes}");
    }

    #[test]
    fn rules_that_cannot_be_had_are_told() {
        for (rule, reason) in [
            ("connect ssl", "`ssl` has no counterpart"),
            ("connect port x", "its port is no number"),
            ("connect\ntcp-check connect", "a check has one connection"),
            ("send", "its data is missing"),
            ("send-binary 0", "two digits"),
            ("send-lf x", "it has no counterpart"),
            ("expect", "its pattern is missing"),
            ("expect string", "its value is missing"),
            ("expect rbinary ^30", "`rbinary` has no counterpart"),
            ("expect rstring (", "is no pattern"),
            ("expect rstring (a)\\1", "is no pattern"),
            ("set-var(x) int(1)", "it has no counterpart"),
        ] {
            let (found, notes) = check(&format!("option tcp-check\ntcp-check {rule}\n"));
            assert!(notes.contains(reason), "{rule}: {notes}");
            assert!(notes.contains(CONNECTS), "{rule}: {notes}");
            assert_eq!(
                found.unwrap().kind,
                Some(config::lb_proxy::Kind::Tcp),
                "{rule}"
            );
        }
    }

    /// Whether a server that answers so, one line for each time something is expected, is up.
    fn is_up(lines: &str, answers: &[&[u8]]) -> bool {
        let steps: Result<Vec<_>, _> = steps(lines).iter().map(CheckStep::step).collect();
        let mut conversation = Conversation::new(&steps.unwrap()).unwrap();
        let mut answers = answers.iter();
        loop {
            match conversation.next_action() {
                Next::Send(_) => {}
                Next::Receive => conversation.receive(answers.next().copied().unwrap_or_default()),
                Next::Done(outcome) => return outcome.is_ok(),
            }
        }
    }

    #[test]
    fn options_stand_for_conversations() {
        let table: [(&str, &[&[u8]], bool); 20] = [
            ("redis-check", &[b"+PONG\r\n"], true),
            (
                "redis-check",
                &[b"-NOAUTH Authentication required.\r\n"],
                false,
            ),
            (
                "smtpchk",
                &[b"220 mx ESMTP\r\n", b"250 mx\r\n", b"221 bye\r\n"],
                true,
            ),
            (
                "smtpchk EHLO me",
                &[b"220-mx\r\n", b"250-mx\r\n", b"221 bye\r\n"],
                true,
            ),
            ("smtpchk", &[b"554 no\r\n"], false),
            ("smtpchk", &[b"220 mx\r\n", b"550 who\r\n"], false),
            ("mysql-check", &[b"\x4a\0\0\0\x0a8.0.36\0"], true),
            (
                "mysql-check",
                &[b"\x10\0\0\0\xff\x6a\x04Host is blocked"],
                false,
            ),
            ("mysql-check", &[b"HTTP/1.0 400 x\r\n"], false),
            (
                "mysql-check user haproxy",
                &[b"\x4a\0\0\0\x0a8.0.36\0", b"\x07\0\0\x02\0\0\0\x02\0\0\0"],
                true,
            ),
            (
                "mysql-check user haproxy post-41",
                &[
                    b"\x4a\0\0\0\x0a8.0.36\0",
                    b"\x10\0\0\x02\xff\x15\x04Access denied",
                ],
                false,
            ),
            ("pgsql-check user me", &[b"R\0\0\0\x0c\0\0\0\x05salt"], true),
            ("pgsql-check user me", &[b"R\0\0\0\x08\0\0\0\0"], true),
            ("pgsql-check user me", &[b"E\0\0\0\x50SFATAL\0"], false),
            (
                "ldap-check",
                &[b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x00"],
                true,
            ),
            (
                "ldap-check",
                &[b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x30\x04\x00\x04\x00"],
                false,
            ),
            ("ssl-hello-chk", &[b"\x16\x03\x03\0\x7a"], true),
            ("ssl-hello-chk", &[b"\x15\x03\x01\0\x02"], true),
            ("ssl-hello-chk", &[b"HTTP/1.0 400 x\r\n"], false),
            ("redis-check", &[], false),
        ];
        for (option, answers, expected) in table {
            let lines = format!("option {option}\n");
            assert_eq!(is_up(&lines, answers), expected, "{option} {answers:?}");
        }
    }

    #[test]
    fn lengths_are_right() {
        let login = mysql_login("haproxy").unwrap();
        assert_eq!(usize::from(login[0]), login.len() - 4);
        let start = pgsql_start("me").unwrap();
        assert_eq!(usize::from(start[3]), start.len());
        let [_, _, _, high, low, _, a, b, c, ..] = CLIENT_HELLO else {
            panic!();
        };
        let record = usize::from(*high) << 8 | usize::from(*low);
        assert_eq!(record, CLIENT_HELLO.len() - 5);
        let message = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        assert_eq!(message, CLIENT_HELLO.len() - 9);
    }
}
