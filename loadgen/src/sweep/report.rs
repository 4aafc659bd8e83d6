//! The page of a sweep: self-contained HTML with a heat map and a line plot for each figure, the
//! table, and the settings. Its look is in `report.html`, the charts' marks in `charts.html`.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment};
use serde::Serialize;

use super::chart::{self, HeatMap, LinePlot, SHADES, Value};
use super::outcome::{Cell, Sweep};
use super::output::{conclusion, mark, shown};
use crate::metrics::{Better, MetricName};

const PAGE: &str = include_str!("report.html");
const CHARTS: &str = include_str!("charts.html");

/// Most combinations of a third and further dimensions that have charts of their own.
const PANELS_MAX: usize = 24;

/// Most cells that the page's table lists.
const CELLS_LISTED: usize = 2_000;

/// What `report.html` is given.
#[derive(Debug, Serialize)]
struct Page<'a> {
    version: &'static str,
    scenario: &'a str,
    engine: &'a str,
    names: Vec<&'a str>,
    figures: Vec<String>,
    sentences: Vec<String>,
    all_done: bool,
    command: Option<String>,
    has_thresholds: bool,
    sections: Vec<Section>,
    rows: Vec<ListedCell<'a>>,
    left_out: usize,
    common: &'a [(String, String)],
    shades: Vec<usize>,
}

/// A line of the page's table.
#[derive(Debug, Serialize)]
struct ListedCell<'a> {
    values: Vec<&'a str>,
    figures: Vec<String>,
    mark: &'static str,
}

/// What `charts.html` is given.
#[derive(Debug, Serialize)]
struct Charts {
    title: String,
    map: Option<HeatMap>,
    plot: LinePlot,
}

/// One figure with its charts.
#[derive(Debug, Serialize)]
struct Section {
    title: String,
    about: String,
    better: &'static str,
    least: String,
    most: String,
    is_logarithmic: bool,
    panels: Vec<Panel>,
}

/// The charts for one combination of the values of the third and further dimensions.
#[derive(Debug, Serialize)]
struct Panel {
    title: String,
    charts: String,
}

/// The page. `common` are the settings that all cells share, `command` repeats a cell.
///
/// # Panics
/// Never with the templates that it was built with.
pub fn page(
    sweep: &Sweep,
    common: &[(String, String)],
    command: &dyn Fn(&Cell) -> String,
) -> String {
    let environment = environment();
    let sections: Vec<Section> = sweep
        .figures
        .iter()
        .enumerate()
        .map(|(number, name)| section(&environment, sweep, number, name))
        .collect();
    let cheapest = sweep.cheapest().map(|cell| cell.number);
    let rows: Vec<ListedCell<'_>> = sweep
        .cells
        .iter()
        .take(CELLS_LISTED)
        .map(|cell| ListedCell {
            values: sweep
                .grid
                .values(cell.number)
                .iter()
                .map(|one| one.1)
                .collect(),
            figures: shown(sweep, cell),
            mark: mark(cell, cheapest),
        })
        .collect();
    let first = sweep.cells.first().map(|cell| &cell.results[0]);
    let mut sentences = conclusion(sweep, command);
    // The command has a place of its own.
    sentences.retain(|sentence| !sentence.starts_with("    "));
    let page = Page {
        version: env!("CARGO_PKG_VERSION"),
        scenario: first.map_or("", |result| &result.scenario),
        engine: first.map_or("", |result| &result.engine),
        names: sweep
            .grid
            .dimensions
            .iter()
            .map(|one| one.name.as_str())
            .collect(),
        figures: sweep.figures.iter().map(ToString::to_string).collect(),
        sentences,
        all_done: sweep.cells.iter().all(|cell| cell.is_done),
        command: sweep.cheapest().map(command),
        has_thresholds: !sweep.thresholds.is_empty(),
        sections,
        left_out: sweep.cells.len() - rows.len(),
        rows,
        common,
        shades: (0..SHADES).collect(),
    };
    let page = environment
        .get_template("report.html")
        .and_then(|template| template.render(Serde(&page)));
    page.expect("the templates are well-formed and have what they ask for")
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build();
    environment.set_syntax(syntax.expect("the delimiters are the usual ones"));
    for (name, text) in [("report.html", PAGE), ("charts.html", CHARTS)] {
        let added = environment.add_template(name, text);
        added.expect("the templates are well-formed");
    }
    environment
}

fn section(
    environment: &Environment<'_>,
    sweep: &Sweep,
    number: usize,
    name: &MetricName,
) -> Section {
    let values = sweep.cells.iter().filter_map(|cell| cell.figures[number]);
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    let has_values = least <= most;
    let range = if has_values {
        (least, most)
    } else {
        (0.0, 0.0)
    };
    let text = |value: f64| {
        if has_values {
            name.unit().for_people(value)
        } else {
            "-".to_owned()
        }
    };
    Section {
        title: name.to_string(),
        about: name.metric.about.to_owned(),
        better: match name.better() {
            Better::Less => "less is better",
            Better::More => "more is better",
            Better::Neither => "",
        },
        least: text(range.0),
        most: text(range.1),
        is_logarithmic: chart::is_logarithmic(range.0, range.1),
        panels: panels(environment, sweep, number, name, range),
    }
}

fn panels(
    environment: &Environment<'_>,
    sweep: &Sweep,
    number: usize,
    name: &MetricName,
    range: (f64, f64),
) -> Vec<Panel> {
    let dimensions = &sweep.grid.dimensions;
    let nothing = vec![String::new()];
    let (xs, ys) = (
        &dimensions[0].values,
        dimensions.get(1).map_or(&nothing, |second| &second.values),
    );
    let names = [
        dimensions[0].name.as_str(),
        dimensions.get(1).map_or("", |second| second.name.as_str()),
    ];
    // The first two dimensions run slowest, so that a panel takes every so manyeth cell.
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
            values.push(value(sweep, cell, (x, y), number, name, cheapest));
        }
        let title: Vec<String> = sweep.grid.values(panel)[dimensions.len().min(2)..]
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let map = (ys.len() > 1).then(|| chart::heat_map(names, xs, ys, &values, range));
        let plot = chart::line_plot(names, xs, ys, &values, name.unit(), range.1);
        let charts = Charts {
            title: format!("{name} {}", title.join(", ")),
            map,
            plot,
        };
        let charts = environment
            .get_template("charts.html")
            .and_then(|template| template.render(Serde(&charts)));
        Panel {
            title: title.join(", "),
            charts: charts.expect("the templates are well-formed and have what they ask for"),
        }
    };
    (0..count.min(PANELS_MAX)).map(panel).collect()
}

fn value(
    sweep: &Sweep,
    number: usize,
    (x, y): (usize, usize),
    figure: usize,
    name: &MetricName,
    cheapest: Option<usize>,
) -> Value {
    let cell = sweep.cell(number);
    let value = cell.and_then(|cell| cell.figures[figure]);
    let text = match (cell, value) {
        (_, Some(value)) => name.unit().for_people(value),
        (Some(_), None) => "-".to_owned(),
        (None, _) => "not run".to_owned(),
    };
    let said = cell.map_or("", |cell| mark(cell, cheapest));
    let said = if said.is_empty() {
        String::new()
    } else {
        format!(" ({})", said.trim_start_matches("<- "))
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
    use super::super::outcome::testing::sweep;
    use super::*;

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
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
        for outside in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        for wrong in ["undefined", "NaN", "inf", "{{", "{%"] {
            assert!(!page.contains(wrong), "{wrong}");
        }
        assert_eq!(
            page.matches("<section").count(),
            page.matches("</section>").count()
        );
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    }

    #[test]
    fn further_dimensions_have_charts_of_their_own() {
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
