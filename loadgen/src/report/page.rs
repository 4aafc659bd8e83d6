//! What the pages of a run, a comparison, a sweep and a served cluster share: their style, their templates filled
//! in, the steps of an axis, coordinates of an SVG.

use minijinja::{Environment, Value};

/// The style of all pages but a sweep's: colours, light and dark, tiles, charts, tables.
pub(crate) fn style() -> Value {
    Value::from_safe_string(include_str!("html/style.css").to_owned())
}

/// A template of HTML, filled in with the values.
///
/// # Panics
/// Where the template is not well-formed or asks for what there is not; tests render each.
pub(crate) fn render(template: &str, values: Value) -> String {
    let page = Environment::new().render_named_str("page.html", template, values);
    page.expect("the template is well-formed and has what it asks for")
}

/// The distance of about `count` round ticks for an axis up to `end`: 1, 2 or 5 times a power of ten.
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

/// How many steps reach the greatest value; at least one.
pub(crate) fn steps_to(most: f64, step: f64) -> f64 {
    (most / step - 1e-9).ceil().max(1.0)
}

/// A coordinate with one digit at most behind the point.
pub(crate) fn coordinate(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}
