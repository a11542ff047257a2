//! `vrrp_script`: the question that a script asks, as far as its command line says.
//!
//! Commands that ask a port or a URL become a probe of healthd's. A command that asks whether haproxy or keepalived runs
//! asks lb-proxy whether it runs itself. Everything else, a program of the user's above all, is unknown.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The question that a script asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Whether a port accepts connections.
    Tcp(SocketAddr),
    /// Whether a URL is answered with success.
    Http(Url),
    /// Whether a program runs in whose place lb-proxy is.
    Itself,
}

/// A URL on an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) is_tls: bool,
    pub(super) address: SocketAddr,
    /// With its query.
    pub(super) path: String,
    /// Certificates are not verified.
    pub(super) is_insecure: bool,
}

/// The programs in whose place lb-proxy is.
const OWN: [&str; 2] = ["haproxy", "keepalived"];

/// The question that a command line asks; none if that cannot be told for sure.
pub(super) fn question(command: &str) -> Option<Question> {
    let words = words(command)?;
    ask(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

fn ask(words: &[&str]) -> Option<Question> {
    let [program, arguments @ ..] = words else {
        return None;
    };
    if let Some(address) = device(words) {
        return Some(Question::Tcp(address));
    }
    match program.rsplit('/').next()? {
        "timeout" => match arguments {
            [_, rest @ ..] => ask(rest),
            [] => None,
        },
        "sh" | "bash" => match arguments {
            ["-c", script] => question(script),
            _ => None,
        },
        "curl" => curl(arguments),
        "wget" => wget(arguments),
        "nc" | "ncat" | "netcat" => netcat(arguments),
        "killall" | "pkill" => match arguments {
            ["-0", name] | ["-0", "-x", name] => own(name),
            _ => None,
        },
        "pidof" | "pgrep" => match arguments {
            [name] | ["-x" | "-s", name] => own(name),
            _ => None,
        },
        "systemctl" => match arguments {
            ["is-active", name] | ["is-active", "-q" | "--quiet", name] => {
                own(name.strip_suffix(".service").unwrap_or(name))
            }
            _ => None,
        },
        _ => None,
    }
}

fn own(name: &str) -> Option<Question> {
    let name = name.rsplit('/').next()?;
    OWN.contains(&name).then_some(Question::Itself)
}

/// The words of a simple command. One with operators, variables or substitutions is none; a command's output is of
/// no meaning for its result.
fn words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in command.chars() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (Some('"') | None, '$' | '`' | '\\') => return None,
            (Some(_), letter) => word.get_or_insert_default().push(letter),
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '&' | '|' | ';' | '(' | ')' | '*' | '#' | '!' | '\n') => {
                // `>/dev/null 2>&1` is no operator between commands.
                let redirects = word.as_deref().is_some_and(|word| word.ends_with('>'));
                if letter != '&' || !redirects {
                    return None;
                }
                word.get_or_insert_default().push(letter);
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (None, letter) => word.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        return None;
    }
    words.extend(word);
    let mut rest = words.into_iter();
    let mut kept = Vec::new();
    while let Some(word) = rest.next() {
        match word.trim_start_matches(|letter: char| letter.is_ascii_digit()) {
            // A file behind a blank.
            ">" | ">>" => drop(rest.next()?),
            redirected if redirected.starts_with('>') => {}
            _ => kept.push(word),
        }
    }
    Some(kept)
}

/// `</dev/tcp/HOST/PORT` of bash.
fn device(words: &[&str]) -> Option<SocketAddr> {
    let path = match words {
        [word] | [":" | "true" | "exec", word] | ["exec", word, ..] => {
            let word = word.trim_start_matches(|letter: char| letter.is_ascii_digit());
            word.strip_prefix("<>").or_else(|| word.strip_prefix('<'))?
        }
        ["<", word] => word,
        _ => return None,
    };
    let (host, port) = path.strip_prefix("/dev/tcp/")?.split_once('/')?;
    address(host, port)
}

fn netcat(arguments: &[&str]) -> Option<Question> {
    let mut places = Vec::new();
    let mut is_probe = false;
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match *word {
            "-w" | "-G" => {
                rest.next()?;
            }
            word if word.starts_with('-') => {
                // UDP asks another question.
                if word.contains('u') {
                    return None;
                }
                is_probe |= word.contains('z');
            }
            word => places.push(word),
        }
    }
    match places.as_slice() {
        [host, port] if is_probe => Some(Question::Tcp(address(host, port)?)),
        _ => None,
    }
}

fn curl(arguments: &[&str]) -> Option<Question> {
    let mut found = None;
    let mut is_insecure = false;
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match *word {
            "-o" | "--output" | "-m" | "--max-time" | "--connect-timeout" | "--retry" => {
                rest.next()?;
            }
            "--insecure" => is_insecure = true,
            "--fail"
            | "--silent"
            | "--show-error"
            | "--location"
            | "--head"
            | "--no-progress-meter" => {}
            word if word.starts_with("--") => return None,
            word if word.starts_with('-') => {
                let mut letters = word.chars().skip(1).peekable();
                while let Some(letter) = letters.next() {
                    match letter {
                        'k' => is_insecure = true,
                        'f' | 's' | 'S' | 'L' | 'I' | '4' | '6' | 'g' => {}
                        // Its value is the rest of the word, or the next one.
                        'o' | 'm' => {
                            if letters.peek().is_none() {
                                rest.next()?;
                            }
                            break;
                        }
                        _ => return None,
                    }
                }
            }
            word if found.is_none() => found = Some(word),
            _ => return None,
        }
    }
    url(found?, is_insecure)
}

fn wget(arguments: &[&str]) -> Option<Question> {
    let mut found = None;
    let mut is_insecure = false;
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match *word {
            "-T" | "-t" | "-O" => {
                rest.next()?;
            }
            "--no-check-certificate" => is_insecure = true,
            "-q" | "--quiet" | "-nv" | "--spider" | "-O-" | "-O/dev/null" | "-qO-" => {}
            word if word.starts_with("--timeout=") || word.starts_with("--tries=") => {}
            word if word.starts_with('-') => return None,
            word if found.is_none() => found = Some(word),
            _ => return None,
        }
    }
    url(found?, is_insecure)
}

fn url(text: &str, is_insecure: bool) -> Option<Question> {
    let (is_tls, rest) = match text.split_once("://") {
        Some(("http", rest)) => (false, rest),
        Some(("https", rest)) => (true, rest),
        Some(_) => return None,
        // As curl takes it.
        None => (false, text),
    };
    let place = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(place);
    let path = match path {
        "" => "/".to_owned(),
        query if query.starts_with('?') => format!("/{query}"),
        path => path.to_owned(),
    };
    let default = if is_tls { "443" } else { "80" };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => (authority, default),
    };
    Some(Question::Http(Url {
        is_tls,
        address: address(host, port)?,
        path,
        is_insecure,
    }))
}

/// Names are resolved on the node that asks, and only this one means the same everywhere.
fn address(host: &str, port: &str) -> Option<SocketAddr> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let ip = match host {
        "localhost" => Ipv4Addr::LOCALHOST.into(),
        host => host.parse::<IpAddr>().ok()?,
    };
    let port = port.parse().ok().filter(|port| *port > 0)?;
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(address: &str) -> Option<Question> {
        Some(Question::Tcp(address.parse().unwrap()))
    }

    fn http(is_tls: bool, address: &str, path: &str, is_insecure: bool) -> Option<Question> {
        Some(Question::Http(Url {
            is_tls,
            address: address.parse().unwrap(),
            path: path.to_owned(),
            is_insecure,
        }))
    }

    #[test]
    fn commands_that_ask_a_port_or_a_url_are_understood() {
        let itself = Some(Question::Itself);
        for (command, expected) in [
            (
                "/usr/bin/timeout 0.9 /usr/bin/curl -o /dev/null -Lfs http://localhost:1936/healthz/ready",
                http(false, "127.0.0.1:1936", "/healthz/ready", false),
            ),
            (
                "curl --silent --fail --insecure --max-time 2 https://127.0.0.1:6443/readyz -o /dev/null",
                http(true, "127.0.0.1:6443", "/readyz", true),
            ),
            (
                "/usr/bin/curl -sfk https://[::1]:6443/readyz?verbose >/dev/null 2>&1",
                http(true, "[::1]:6443", "/readyz?verbose", true),
            ),
            (
                "curl -sf 192.0.2.1",
                http(false, "192.0.2.1:80", "/", false),
            ),
            (
                "wget -q --spider -T 2 http://192.0.2.1:8080?a=b",
                http(false, "192.0.2.1:8080", "/?a=b", false),
            ),
            ("nc -z -w 1 127.0.0.1 6443", tcp("127.0.0.1:6443")),
            ("/bin/nc -zv localhost 80 > /dev/null", tcp("127.0.0.1:80")),
            ("</dev/tcp/127.0.0.1/80", tcp("127.0.0.1:80")),
            ("< /dev/tcp/127.0.0.1/80", tcp("127.0.0.1:80")),
            ("bash -c '</dev/tcp/127.0.0.1/80'", tcp("127.0.0.1:80")),
            (
                "timeout 1 bash -c \"exec 3<>/dev/tcp/192.0.2.1/443\"",
                tcp("192.0.2.1:443"),
            ),
            ("killall -0 haproxy", itself.clone()),
            ("/usr/bin/killall -0 haproxy", itself.clone()),
            ("pkill -0 -x haproxy", itself.clone()),
            ("pidof haproxy", itself.clone()),
            ("/usr/sbin/pidof /usr/sbin/keepalived", itself.clone()),
            ("systemctl is-active --quiet haproxy.service", itself),
        ] {
            assert_eq!(question(command), expected, "{command}");
        }
    }

    #[test]
    fn what_may_ask_something_else_is_unknown() {
        for command in [
            "",
            "/etc/keepalived/chk_ocp_script.sh",
            "killall -0 nginx",
            "killall haproxy",
            "pidof haproxy nginx",
            "curl -sf http://localhost:1936/healthz && pidof nginx",
            "curl -sf http://localhost/ || exit 1",
            "! curl -sf http://localhost/",
            "curl -sf http://localhost/ | grep ok",
            "curl -sf http://$(hostname)/",
            "curl -sf http://master-0:6443/",
            "curl -sf -X POST http://localhost/",
            "curl -sf --cacert ca.pem https://localhost/",
            "curl -sf http://localhost/ http://localhost:81/",
            "curl -sf -H 'Host: a' http://localhost/",
            "curl -sf ftp://localhost/",
            "nc 127.0.0.1 6443",
            "nc -zu 127.0.0.1 53",
            "nc -z 127.0.0.1 80-90",
            "sh -c 'exit 0'",
            "bash check.sh",
            "timeout",
            "'unfinished",
            "test -f /var/run/haproxy.pid",
        ] {
            assert_eq!(question(command), None, "{command}");
        }
    }
}
