//! The page of a sweep: self-contained HTML with a heat map and a line plot for each metric, the
//! table, and the settings. The file `report.html` has its style.

use minijinja::Value as Html;
use minijinja::value::Serde;
use serde_json::{Value as Json, json};

use super::chart::{self, Range, SHADES, Value};
use super::outcome::{Cell, Sweep};
use super::output::{conclusion, mark, shown, values};
use crate::metrics::{Better, MetricName};
use crate::report::page;

/// The maximum number of combinations of values of the third and further dimensions that get their
/// own charts.
const PANELS_MAX: usize = 24;

/// The maximum number of cells in the table of the page.
const CELLS_LISTED: usize = 2_000;

/// Renders the page. `common` contains the settings that all cells share; `command` returns the
/// command that repeats a cell.
///
/// # Panics
/// Never panics with the built-in templates.
pub fn page(
    sweep: &Sweep,
    common: &[(String, String)],
    command: &dyn Fn(&Cell) -> String,
) -> String {
    let cheapest = sweep.cheapest().map(|cell| cell.number);
    let listed = sweep.cells.iter().take(CELLS_LISTED);
    let row = |cell: &Cell| {
        json!({
            "values": values(sweep, cell),
            "metrics": shown(sweep, cell),
            "mark": mark(cell, cheapest),
        })
    };
    let first = sweep.cells.first().map(|cell| &cell.results[0]);
    let mut sentences = conclusion(sweep, command);
    // Omit the command, which is shown elsewhere.
    sentences.retain(|sentence| !sentence.starts_with("    "));
    let metrics = sweep.metrics.iter();
    let names = sweep.grid.dimensions.iter().map(|one| &one.name);
    let sections = metrics
        .clone()
        .enumerate()
        .map(|(number, name)| section(sweep, number, name));
    let values = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "scenario": first.map_or("", |result| &result.scenario),
        "engine": first.map_or("", |result| &result.engine),
        "names": names.collect::<Vec<_>>(),
        "metrics": metrics.map(ToString::to_string).collect::<Vec<_>>(),
        "sentences": sentences,
        "all_done": sweep.cells.iter().all(|cell| cell.is_done),
        "command": sweep.cheapest().map(command),
        "has_thresholds": !sweep.thresholds.is_empty(),
        "sections": sections.collect::<Vec<_>>(),
        "rows": listed.map(row).collect::<Vec<_>>(),
        "left_out": sweep.cells.len().saturating_sub(CELLS_LISTED),
        "common": common,
        "shades": (0..SHADES).collect::<Vec<_>>(),
    });
    page::render(include_str!("report.html"), Html::from(Serde(values)))
}

/// Returns the section about one metric, with its charts.
fn section(sweep: &Sweep, number: usize, name: &MetricName) -> Json {
    let values = sweep.cells.iter().filter_map(|cell| cell.metrics[number]);
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    let range = match least <= most {
        true => Range { least, most },
        false => Range {
            least: 0.0,
            most: 0.0,
        },
    };
    let text = |value: f64| match least <= most {
        true => name.unit().for_people(value),
        false => "-".to_owned(),
    };
    json!({
        "title": name.to_string(),
        "about": name.metric.about,
        "better": match name.better() {
            Better::Less => "less is better",
            Better::More => "more is better",
            Better::Neither => "",
        },
        "least": text(range.least),
        "most": text(range.most),
        "is_logarithmic": range.is_logarithmic(),
        "panels": panels(sweep, number, name, range),
    })
}

/// Returns the charts for each combination of values of the third and further dimensions.
fn panels(sweep: &Sweep, number: usize, name: &MetricName, range: Range) -> Vec<Json> {
    let dimensions = &sweep.grid.dimensions;
    let nothing = vec![String::new()];
    let second = dimensions.get(1);
    let (xs, ys) = (
        &dimensions[0].values,
        second.map_or(&nothing, |second| &second.values),
    );
    let names = [
        &*dimensions[0].name,
        second.map_or("", |second| &*second.name),
    ];
    // The first two dimensions vary slowest, so the cells of a panel are `count` apart.
    let count: usize = dimensions
        .iter()
        .skip(2)
        .map(|one| one.values.len())
        .product();
    let cheapest = sweep.cheapest().map(|cell| cell.number);
    let panel = |panel: usize| {
        let mut values = Vec::new();
        for (x, y) in (0..xs.len()).flat_map(|x| (0..ys.len()).map(move |y| (x, y))) {
            let cell = (x * ys.len() + y) * count + panel;
            values.push(value(sweep, cell, x, y, number, name, cheapest));
        }
        let others = &sweep.grid.values(panel)[dimensions.len().min(2)..];
        let others = others.iter().map(|(name, value)| format!("{name} {value}"));
        let title = others.collect::<Vec<_>>().join(", ");
        json!({
            "label": format!("{name} {title}"),
            "title": title,
            "map": (ys.len() > 1).then(|| chart::heat_map(names, xs, ys, &values, range)),
            "plot": chart::line_plot(names, xs, ys, &values, name.unit(), range.most),
        })
    };
    (0..count.min(PANELS_MAX)).map(panel).collect()
}

fn value(
    sweep: &Sweep,
    number: usize,
    x: usize,
    y: usize,
    metric: usize,
    name: &MetricName,
    cheapest: Option<usize>,
) -> Value {
    let cell = sweep.cell(number);
    let value = cell.and_then(|cell| cell.metrics[metric]);
    let text = match (cell, value) {
        (_, Some(value)) => name.unit().for_people(value),
        (Some(_), None) => "-".to_owned(),
        (None, _) => "not run".to_owned(),
    };
    let said = cell.map_or("", |cell| mark(cell, cheapest));
    let said = match said.trim_start_matches("<- ") {
        "" => String::new(),
        said => format!(" ({said})"),
    };
    Value {
        x,
        y,
        value,
        title: format!("{}: {name} {text}{said}", sweep.grid.name(number)),
        text: match cell {
            Some(cell) if !cell.is_done => format!("✗ {text}"),
            Some(cell) if cell.meets == Some(true) => format!("✓ {text}"),
            _ => text,
        },
        is_cheapest: cheapest == Some(number),
    }
}

#[cfg(test)]
mod tests {
    use super::super::grid::Grid;
    use super::super::tests::sweep;
    use super::*;
    use crate::report::tests::assert_sound;

    #[test]
    fn the_page_is_self_contained() {
        let sweep = sweep("30s");
        let common = [("scenario".to_owned(), "up-<down>".to_owned())];
        let page = page(&sweep, &common, &|_| "loadgen run --pods 20".to_owned());
        assert!(page.starts_with("<!doctype html>"), "{}", &page[..100]);
        for part in [
            "<svg",
            "elapsed",
            "kube-api-qps",
            "loadgen run --pods 20",
            "up-&lt;down&gt;",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert_sound(&page);
        assert!(!page.contains("inf"));
    }

    #[test]
    fn further_dimensions_have_their_own_charts() {
        let mut sweep = sweep("30s");
        let texts = ["a=1", "b=1,2,3", "pods=20,40"].map(str::to_owned);
        sweep.grid = Grid::parse(&texts).unwrap();
        let page = page(&sweep, &[], &|_| String::new());
        for panel in ["pods 20", "pods 40"] {
            assert!(page.contains(panel), "{panel}");
        }
        assert!(page.contains("✓ ") && !page.contains("✗ "));
        sweep.cells[0].is_done = false;
        let page = super::page(&sweep, &[], &|_| String::new());
        assert!(page.contains("✗ not done"));
        sweep.grid = Grid::parse(&["a=1,2,3,4,5,6".to_owned()]).unwrap();
        sweep.cells.remove(3);
        let page = super::page(&sweep, &[], &|_| String::new());
        assert!(page.contains("INTERRUPTED: 5 of 6 cells"), "no word of it");
        assert!(!page.contains("class=\"heat\""));
    }
}
