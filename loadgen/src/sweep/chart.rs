//! The geometry of charts: the ticks of an axis, the cells of a heat map and the lines of a plot,
//! in units of an SVG's view box. The page defines their style.

use serde_json::{Value as Json, json};

use crate::metrics::Unit;
use crate::report::page::{coordinate as place, round_step, steps_to};

/// The number of shades of a heat map.
pub const SHADES: usize = 7;

/// The maximum number of lines in a plot that a reader can distinguish.
pub const LINES_MAX: usize = 8;

/// The height of a heat map's rows, and the minimum width of its columns.
const ROW: f64 = 34.0;
const COLUMN: f64 = 84.0;

/// The approximate width of a character in the labels.
const CHARACTER: f64 = 7.2;

/// The width and height of a plot's area.
const PLOT: (f64, f64) = (420.0, 220.0);

/// Returns the ticks of an axis from 0 to at least `most`. Their distance is 1, 2 or 5 times a
/// power of ten or, for times from a minute on, a clock unit.
pub fn ticks(most: f64, unit: Unit) -> Vec<f64> {
    if !most.is_finite() || most <= 0.0 {
        return vec![0.0, 1.0];
    }
    let clock = [
        15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 21_600.0, 86_400.0,
    ];
    let of_clock = clock.into_iter().find(|step| *step >= most / 5.0);
    let step = match of_clock {
        Some(step) if unit == Unit::Seconds && most >= 60.0 => step,
        // Ticks of counts are integers.
        _ if unit == Unit::Count => round_step(most, 5.0).max(1.0),
        _ => round_step(most, 5.0),
    };
    let count = steps_to(most, step) as usize;
    (0..=count).map(|number| number as f64 * step).collect()
}

/// The value of a cell, with its position in the two dimensions.
#[derive(Clone, Debug)]
pub struct Value {
    /// The position along the first dimension.
    pub x: usize,
    /// The position along the second dimension.
    pub y: usize,
    /// The value; `None` if the cell has none.
    pub value: Option<f64>,
    /// The formatted value.
    pub text: String,
    /// The tooltip.
    pub title: String,
    /// Whether it is the cheapest cell that meets the thresholds.
    pub is_cheapest: bool,
}

fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// The least and the greatest value of the charts that share a scale.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The least value.
    pub least: f64,
    /// The greatest value.
    pub most: f64,
}

impl Range {
    /// Reports whether shades should be logarithmic: if the greatest value is many times the least,
    /// most values would otherwise get the same shade.
    pub fn is_logarithmic(self) -> bool {
        self.least > 0.0 && self.most >= 20.0 * self.least
    }

    /// Returns the shade of a value in the range.
    pub fn shade(self, value: f64) -> usize {
        let Range { least, most } = self;
        if most <= least {
            return 0;
        }
        let share = match self.is_logarithmic() {
            true => (value / least).ln() / (most / least).ln(),
            false => (value - least) / (most - least),
        };
        ((share * SHADES as f64) as usize).min(SHADES - 1)
    }
}

/// Lays out a heat map: the values of the first dimension from left to right, those of the second
/// from bottom to top. `range` is that of all maps that are compared.
pub fn heat_map(
    names: [&str; 2],
    xs: &[String],
    ys: &[String],
    values: &[Value],
    range: Range,
) -> Json {
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
    // Leave a gap between the tiles.
    let cell = |one: &Value| {
        json!({
            "x": place(column_left(one.x) + 1.0),
            "y": place(row_top(one.y) + 1.0),
            "width": place(column - 2.0),
            "height": place(ROW - 2.0),
            "text_x": place(column_left(one.x) + column / 2.0),
            "text_y": place(row_top(one.y) + ROW / 2.0 + 4.5),
            // 0 to SHADES - 1; `none` without a value.
            "shade": match one.value {
                Some(value) => range.shade(value).to_string(),
                None => "none".to_owned(),
            },
            "text": one.text,
            "title": one.title,
            "cheapest": one.is_cheapest,
        })
    };
    json!({
        "width": place(width.max(width_of(names[1]) + 4.0)),
        "height": place(bottom + 50.0),
        "columns": labels(xs, |x| (column_left(x) + column / 2.0, bottom + 18.0)),
        "rows": labels(ys, |y| (left - 8.0, row_top(y) + ROW / 2.0 + 4.5)),
        "cells": values.iter().map(cell).collect::<Vec<_>>(),
        "x_name": names[0],
        "y_name": names[1],
        "x_name_at": place(left + xs.len() as f64 * column / 2.0),
        "x_name_y": place(bottom + 40.0),
    })
}

/// Returns strings with their positions.
fn labels(texts: &[String], at: impl Fn(usize) -> (f64, f64)) -> Vec<Json> {
    let label = |(number, text): (usize, &String)| {
        let (x, y) = at(number);
        json!({"x": place(x), "y": place(y), "text": text})
    };
    texts.iter().enumerate().map(label).collect()
}

/// Lays out a plot from 0 to the greatest value: the values of the first dimension at equal
/// distances, with a line for each value of the second dimension. `legend_name` describes the
/// lines; it is empty for a single line. `left_out` is the number of values of the second dimension
/// that get no line.
pub fn line_plot(
    names: [&str; 2],
    xs: &[String],
    ys: &[String],
    values: &[Value],
    unit: Unit,
    most: f64,
) -> Json {
    let ticks = ticks(most, unit);
    let top_tick = ticks.last().copied().unwrap_or(1.0);
    let tick_texts: Vec<String> = ticks.iter().map(|tick| unit.for_people(*tick)).collect();
    let widest = |texts: &[String]| texts.iter().map(|text| width_of(text)).fold(0.0, f64::max);
    let left = widest(&tick_texts) + 14.0;
    let span = PLOT.0.max((widest(xs) + 16.0) * xs.len() as f64);
    let bottom = 12.0 + PLOT.1;
    let x_at = |x: usize| left + span * (x as f64 + 0.5) / xs.len() as f64;
    let y_at = |value: f64| bottom - PLOT.1 * value / top_tick;
    let shown = chosen(ys.len());
    let line = |(number, y): (usize, &usize)| {
        let (mut points, mut path) = (Vec::new(), String::new());
        let mut on = values.iter().filter(|one| one.y == *y).collect::<Vec<_>>();
        on.sort_by_key(|one| one.x);
        // A missing value interrupts the line.
        let mut step = "M";
        for one in on {
            let Some(value) = one.value else {
                step = "M";
                continue;
            };
            let (x, y) = (place(x_at(one.x)), place(y_at(value)));
            path.push_str(&format!("{step}{x} {y}"));
            step = "L";
            points.push(json!({"x": x, "y": y, "title": one.title}));
        }
        json!({"name": ys[*y], "number": number, "path": path, "points": points})
    };
    json!({
        "lines": shown.iter().enumerate().map(line).collect::<Vec<_>>(),
        "width": place(left + span + 8.0),
        "height": place(bottom + 50.0),
        "left": place(left),
        "right": place(left + span),
        "bottom": place(bottom),
        "ticks": labels(&tick_texts, |at| (left - 8.0, y_at(ticks[at]))),
        "columns": labels(xs, |x| (x_at(x), bottom + 20.0)),
        "legend_name": if ys.len() > 1 { names[1] } else { "" },
        "x_name": names[0],
        "x_name_at": place(left + span / 2.0),
        "x_name_y": place(bottom + 42.0),
        "left_out": ys.len() - shown.len(),
    })
}

/// Returns which of `count` values get a line: all or, if a reader could not distinguish as many,
/// an evenly spaced selection that includes the first and the last.
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
    fn ticks_are_round_and_cover_the_greatest_value() {
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
        let range = |least, most| Range { least, most };
        assert_eq!(range(1.0, 8.0).shade(1.0), 0);
        assert_eq!(range(1.0, 8.0).shade(8.0), SHADES - 1);
        assert_eq!(range(1.0, 8.0).shade(4.5), 3);
        assert_eq!(range(1.0, 1.0).shade(1.0), 0);
        assert!(!range(0.0, 8.0).is_logarithmic() && range(1.0, 1e7).is_logarithmic());
        let shades = [1.0, 9.0, 11.0, 1e6, 1e7].map(|value| range(1.0, 1e7).shade(value));
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
        let (along, up) = (texts(&["1", "2"]), texts(&["x", "y"]));
        let range = Range {
            least: 1.0,
            most: 2.0,
        };
        let map = heat_map(["a", "b"], &along, &up, &values, range);
        let cells = map["cells"].as_array().unwrap();
        let at = |tile: usize, axis: &str| -> f64 {
            cells[tile][axis].as_str().unwrap().parse().unwrap()
        };
        assert!(at(0, "x") < at(1, "x") && at(0, "y") > at(1, "y"));
        let shades: Vec<&Json> = cells.iter().map(|tile| &tile["shade"]).collect();
        assert_eq!(shades, ["0", "6", "none"]);
    }

    #[test]
    fn a_line_is_broken_at_a_missing_value() {
        let texts: Vec<String> = (0..4).map(|number| number.to_string()).collect();
        let values = [
            value(0, 0, Some(0.0)),
            value(1, 0, Some(1.0)),
            value(2, 0, None),
            value(3, 0, Some(1.0)),
        ];
        let plot = line_plot(["a", "b"], &texts, &texts[..1], &values, Unit::Seconds, 1.0);
        assert_eq!(plot["lines"].as_array().unwrap().len(), 1);
        let line = &plot["lines"][0];
        let path = line["path"].as_str().unwrap();
        assert_eq!(path.matches('M').count(), 2);
        assert_eq!(path.matches('L').count(), 1);
        assert_eq!(plot["legend_name"], "");
        // The greatest value lies on the highest tick, 0 on the lowest.
        assert_eq!(line["points"][1]["y"], "12");
        assert_eq!(line["points"][0]["y"], "232");
    }

    #[test]
    fn many_values_have_a_bounded_number_of_lines() {
        assert_eq!(chosen(3), [0, 1, 2]);
        let some = chosen(100);
        assert_eq!((some.len(), some[0], some[7]), (8, 0, 99));
    }
}
