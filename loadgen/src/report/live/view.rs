//! Draws a run: a pure function from the history of the run to the cells of a screen of any size.
//!
//! If there is not enough space, the least important parts are omitted; the bar of the phase is the
//! last to go. Only the terminal's own colours are used, so the view suits dark and light
//! terminals.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::About;
use super::history::{History, Phase};
use super::plots;
use crate::units::{
    count_for_people as count, counted, number_for_people, seconds_for_people, wrapped,
};

/// The number of columns for a number with its label, on narrow and on wider screens.
const METRIC_COLUMNS: [u16; 2] = [20, 26];

/// The minimum width of a screen that does not count as narrow.
const NARROW: u16 = 60;

/// The minimum width of a bar.
const BAR_MIN: usize = 8;

/// The state of the view at the moment of drawing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Real time since the start.
    pub(super) seconds: f64,
    /// Whether the run was asked to stop.
    pub(super) stopping: bool,
    /// Whether keys are read.
    pub(super) has_keys: bool,
}

/// The styles. Without colours, they differ only in weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Palette {
    pub(super) strong: Style,
    pub(super) faint: Style,
    pub(super) bar: Style,
    pub(super) alert: Style,
    /// The style of existing pods, which differs from that of ready ones; `None` if the two could
    /// not be distinguished.
    pub(super) existing: Style,
    pub(super) ready: Option<Style>,
}

impl Palette {
    fn new(coloured: bool) -> Palette {
        let plain = Style::new();
        let colour = |colour| if coloured { plain.fg(colour) } else { plain };
        Palette {
            strong: plain.add_modifier(Modifier::BOLD),
            faint: plain.add_modifier(Modifier::DIM),
            bar: colour(Color::Cyan),
            alert: colour(Color::Red).add_modifier(Modifier::BOLD),
            existing: colour(Color::Cyan),
            ready: coloured.then(|| plain.fg(Color::Green)),
        }
    }
}

/// Draws the run into `area`, which may have any size, including zero.
pub(super) fn draw(
    about: &About,
    history: &History,
    moment: Moment,
    area: Rect,
    buffer: &mut Buffer,
) {
    // Leave a margin on the left and the right if there is enough space.
    let margin = u16::from(area.width >= NARROW);
    let area = Rect {
        x: area.x + margin,
        width: area.width - 2 * margin,
        ..area
    };
    let palette = Palette::new(about.coloured);
    let width = usize::from(area.width);
    let metrics = metrics(about, history, moment);
    let across = (area.width / METRIC_COLUMNS[usize::from(area.width >= NARROW)]).max(1);
    let numbers = metrics.len().div_ceil(usize::from(across)) as u16;
    let texts = Texts::new(about, history, width);

    // Assign the rows by importance first, and then arrange them from top to bottom.
    let mut rows = Rows(area.height);
    let bar = rows.take(1);
    let phase = rows.take(1);
    let title = rows.take(1);
    let keys = rows.take(1);
    let numbers = rows.take_some(numbers);
    let gap = rows.take_if(1, 4);
    // On a large screen, the plots get most rows; on a small one, the text gets the rest.
    let question = rows.take_if(texts.question.len() as u16, 9);
    let cluster = rows.take_if(texts.cluster.len() as u16, 9);
    let passed = rows.take_if(texts.passed.len() as u16, 9);
    let lower_gap = rows.take_if(1, 8);
    let plots = rows.0;
    let heights = [
        title, question, cluster, gap, passed, phase, bar, numbers, lower_gap, plots, keys,
    ];
    let [
        title,
        question,
        cluster,
        _,
        passed,
        phase,
        bar,
        numbers,
        _,
        plots,
        keys,
    ] = Layout::vertical(heights.map(Constraint::Length)).areas(area);

    line(title_line(about, width, palette), title, buffer);
    lines(&texts.question, palette.faint, question, buffer);
    lines(&texts.cluster, palette.faint, cluster, buffer);
    lines(&texts.passed, palette.faint, passed, buffer);
    match history.phase.as_ref() {
        Some(present) => {
            line(phase_line(present, palette), phase, buffer);
            line(bar_line(present, width, palette), bar, buffer);
        }
        None => line(Line::from("building the cluster"), phase, buffer),
    }
    draw_metrics(&metrics, usize::from(across), palette, numbers, buffer);
    draw_plots(history, moment, palette, plots, buffer);
    line(keys_line(moment, width, palette), keys, buffer);
}

/// The number of rows that are not assigned yet.
struct Rows(u16);

impl Rows {
    /// Takes the requested number of rows, or all remaining ones if there are fewer.
    fn take_some(&mut self, wanted: u16) -> u16 {
        let taken = wanted.min(self.0);
        self.0 -= taken;
        taken
    }

    /// Takes the requested number of rows, or none if there are fewer.
    fn take(&mut self, wanted: u16) -> u16 {
        self.take_if(wanted, 0)
    }

    /// Takes the requested number of rows if at least `rest` rows remain, otherwise none.
    fn take_if(&mut self, wanted: u16, rest: u16) -> u16 {
        let fits = wanted <= self.0 && self.0 - wanted >= rest;
        self.take_some(if fits { wanted } else { 0 })
    }
}

/// The texts, wrapped into lines.
struct Texts {
    question: Vec<String>,
    cluster: Vec<String>,
    passed: Vec<String>,
}

impl Texts {
    fn new(about: &About, history: &History, width: usize) -> Texts {
        let mut cluster = wrapped(&about.cluster, width);
        cluster.extend(about.notes.iter().flat_map(|note| wrapped(note, width)));
        let of_phase =
            |(name, seconds): &(String, f64)| format!("{name} {}", seconds_for_people(*seconds));
        let passed: Vec<String> = history.passed.iter().map(of_phase).collect();
        let passed = match passed.is_empty() {
            true => Vec::new(),
            false => wrapped(&format!("done: {}", passed.join("; ")), width),
        };
        Texts {
            question: wrapped(&about.question, width),
            cluster,
            passed,
        }
    }
}

fn line(line: Line<'_>, area: Rect, buffer: &mut Buffer) {
    if !area.is_empty() {
        line.render(area, buffer);
    }
}

fn lines(texts: &[String], style: Style, area: Rect, buffer: &mut Buffer) {
    for (text, row) in texts.iter().zip(area.rows()) {
        line(Line::styled(text.as_str(), style), row, buffer);
    }
}

fn title_line(about: &About, width: usize, palette: Palette) -> Line<'_> {
    let mut spans = vec![Span::styled(about.scenario.as_str(), palette.strong)];
    if about.scenario.len() + 2 + about.engine.len() <= width {
        spans.push(Span::raw(format!("  {}", about.engine)));
    }
    Line::from(spans)
}

fn phase_line(phase: &Phase, palette: Palette) -> Line<'_> {
    Line::from(vec![
        Span::raw(format!("phase {} of {}  ", phase.index + 1, phase.count)),
        Span::styled(phase.name.as_str(), palette.strong),
    ])
}

/// Returns the bar with its percentage and pods; omits parts that don't fit.
fn bar_line(phase: &Phase, width: usize, palette: Palette) -> Line<'static> {
    let total = phase.total.max(phase.done);
    if phase.total == 0 {
        // The target of the phase is not known yet, or the phase only waits.
        return Line::from(match phase.done {
            0 => "under way".to_owned(),
            done => format!("under way: {} became ready", counted(done, "pod")),
        });
    }
    let share = phase.done as f64 / total as f64;
    // Round down, so that 100 % means all.
    let percent = format!("{:>4} %", (share * 100.0).floor());
    let pods = format!("  {} of {}", count(phase.done), counted(total, "pod"));
    let text = match percent.len() + pods.len() + BAR_MIN <= width {
        true => percent + &pods,
        false => percent,
    };
    let columns = width.saturating_sub(text.len());
    let filled = (share * columns as f64).floor() as usize;
    Line::from(vec![
        Span::styled("█".repeat(filled), palette.bar),
        Span::styled("░".repeat(columns - filled), palette.faint),
        Span::raw(text),
    ])
}

/// Returns the labelled numbers, the most important ones first.
fn metrics(about: &About, history: &History, moment: Moment) -> Vec<(&'static str, String)> {
    let (last, unknown) = (history.last(), || "-".to_owned());
    let rate = |rate: Option<f64>| rate.map_or_else(unknown, number_for_people);
    let mut metrics = vec![
        ("pod changes", format!("{}/s", rate(history.rate()))),
        ("queue", count(last.queue)),
        (
            "time left",
            history.seconds_left().map_or_else(unknown, brief),
        ),
        ("real time", brief(moment.seconds)),
    ];
    if about.is_virtual {
        metrics.push(("simulated", seconds_for_people(history.engine_seconds)));
    }
    metrics.extend([
        ("exist", count(last.pods)),
        ("ready", count(last.ready)),
        ("desired", count(last.desired)),
        ("API calls", count(last.calls)),
        ("calls", format!("{}/s", rate(history.calls_rate()))),
    ]);
    metrics
}

/// Formats seconds that keep changing, without the digits that change too fast to read.
fn brief(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 10.0 => format!("{seconds:.1} s"),
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds => seconds_for_people(seconds),
    }
}

fn draw_metrics(
    metrics: &[(&str, String)],
    across: usize,
    palette: Palette,
    area: Rect,
    buffer: &mut Buffer,
) {
    for (row, metrics) in area.rows().zip(metrics.chunks(across)) {
        let cells = Layout::horizontal(vec![Constraint::Fill(1); across]).split(row);
        for (cell, (label, value)) in cells.iter().zip(metrics) {
            let text = Line::from(vec![
                Span::styled(format!("{label} "), palette.faint),
                Span::styled(value.as_str(), palette.strong),
            ]);
            line(text, *cell, buffer);
        }
    }
}

/// Draws the pods over time and, below, rate and queue side by side. If space is short, omits the
/// upper plot.
fn draw_plots(
    history: &History,
    moment: Moment,
    palette: Palette,
    area: Rect,
    buffer: &mut Buffer,
) {
    let lower = match area.height {
        0..=1 => return,
        2..=8 => area.height,
        height => (height / 3).clamp(3, 10),
    };
    let [upper, lower] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(lower)]).areas(area);
    if upper.height > 0 {
        plots::pods(history, moment.seconds, palette, upper, buffer);
    }
    let [left, right] = Layout::horizontal([Constraint::Fill(1); 2])
        .spacing(2)
        .areas(lower);
    // Begin with the current phase: the rate of the previous one may be a thousand times higher,
    // and the current rate would look flat beside it.
    let began_at = history.phase.as_ref().map_or(0.0, |phase| phase.began_at);
    let (samples, seconds) = (history.samples_since(began_at), moment.seconds - began_at);
    let rates = plots::rates(&samples, seconds, usize::from(left.width));
    plots::bars("pods created, deleted/s", rates, palette, left, buffer);
    let depths = plots::depths(&samples, seconds, usize::from(right.width));
    plots::bars("queue depth", depths, palette, right, buffer);
}

fn keys_line(moment: Moment, width: usize, palette: Palette) -> Line<'static> {
    let (long, short) = match (moment.stopping, moment.has_keys) {
        (true, true) => (
            "stopping; q again exits immediately, without a report",
            "stopping; q again: exit",
        ),
        (true, false) => (
            "stopping; Ctrl-C again exits immediately, without a report",
            "stopping",
        ),
        (false, true) => (
            "q or Ctrl-C: stop and report on what ran",
            "q: stop and report",
        ),
        (false, false) => (
            "Ctrl-C: stop and report on what ran",
            "Ctrl-C: stop and report",
        ),
    };
    let style = match moment.stopping {
        true => palette.alert,
        false => palette.faint,
    };
    let text = if long.len() <= width { long } else { short };
    Line::styled(text, style)
}
