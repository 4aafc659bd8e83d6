//! The outcome of a sweep: the medians of each cell's metrics, whether the cell meets the
//! thresholds, and the cheapest cell that does.

use super::grid::Grid;
use crate::compare::significance::median;
use crate::metrics::{MetricName, MetricValues, Threshold};
use crate::result::RunResult;

/// A cell whose runs are over.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The number of the cell in the grid.
    pub number: usize,
    /// The median of each metric over the seeds; `None` if no run has the metric.
    pub metrics: Vec<Option<f64>>,
    /// Whether every run met its scenario's condition.
    pub is_done: bool,
    /// Whether every run was done and met every threshold; `None` without thresholds.
    pub meets: Option<bool>,
    /// The number of broken invariants in all runs of the cell.
    pub violations: usize,
    /// The results of the cell's runs, one per seed.
    pub results: Vec<RunResult>,
}

/// A sweep that ran completely or in part.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The grid.
    pub grid: Grid,
    /// The seeds of each cell.
    pub seeds: Vec<u64>,
    /// The metrics to show, in this order.
    pub metrics: Vec<MetricName>,
    /// The thresholds that apply to every run.
    pub thresholds: Vec<Threshold>,
    /// The cells that ran with all their seeds, in grid order.
    pub cells: Vec<Cell>,
}

impl Sweep {
    /// Summarizes the results, which must be ordered by cell and then by seed. Omits cells of which
    /// a run is missing.
    pub fn new(
        grid: Grid,
        seeds: Vec<u64>,
        metrics: Vec<MetricName>,
        thresholds: Vec<Threshold>,
        results: Vec<Option<RunResult>>,
    ) -> Sweep {
        let mut results = results.into_iter();
        let mut cells = Vec::new();
        for number in 0..grid.cells() {
            // Take all results of the cell first, even if one is missing.
            let runs: Vec<Option<RunResult>> = results.by_ref().take(seeds.len()).collect();
            let runs: Option<Vec<RunResult>> = runs.into_iter().collect();
            if let Some(runs) = runs.filter(|runs| runs.len() == seeds.len()) {
                cells.push(cell(number, runs, &metrics, &thresholds));
            }
        }
        Sweep {
            grid,
            seeds,
            metrics,
            thresholds,
            cells,
        }
    }

    /// Reports whether every cell has run.
    pub fn is_complete(&self) -> bool {
        self.cells.len() == self.grid.cells()
    }

    /// Reports whether no cell took any time, as on the virtual engine without latencies.
    pub fn took_no_time(&self) -> bool {
        let mut results = self.cells.iter().flat_map(|cell| &cell.results);
        !self.cells.is_empty() && results.all(|result| result.elapsed_seconds == 0.0)
    }

    /// Reports whether the seed is one of the dimensions, so that each cell has its own seed.
    pub fn varies_seed(&self) -> bool {
        let dimensions = &self.grid.dimensions;
        dimensions.iter().any(|dimension| dimension.name == "seed")
    }

    /// Returns the cheapest cell that meets every threshold; `None` if no cell does. The cheapest
    /// is the first in grid order: the first value of each dimension is the cheapest, and the first
    /// dimension matters most.
    pub fn cheapest(&self) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.meets == Some(true))
    }

    /// Returns the cell with this number; `None` if it has not run.
    pub fn cell(&self, number: usize) -> Option<&Cell> {
        let at = self.cells.binary_search_by_key(&number, |cell| cell.number);
        at.ok().map(|at| &self.cells[at])
    }
}

fn cell(
    number: usize,
    mut results: Vec<RunResult>,
    metrics: &[MetricName],
    thresholds: &[Threshold],
) -> Cell {
    let found: Vec<MetricValues> = results.iter().map(MetricValues::from_result).collect();
    let median_of = |name: &MetricName| {
        let values: Vec<f64> = found
            .iter()
            .filter_map(|one| one.find(name).value)
            .collect();
        median(&values)
    };
    let medians = metrics.iter().map(median_of).collect();
    let is_done = results.iter().all(|result| result.outcome.exit_code == 0);
    for result in &mut results {
        crate::result::thresholds::apply(result, thresholds);
    }
    let kept = results.iter().flat_map(|result| &result.thresholds);
    let meets = (!thresholds.is_empty()).then(|| is_done && kept.clone().all(|one| one.met));
    Cell {
        number,
        metrics: medians,
        is_done,
        meets,
        violations: results
            .iter()
            .map(|result| result.outcome.violations.len())
            .sum(),
        results,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sweep;
    use super::*;

    #[test]
    fn the_cheapest_cell_is_the_first_that_meets_the_thresholds() {
        let sweep_of = |bound| {
            let sweep = sweep(bound);
            let cheapest = sweep.cheapest().map(|cell| sweep.grid.name(cell.number));
            (sweep, cheapest)
        };
        let (all, cheapest) = sweep_of("1h");
        assert!(all.is_complete());
        assert_eq!(cheapest.as_deref(), Some("pods=20, kube-api-qps=5"));
        for cell in &all.cells {
            assert_eq!(cell.results.len(), 2);
            assert!(cell.is_done && cell.meets == Some(true));
            assert_eq!((cell.metrics[2], cell.metrics[3]), (Some(0.0), None));
        }
        // Half the requests per second, about twice the time.
        let elapsed = |number: usize| all.cell(number).unwrap().metrics[0].unwrap();
        let ratio = elapsed(0) / elapsed(1);
        assert!((1.7..2.3).contains(&ratio), "{ratio}");
        let between = format!("{}ms", ((elapsed(1) + elapsed(2)) * 500.0) as u64);
        let (_, cheapest) = sweep_of(&between);
        assert_eq!(cheapest.as_deref(), Some("pods=20, kube-api-qps=20"));
        assert_eq!(sweep_of("1ms").1, None);
    }

    #[test]
    fn only_cells_with_a_missing_run_are_left_out() {
        let whole = sweep("1h");
        let results = |cell: &Cell| cell.results.clone().into_iter().map(Some);
        let mut all: Vec<Option<RunResult>> = whole.cells.iter().flat_map(results).collect();
        all[2] = None;
        let Sweep {
            grid,
            seeds,
            metrics,
            ..
        } = whole.clone();
        let part = Sweep::new(grid, seeds, metrics, Vec::new(), all);
        let numbers: Vec<usize> = part.cells.iter().map(|cell| cell.number).collect();
        assert_eq!(numbers, [0, 2, 3, 4, 5]);
        assert!(!part.is_complete());
        assert!(part.cell(1).is_none());
        let metrics = [&part, &whole].map(|sweep| &sweep.cell(2).unwrap().metrics);
        assert_eq!(metrics[0], metrics[1]);
        assert_eq!(part.cells[0].meets, None);
    }
}
