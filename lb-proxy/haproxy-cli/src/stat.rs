//! `show stat`: a row for each frontend, server and backend, with the columns of HAProxy 2.6.
//!
//! Columns keep their places. One that lb-proxy has no figure for is empty, as HAProxy leaves those that a row has no use
//! for.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use crate::figures::{Backend, Check, Figures, Finding, Frontend, Proxy, Server, ServerState};
use crate::tags::{self, Value};

/// The columns, each with its tags and its type.
const COLUMNS: [(&str, &str); 103] = [
    ("pxname", "KNS:str"),
    ("svname", "KNS:str"),
    ("qcur", "MGP:u32"),
    ("qmax", "MMP:u32"),
    ("scur", "MGP:u32"),
    ("smax", "MMP:u32"),
    ("slim", "CLP:u32"),
    ("stot", "MCP:u64"),
    ("bin", "MCP:u64"),
    ("bout", "MCP:u64"),
    ("dreq", "MCP:u64"),
    ("dresp", "MCP:u64"),
    ("ereq", "MCP:u64"),
    ("econ", "MCP:u64"),
    ("eresp", "MCP:u64"),
    ("wretr", "MCP:u64"),
    ("wredis", "MCP:u64"),
    ("status", "SGP:str"),
    ("weight", "MaP:u32"),
    ("act", "SGP:u32"),
    ("bck", "SGP:u32"),
    ("chkfail", "MCP:u64"),
    ("chkdown", "MCP:u64"),
    ("lastchg", "MAP:u32"),
    ("downtime", "MCP:u32"),
    ("qlimit", "CLS:u32"),
    ("pid", "KGP:u32"),
    ("iid", "KGS:u32"),
    ("sid", "KGS:u32"),
    ("throttle", "MaP:u32"),
    ("lbtot", "MCP:u64"),
    ("tracked", "CGS:u32"),
    ("type", "CGS:u32"),
    ("rate", "MRP:u32"),
    ("rate_lim", "CLP:u32"),
    ("rate_max", "MMP:u32"),
    ("check_status", "MOP:str"),
    ("check_code", "MOP:u32"),
    ("check_duration", "MDP:u64"),
    ("hrsp_1xx", "MCP:u64"),
    ("hrsp_2xx", "MCP:u64"),
    ("hrsp_3xx", "MCP:u64"),
    ("hrsp_4xx", "MCP:u64"),
    ("hrsp_5xx", "MCP:u64"),
    ("hrsp_other", "MCP:u64"),
    ("hanafail", "MCP:u64"),
    ("req_rate", "MRP:u32"),
    ("req_rate_max", "MMP:u32"),
    ("req_tot", "MCP:u64"),
    ("cli_abrt", "MCP:u64"),
    ("srv_abrt", "MCP:u64"),
    ("comp_in", "MCP:u64"),
    ("comp_out", "MCP:u64"),
    ("comp_byp", "MCP:u64"),
    ("comp_rsp", "MCP:u64"),
    ("lastsess", "MAP:s32"),
    ("last_chk", "MOP:str"),
    ("last_agt", "MOP:str"),
    ("qtime", "MaP:u32"),
    ("ctime", "MaP:u32"),
    ("rtime", "MaP:u32"),
    ("ttime", "MaP:u32"),
    ("agent_status", "MOP:str"),
    ("agent_code", "MOP:u32"),
    ("agent_duration", "MDP:u64"),
    ("check_desc", "MOP:str"),
    ("agent_desc", "MOP:str"),
    ("check_rise", "CGS:u32"),
    ("check_fall", "CGS:u32"),
    ("check_health", "CGS:u32"),
    ("agent_rise", "CGS:u32"),
    ("agent_fall", "CGS:u32"),
    ("agent_health", "CGS:u32"),
    ("addr", "CGS:str"),
    ("cookie", "CNS:str"),
    ("mode", "CGS:str"),
    ("algo", "CGS:str"),
    ("conn_rate", "MRP:u32"),
    ("conn_rate_max", "MMP:u32"),
    ("conn_tot", "MCP:u64"),
    ("intercepted", "MCP:u64"),
    ("dcon", "MCP:u64"),
    ("dses", "MCP:u64"),
    ("wrew", "MCP:u64"),
    ("connect", "MCP:u64"),
    ("reuse", "MCP:u64"),
    ("cache_lookups", "MCP:u64"),
    ("cache_hits", "MCP:u64"),
    ("srv_icur", "MGP:u32"),
    ("src_ilim", "CLP:u32"),
    ("qtime_max", "MMP:u32"),
    ("ctime_max", "MMP:u32"),
    ("rtime_max", "MMP:u32"),
    ("ttime_max", "MMP:u32"),
    ("eint", "MCP:u64"),
    ("idle_conn_cur", "MGP:u32"),
    ("safe_conn_cur", "MGP:u32"),
    ("used_conn_cur", "MGP:u32"),
    ("need_conn_est", "MGP:u32"),
    ("uweight", "MaP:u32"),
    ("agg_server_status", "MGP:u32"),
    ("agg_server_check_status", "MGP:u32"),
    ("agg_check_status", "MGP:u32"),
];

/// A row: the object's kind, proxy and number, and its values by column.
struct Row {
    kind: Kind,
    proxy: u32,
    id: u32,
    values: BTreeMap<&'static str, Value>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Frontend,
    Backend,
    Server,
}

impl Kind {
    /// The bit of it in the argument `type`.
    const fn bit(self) -> i64 {
        match self {
            Self::Frontend => 1,
            Self::Backend => 2,
            Self::Server => 4,
        }
    }

    const fn letter(self) -> char {
        match self {
            Self::Frontend => 'F',
            Self::Backend => 'B',
            Self::Server => 'S',
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Frontend => "Frontend",
            Self::Backend => "Backend",
            Self::Server => "Server",
        }
    }
}

/// The rows that are wanted, and their form.
#[derive(Debug, Default)]
struct Query {
    /// The proxy, the bits of kinds and the number; -1 for any.
    bounds: Option<(i64, i64, i64)>,
    form: Form,
    leaves_out_maintenance: bool,
    leaves_out_down: bool,
}

/// The form of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Csv,
    Typed,
    Json,
}

/// Answers `show stat` with these arguments.
pub(crate) fn show(figures: &Figures, arguments: &[String]) -> String {
    let query = match query(figures, arguments) {
        Ok(query) => query,
        Err(sentence) => return sentence.to_owned(),
    };
    let rows: Vec<Row> = rows(figures)
        .into_iter()
        .filter(|row| query.wants(row))
        .collect();
    if query.form == Form::Json {
        let rows: Vec<Json> = rows.iter().map(json).collect();
        return format!("{}\n", Json::Array(rows));
    }
    let mut text = String::new();
    if query.form == Form::Typed {
        rows.iter().for_each(|row| typed(&mut text, row));
        return text;
    }
    text.push_str("# ");
    for (name, _) in COLUMNS {
        text.push_str(name);
        text.push(',');
    }
    text.push('\n');
    for row in &rows {
        for (name, _) in COLUMNS {
            if let Some(value) = row.values.get(name) {
                text.push_str(&value.csv());
            }
            text.push(',');
        }
        text.push('\n');
    }
    text
}

fn query(figures: &Figures, arguments: &[String]) -> Result<Query, &'static str> {
    let mut query = Query::default();
    let mut words = arguments;
    if let [first, rest @ ..] = words
        && first == "domain"
    {
        words = match rest {
            [domain, rest @ ..] if domain == "proxy" => rest,
            _ => return Err("Invalid statistics domain.\n"),
        };
    }
    if let [proxy, kinds, id, rest @ ..] = words {
        let number = |text: &String| text.parse().unwrap_or(0);
        let proxy = match number(proxy) {
            0 => {
                let mut proxies = figures.proxies.iter();
                let known = proxies.find(|known| known.name == *proxy);
                i64::from(known.ok_or("No such proxy.\n")?.id)
            }
            number => number,
        };
        query.bounds = Some((proxy, number(kinds), number(id)));
        words = rest;
    }
    for word in words {
        match word.as_str() {
            "typed" => query.form = Form::Typed,
            "json" => query.form = Form::Json,
            "no-maint" => query.leaves_out_maintenance = true,
            "up" => query.leaves_out_down = true,
            _ => {}
        }
    }
    Ok(query)
}

impl Query {
    fn wants(&self, row: &Row) -> bool {
        let is_in = self.bounds.is_none_or(|(proxy, kinds, id)| {
            let is_proxy = proxy < 0 || proxy == i64::from(row.proxy);
            let is_id = row.kind != Kind::Server || id < 0 || id == i64::from(row.id);
            is_proxy && kinds & row.kind.bit() != 0 && is_id
        });
        let status = match (row.kind, row.values.get("status")) {
            (Kind::Server, Some(Value::Text(status))) => status.as_str(),
            _ => "",
        };
        let is_maintenance = status == "MAINT";
        let is_left_out = self.leaves_out_maintenance && is_maintenance
            || self.leaves_out_down && (is_maintenance || status == "DOWN");
        is_in && !is_left_out
    }
}

fn typed(text: &mut String, row: &Row) {
    for (place, (name, tags)) in COLUMNS.iter().enumerate() {
        if let Some(value) = row.values.get(name) {
            let (letter, proxy, id) = (row.kind.letter(), row.proxy, row.id);
            // Writing to a string does not fail.
            let _written = writeln!(
                text,
                "{letter}.{proxy}.{id}.{place}.{name}.1:{tags}:{}",
                value.plain()
            );
        }
    }
}

fn json(row: &Row) -> Json {
    let fields = COLUMNS
        .iter()
        .enumerate()
        .filter_map(|(place, (name, tags))| {
            let value = row.values.get(name)?;
            let kind = tags.split_once(':').map_or("str", |(_, kind)| kind);
            Some(json!({
                "objType": row.kind.name(),
                "proxyId": row.proxy,
                "id": row.id,
                "field": { "pos": place, "name": name },
                "processNum": 1,
                "tags": tags::words(tags),
                "value": value.json(kind),
            }))
        });
    Json::Array(fields.collect())
}

//--- Rows

fn rows(figures: &Figures) -> Vec<Row> {
    let mut rows = Vec::new();
    for proxy in &figures.proxies {
        if let Some(frontend) = &proxy.frontend {
            rows.push(Row::new(
                proxy,
                Kind::Frontend,
                0,
                "FRONTEND",
                of_frontend(frontend),
            ));
        }
        if let Some(backend) = &proxy.backend {
            for server in &backend.servers {
                rows.push(Row::new(
                    proxy,
                    Kind::Server,
                    server.id,
                    &server.name,
                    of_server(server),
                ));
            }
            rows.push(Row::new(
                proxy,
                Kind::Backend,
                0,
                "BACKEND",
                of_backend(backend),
            ));
        }
    }
    rows
}

/// Values by column.
type Values = Vec<(&'static str, Value)>;

impl Row {
    fn new(proxy: &Proxy, kind: Kind, id: u32, name: &str, values: Values) -> Self {
        let kind_number: u32 = match kind {
            Kind::Frontend => 0,
            Kind::Backend => 1,
            Kind::Server => 2,
        };
        let mut values: BTreeMap<&'static str, Value> = values.into_iter().collect();
        values.extend([
            ("pxname", (&proxy.name).into()),
            ("svname", name.into()),
            ("pid", 1_u32.into()),
            ("iid", proxy.id.into()),
            ("sid", id.into()),
            ("type", kind_number.into()),
            ("mode", proxy.mode.into()),
        ]);
        Self {
            kind,
            proxy: proxy.id,
            id,
            values,
        }
    }
}

fn of_frontend(frontend: &Frontend) -> Values {
    let is_full = frontend
        .limit
        .is_some_and(|limit| frontend.sessions >= limit);
    let mut values: Values = vec![
        ("scur", frontend.sessions.into()),
        ("smax", frontend.most_sessions.into()),
        (
            "stot",
            frontend.total.saturating_sub(frontend.denied).into(),
        ),
        ("bin", frontend.bytes_in.into()),
        ("bout", frontend.bytes_out.into()),
        ("ereq", frontend.rejected.into()),
        ("status", if is_full { "FULL" } else { "OPEN" }.into()),
        ("conn_tot", frontend.total.into()),
        ("dcon", frontend.denied.into()),
    ];
    values.extend(frontend.limit.map(|limit| ("slim", limit.into())));
    values
}

fn of_backend(backend: &Backend) -> Values {
    let sum = |of: fn(&Server) -> u64| -> Value {
        backend
            .servers
            .iter()
            .fold(0, |sum: u64, server| sum.saturating_add(of(server)))
            .into()
    };
    let is_up = |server: &&Server| server.state == ServerState::Up;
    let n_up = |is_backup: bool| -> Value {
        let up = backend.servers.iter().filter(is_up);
        u64::try_from(up.filter(|server| server.is_backup == is_backup).count())
            .unwrap_or(u64::MAX)
            .into()
    };
    let weight: u64 = backend
        .servers
        .iter()
        .filter(is_up)
        .map(|server| u64::from(server.weight))
        .sum();
    let connects = backend.servers.iter().map(|server| server.connects).sum();
    let took = backend
        .servers
        .iter()
        .map(|server| server.connect_time)
        .sum();
    let mut values: Values = vec![
        ("qcur", backend.queued.into()),
        ("qmax", backend.most_queued.into()),
        ("scur", sum(|server| server.sessions)),
        ("stot", sum(|server| server.total)),
        ("bin", sum(|server| server.bytes_in)),
        ("bout", sum(|server| server.bytes_out)),
        ("econ", sum(|server| server.connect_errors)),
        ("wretr", sum(|server| server.retries)),
        ("wredis", sum(|server| server.redispatches)),
        ("status", if backend.is_up { "UP" } else { "DOWN" }.into()),
        ("weight", weight.into()),
        ("act", n_up(false)),
        ("bck", n_up(true)),
        ("chkdown", backend.downs.into()),
        ("lastchg", backend.changed.as_secs().into()),
        ("downtime", backend.downtime.as_secs().into()),
        ("lbtot", sum(|server| server.total)),
        ("cli_abrt", sum(|server| server.client_aborts)),
        ("srv_abrt", sum(|server| server.server_aborts)),
        ("algo", backend.algorithm.into()),
        ("connect", sum(Server::attempts)),
        ("uweight", weight.into()),
    ];
    values.extend(mean_milliseconds(took, connects).map(|mean| ("ctime", mean)));
    values
}

fn of_server(server: &Server) -> Values {
    let mut values: Values = vec![
        // Connections wait for any server of a backend, never for one.
        ("qcur", 0_u32.into()),
        ("qmax", 0_u32.into()),
        ("scur", server.sessions.into()),
        ("smax", server.most_sessions.into()),
        ("stot", server.total.into()),
        ("bin", server.bytes_in.into()),
        ("bout", server.bytes_out.into()),
        ("econ", server.connect_errors.into()),
        ("wretr", server.retries.into()),
        ("wredis", server.redispatches.into()),
        ("status", server.status().into()),
        ("weight", server.weight.into()),
        ("act", (!server.is_backup).into()),
        ("bck", server.is_backup.into()),
        ("lastchg", server.changed.as_secs().into()),
        ("lbtot", server.total.into()),
        ("cli_abrt", server.client_aborts.into()),
        ("srv_abrt", server.server_aborts.into()),
        ("addr", address(server).as_str().into()),
        ("connect", server.attempts().into()),
        ("used_conn_cur", server.sessions.into()),
        ("uweight", server.weight.into()),
    ];
    values.extend(server.limit.map(|limit| ("slim", limit.into())));
    values.extend(
        server
            .throttle
            .map(|percent| ("throttle", u32::from(percent).into())),
    );
    values.extend(
        mean_milliseconds(server.connect_time, server.connects).map(|mean| ("ctime", mean)),
    );
    values.extend(server.check.iter().flat_map(of_check));
    values
}

fn of_check(check: &Check) -> Values {
    let mut values: Values = vec![
        ("chkdown", check.downs.into()),
        ("downtime", check.downtime.as_secs().into()),
        ("check_status", status(check).into()),
        ("check_desc", description(check).into()),
    ];
    if check.finding != Finding::Unknown {
        let latency = u64::try_from(check.latency.as_millis()).unwrap_or(u64::MAX);
        values.push(("check_duration", latency.into()));
        values.push(("last_chk", (&check.reason).into()));
    }
    values
}

/// HAProxy's words: layer 4 is a connect, layer 7 what was said over it.
const fn status(check: &Check) -> &'static str {
    match (check.finding, check.connects_only) {
        (Finding::Unknown, _) => "INI",
        (Finding::Up, true) => "L4OK",
        (Finding::Down, true) => "L4CON",
        (Finding::Up, false) => "L7OK",
        (Finding::Down, false) => "L7STS",
    }
}

const fn description(check: &Check) -> &'static str {
    match (check.finding, check.connects_only) {
        (Finding::Unknown, _) => "Initializing",
        (Finding::Up, true) => "Layer4 check passed",
        (Finding::Down, true) => "Layer4 connection problem",
        (Finding::Up, false) => "Layer7 check passed",
        (Finding::Down, false) => "Layer7 wrong status",
    }
}

/// An IPv6 address is in brackets.
fn address(server: &Server) -> String {
    match server.address.contains(':') {
        true => format!("[{}]:{}", server.address, server.port),
        false => format!("{}:{}", server.address, server.port),
    }
}

fn mean_milliseconds(took: std::time::Duration, n: u64) -> Option<Value> {
    let mean = took.as_millis().checked_div(u128::from(n))?;
    Some(u64::try_from(mean).unwrap_or(u64::MAX).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_column() {
        let figures = crate::tests::figures();
        for row in rows(&figures) {
            for name in row.values.keys() {
                assert!(COLUMNS.iter().any(|(column, _)| column == name), "{name}");
            }
        }
        let mut names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COLUMNS.len());
    }
}
