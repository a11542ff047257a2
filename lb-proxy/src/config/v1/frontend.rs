//! `[[frontend]]`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use balance::limits::{self, Rate, Rules};
use balance::table::{AcceptProxy, Route, Sources};
use daemon::acl::Cidrs;
use daemon::config::HumanDuration;
use ipnet::IpNet;
use l4_core::flow;
use toml::Spanned;

use super::Reader;
use super::spec::{
    AcceptProxySpec, FlowsSpec, FrontendSpec, LimitsSpec, PathSpec, RouteSpec, Spec,
};
use crate::config::{Backend, Frontend, KernelRules, Path, Protocol, SourceLimits};

impl Reader<'_> {
    pub(super) fn frontends(&mut self, specs: &[FrontendSpec]) -> Vec<Frontend> {
        let mut known = BTreeSet::new();
        let mut frontends = Vec::new();
        for spec in specs {
            let name = self.name(&spec.name);
            if !known.insert(Arc::clone(&name)) {
                self.problem(
                    spec.name.span(),
                    format!("there are two frontends `{name}`"),
                );
            }
            if spec.listen.get_ref().is_empty() {
                self.problem(spec.listen.span(), "a frontend listens somewhere");
            }
            if spec.backend.is_none() && spec.route.is_empty() {
                self.problem(
                    spec.name.span(),
                    "a frontend needs a `backend` or a `route`",
                );
            }
            let frontend = self.frontend(spec, name);
            self.refuse_what_its_path_cannot(spec, &frontend);
            frontends.push(frontend);
        }
        frontends
    }

    fn frontend(&mut self, spec: &FrontendSpec, name: Arc<str>) -> Frontend {
        let allow = match spec.allow_from.is_empty() {
            true => None,
            false => Some(self.networks(&spec.allow_from)),
        };
        Frontend {
            name,
            listen: self.addresses(spec.listen.get_ref()),
            protocol: spec.protocol.into(),
            path: spec
                .path
                .as_ref()
                .map_or(Path::User, |path| (*path.get_ref()).into()),
            role: spec.role.into(),
            accept_proxy: match spec.accept_proxy.as_ref().map(Spanned::get_ref) {
                None | Some(AcceptProxySpec::No) => AcceptProxy::No,
                Some(AcceptProxySpec::Optional) => AcceptProxy::Optional,
                Some(AcceptProxySpec::Required) => AcceptProxy::Required,
            },
            sources: Sources {
                allow,
                deny: match spec.deny_from.is_empty() {
                    true => Cidrs::none(),
                    false => self.networks(&spec.deny_from),
                },
            },
            limits: spec.limits.as_ref().map(|spec| self.limits(spec.get_ref())),
            max_connections: self.at_least_one(spec.max_connections.as_ref()),
            names: self.routes(&spec.route),
            backend: spec
                .backend
                .as_ref()
                .map(|name| name.get_ref().as_str().into()),
            inspect_timeout: self.time(spec.inspect_timeout.as_ref(), Route::INSPECT_TIMEOUT),
            client: self.side(&spec.client),
            log: spec.log.unwrap_or(true),
            flows: spec
                .flows
                .as_ref()
                .map_or_else(flow::Settings::default, |spec| self.flows(spec.get_ref())),
            kernel: match spec.path.as_ref().map(Spanned::get_ref) {
                Some(PathSpec::Kernel | PathSpec::KernelPreferred) => KernelRules {
                    allow: self.kernel_networks(&spec.allow_from),
                    deny: self.kernel_networks(&spec.deny_from).unwrap_or_default(),
                    masquerade: spec.masquerade.as_ref().is_none_or(|on| *on.get_ref()),
                },
                Some(PathSpec::User) | None => KernelRules::default(),
            },
        }
    }

    fn routes(&mut self, specs: &[RouteSpec]) -> Vec<(String, Arc<str>)> {
        let mut known = BTreeSet::new();
        let mut names = Vec::new();
        for route in specs {
            if route.names.get_ref().is_empty() {
                self.problem(route.names.span(), "a route needs a name");
            }
            for text in route.names.get_ref() {
                let name = text.get_ref().trim_end_matches('.').to_ascii_lowercase();
                if !is_pattern(&name) {
                    let words = format!(
                        "`{name}` is no host name, as in console.example.org, nor a pattern, as in *.example.org"
                    );
                    self.problem(text.span(), words);
                }
                if !known.insert(name.clone()) {
                    self.problem(text.span(), format!("`{name}` has a route already"));
                }
                names.push((name, route.backend.get_ref().as_str().into()));
            }
        }
        names
    }

    fn limits(&mut self, spec: &LimitsSpec) -> SourceLimits {
        let rate = spec.rate.as_ref().and_then(|text| {
            let rate = parse_rate(text.get_ref());
            if rate.is_none() {
                let words = format!(
                    "`{}` is no rate, as in 50/s, 600/m or 100/10s; the period is 100ms at least",
                    text.get_ref()
                );
                self.problem(text.span(), words);
            }
            rate
        });
        SourceLimits {
            rules: Rules {
                connections: self.at_least_one(spec.connections.as_ref()),
                rate,
            },
            sources: spec
                .sources
                .unwrap_or(limits::CAPACITY)
                .min(limits::MAX_CAPACITY),
        }
    }

    fn flows(&mut self, spec: &FlowsSpec) -> flow::Settings {
        let default = flow::Settings::default();
        if let Some(most) = spec.most.as_ref().filter(|most| *most.get_ref() == 0) {
            self.problem(most.span(), "at least 1 is needed");
        }
        flow::Settings {
            idle_timeout: self.time(spec.idle.as_ref(), default.idle_timeout),
            max_flows: spec
                .most
                .as_ref()
                .map_or(default.max_flows, |n| *n.get_ref()),
            requests: self.at_least_one(spec.requests.as_ref()),
            responses: self.at_least_one(spec.responses.as_ref()),
        }
    }

    /// Networks as the kernel takes them; none when the list is empty.
    pub(super) fn kernel_networks(&mut self, list: &[Spanned<String>]) -> Option<Vec<IpNet>> {
        let mut networks = Vec::new();
        for text in list {
            let address = text.get_ref().parse::<IpAddr>().map(IpNet::from);
            match address.or_else(|_| text.get_ref().parse::<IpNet>()) {
                Ok(network) => networks.push(network.trunc()),
                Err(_) => self.problem(
                    text.span(),
                    "the kernel path takes plain networks, as in 192.168.7.0/24",
                ),
            }
        }
        (!list.is_empty()).then_some(networks)
    }

    pub(super) fn at_least_one(&mut self, value: Option<&Spanned<u32>>) -> Option<u32> {
        let value = value?;
        if *value.get_ref() == 0 {
            self.problem(value.span(), "at least 1 is needed");
        }
        Some(*value.get_ref())
    }

    /// Keys that would be passed over in silence mean something else than their writer thinks.
    fn refuse_what_its_path_cannot(&mut self, spec: &FrontendSpec, frontend: &Frontend) {
        let kernel = frontend.path != Path::User;
        let udp = frontend.protocol == Protocol::Udp;
        let by_connection = [
            (
                "accept-proxy",
                spec.accept_proxy.as_ref().map(Spanned::span),
            ),
            ("route", spec.route.first().map(|route| route.names.span())),
            (
                "inspect-timeout",
                spec.inspect_timeout.as_ref().map(Spanned::span),
            ),
        ];
        for (key, span) in by_connection {
            let Some(span) = span else { continue };
            if kernel {
                self.problem(
                    span,
                    format!("the kernel cannot do `{key}`: use path = \"user\""),
                );
            } else if udp {
                self.problem(span, format!("datagrams have no `{key}`"));
            }
        }
        let by_user = [
            ("limits", spec.limits.as_ref().map(Spanned::span)),
            (
                "max-connections",
                spec.max_connections.as_ref().map(Spanned::span),
            ),
        ];
        for (key, span) in by_user {
            let Some(span) = span else { continue };
            if kernel {
                self.problem(
                    span,
                    format!("the kernel cannot do `{key}`: use path = \"user\""),
                );
            }
        }
        if let Some(masquerade) = spec.masquerade.as_ref().filter(|_| !kernel) {
            self.problem(masquerade.span(), "`masquerade` is for path = \"kernel\"");
        }
        if let Some(flows) = spec.flows.as_ref().filter(|_| !udp) {
            self.problem(flows.span(), "`flows` is for protocol = \"udp\"");
        }
    }

    //--- All together

    /// Every backend that is named has to be there.
    pub(super) fn backends_exist(&mut self, spec: &Spec, backends: &[Backend]) {
        let known: BTreeSet<&str> = backends.iter().map(|backend| &*backend.name).collect();
        let frontends = spec.frontend.iter().flat_map(|frontend| {
            let routes = frontend.route.iter().map(|route| &route.backend);
            frontend.backend.iter().chain(routes)
        });
        let ports = spec.service.iter().flat_map(|service| &service.port);
        let missing: Vec<(Range<usize>, String)> = frontends
            .chain(ports.map(|port| &port.backend))
            .filter(|name| !known.contains(name.get_ref().as_str()))
            .map(|name| (name.span(), name.get_ref().clone()))
            .collect();
        for (span, name) in missing {
            let words = match daemon::config::nearest(&name, known.iter().copied()) {
                Some(meant) => format!("there is no backend `{name}`, did you mean `{meant}`?"),
                None => format!("there is no backend `{name}`"),
            };
            self.problem(span, words);
        }
    }

    /// Two frontends on one address would fight for it.
    pub(super) fn addresses_once(&mut self, frontends: &[Frontend]) {
        let mut taken: BTreeMap<(bool, SocketAddr), Arc<str>> = BTreeMap::new();
        for frontend in frontends {
            let udp = frontend.protocol == Protocol::Udp;
            for address in frontend.listen.iter().filter(|address| address.port() != 0) {
                let before = taken.insert((udp, *address), Arc::clone(&frontend.name));
                if let Some(before) = before {
                    let name = &frontend.name;
                    let words = match before == *name {
                        true => format!("frontend {name} listens on {address} twice"),
                        false => format!("frontends {before} and {name} both listen on {address}"),
                    };
                    self.problem(0..0, words);
                }
            }
        }
    }
}

/// A host name, `*`, or `*.` and a host name.
fn is_pattern(name: &str) -> bool {
    let rest = match name {
        "*" => return true,
        name => name.strip_prefix("*.").unwrap_or(name),
    };
    let label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        !label.is_empty() && label.len() <= 63 && label.bytes().all(plain)
    };
    rest.len() <= 253 && rest.split('.').all(label)
}

/// `50/s`, `600/m`, `100/10s`.
fn parse_rate(text: &str) -> Option<Rate> {
    let (count, period) = text.split_once('/')?;
    let period = period.trim();
    let period = match period.starts_with(|c: char| c.is_ascii_digit()) {
        true => period.parse::<HumanDuration>().ok()?,
        false => format!("1{period}").parse::<HumanDuration>().ok()?,
    };
    let count: u32 = count.trim().parse().ok()?;
    let is_good = count > 0 && period.0 >= limits::MIN_PERIOD && period.0 <= MAX_PERIOD;
    is_good.then_some(Rate {
        count,
        period: period.0,
    })
}

/// The longest period of a rate; its milliseconds fit what the table holds.
const MAX_PERIOD: Duration = Duration::from_secs(86_400);
