//! Plots over time: pods as lines over the whole run; rate and queue as bars over the current
//! phase. The time is real time, on the virtual engine, too.

use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Chart, Dataset, GraphType, Sparkline, Widget};

use super::history::{History, Sample};
use super::view::Palette;
use crate::units::{count_for_people as count, seconds_for_people};

/// Plots the desired, existing and ready pods over time.
pub(super) fn pods(
    history: &History,
    seconds: f64,
    palette: Palette,
    area: Rect,
    buffer: &mut Buffer,
) {
    let [legend, area] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let mut words = vec![
        Span::raw("pods  "),
        Span::styled("• desired  ", palette.faint),
        Span::styled("─ exist  ", palette.existing),
    ];
    words.extend(palette.ready.map(|style| Span::styled("─ ready", style)));
    Line::from(words).render(legend, buffer);

    let samples = &history.samples;
    let line = |figure: fn(&Sample) -> u64| -> Vec<(f64, f64)> {
        let mut points: Vec<_> = samples
            .iter()
            .map(|sample| (sample.at, figure(sample) as f64))
            .collect();
        // The last known value holds until now.
        points.extend(points.last().map(|(_, value)| (seconds, *value)));
        points
    };
    let desired = line(|sample| sample.desired);
    let existing = line(|sample| sample.pods);
    let ready = line(|sample| sample.ready);
    let all = || desired.iter().chain(&existing).chain(&ready);
    let top = round_up(all().map(|(_, value)| *value).fold(1.0, f64::max));
    let dataset = |points, marker, style| {
        Dataset::default()
            .data(points)
            .marker(marker)
            .graph_type(GraphType::Line)
            .style(style)
    };
    let mut datasets = vec![
        dataset(&desired, Marker::Dot, palette.faint),
        dataset(&existing, Marker::Braille, palette.existing),
    ];
    if let Some(style) = palette.ready {
        datasets.push(dataset(&ready, Marker::Braille, style));
    }
    let end = format!("{} of real time", seconds_for_people(seconds.round()));
    let times = ["0 s".to_owned(), end];
    let counts = ["0".to_owned(), count(top as u64)];
    let x = Axis::default()
        .bounds([0.0, seconds.max(f64::MIN_POSITIVE)])
        .labels(times)
        .style(palette.faint);
    let y = Axis::default()
        .bounds([0.0, top])
        .labels(counts)
        .labels_alignment(Alignment::Right)
        .style(palette.faint);
    Chart::new(datasets)
        .x_axis(x)
        .y_axis(y)
        .legend_position(None)
        .render(area, buffer);
}

/// Rounds a number up to one that has few digits, followed by zeros.
fn round_up(value: f64) -> f64 {
    let unit = 10f64.powf(value.log10().floor());
    let factors = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    // Use the largest factor if rounding errors exclude all of them.
    let fits = |factor: &&f64| **factor * unit >= value;
    factors.iter().find(fits).unwrap_or(&10.0) * unit
}

/// Draws a title and below it bars, one per column.
pub(super) fn bars(
    title: &'static str,
    values: Vec<u64>,
    palette: Palette,
    area: Rect,
    buffer: &mut Buffer,
) {
    let [above, area] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let highest = values.iter().max().copied().unwrap_or(0);
    let highest = format!("  up to {} in this phase", count(highest));
    let words = [Span::raw(title), Span::styled(highest, palette.faint)];
    Line::from_iter(words).render(above, buffer);
    Sparkline::default()
        .data(values)
        .style(palette.bar)
        .render(area, buffer);
}

/// Returns the column for a time.
fn column(at: f64, seconds: f64, width: usize) -> usize {
    let share = if seconds > 0.0 { at / seconds } else { 0.0 };
    ((share * width as f64) as usize).min(width.saturating_sub(1))
}

/// Returns, for each of `width` columns, how many pods were created and removed per second.
pub(super) fn rates(samples: &[Sample], seconds: f64, width: usize) -> Vec<u64> {
    fill(samples, seconds, width, |from, to, value: &mut f64| {
        let passed = to.at - from.at;
        if passed > 0.0 {
            *value = value.max(to.changes.saturating_sub(from.changes) as f64 / passed);
        }
    })
    .into_iter()
    .map(|rate| rate.round() as u64)
    .collect()
}

/// Returns, for each of `width` columns, the maximum number of waiting keys.
pub(super) fn depths(samples: &[Sample], seconds: f64, width: usize) -> Vec<u64> {
    fill(samples, seconds, width, |_, to, value: &mut u64| {
        *value = (*value).max(to.queue);
    })
}

/// Calls `apply` with each pair of adjacent samples, once for every column that the pair spans.
fn fill<T: Clone + Default>(
    samples: &[Sample],
    seconds: f64,
    width: usize,
    apply: impl Fn(&Sample, &Sample, &mut T),
) -> Vec<T> {
    let mut values = vec![T::default(); width];
    for two in samples.windows(2) {
        let (from, to) = (&two[0], &two[1]);
        let columns = column(from.at, seconds, width)..=column(to.at, seconds, width);
        if let Some(values) = values.get_mut(columns) {
            values.iter_mut().for_each(|value| apply(from, to, value));
        }
    }
    values
}
