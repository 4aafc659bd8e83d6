//! Parts that the pages of a run, a comparison, a sweep and a served cluster share: style,
//! rendering of templates, steps of axes, SVG coordinates.

use minijinja::{Environment, Value};

/// Returns the style of all pages except that of a sweep: light and dark colours, tiles, charts,
/// tables.
pub(crate) fn style() -> Value {
    Value::from_safe_string(include_str!("html/style.css").to_owned())
}

/// Renders an HTML template with these values.
///
/// # Panics
/// Panics if the template is invalid or uses a missing value; tests render each template.
pub(crate) fn render(template: &str, values: Value) -> String {
    let page = Environment::new().render_named_str("page.html", template, values);
    page.expect("the template is valid and has all its values")
}

/// Returns the step for an axis from 0 to `end` with about `count` ticks: 1, 2 or 5 times a power
/// of ten.
pub(crate) fn round_step(end: f64, count: f64) -> f64 {
    if end.is_nan() || end <= 0.0 {
        return 1.0;
    }
    let rough = end / count;
    let power = 10f64.powf(rough.log10().floor());
    let times = [1.0, 2.0, 5.0, 10.0];
    let found = times.iter().find(|times| *times * power >= rough * 0.999);
    found.unwrap_or(&10.0) * power
}

/// Returns the number of steps needed to reach `most`; at least one.
pub(crate) fn steps_to(most: f64, step: f64) -> f64 {
    (most / step - 1e-9).ceil().max(1.0)
}

/// Formats a coordinate with at most one decimal.
pub(crate) fn coordinate(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}
