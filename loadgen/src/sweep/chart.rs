//! Where the marks of a chart go: ticks of an axis, places of a heat map's cells and of a plot's lines,
//! in units of an SVG's view box. What they look like is the page's.

use serde::Serialize;

use crate::metrics::Unit;

/// Shades of a heat map, from the least value to the greatest.
pub const SHADES: usize = 7;

/// Most lines of a plot: more can't be told apart.
pub const LINES_MAX: usize = 8;

/// Height of a row, and least width of a column, of a heat map.
const ROW: f64 = 34.0;
const COLUMN: f64 = 84.0;

/// A character of the labels is about so wide.
const CHARACTER: f64 = 7.2;

/// A plot's area of lines.
const PLOT: (f64, f64) = (420.0, 220.0);

/// Ticks of an axis from 0 to at least `most`: whole steps of 1, 2 or 5 times a power of ten, or, of
/// times from a minute on, of a clock's.
pub fn ticks(most: f64, unit: Unit) -> Vec<f64> {
    if !most.is_finite() || most <= 0.0 {
        return vec![0.0, 1.0];
    }
    let least_step = most / 5.0;
    let clock = [
        15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 21_600.0, 86_400.0,
    ];
    let of_clock = clock.into_iter().find(|step| *step >= least_step);
    let step = match of_clock {
        Some(step) if unit == Unit::Seconds && most >= 60.0 => step,
        _ => {
            let power = 10_f64.powf(least_step.log10().floor());
            let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
            let fits = steps
                .into_iter()
                .find(|step| *step >= least_step * (1.0 - 1e-9));
            fits.unwrap_or(10.0 * power)
        }
    };
    // Things are whole.
    let step = if unit == Unit::Count {
        step.max(1.0)
    } else {
        step
    };
    let count = (most / step - 1e-9).ceil().max(1.0) as usize;
    (0..=count).map(|number| number as f64 * step).collect()
}

/// A value of one cell, by its place in the two dimensions.
#[derive(Clone, Debug)]
pub struct Value {
    /// Along the first dimension.
    pub x: usize,
    /// Along the second.
    pub y: usize,
    /// The value; absent where the cell has none.
    pub value: Option<f64>,
    /// For people.
    pub text: String,
    /// What is shown when it is pointed at.
    pub title: String,
    /// Whether it is the cheapest that keeps the thresholds.
    pub is_cheapest: bool,
}

/// A heat map, ready to be drawn.
#[derive(Clone, Debug, Serialize)]
pub struct HeatMap {
    width: String,
    height: String,
    columns: Vec<Label>,
    rows: Vec<Label>,
    cells: Vec<Tile>,
    x_name: String,
    y_name: String,
    x_name_at: String,
    x_name_y: String,
}

/// A text with its place.
#[derive(Clone, Debug, Serialize)]
pub struct Label {
    x: String,
    y: String,
    text: String,
}

/// A cell of a heat map.
#[derive(Clone, Debug, Serialize)]
struct Tile {
    x: String,
    y: String,
    width: String,
    height: String,
    text_x: String,
    text_y: String,
    /// 0 to [`SHADES`] - 1; `none` without a value.
    shade: String,
    text: String,
    title: String,
    cheapest: bool,
}

fn place(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// Whether shades go by the logarithm: where the greatest value is many times the least, all but a few
/// would have one shade otherwise.
pub fn is_logarithmic(least: f64, most: f64) -> bool {
    least > 0.0 && most >= 20.0 * least
}

/// The shade of a value between the least and the greatest.
pub fn shade(value: f64, least: f64, most: f64) -> usize {
    if most <= least {
        return 0;
    }
    let share = match is_logarithmic(least, most) {
        true => (value / least).ln() / (most / least).ln(),
        false => (value - least) / (most - least),
    };
    ((share * SHADES as f64) as usize).min(SHADES - 1)
}

/// Lays a heat map out: the first dimension's values from left to right, the second's from the bottom
/// up. `range` is the least and the greatest value of all maps that are compared.
pub fn heat_map(
    names: [&str; 2],
    xs: &[String],
    ys: &[String],
    values: &[Value],
    range: (f64, f64),
) -> HeatMap {
    let widest = |texts: &mut dyn Iterator<Item = &str>| texts.map(width_of).fold(0.0, f64::max);
    let texts = &mut values.iter().map(|value| value.text.as_str());
    let mut inner = xs.iter().map(String::as_str).chain(texts);
    let column = (widest(&mut inner) + 20.0).max(COLUMN);
    let left = widest(&mut ys.iter().map(String::as_str)) + 16.0;
    let top = 30.0;
    let bottom = top + ys.len() as f64 * ROW;
    let row_top = |y: usize| bottom - (y + 1) as f64 * ROW;
    let column_left = |x: usize| left + x as f64 * column;
    let width = left + xs.len() as f64 * column + 2.0;
    HeatMap {
        width: place(width.max(width_of(names[1]) + 4.0)),
        height: place(bottom + 50.0),
        columns: labels(xs, |x| (column_left(x) + column / 2.0, bottom + 18.0)),
        rows: labels(ys, |y| (left - 8.0, row_top(y) + ROW / 2.0 + 4.5)),
        cells: values
            .iter()
            .map(|one| Tile {
                // A gap of the background between tiles.
                x: place(column_left(one.x) + 1.0),
                y: place(row_top(one.y) + 1.0),
                width: place(column - 2.0),
                height: place(ROW - 2.0),
                text_x: place(column_left(one.x) + column / 2.0),
                text_y: place(row_top(one.y) + ROW / 2.0 + 4.5),
                shade: match one.value {
                    Some(value) => shade(value, range.0, range.1).to_string(),
                    None => "none".to_owned(),
                },
                text: one.text.clone(),
                title: one.title.clone(),
                cheapest: one.is_cheapest,
            })
            .collect(),
        x_name: names[0].to_owned(),
        y_name: names[1].to_owned(),
        x_name_at: place(left + xs.len() as f64 * column / 2.0),
        x_name_y: place(bottom + 40.0),
    }
}

fn labels(texts: &[String], at: impl Fn(usize) -> (f64, f64)) -> Vec<Label> {
    let label = |(number, text): (usize, &String)| {
        let (x, y) = at(number);
        Label {
            x: place(x),
            y: place(y),
            text: text.clone(),
        }
    };
    texts.iter().enumerate().map(label).collect()
}

/// A plot of lines, ready to be drawn.
#[derive(Clone, Debug, Serialize)]
pub struct LinePlot {
    width: String,
    height: String,
    left: String,
    right: String,
    bottom: String,
    ticks: Vec<Label>,
    columns: Vec<Label>,
    lines: Vec<Line>,
    /// What the lines are, for the legend; empty of a single one.
    legend_name: String,
    x_name: String,
    x_name_at: String,
    x_name_y: String,
    /// How many values of the second dimension have no line.
    left_out: usize,
}

#[derive(Clone, Debug, Serialize)]
struct Line {
    name: String,
    number: usize,
    path: String,
    points: Vec<Point>,
}

#[derive(Clone, Debug, Serialize)]
struct Point {
    x: String,
    y: String,
    title: String,
}

/// Lays a plot out: the first dimension's values at equal distances, a line for each value of the
/// second, from 0 to the greatest.
pub fn line_plot(
    names: [&str; 2],
    xs: &[String],
    ys: &[String],
    values: &[Value],
    unit: Unit,
    most: f64,
) -> LinePlot {
    let ticks = ticks(most, unit);
    let top_tick = ticks.last().copied().unwrap_or(1.0);
    let tick_texts: Vec<String> = ticks.iter().map(|tick| unit.for_people(*tick)).collect();
    let left = tick_texts
        .iter()
        .map(|text| width_of(text))
        .fold(0.0, f64::max)
        + 14.0;
    let longest = xs.iter().map(|text| width_of(text)).fold(0.0, f64::max) + 16.0;
    let span = PLOT.0.max(longest * xs.len() as f64);
    let bottom = 12.0 + PLOT.1;
    let x_at = |x: usize| left + span * (x as f64 + 0.5) / xs.len() as f64;
    let y_at = |value: f64| bottom - PLOT.1 * value / top_tick;
    let shown = chosen(ys.len());
    let lines = shown.iter().enumerate().map(|(number, y)| {
        let mut points = Vec::new();
        let mut path = String::new();
        let mut on = values.iter().filter(|one| one.y == *y).collect::<Vec<_>>();
        on.sort_by_key(|one| one.x);
        let mut pen_is_up = true;
        for one in on {
            let Some(value) = one.value else {
                pen_is_up = true;
                continue;
            };
            let (x, y) = (place(x_at(one.x)), place(y_at(value)));
            path.push_str(&format!("{}{x} {y}", if pen_is_up { "M" } else { "L" }));
            pen_is_up = false;
            let title = one.title.clone();
            points.push(Point { x, y, title });
        }
        Line {
            name: ys[*y].clone(),
            number,
            path,
            points,
        }
    });
    LinePlot {
        lines: lines.collect(),
        width: place(left + span + 8.0),
        height: place(bottom + 50.0),
        left: place(left),
        right: place(left + span),
        bottom: place(bottom),
        ticks: labels(&tick_texts, |at| (left - 8.0, y_at(ticks[at]))),
        columns: labels(xs, |x| (x_at(x), bottom + 20.0)),
        legend_name: if ys.len() > 1 {
            names[1].to_owned()
        } else {
            String::new()
        },
        x_name: names[0].to_owned(),
        x_name_at: place(left + span / 2.0),
        x_name_y: place(bottom + 42.0),
        left_out: ys.len() - shown.len(),
    }
}

/// Of so many values those that have a line: all, or as many as can be told apart, evenly, with the
/// first and the last.
fn chosen(count: usize) -> Vec<usize> {
    if count <= LINES_MAX {
        return (0..count).collect();
    }
    (0..LINES_MAX)
        .map(|number| number * (count - 1) / (LINES_MAX - 1))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(x: usize, y: usize, value: Option<f64>) -> Value {
        Value {
            x,
            y,
            value,
            text: "1 s".to_owned(),
            title: String::new(),
            is_cheapest: false,
        }
    }

    #[test]
    fn ticks_are_round_and_reach_the_greatest_value() {
        for (most, unit, wanted) in [
            (10.0, Unit::Count, &[0.0, 2.0, 4.0, 6.0, 8.0, 10.0][..]),
            (3.0, Unit::Count, &[0.0, 1.0, 2.0, 3.0]),
            (0.0, Unit::Seconds, &[0.0, 1.0]),
            (0.7, Unit::Seconds, &[0.0, 0.2, 0.4, 0.6, 0.8]),
            (100.0, Unit::Seconds, &[0.0, 30.0, 60.0, 90.0, 120.0]),
            (4000.0, Unit::Seconds, &[0.0, 1800.0, 3600.0, 5400.0]),
        ] {
            let ticks = ticks(most, unit);
            assert_eq!(ticks.len(), wanted.len(), "{most}: {ticks:?}");
            let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9;
            assert!(ticks.iter().zip(wanted).all(near), "{most}: {ticks:?}");
        }
    }

    #[test]
    fn shades_go_from_the_least_to_the_greatest() {
        assert_eq!(shade(1.0, 1.0, 8.0), 0);
        assert_eq!(shade(8.0, 1.0, 8.0), SHADES - 1);
        assert_eq!(shade(4.5, 1.0, 8.0), 3);
        assert_eq!(shade(1.0, 1.0, 1.0), 0);
        assert!(!is_logarithmic(0.0, 8.0) && is_logarithmic(1.0, 1e7));
        let shades = [1.0, 9.0, 11.0, 1e6, 1e7].map(|value| shade(value, 1.0, 1e7));
        assert_eq!(shades, [0, 0, 1, 6, 6]);
    }

    #[test]
    fn a_heat_map_grows_from_the_bottom_left() {
        let texts = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        let values = [
            value(0, 0, Some(1.0)),
            value(1, 1, Some(2.0)),
            value(0, 1, None),
        ];
        let map = heat_map(
            ["a", "b"],
            &texts(&["1", "2"]),
            &texts(&["x", "y"]),
            &values,
            (1.0, 2.0),
        );
        let at = |tile: &Tile| {
            (
                tile.x.parse::<f64>().unwrap(),
                tile.y.parse::<f64>().unwrap(),
            )
        };
        let [first, second, _] = &map.cells[..] else {
            panic!("three tiles")
        };
        assert!(at(first).0 < at(second).0 && at(first).1 > at(second).1);
        let shades: Vec<&str> = map.cells.iter().map(|tile| tile.shade.as_str()).collect();
        assert_eq!(shades, ["0", "6", "none"]);
    }

    #[test]
    fn a_line_is_broken_where_a_value_is_missing() {
        let texts: Vec<String> = (0..4).map(|number| number.to_string()).collect();
        let values = [
            value(0, 0, Some(0.0)),
            value(1, 0, Some(1.0)),
            value(2, 0, None),
            value(3, 0, Some(1.0)),
        ];
        let plot = line_plot(["a", "b"], &texts, &texts[..1], &values, Unit::Seconds, 1.0);
        assert_eq!(plot.lines.len(), 1);
        assert_eq!(plot.lines[0].path.matches('M').count(), 2);
        assert_eq!(plot.lines[0].path.matches('L').count(), 1);
        assert_eq!(plot.legend_name, "");
        // The greatest value lies on the highest tick, 0 on the lowest.
        assert_eq!(plot.lines[0].points[1].y, "12");
        assert_eq!(plot.lines[0].points[0].y, "232");
    }

    #[test]
    fn many_values_have_as_many_lines_as_can_be_told_apart() {
        assert_eq!(chosen(3), [0, 1, 2]);
        let some = chosen(100);
        assert_eq!((some.len(), some[0], some[7]), (8, 0, 99));
    }
}
