//! The agent's page: the clock, what it did, and its sources, for a browser.
//!
//! Made from one view and the history, without scripts; it loads nothing from elsewhere, because a site may be cut off
//! from everything. The plots are drawn as SVG in the page itself.

use std::fmt::{self, Write as _};

use config_text::web::markup;

use time_model::history::{History, Ring, Slot};
use time_model::labels;
use time_model::time::SECOND;
use time_model::view::{SourceState, SourceView, View};

/// How often a browser asks again, in seconds.
const REFRESH: u32 = 5;

/// A plot's size in its own units; the browser scales it.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 120.0;

const STYLE: &str = "\
:root{color-scheme:light dark;--up:#1a7f37;--down:#cf222e;--unknown:#9a6700;--line:#8884;--curve:#0969da}\
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}\
h1{font-size:1.3rem;margin:0}h2{font-size:1rem;margin:1.5rem 0 .3rem}\
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.25rem .8rem .25rem 0;border-top:1px solid var(--line)}\
th{font-weight:600}.number{text-align:right;font-variant-numeric:tabular-nums}\
dl{display:grid;grid-template-columns:max-content auto;gap:.1rem 1rem;margin:.5rem 0}dt{font-weight:600}dd{margin:0}\
.locked,.local,.best,.combined{color:var(--up)}.unsynchronised,.falseticker{color:var(--down);font-weight:600}\
.syncing,.holdover,.unselectable,.too-variable{color:var(--unknown)}\
figure{margin:.3rem 0}svg{width:100%;height:auto;border-top:1px solid var(--line)}\
svg text{font-size:11px;fill:currentColor}.band{fill:var(--curve);opacity:.25}\
.curve{fill:none;stroke:var(--curve);stroke-width:1.5}.zero{stroke:var(--line)}\
@media(prefers-color-scheme:dark){:root{--up:#3fb950;--down:#ff7b72;--unknown:#d29922;--curve:#58a6ff}}";

/// The page for what is seen and what was.
#[must_use]
pub fn render(view: &View, history: &History) -> String {
    let mut page = String::new();
    // Writing to a string does not fail.
    let _written = write_page(&mut page, view, history);
    page
}

fn write_page(page: &mut String, view: &View, history: &History) -> fmt::Result {
    let title = markup(&labels::summary(view));
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"refresh\" content=\"{REFRESH}\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{title}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n\
         <h1>Clock: <span class=\"{}\">{title}</span></h1>\n",
        labels::state(view.state),
    )?;
    facts(page, view)?;
    for ring in [&history.hour, &history.days] {
        plots(page, ring)?;
    }
    sources(page, view)?;
    page.push_str("</body>\n</html>\n");
    Ok(())
}

fn facts(page: &mut String, view: &View) -> fmt::Result {
    let tracking = &view.tracking;
    page.push_str("<dl>\n");
    let facts = [
        ("left to correct", labels::offset(tracking.correction)),
        ("last offset", labels::offset(tracking.last_offset)),
        ("RMS offset", labels::seconds(tracking.rms_offset)),
        (
            "frequency",
            format!(
                "{:+.3} ppm, within {:.3} ppm",
                tracking.frequency, tracking.skew
            ),
        ),
        (
            "root distance",
            labels::seconds(labels::root_distance(view)),
        ),
        ("leap", labels::leap(tracking.leap).to_owned()),
    ];
    for (name, value) in facts {
        writeln!(page, "<dt>{name}</dt><dd>{value}</dd>")?;
    }
    page.push_str("</dl>\n");
    Ok(())
}

fn sources(page: &mut String, view: &View) -> fmt::Result {
    page.push_str("<h2>Sources</h2>\n");
    if view.sources.is_empty() {
        page.push_str("<p>No source is configured.</p>\n");
        return Ok(());
    }
    page.push_str(
        "<table>\n<tr><th>state</th><th>source</th><th class=\"number\">stratum</th><th class=\"number\">poll</th>\
         <th class=\"number\">reach</th><th class=\"number\">last sample</th><th class=\"number\">offset</th>\
         <th class=\"number\">error</th></tr>\n",
    );
    for source in &view.sources {
        source_row(page, source, view)?;
    }
    page.push_str("</table>\n");
    Ok(())
}

fn source_row(page: &mut String, source: &SourceView, view: &View) -> fmt::Result {
    let state = labels::source_state(source.state);
    let class = state.replace(' ', "-");
    let address = match source.address {
        Some(address) if address.to_string() != source.name => format!(" ({address})"),
        _ => String::new(),
    };
    let last = labels::age(source.last_sample, view.now.raw);
    let (offset, error) = match source.last_sample {
        Some(_) => (
            labels::offset(source.adjusted_offset),
            labels::seconds(source.root_distance),
        ),
        None => ("-".to_owned(), "-".to_owned()),
    };
    let shown = match source.state {
        SourceState::Unselectable if !source.online => "offline",
        _ => state,
    };
    writeln!(
        page,
        "<tr><td class=\"{class}\">{shown}</td><td>{}{address}</td><td class=\"number\">{}</td>\
         <td class=\"number\">{}</td><td class=\"number\">{:o}</td><td class=\"number\">{last}</td>\
         <td class=\"number\">{offset}</td><td class=\"number\">{error}</td></tr>",
        markup(&source.name),
        source.stratum,
        labels::poll(source.poll),
        source.reach,
    )
}

//--- Plots

/// Offset and frequency over one stretch.
fn plots(page: &mut String, ring: &Ring) -> fmt::Result {
    let slots: Vec<&Slot> = ring.slots().collect();
    let (Some(first), Some(last)) = (slots.first(), slots.last()) else {
        return Ok(());
    };
    if slots.len() < 2 {
        return Ok(());
    }
    writeln!(page, "<h2>{}</h2>", capitalised(ring.title))?;
    let span = (first.number, last.number);
    let offsets: Vec<Point> = slots
        .iter()
        .map(|slot| Point {
            number: slot.number,
            low: slot.lowest,
            high: slot.highest,
            value: slot.offset,
        })
        .collect();
    let frequencies: Vec<Point> = slots
        .iter()
        .map(|slot| Point {
            number: slot.number,
            low: slot.frequency,
            high: slot.frequency,
            value: slot.frequency,
        })
        .collect();
    plot(page, "Offset", &offsets, span, labels::offset)?;
    let ppm = |value: f64| format!("{value:+.3} ppm");
    plot(page, "Frequency", &frequencies, span, ppm)?;
    writeln!(
        page,
        "<p>From {} to {}.</p>",
        time_of_day(first),
        time_of_day(last)
    )
}

/// The shape of a slot.
struct Point {
    number: i64,
    low: f64,
    high: f64,
    value: f64,
}

fn plot(
    page: &mut String,
    name: &str,
    points: &[Point],
    (first, last): (i64, i64),
    label: impl Fn(f64) -> String,
) -> fmt::Result {
    let lowest = points
        .iter()
        .map(|point| point.low)
        .fold(f64::MAX, f64::min);
    let highest = points
        .iter()
        .map(|point| point.high)
        .fold(f64::MIN, f64::max);
    let height = (highest - lowest).max(f64::MIN_POSITIVE);
    let scale = Scale {
        first,
        width: (last - first).max(1),
        lowest,
        height,
    };
    write!(
        page,
        "<figure><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\"><title>{name}: {} to {}</title>",
        label(lowest),
        label(highest)
    )?;
    if lowest < 0.0 && highest > 0.0 {
        let zero = scale.y(0.0);
        write!(
            page,
            "<line class=\"zero\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{zero:.1}\" y2=\"{zero:.1}\"/>"
        )?;
    }
    for run in runs(points) {
        band(page, run, &scale)?;
        page.push_str("<polyline class=\"curve\" points=\"");
        for point in run {
            write!(
                page,
                "{:.1},{:.1} ",
                scale.x(point.number),
                scale.y(point.value)
            )?;
        }
        page.push_str("\"/>");
    }
    writeln!(
        page,
        "<text x=\"4\" y=\"12\">{name} {}</text><text x=\"4\" y=\"{}\">{}</text></svg></figure>",
        label(highest),
        HEIGHT - 4.0,
        label(lowest)
    )
}

/// Between the lowest and the highest values of a run.
fn band(page: &mut String, run: &[Point], scale: &Scale) -> fmt::Result {
    if run.len() < 2 || run.iter().all(|point| point.low >= point.high) {
        return Ok(());
    }
    page.push_str("<polygon class=\"band\" points=\"");
    for point in run {
        write!(
            page,
            "{:.1},{:.1} ",
            scale.x(point.number),
            scale.y(point.high)
        )?;
    }
    for point in run.iter().rev() {
        write!(
            page,
            "{:.1},{:.1} ",
            scale.x(point.number),
            scale.y(point.low)
        )?;
    }
    page.push_str("\"/>");
    Ok(())
}

/// Points as far as they belong together: a long silence between two of them is a gap.
fn runs(points: &[Point]) -> impl Iterator<Item = &[Point]> {
    // Polls may be far apart, at 1024 s a hundred slots of the fine ring: a gap is longer than the usual interval.
    let mut steps: Vec<i64> = points
        .iter()
        .zip(points.iter().skip(1))
        .map(|(before, after)| after.number - before.number)
        .collect();
    steps.sort_unstable();
    let usual = steps.get(steps.len() / 2).copied().unwrap_or(1);
    points.chunk_by(move |before, after| after.number - before.number <= usual * 4)
}

/// From slots and values to places in the picture.
struct Scale {
    first: i64,
    width: i64,
    lowest: f64,
    height: f64,
}

impl Scale {
    #[expect(clippy::cast_precision_loss, reason = "a ring has a few hundred slots")]
    fn x(&self, number: i64) -> f64 {
        (number - self.first) as f64 / self.width as f64 * WIDTH
    }

    fn y(&self, value: f64) -> f64 {
        // A margin of 4 above and below; a line without height lies in the middle.
        let share = (value - self.lowest) / self.height;
        let share = if self.height <= f64::MIN_POSITIVE {
            0.5
        } else {
            share
        };
        (HEIGHT - 8.0).mul_add(1.0 - share, 4.0)
    }
}

/// `09:31 UTC`.
fn time_of_day(slot: &Slot) -> String {
    let minutes = slot.wall.0.div_euclid(SECOND * 60).rem_euclid(24 * 60);
    format!("{:02}:{:02} UTC", minutes / 60, minutes % 60)
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use time_model::time::{RawTime, Reading, UnixTime};
    use time_model::view::{ClockState, Tracking};

    fn view(seconds: i64, n_updates: u64, update_offset: f64) -> View {
        View {
            now: Reading {
                raw: RawTime(seconds * SECOND),
                wall: UnixTime((34_260 + seconds) * SECOND),
            },
            state: ClockState::Locked,
            tracking: Tracking {
                n_updates,
                update_offset,
                last_offset: update_offset,
                stratum: 3,
                address: "192.0.2.1".parse().ok(),
                frequency: -12.5,
                ..Tracking::default()
            },
            ..View::default()
        }
    }

    fn with_source(mut view: View) -> View {
        view.sources.push(SourceView {
            name: "ntp.example.org".to_owned(),
            address: "192.0.2.1".parse().ok(),
            state: SourceState::Best,
            stratum: 2,
            poll: 6,
            reach: 0o377,
            online: true,
            last_sample: Some(view.now.raw),
            adjusted_offset: -12e-6,
            root_distance: 1e-3,
            ..SourceView::default()
        });
        view
    }

    #[test]
    fn the_clock_its_sources_and_its_course_are_shown() {
        let mut history = History::default();
        for update in 1..=20 {
            let offset = f64::from(i32::try_from(update).unwrap() - 10) * 1e-6;
            history.note(&view(i64::try_from(update).unwrap() * 64, update, offset));
        }
        let page = render(&with_source(view(1_280, 20, 1e-5)), &history);
        for part in [
            "<h1>Clock: <span class=\"locked\">locked to ntp.example.org, stratum 3</span></h1>",
            "<td class=\"best\">best</td><td>ntp.example.org (192.0.2.1)</td>",
            "<td class=\"number\">377</td>",
            "<td class=\"number\">-12.000 µs</td>",
            "<title>Offset: -9.000 µs to +10.000 µs</title>",
            "<line class=\"zero\"",
            "<title>Frequency: -12.500 ppm to -12.500 ppm</title>",
            "<h2>The last hour</h2>",
            "From 09:32 UTC to 09:52 UTC.",
        ] {
            assert!(page.contains(part), "no {part} in {page}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    }

    #[test]
    fn points_stay_within_the_picture() {
        let mut history = History::default();
        for (update, offset) in (1..).zip([0.5, -0.5, 1e-9, 0.25]) {
            history.note(&view(i64::try_from(update).unwrap() * 16, update, offset));
        }
        let page = render(&view(64, 4, 0.25), &history);
        let mut n_points = 0;
        for part in page.split("points=\"").skip(1) {
            for point in part.split('"').next().unwrap().split_whitespace() {
                let (x, y) = point.split_once(',').unwrap();
                let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
                assert!(
                    (0.0..=WIDTH).contains(&x) && (0.0..=HEIGHT).contains(&y),
                    "{point}"
                );
                n_points += 1;
            }
        }
        assert!(n_points >= 8, "{n_points}");
    }

    #[test]
    fn silence_is_a_gap() {
        let mut history = History::default();
        for (update, at) in (1..).zip([0, 64, 128, 192, 1_500, 1_564, 1_628]) {
            history.note(&view(at, update, 1e-6));
        }
        let page = render(&view(1_628, 7, 1e-6), &history);
        let of_offset = page.split("<figure>").nth(1).unwrap();
        assert_eq!(
            of_offset.matches("class=\"curve\"").count(),
            2,
            "{of_offset}"
        );
    }

    #[test]
    fn an_agent_that_knows_nothing_has_a_page() {
        let page = render(&View::default(), &History::default());
        assert!(page.contains("No source is configured.") && !page.contains("<svg"));
    }

    #[test]
    fn a_name_is_text() {
        let mut view = with_source(view(0, 1, 0.0));
        view.sources[0].name = "<script>".to_owned();
        let page = render(&view, &History::default());
        assert!(page.contains("&lt;script&gt;") && !page.contains("<script>"));
    }
}
