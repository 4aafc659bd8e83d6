//! The page at `/` of a served cluster: a self-contained HTML document, in the style of the other
//! pages, that draws the data of the server's `/podstorm/live`.

use minijinja::{Value, context};

use crate::report::page;

/// Returns the HTML page. `scenario` is the scenario of a run; `None` for `loadgen serve`.
pub(super) fn html(scenario: Option<&str>) -> String {
    let values = context! {
        style => page::style(),
        own_style => Value::from_safe_string(include_str!("style.css").to_owned()),
        script => Value::from_safe_string(include_str!("script.js").to_owned()),
        version => env!("CARGO_PKG_VERSION"),
        scenario => scenario,
    };
    page::render(include_str!("page.html"), values)
}

#[cfg(test)]
mod tests {
    use super::html;

    #[test]
    fn the_page_of_a_run_names_its_scenario() {
        let page = html(Some("a <b>"));
        for text in [
            "<title>loadgen run: a &lt;b&gt;</title>",
            "loadgen run, version",
            "Scenario a &lt;b&gt; <span class=\"verdict\" id=\"state\"",
        ] {
            assert!(page.contains(text), "{text}");
        }
        let page = html(None);
        assert!(page.contains("Simulated cluster <span"));
        assert!(!page.contains("Scenario"));
    }
}
