//! The live screen: a [`View`] and a size in, lines and escape codes out.
//!
//! Every frame is the whole screen, so a resize needs nothing but the next frame. Never writes to
//! a terminal; the shell (`outpost up`) does.

use std::fmt::Write as _;

use crate::view::{MasterView, Seen, State, View, clean, rate, short};
use site::service::Service;

/// The parts of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Page {
    /// The site.
    #[default]
    Site,
    /// The site, with a question: which service is to be restarted?
    AskRestart,
    /// The logs of the services.
    Log,
    /// The site, while everything stops.
    Stopping,
}

/// How the terminal is to be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Canvas {
    /// Columns and rows.
    pub columns: usize,
    /// Rows.
    pub rows: usize,
    /// Whether colours are wanted.
    pub colour: bool,
    /// Whether the terminal shows more than ASCII.
    pub unicode: bool,
}

/// One frame, ready to be written.
pub fn frame(view: &View, page: Page, look: Canvas) -> String {
    // Synchronized update, no line wrap, home.
    let mut out = String::from("\x1b[?2026h\x1b[?7l\x1b[H");
    let lines = lines(view, page, look);
    for (index, line) in lines.iter().enumerate() {
        if index > 0 {
            out.push_str("\r\n");
        }
        // Erased first: at the last column, erasing afterwards would take the last character.
        out.push_str("\x1b[K");
        line.paint(&mut out, look);
    }
    out.push_str("\x1b[J\x1b[?2026l");
    out
}

/// The site without colours, for `outpost status`.
pub fn text(view: &View) -> String {
    let look = Canvas {
        columns: 100,
        rows: usize::MAX,
        colour: false,
        unicode: false,
    };
    let title = format!(
        "Outpost  {}, {}, up {}",
        view.site,
        view.domain,
        short(view.elapsed)
    );
    let mut lines = vec![Line::new().plain(&title), Line::default()];
    lines.extend(services(view, look));
    lines.push(Line::default());
    lines.extend(masters(view, look));
    let mut text = String::new();
    for line in lines {
        let mut painted = String::new();
        line.paint(&mut painted, look);
        text.push_str(painted.trim_end());
        text.push('\n');
    }
    text.trim().to_owned()
}

/// The lines of a frame: never more than there are rows.
fn lines(view: &View, page: Page, look: Canvas) -> Vec<Line> {
    let mut lines = vec![title(view, look)];
    if page == Page::Log {
        lines.push(Line::default());
        let room = look.rows.saturating_sub(lines.len() + 2);
        lines.extend(log(view, look, room));
        lines.resize_with(look.rows.saturating_sub(1).max(1), Line::default);
    } else {
        // An old terminal's rows are for what happens.
        if look.rows > 24 {
            lines.push(Line::default());
        }
        lines.extend(services(view, look));
        lines.push(Line::default());
        lines.extend(masters(view, look));
        lines.push(Line::default());
        lines.extend(example_lines(view));
        lines.push(Line::default());
        fit(&mut lines, view, look.rows.saturating_sub(1));
    }
    lines.push(keys(view, page));
    if lines.len() > look.rows {
        let surplus = lines.len() - look.rows;
        lines.drain(..surplus);
    }
    lines
}

/// Fills the rest with events, or makes the lines fit when there is no rest.
fn fit(lines: &mut Vec<Line>, view: &View, rows: usize) {
    let room = rows.saturating_sub(lines.len());
    if room >= 3 {
        // A heading above, an empty line below.
        lines.push(Line::new().dim(" EVENTS"));
        let skip = view.events.len().saturating_sub(room - 2);
        for (at, event) in view.events.iter().skip(skip) {
            lines.push(
                Line::new()
                    .dim(&format!(" {:>7.1}s  ", at.as_secs_f64()))
                    .plain(&format!(
                        "{:<15} {}",
                        event.subject(),
                        clean(&event.to_string())
                    )),
            );
        }
        lines.resize_with(rows, Line::default);
    } else if lines.len() > rows {
        lines.retain(|line| !line.spans.is_empty());
        lines.truncate(rows);
    } else {
        lines.resize_with(rows, Line::default);
    }
}

fn title(view: &View, look: Canvas) -> Line {
    let left = format!("  {} · {}", view.site, view.domain);
    let left = if look.unicode {
        left
    } else {
        left.replace('·', "-")
    };
    let right = format!("up {} ", short(view.elapsed));
    let used = 8 + left.chars().count() + right.chars().count();
    let gap = " ".repeat(look.columns.saturating_sub(used));
    Line::new()
        .bold(" Outpost")
        .plain(&left)
        .plain(&gap)
        .dim(&right)
}

fn services(view: &View, look: Canvas) -> Vec<Line> {
    let longest = view.running().map(|(_, row)| row.serves.chars().count());
    // As wide as it needs to be, where the terminal lets it.
    let serves = (longest.max().unwrap_or(0) + 1)
        .min(look.columns.saturating_sub(BESIDE_SERVES))
        .max(LEAST_SERVES);
    let heading = format!(
        " {:<15}{:<12}{:<serves$}{:>14} {:>6} {:>7}",
        "SERVICE", "STATE", "SERVES", "PER SECOND", "UP", "PID"
    );
    let mut lines = vec![Line::new().dim(&heading)];
    for (service, row) in view.running() {
        let mark = look.mark(row.state == State::Ready);
        let state = format!("{mark} {:<10}", row.state.word());
        let line = Line::new()
            .bold(&format!(" {:<15}", service.name()))
            .coloured(row.state.colour(), &state);
        lines.push(if let Some(reason) = row.state.reason() {
            line.plain(&clean(without_date(reason)))
        } else {
            let per_second = row.rate.map_or_else(String::new, |per_second| {
                format!("{} {}", rate(per_second), unit(service))
            });
            let uptime = row.uptime.map(short).unwrap_or_default();
            let pid = row.pid.map(|pid| pid.to_string()).unwrap_or_default();
            line.plain(&format!(
                "{:<serves$}{per_second:>14} {uptime:>6} {pid:>7}",
                whole_words(&row.serves, serves - 1)
            ))
        });
    }
    lines
}

fn masters(view: &View, look: Canvas) -> Vec<Line> {
    let mut heading = format!(" {:<15}{:<16}", "MASTER", "ADDRESS");
    for offer in &view.offers {
        // Writing to a `String` cannot fail.
        let _infallible = write!(heading, "{:<15}", format!("{} :{}", offer.what, offer.port));
    }
    let mut lines = vec![Line::new().dim(&heading)];
    lines.extend(view.masters.iter().map(|master| master_line(master, look)));
    lines
}

fn master_line(master: &MasterView, look: Canvas) -> Line {
    let mut line = Line::new()
        .bold(&format!(" {:<15}", master.name))
        .plain(&format!("{:<16}", master.address));
    for seen in &master.seen {
        let mark = look.mark(*seen == Seen::Up);
        line = line.coloured(
            seen.colour(),
            &format!("{:<15}", format!("{mark} {}", seen.word())),
        );
    }
    if master.taken_down {
        line.coloured(Colour::Yellow, "off")
    } else {
        line
    }
}

/// The last lines of the log that fit, long ones on several rows.
fn log(view: &View, look: Canvas, room: usize) -> Vec<Line> {
    let width = look.columns.saturating_sub(16).max(20);
    let mut rows = Vec::new();
    for (service, line) in view.log.iter().rev().take(room) {
        let characters: Vec<char> = clean(without_date(line)).chars().collect();
        let mut pieces: Vec<Line> = Vec::new();
        for piece in characters.chunks(width) {
            let name = if pieces.is_empty() {
                service.name()
            } else {
                ""
            };
            let text: String = piece.iter().collect();
            pieces.push(Line::new().dim(&format!(" {name:<15}")).plain(&text));
        }
        rows.extend(pieces.into_iter().rev());
    }
    rows.truncate(room);
    rows.reverse();
    rows
}

/// A line of log without the date that it begins with, which says nothing here.
fn without_date(line: &str) -> &str {
    match line.split_once('T') {
        Some((date, rest))
            if date.len() == 10 && date.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'-')) =>
        {
            rest
        }
        _ => line,
    }
}

fn example_lines(view: &View) -> Vec<Line> {
    let mut lines = vec![Line::new().dim(" TRY, in another terminal")];
    let example = |line: &String| Line::new().plain("   ").coloured(Colour::Cyan, line);
    lines.extend(view.commands.iter().map(example));
    lines
}

fn keys(view: &View, page: Page) -> Line {
    match page {
        Page::Site => {
            let digits: Vec<String> = (0..view.masters.len()).map(|n| n.to_string()).collect();
            Line::new()
                .key(&digits.join(" "), "master down or up")
                .key("r", "restart a service")
                .key("l", "log")
                .key("q", "quit")
        }
        Page::AskRestart => clusterd_key(view, Line::new().bold(" Restart:").key("h", "healthd"))
            .key("a", "dns-authd")
            .key("r", "dns-recursor")
            .key("p", "lb-proxy")
            .key("s", "registry-svc")
            .key("t", "timesync-agent")
            .key("Esc", "none"),
        Page::Log => Line::new().key("l", "back to the site").key("q", "quit"),
        Page::Stopping => Line::new().bold(" Stopping.").key("q", "kill what is left"),
    }
}

/// Appends the key of clusterd, if it runs.
fn clusterd_key(view: &View, line: Line) -> Line {
    match view.services.clusterd.state {
        State::Absent => line,
        _ => line.key("c", "clusterd"),
    }
}

/// The unit of a service's rate.
fn unit(service: Service) -> &'static str {
    match service {
        Service::Healthd => "probes",
        Service::Clusterd => "events",
        Service::DnsAuthd | Service::DnsRecursor => "queries",
        Service::LbProxy => "sessions",
        Service::RegistrySvc | Service::TimesyncAgent => "requests",
    }
}

fn cut(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

/// As many whole words as there is room for; the beginning of the first, when even that is too long.
fn whole_words(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let ends = text.match_indices(' ').map(|(end, _)| end);
    let words =
        ends.filter_map(|end| Some(text.get(..end)?.trim_end_matches([',', ';', ':', ' '])));
    let fitting = words.take_while(|words| words.chars().count() <= width);
    match fitting.last() {
        None | Some("") => cut(text, width),
        Some(words) => words.to_owned(),
    }
}

/// The columns of the table of services that are not for what they serve.
const BESIDE_SERVES: usize = 57;
/// The column for what they serve is at least as wide, the blank after it included.
const LEAST_SERVES: usize = 23;

impl Canvas {
    fn mark(self, good: bool) -> char {
        match (self.unicode, good) {
            (true, true) => '●',
            (true, false) => '○',
            (false, true) => '*',
            (false, false) => '-',
        }
    }
}

impl State {
    fn colour(&self) -> Colour {
        match self {
            Self::Ready => Colour::Green,
            Self::NotReady(_) | Self::Died(_) => Colour::Red,
            Self::Absent | Self::Waiting | Self::Starting | Self::Stopping | Self::Stopped => {
                Colour::Yellow
            }
        }
    }
}

impl Seen {
    fn colour(self) -> Colour {
        match self {
            Self::Unknown => Colour::Yellow,
            Self::Up => Colour::Green,
            Self::Down => Colour::Red,
        }
    }
}

//--- Lines

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Colour {
    Plain,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

impl Colour {
    /// Parameters of "select graphic rendition".
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "0",
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Cyan => "36",
        }
    }
}

/// A line of coloured pieces.
#[derive(Clone, Debug, Default)]
struct Line {
    spans: Vec<(Colour, String)>,
}

impl Line {
    fn new() -> Self {
        Self::default()
    }

    fn coloured(mut self, colour: Colour, text: &str) -> Self {
        self.spans.push((colour, text.to_owned()));
        self
    }

    fn plain(self, text: &str) -> Self {
        self.coloured(Colour::Plain, text)
    }

    fn bold(self, text: &str) -> Self {
        self.coloured(Colour::Bold, text)
    }

    fn dim(self, text: &str) -> Self {
        self.coloured(Colour::Dim, text)
    }

    fn key(self, key: &str, does: &str) -> Self {
        self.plain(" ").bold(key).dim(&format!(" {does}  "))
    }

    /// Appends the line, cut at the last column.
    fn paint(&self, out: &mut String, look: Canvas) {
        let mut room = look.columns;
        for (colour, text) in &self.spans {
            let text = cut(text, room);
            room -= text.chars().count();
            if look.colour && *colour != Colour::Plain && !text.is_empty() {
                // Writing to a `String` cannot fail.
                let _infallible = write!(out, "\x1b[{}m{text}\x1b[0m", colour.code());
            } else {
                out.push_str(&text);
            }
        }
    }
}

#[cfg(test)]
mod tests;
