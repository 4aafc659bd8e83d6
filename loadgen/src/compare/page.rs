//! A comparison as a self-contained HTML page in the style of a run's page: regressions,
//! improvements and changes, and, on demand, the metrics that are equal.

use minijinja::context;
use minijinja::value::Serde;
use serde_json::{Value, json};

use super::render::{Sides, cells, header, headline, heads, summary};
use super::verdict::{Comparison, Row, Verdict};
use crate::report::page;

/// The ratio whose bar fills half of its cell, to either side.
const WIDEST_RATIO: f64 = 4.0;

/// Renders the page: one table per kind of verdict; the table of equal metrics is collapsed.
///
/// # Panics
/// Never panics with the built-in template.
pub fn page(comparison: &Comparison, sides: &Sides) -> String {
    use Verdict::{
        Better, Changed, Noise, OnlyInBase, OnlyInNew, Regression, Same, WithinTolerance,
    };
    let kinds: [(&str, &[Verdict]); 5] = [
        ("Worse by more than the tolerance", &[Regression]),
        ("Better", &[Better]),
        ("Within the tolerance", &[WithinTolerance, Noise]),
        (
            "Changed, neither better nor worse",
            &[Changed, OnlyInBase, OnlyInNew],
        ),
        ("The same", &[Same]),
    ];
    let sections = kinds.iter().map(|(title, wanted)| {
        let rows = comparison.metrics.iter();
        let rows = rows.filter(|row| wanted.contains(&row.verdict));
        let rows: Vec<Value> = rows.map(|row| line(comparison, row)).collect();
        json!({"title": title, "rows": rows, "folded": *wanted == [Same]})
    });
    let sections = sections.filter(|section| section["rows"] != json!([]));
    let values = context! {
        style => page::style(),
        headline => headline(comparison),
        failed => comparison.regressions > 0,
        heads => Serde(heads(comparison, sides)),
        method => comparison.method.clone(),
        header => Serde(header(comparison)),
        sections => Serde(sections.collect::<Vec<_>>()),
        summary => summary(comparison, true),
        version => env!("CARGO_PKG_VERSION"),
    };
    page::render(include_str!("page.html"), values)
}

/// Returns the table row of a metric: its cells, the start and width of its ratio's bar in percent,
/// and its style.
fn line(comparison: &Comparison, row: &Row) -> Value {
    let (from, width) = bar(row.ratio);
    let class = match row.verdict {
        Verdict::Regression => "bad",
        Verdict::Better => "good",
        _ => "",
    };
    json!({"cells": cells(comparison, row), "from": from, "width": width, "class": class})
}

/// Returns the start and width of a ratio's bar, in percent of its cell. On a logarithmic scale,
/// the bar extends from the middle to the right if the new value is greater, and to the left if it
/// is smaller.
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

    use super::super::tests::result;
    use super::super::{Tolerances, compare};
    use super::*;
    use crate::report::tests::assert_sound;

    #[test]
    fn the_page_has_every_metric_and_is_self_contained() {
        let new = json!({
            "elapsed_seconds": 12.0, "behaviour": "hardened", "excess_pods_created": 2,
            "pods": {"created": 102}, "api_calls": {"create pods 201": 40},
        });
        let (base, new) = ([result(json!({}))], [result(new)]);
        let comparison = compare(&base, &new, &Tolerances::default(), &[]);
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
        assert_sound(&page);
        assert!(!page.contains("<script"));
    }

    #[test]
    fn bars_extend_to_the_side_of_the_greater_value() {
        assert_eq!(bar(None), (50.0, 0.0));
        assert_eq!(bar(Some(1.0)), (50.0, 0.0));
        assert_eq!(bar(Some(2.0)), (50.0, 25.0));
        assert_eq!(bar(Some(0.5)), (25.0, 25.0));
        assert_eq!(bar(Some(1e9)), (50.0, 50.0));
        assert_eq!(bar(Some(0.0)), (0.0, 50.0));
    }
}
