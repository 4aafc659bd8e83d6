//! A comparison as one page that needs nothing else, in the look of a run's page: what is worse, what is
//! better, what has changed, and on demand what is the same.

use minijinja::value::Serde;
use minijinja::{Environment, context};
use serde::Serialize;

use super::render::{Sides, cells, header, headline, heads, summary};
use super::verdict::{Comparison, Row, Verdict};

/// A ratio that fills half of its cell, to either side.
const WIDEST_RATIO: f64 = 4.0;

/// A table of figures under its heading.
#[derive(Debug, Serialize)]
struct Section {
    title: &'static str,
    rows: Vec<Line>,
    /// Whether it is shown on demand alone.
    folded: bool,
}

/// One figure.
#[derive(Debug, Serialize)]
struct Line {
    cells: Vec<String>,
    /// Where the bar of its ratio begins and how wide it is, percent; and its look.
    from: f64,
    width: f64,
    class: &'static str,
}

/// The page.
///
/// # Panics
/// Never with the template that it was built with.
pub fn page(comparison: &Comparison, sides: &Sides) -> String {
    let of = |wanted: &[Verdict]| -> Vec<Line> {
        let rows = comparison.figures.iter();
        rows.filter(|row| wanted.contains(&row.verdict))
            .map(|row| line(comparison, row))
            .collect()
    };
    let section = |title, folded, wanted: &[Verdict]| Section {
        title,
        rows: of(wanted),
        folded,
    };
    let mut sections = vec![
        section(
            "Worse by more than it may be",
            false,
            &[Verdict::Regression],
        ),
        section("Better", false, &[Verdict::Better]),
        section(
            "Within what may be",
            false,
            &[Verdict::WithinTolerance, Verdict::Noise],
        ),
        section(
            "Changed, for neither better nor worse",
            false,
            &[Verdict::Changed, Verdict::OnlyInBase, Verdict::OnlyInNew],
        ),
        section("The same", true, &[Verdict::Same]),
    ];
    sections.retain(|section| !section.rows.is_empty());
    let mut environment = Environment::new();
    environment
        .add_template("page.html", include_str!("page.html"))
        .expect("the template is well-formed: a test renders it");
    let page = environment.get_template("page.html").and_then(|template| {
        template.render(context! {
            style => minijinja::Value::from_safe_string(
                include_str!("../report/html/style.css").to_owned(),
            ),
            headline => headline(comparison),
            failed => comparison.regressions > 0,
            heads => Serde(heads(comparison, sides)),
            method => comparison.method.clone(),
            header => Serde(header(comparison)),
            sections => Serde(&sections),
            summary => summary(comparison, true),
            version => env!("CARGO_PKG_VERSION"),
        })
    });
    page.expect("the template asks for nothing else: a test renders it")
}

fn line(comparison: &Comparison, row: &Row) -> Line {
    let (from, width) = bar(row.ratio);
    Line {
        cells: cells(comparison, row),
        from,
        width,
        class: match row.verdict {
            Verdict::Regression => "bad",
            Verdict::Better => "good",
            _ => "",
        },
    }
}

/// The bar of a ratio from the middle of its cell, percent: to the right where the new one is more, to
/// the left where it is less, on a logarithmic scale.
fn bar(ratio: Option<f64>) -> (f64, f64) {
    let Some(ratio) = ratio.filter(|ratio| ratio.is_finite() && *ratio >= 0.0) else {
        return (50.0, 0.0);
    };
    let part = (ratio.ln() / WIDEST_RATIO.ln()).clamp(-1.0, 1.0) * 50.0;
    (50.0 + part.min(0.0), part.abs())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::load::testing::result;
    use super::super::{Tolerances, compare};
    use super::*;

    #[test]
    fn the_page_has_every_figure_in_its_place_and_needs_nothing_else() {
        let new = json!({
            "elapsed_seconds": 12.0, "behaviour": "hardened", "excess_pods_created": 2,
            "pods": {"created": 102}, "api_calls": {"create pods 201": 40},
        });
        let comparison = compare(
            &[result(json!({}))],
            &[result(new)],
            &Tolerances::default(),
            &[],
        );
        let sides = Sides {
            base: "a<b>.json".to_owned(),
            new: "new.json".to_owned(),
        };
        let page = page(&comparison, &sides);
        for text in [
            "2 REGRESSIONS, 1 better",
            "a&lt;b&gt;.json, seed 1",
            "behaviour: upstream -&gt; hardened",
            "<td>1.200</td>",
            "<details>",
            "prefers-color-scheme: dark",
            "name=\"viewport\"",
        ] {
            assert!(page.contains(text), "{text}:\n{page}");
        }
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
        assert!(at("Worse by more") < at("elapsed_seconds"));
        assert!(at("elapsed_seconds") < at("<h2>Better"));
        assert!(at("<h2>Changed") < at("pods.created"));
        assert!(at("<details>") < at("convergence_seconds p99"));
        for foreign in [
            "http:", "https:", "src=", "href=", "@import", "url(", "<script",
        ] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        for tag in [
            "section", "table", "tr", "td", "th", "details", "div", "main", "body",
        ] {
            let opened = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }

    #[test]
    fn bars_go_to_the_side_of_what_is_more() {
        assert_eq!(bar(None), (50.0, 0.0));
        assert_eq!(bar(Some(1.0)), (50.0, 0.0));
        assert_eq!(bar(Some(2.0)), (50.0, 25.0));
        assert_eq!(bar(Some(0.5)), (25.0, 25.0));
        assert_eq!(bar(Some(1e9)), (50.0, 50.0));
        assert_eq!(bar(Some(0.0)), (0.0, 50.0));
    }
}
