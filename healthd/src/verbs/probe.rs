//! `healthd probe`: one probe from here, as the daemon would make it.

use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

use ::config::{CheckStep as Step, Hex, TextError};
use api::healthd::Probed;
use clap::ValueEnum;
use daemon::config::{ByteSize, HumanDuration};
use daemon::{errln, exit, json, outln};
use dns_wire::{Name, Rcode, Type};
use proto::health::{CheckStep, DnsProbe, HttpProbe, Liveness, Target, TargetKind, Verify};

use health_probe::{Prober, check_steps};

/// Arguments of `probe`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// How to probe
    #[arg(value_name = "KIND")]
    kind: Kind,

    /// Address to probe; without a port, the kind's own port is used
    #[arg(value_name = "ADDRESS[:PORT]")]
    address: String,

    /// Time limit
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    timeout: HumanDuration,

    /// Address to probe from
    #[arg(long, value_name = "IP")]
    source: Option<IpAddr>,

    /// Print a JSON object
    #[arg(long)]
    json: bool,

    /// tcp-check: step, as a key of the file and its value, such as `send=PING\r\n` and then `expect=+PONG`; may be
    /// given several times
    ///
    /// In a text \r, \n, \t and \\ are what they are in most languages.
    #[arg(long = "step", value_name = "KEY=VALUE", value_parser = step)]
    steps: Vec<CheckStep>,

    /// http, https: method of the request
    #[arg(long, default_value = "GET")]
    method: String,

    /// http, https: path with its query
    #[arg(long, default_value = "/")]
    path: String,

    /// http, https: Host header, and over TLS the server's name; the address unless given
    #[arg(long, value_name = "NAME", default_value = "")]
    host: String,

    /// http, https: status that means up
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(100..1000))]
    status: u16,

    /// http, https: text that the body must contain
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,

    /// http, https: User-Agent header
    #[arg(long, value_name = "TEXT", default_value = "")]
    user_agent: String,

    /// http, https: further header, as "Name: value"; may be given several times
    #[arg(long = "header", value_name = "HEADER", value_parser = header)]
    headers: Vec<(String, String)>,

    /// http, https: how much of the body to search for the text
    #[arg(long, value_name = "SIZE")]
    byte_limit: Option<ByteSize>,

    /// https: take any certificate
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,

    /// https: PEM file of authorities to check the certificate against
    #[arg(long, value_name = "FILE")]
    ca: Option<String>,

    /// grpc: service asked about
    #[arg(long, value_name = "NAME", default_value = "")]
    service: String,

    /// dns: name asked for
    #[arg(long, default_value = ".")]
    name: Name,

    /// dns: type asked for
    #[arg(long = "type", value_name = "TYPE", default_value = "SOA")]
    rtype: Type,

    /// dns: response code that means up; any answer unless given
    #[arg(long)]
    rcode: Option<Rcode>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Up when the connection is accepted
    Tcp,
    /// Up when what is sent over TCP gets the answers that are expected
    TcpCheck,
    /// Up when the response is the expected one (port 80)
    Http,
    /// The same over TLS (port 443)
    Https,
    /// Up when grpc.health.v1 says SERVING
    Grpc,
    /// Up when the server answers over UDP (port 53)
    Dns,
    /// Up when the server's clock is synchronised (port 123)
    Ntp,
}

impl Kind {
    fn port(self) -> Option<u16> {
        match self {
            Self::Tcp | Self::TcpCheck | Self::Grpc => None,
            Self::Http => Some(80),
            Self::Https => Some(443),
            Self::Dns => Some(53),
            Self::Ntp => Some(123),
        }
    }
}

fn step(text: &str) -> Result<CheckStep, String> {
    let (key, value) = text
        .split_once('=')
        .ok_or("a step is written as KEY=VALUE")?;
    let octets = match key {
        "send-hex" | "expect-hex" | "expect-not-hex" => {
            let hex: Hex = value
                .parse()
                .map_err(|error: TextError| error.to_string())?;
            hex.0
        }
        _ => unescaped(value).into_bytes(),
    };
    let step = match key {
        "send" | "send-hex" => Step::sends(&octets),
        "expect" | "expect-hex" => Step::expects(&octets, true),
        "expect-not" | "expect-not-hex" => Step::expects(&octets, false),
        "expect-pattern" => Step::expects_pattern(value, true),
        "expect-not-pattern" => Step::expects_pattern(value, false),
        _ => return Err(format!("a step has no key `{key}`")),
    };
    Ok(step.step()?)
}

fn unescaped(text: &str) -> String {
    let mut result = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        let next = match letter {
            '\\' => letters.next(),
            _ => None,
        };
        result.push(match next {
            None => letter,
            Some('r') => '\r',
            Some('n') => '\n',
            Some('t') => '\t',
            Some(other) => other,
        });
    }
    result
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or("a header is written as \"Name: value\"")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

impl Args {
    fn target(self) -> Result<Target, String> {
        let address = self.address()?;
        let request = HttpProbe {
            method: self.method,
            host: self.host,
            path: self.path,
            status: self.status,
            body: self.body.filter(|body| !body.is_empty()),
            user_agent: self.user_agent,
            headers: self.headers,
            byte_limit: self.byte_limit.map(|limit| limit.0),
            verify: match (self.insecure, self.ca) {
                (true, _) => Verify::Off,
                (false, Some(file)) => Verify::Ca(file),
                (false, None) => Verify::System,
            },
        };
        let kind = match self.kind {
            Kind::Tcp => TargetKind::Tcp,
            Kind::TcpCheck => TargetKind::TcpCheck(check_steps(self.steps)?),
            Kind::Http => TargetKind::Http(request),
            Kind::Https => TargetKind::Https(request),
            Kind::Grpc => TargetKind::Grpc {
                service: self.service,
            },
            Kind::Dns => TargetKind::Dns(DnsProbe {
                name: self.name.to_string(),
                rtype: self.rtype.0,
                rcode: self.rcode.map(|rcode| rcode.0),
            }),
            Kind::Ntp => TargetKind::Ntp,
        };
        Ok(Target {
            kind,
            address,
            source: self.source,
        })
    }

    fn address(&self) -> Result<SocketAddr, String> {
        if let Ok(address) = self.address.parse() {
            return Ok(address);
        }
        let ip: IpAddr = self.address.parse().map_err(|_| {
            format!(
                "{:?} is no IP address, with or without a port",
                self.address
            )
        })?;
        let port = self.kind.port();
        let port =
            port.ok_or_else(|| format!("{ip} needs a port, as in {}", SocketAddr::new(ip, 6443)))?;
        Ok(SocketAddr::new(ip, port))
    }
}

pub(super) async fn run(args: Args) -> ExitCode {
    let (is_json, timeout) = (args.json, args.timeout.into());
    let target = match args.target() {
        Ok(target) => target,
        Err(words) => {
            errln!("{words}");
            return exit::code(exit::USAGE);
        }
    };
    let finding = Box::pin(Prober::new().probe(&target, timeout)).await;
    let liveness = match finding.good {
        true => Liveness::Up,
        false => Liveness::Down,
    };
    if is_json {
        json::print_line(&Probed {
            target: target.to_string(),
            liveness,
            reason: finding.reason,
            latency_seconds: finding.latency.as_secs_f64(),
        });
    } else {
        let latency = finding.latency.as_secs_f64() * 1000.0;
        outln!("{target}  {liveness}  {latency:.2} ms  {}", finding.reason);
    }
    exit::code(match finding.good {
        true => exit::OK,
        false => exit::UNAVAILABLE,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn target(words: &str) -> Result<Target, String> {
        let words = ["probe"].into_iter().chain(words.split(' '));
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        line.args.target()
    }

    #[test]
    fn a_target_is_written_as_kind_and_address() {
        for (words, shown) in [
            ("tcp 192.168.7.13:6443", "tcp 192.168.7.13:6443"),
            ("ntp 192.168.7.1", "ntp 192.168.7.1:123"),
            (
                "dns ::1 --name ocp4.redhat.ren",
                "dns [::1]:53 ocp4.redhat.ren.",
            ),
            (
                "https 192.168.7.13:6443 --path /readyz",
                "https 192.168.7.13:6443/readyz",
            ),
        ] {
            assert_eq!(target(words).unwrap().to_string(), shown);
        }
        for words in [
            "tcp 192.168.7.13",
            "tcp master-0:6443",
            "ping 192.168.7.13:1",
            "http 192.168.7.13 --status 9",
            "dns 192.168.7.13 --name a..b",
            "https 192.168.7.13 --ca x --insecure",
        ] {
            assert!(target(words).is_err(), "{words}");
        }
    }
}
