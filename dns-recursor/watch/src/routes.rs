//! The paths of the admin listener.
//!
//! | path | does |
//! | --- | --- |
//! | `GET /top?of=SUBJECT&by=MEASURE&n=COUNT` | the heaviest names, clients and zones |
//! | `GET /query-log` | the classes that are logged, and the lines |
//! | `POST /query-log?turn=on\|off\|back&for=SPAN&class=CLASS&rate=LINES` | logs queries, or none, for a while |

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api::top::{Ranking, Row, Top as View};
use config::dns_recursor::{QueryClass, QueryLog};
use config::{HumanDuration, Whole};
use daemon::admin::{Reply, Request, Routes};
use dns_top::{self as top, Measure, Subject, Top};
use dns_wire::Name;

use crate::{Shared, Watch, log};

/// The items of a ranking, unless the request says otherwise.
const USUAL: usize = 10;
/// The most items of a ranking: a sketch has no more that are sure.
const MOST: usize = top::sketch::CAPACITY;
/// How long a command is in force, unless it says otherwise.
const USUAL_SPAN: Duration = Duration::from_mins(10);
/// The longest time for which a command is in force.
const LONGEST_SPAN: Duration = Duration::from_hours(24);

impl Watch {
    /// Adds the paths.
    pub fn add_routes(&self, routes: &Routes) {
        let shared = Arc::clone(&self.0);
        routes.get("/top", move |request| {
            let shared = Arc::clone(&shared);
            async move {
                match shared.top(&request) {
                    Ok(view) => Reply::json(200, &view),
                    Err(error) => Reply::text(400, format!("{error}\n")),
                }
            }
        });
        let shared = Arc::clone(&self.0);
        routes.get("/query-log", move |_| {
            let shared = Arc::clone(&shared);
            async move { Reply::json(200, &shared.log.report((shared.clock)())) }
        });
        let shared = Arc::clone(&self.0);
        routes.post("/query-log", move |request| {
            let shared = Arc::clone(&shared);
            async move {
                match shared.turn(&request) {
                    Ok(told) => Reply::text(200, format!("{told}\n")),
                    Err(error) => Reply::text(400, format!("{error}\n")),
                }
            }
        });
    }
}

const MEASURES: [(&str, Measure); 3] = [
    ("queries", Measure::Queries),
    ("misses", Measure::Misses),
    ("servfail", Measure::Failures),
];
const SUBJECTS: [(&str, Subject); 3] = [
    ("names", Subject::Names),
    ("clients", Subject::Clients),
    ("zones", Subject::Zones),
];

impl Shared {
    pub(crate) fn top(&self, request: &Request) -> Result<View, String> {
        let by = request.parameter("by");
        let (by, measure) = chosen(&MEASURES, by.as_deref().unwrap_or("queries"))?;
        let subjects = match request.parameter("of") {
            None => SUBJECTS.to_vec(),
            Some(of) => vec![chosen(&SUBJECTS, &of)?],
        };
        let n = match request.parameter("n") {
            None => USUAL,
            Some(n) => {
                let number = n.parse().ok().filter(|n| (1..=MOST).contains(n));
                number.ok_or_else(|| format!("`{n}` is no number from 1 to {MOST}"))?
            }
        };
        let tops = self.tops.lock().clone();
        let second = (self.clock)();
        let rankings = subjects.into_iter().map(|(of, subject)| {
            let mut threads: Vec<_> = tops.iter().map(|top| top.lock()).collect();
            let threads = threads.iter_mut().map(|top| &mut **top as &mut Top);
            let ranking = top::Ranking::of(threads, (measure, subject), second, n);
            let rows = ranking.rows.iter();
            Ranking {
                of: of.to_owned(),
                total: ranking.total,
                rows: rows.map(|row| shown(row, subject)).collect(),
            }
        });
        Ok(View {
            by: by.to_owned(),
            seconds: top::WINDOW.min(second) + second % top::WINDOW,
            rankings: rankings.collect(),
        })
    }

    pub(crate) fn turn(&self, request: &Request) -> Result<String, String> {
        let span = match request.parameter("for") {
            None => USUAL_SPAN,
            Some(text) => {
                let span: HumanDuration =
                    text.parse().map_err(|error| format!("`{text}`: {error}"))?;
                span.0
            }
        };
        if span.is_zero() || span > LONGEST_SPAN {
            let (span, longest) = (HumanDuration(span), HumanDuration(LONGEST_SPAN));
            return Err(format!("`{span}` is not from 1s to {longest}"));
        }
        let turn = request.parameter("turn").unwrap_or_default();
        let enabled = match turn.as_str() {
            "on" => true,
            "off" => false,
            "back" => {
                return Ok(self.log.change(|switch, _| {
                    switch.end_command();
                    match switch.configured().enabled {
                        true => "logging queries, as configured".to_owned(),
                        false => "logging no queries, as configured".to_owned(),
                    }
                }));
            }
            other => return Err(format!("`{other}` is none of on, off and back")),
        };
        let command = self.command(request, enabled)?;
        let until = span.as_secs().max(1);
        self.log
            .change(|switch, second| switch.obey(command, second + until));
        let told = match enabled {
            true => "logging queries",
            false => "logging no queries",
        };
        tracing::info!(turn, span = %HumanDuration(span), "An operator has turned the query log");
        Ok(format!("{told} for {}", HumanDuration(span)))
    }

    /// The log that a request wants; the rest is as configured.
    fn command(&self, request: &Request, enabled: bool) -> Result<QueryLog, String> {
        let mut command = self.log.change(|switch, _| switch.configured().clone());
        command.enabled = enabled;
        if let Some(listed) = request.parameter("class") {
            let classes = listed.split(',').map(class);
            command.classes = classes.collect::<Result<_, _>>()?;
        }
        if let Some(rate) = request.parameter("rate") {
            let number = rate.parse().ok().and_then(Whole::new);
            command.rate = number.ok_or_else(|| format!("`{rate}` is no rate from 1 to 100000"))?;
        }
        Ok(command)
    }
}

fn class(word: &str) -> Result<QueryClass, String> {
    let all = [
        QueryClass::All,
        QueryClass::Success,
        QueryClass::Denial,
        QueryClass::Error,
    ];
    let found = all.into_iter().find(|class| log::name(*class) == word);
    found.ok_or_else(|| format!("`{word}` is none of all, success, denial and error"))
}

fn chosen<T: Copy>(all: &[(&'static str, T)], word: &str) -> Result<(&'static str, T), String> {
    let found = all.iter().copied().find(|(known, _)| *known == word);
    found.ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|(known, _)| *known).collect();
        format!("`{word}` is none of {}", known.join(", "))
    })
}

fn shown(row: &top::Row, subject: Subject) -> Row {
    let item = match subject {
        Subject::Names | Subject::Zones => {
            Name::from_wire(&row.item).map_or_else(|_| String::new(), |(name, _)| name.to_string())
        }
        Subject::Clients => address(&row.item),
    };
    Row {
        item,
        count: row.count,
        error: row.error,
    }
}

fn address(octets: &[u8]) -> String {
    let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    let v6 = <[u8; 16]>::try_from(octets).map(IpAddr::from);
    v4.or(v6)
        .map_or_else(|_| String::new(), |it| it.to_string())
}
