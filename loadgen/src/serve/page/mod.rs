//! The page at `/` of a served cluster: one text that needs nothing else from anywhere, and draws what the
//! server's `/podstorm/live` sends, in the style of the other pages.

use std::sync::LazyLock;

use minijinja::{Value, context};

use crate::report::page;

/// The same for all servers of the process.
static HTML: LazyLock<String> = LazyLock::new(|| {
    let values = context! {
        style => page::style(),
        own_style => Value::from_safe_string(include_str!("style.css").to_owned()),
        script => Value::from_safe_string(include_str!("script.js").to_owned()),
        version => env!("CARGO_PKG_VERSION"),
    };
    page::render(include_str!("page.html"), values)
});

/// The page.
pub(super) fn html() -> &'static str {
    &HTML
}
