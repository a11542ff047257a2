//! The targets of the file as the probes see them; rules between the keys of one are checked here.

use ::config::healthd::{Healthd, Kind, Target as Written, Verify as Authorities};
use ::config::{Check, CheckStep as Step, Whole, at};
use dns_wire::{Name, Rcode, Type};
use health_probe::{check_http, check_steps};
use proto::health::{CheckStep, Deviation, DnsProbe, HttpProbe, Target, TargetKind, Verify};

use super::schedules;

/// The targets, each with what it says of its schedule; those with a problem are left out.
pub(super) fn targets(file: &Healthd, check: &mut Check<'_>) -> Vec<(Target, Deviation)> {
    // Wrong listeners are left out here, and were named already.
    if file.listen.is_empty() && check.n_problems() == 0 {
        let words = "`listen` is empty: no service could subscribe";
        check.problem(&at!["listen"], words);
    }
    let limit = file.probes.targets.get();
    if file.target.len() > limit {
        let words = format!(
            "there are {} targets, but `targets` in [probes] allows {limit}",
            file.target.len()
        );
        check.problem(&at!["probes", "targets"], words);
    }
    let mut targets = Vec::new();
    for (index, written) in file.target.iter().enumerate() {
        let n_problems = check.n_problems();
        let mut reader = Reader {
            written,
            index,
            check: &mut *check,
        };
        let target = reader.target();
        let deviation = schedules::of_target(written, &at!["target", index], check);
        if check.n_problems() == n_problems {
            targets.push((target, deviation));
        }
    }
    targets
}

struct Reader<'a, 'c> {
    written: &'a Written,
    index: usize,
    check: &'a mut Check<'c>,
}

impl Reader<'_, '_> {
    fn problem(&mut self, key: &str, message: impl Into<String>) {
        self.check.problem(&at!["target", self.index, key], message);
    }

    fn target(&mut self) -> Target {
        let address = self.written.address.0;
        if address.port() == 0 {
            self.problem("address", "0 is no port");
        }
        let source = self.written.source.map(|source| source.0);
        if source.is_some_and(|source| source.is_ipv4() != address.is_ipv4()) {
            self.problem("source", "an address of the target's own family is needed");
        }
        self.refuse_other_kinds();
        Target {
            kind: self.kind(),
            address,
            source,
        }
    }

    fn kind(&mut self) -> TargetKind {
        match self.written.kind {
            Kind::Tcp => TargetKind::Tcp,
            Kind::TcpCheck => TargetKind::TcpCheck(self.steps()),
            Kind::Ntp => TargetKind::Ntp,
            Kind::Http => TargetKind::Http(self.http()),
            Kind::Https => {
                let verify = self.verify();
                let probe = self.http();
                TargetKind::Https(HttpProbe { verify, ..probe })
            }
            Kind::Grpc => TargetKind::Grpc {
                service: self.written.service.clone().unwrap_or_default(),
            },
            Kind::Dns => TargetKind::Dns(self.dns()),
        }
    }

    fn steps(&mut self) -> Vec<CheckStep> {
        let written = self.written.steps.iter().flatten();
        let steps: Result<Vec<_>, _> = written.map(Step::step).collect();
        match steps.map_err(str::to_owned).and_then(check_steps) {
            Ok(steps) => steps,
            Err(words) => {
                self.problem("steps", words);
                Vec::new()
            }
        }
    }

    fn http(&mut self) -> HttpProbe {
        let default = HttpProbe::default();
        let written = self.written;
        if written
            .path
            .as_ref()
            .is_some_and(|path| !path.starts_with('/'))
        {
            self.problem("path", "a path begins with /");
        }
        self.requests();
        let text = |value: &Option<String>, default| value.clone().unwrap_or(default);
        HttpProbe {
            method: text(&written.method, default.method),
            host: text(&written.host, default.host),
            path: text(&written.path, default.path),
            status: written.status.map_or(default.status, Whole::get),
            body: written.body.clone().filter(|body| !body.is_empty()),
            user_agent: written.user_agent.clone().unwrap_or_default(),
            headers: pairs(written.headers.as_deref()),
            byte_limit: written
                .byte_limit
                .map(|limit| limit.0)
                .filter(|limit| *limit != 0),
            verify: Verify::default(),
        }
    }

    /// Each value must be one that a request can have: a probe that cannot be sent finds its target down.
    fn requests(&mut self) {
        let written = self.written;
        self.request("method", written.method.as_ref(), |probe, method| {
            probe.method.clone_from(method);
        });
        self.request("path", written.path.as_ref(), |probe, path| {
            probe.path.clone_from(path);
        });
        self.request("host", written.host.as_ref(), |probe, host| {
            probe.host.clone_from(host);
        });
        self.request("user-agent", written.user_agent.as_ref(), |probe, agent| {
            probe.user_agent.clone_from(agent);
        });
        self.request("headers", written.headers.as_ref(), |probe, headers| {
            probe.headers = pairs(Some(headers));
        });
    }

    fn request<T>(&mut self, key: &str, value: Option<&T>, set: impl FnOnce(&mut HttpProbe, &T)) {
        let Some(value) = value else {
            return;
        };
        let mut probe = HttpProbe::default();
        set(&mut probe, value);
        let is_tls = self.written.kind == Kind::Https;
        if let Err(words) = check_http(&probe, self.written.address.0, is_tls) {
            self.problem(key, words);
        }
    }

    fn verify(&mut self) -> Verify {
        match (self.written.verify, self.written.ca_file.clone()) {
            (None | Some(Authorities::System), None) => Verify::System,
            (None | Some(Authorities::Ca), Some(file)) => Verify::Ca(file),
            (Some(Authorities::None), None) => Verify::Off,
            (Some(Authorities::System | Authorities::None), Some(_)) => {
                self.problem("verify", "with `ca-file`, `verify` is \"ca\"");
                Verify::System
            }
            (Some(Authorities::Ca), None) => {
                self.problem("verify", "`ca-file` is missing");
                Verify::System
            }
        }
    }

    fn dns(&mut self) -> DnsProbe {
        let default = DnsProbe::default();
        let written = self.written;
        let name = self.parsed("name", written.name.as_deref(), Name::parse);
        let rtype = self.parsed("type", written.rtype.as_deref(), str::parse::<Type>);
        let rcode = self.parsed("rcode", written.rcode.as_deref(), str::parse::<Rcode>);
        DnsProbe {
            name: name.map_or(default.name, |name| name.to_string()),
            rtype: rtype.map_or(default.rtype, |rtype| rtype.0),
            rcode: rcode.map(|rcode| rcode.0),
        }
    }

    fn parsed<T, E: std::fmt::Display>(
        &mut self,
        key: &str,
        text: Option<&str>,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        match parse(text?) {
            Ok(value) => Some(value),
            Err(error) => {
                self.problem(key, error.to_string());
                None
            }
        }
    }

    /// A key of another kind means something else than its writer thinks.
    fn refuse_other_kinds(&mut self) {
        let written = self.written;
        let http: &[Kind] = &[Kind::Http, Kind::Https];
        let https: &[Kind] = &[Kind::Https];
        let keys: [(&str, bool, &[Kind]); 15] = [
            ("steps", written.steps.is_some(), &[Kind::TcpCheck]),
            ("method", written.method.is_some(), http),
            ("path", written.path.is_some(), http),
            ("host", written.host.is_some(), http),
            ("status", written.status.is_some(), http),
            ("body", written.body.is_some(), http),
            ("user-agent", written.user_agent.is_some(), http),
            ("headers", written.headers.is_some(), http),
            ("byte-limit", written.byte_limit.is_some(), http),
            ("verify", written.verify.is_some(), https),
            ("ca-file", written.ca_file.is_some(), https),
            ("service", written.service.is_some(), &[Kind::Grpc]),
            ("name", written.name.is_some(), &[Kind::Dns]),
            ("type", written.rtype.is_some(), &[Kind::Dns]),
            ("rcode", written.rcode.is_some(), &[Kind::Dns]),
        ];
        for (key, is_written, kinds) in keys {
            if is_written && !kinds.contains(&written.kind) {
                let kind = written.kind;
                self.problem(key, format!("a target of kind {kind} has no `{key}`"));
            }
        }
    }
}

fn pairs(headers: Option<&[[String; 2]]>) -> Vec<(String, String)> {
    let pairs = headers.unwrap_or_default().iter().cloned();
    pairs.map(|[name, value]| (name, value)).collect()
}
