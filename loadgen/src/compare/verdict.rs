//! The verdict on every metric of two sides: medians, their ratio, whether the difference may be
//! chance, and whether it exceeds the tolerance.

use serde::{Serialize, Serializer};

use super::identity::{self, Difference};
use super::load::Loaded;
use super::significance::{SIGNIFICANT, median, p_value, smallest_p_value};
use super::tolerance::Tolerances;
use crate::metrics::{Better, MetricName, MetricValues, Unit};
use crate::units::counted;

/// The verdict on one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Worse by more than the tolerance.
    Regression,
    /// Better by more than the tolerance.
    Better,
    /// Worse or better, within the tolerance.
    WithinTolerance,
    /// Different by more than the tolerance, but the difference may be chance.
    Noise,
    /// Changed; neither direction is better.
    Changed,
    /// Equal on both sides.
    Same,
    /// Present only in the base.
    OnlyInBase,
    /// Present only in the new results.
    OnlyInNew,
}

impl Verdict {
    /// Returns the verdict in words.
    pub const fn text(self) -> &'static str {
        match self {
            Verdict::Regression => "REGRESSION",
            Verdict::Better => "better",
            Verdict::WithinTolerance => "within tolerance",
            Verdict::Noise => "noise",
            Verdict::Changed => "changed",
            Verdict::Same => "same",
            Verdict::OnlyInBase => "only in base",
            Verdict::OnlyInNew => "only in new",
        }
    }
}

/// One metric on both sides.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The metric.
    #[serde(rename = "figure", serialize_with = "as_text")]
    pub metric: MetricName,
    /// The unit.
    pub unit: Unit,
    /// The better direction.
    pub better: Better,
    /// The base's median.
    pub base: Option<f64>,
    /// The median of the new results.
    pub new: Option<f64>,
    /// New divided by base; absent if the base is zero.
    pub ratio: Option<f64>,
    /// The p-value of the Mann-Whitney test; absent if it can't be significant.
    pub p_value: Option<f64>,
    /// How much worse the metric may be than in the base, as text.
    pub tolerance: String,
    /// The verdict.
    pub verdict: Verdict,
}

fn as_text<S: Serializer>(name: &MetricName, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(name)
}

/// A comparison of two sides.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Seeds of the base's results.
    pub base_seeds: Vec<u64>,
    /// Seeds of the new results.
    pub new_seeds: Vec<u64>,
    /// Differences besides the metrics.
    pub differences: Vec<Difference>,
    /// How the verdicts were reached, and their limits.
    pub method: String,
    /// The number of regressions.
    pub regressions: usize,
    /// Every metric, in the order of the catalogue.
    #[serde(rename = "figures")]
    pub metrics: Vec<Row>,
}

impl Comparison {
    /// Returns the regressions.
    pub fn regressed(&self) -> impl Iterator<Item = &Row> {
        let is_regression = |row: &&Row| row.verdict == Verdict::Regression;
        self.metrics.iter().filter(is_regression)
    }
}

/// Compares results, at least one per side. `only` selects metrics; if it is empty, all are
/// compared.
///
/// # Panics
/// A side has no result.
pub fn compare(
    base: &[Loaded],
    new: &[Loaded],
    tolerances: &Tolerances,
    only: &[MetricName],
) -> Comparison {
    let (first_base, first_new) = (&base[0].metrics, &new[0].metrics);
    let all = base.iter().chain(new).map(|loaded| &loaded.metrics);
    let mut names = MetricValues::names_of_all(all);
    if !only.is_empty() {
        // A pattern selects the sum over its matches, not each entry.
        names = only.iter().map(MetricName::canonical).collect();
    }
    let metrics: Vec<Row> = names
        .into_iter()
        .map(|name| row(name, base, new, tolerances))
        .collect();
    let regression = |row: &&Row| row.verdict == Verdict::Regression;
    Comparison {
        base_seeds: identity::seeds(base),
        new_seeds: identity::seeds(new),
        differences: identity::differences(first_base, first_new),
        method: method(base, new),
        regressions: metrics.iter().filter(regression).count(),
        metrics,
    }
}

fn row(name: MetricName, base: &[Loaded], new: &[Loaded], tolerances: &Tolerances) -> Row {
    let values = |side: &[Loaded]| -> Vec<f64> {
        let found = side.iter().filter_map(|one| one.metrics.find(&name).value);
        found.map(|value| settled(name.unit(), value)).collect()
    };
    let (base, new) = (values(base), values(new));
    let tells = smallest_p_value(base.len(), new.len()) < SIGNIFICANT;
    let p_value = p_value(&base, &new).filter(|_| tells);
    let (base, new) = (median(&base), median(&new));
    let ratio = match (base, new) {
        (Some(base), Some(new)) if base != 0.0 => Some(new / base),
        _ => None,
    };
    Row {
        unit: name.unit(),
        better: name.better(),
        verdict: verdict(&name, base, new, p_value, tolerances),
        tolerance: tolerances.text(&name),
        base,
        new,
        ratio,
        p_value,
        metric: name,
    }
}

/// Replaces a duration of one nanosecond by zero: the histograms record zero as their minimum, a
/// nanosecond.
fn settled(unit: Unit, value: f64) -> f64 {
    if unit == Unit::Seconds && value <= 1e-9 {
        0.0
    } else {
        value
    }
}

fn verdict(
    name: &MetricName,
    base: Option<f64>,
    new: Option<f64>,
    p_value: Option<f64>,
    tolerances: &Tolerances,
) -> Verdict {
    let (base, new) = match (base, new) {
        (Some(base), Some(new)) => (base, new),
        (Some(_), None) => return Verdict::OnlyInBase,
        (None, _) => return Verdict::OnlyInNew,
    };
    if base == new {
        return Verdict::Same;
    }
    let is_worse = match name.better() {
        Better::Neither => return Verdict::Changed,
        Better::Less => new > base,
        Better::More => new < base,
    };
    let exceeded = match is_worse {
        true => tolerances.exceeded(name, base, new),
        // Check in the opposite direction.
        false => tolerances.exceeded(name, new, base),
    };
    match (exceeded, p_value) {
        (false, _) => Verdict::WithinTolerance,
        (true, Some(p_value)) if p_value >= SIGNIFICANT => Verdict::Noise,
        _ if is_worse => Verdict::Regression,
        _ => Verdict::Better,
    }
}

/// Describes how the verdicts were reached, and their limits.
fn method(base: &[Loaded], new: &[Loaded]) -> String {
    let (seeds, others) = (identity::seeds(base), identity::seeds(new));
    let is_virtual = base.iter().chain(new).all(|loaded| {
        let engine = loaded.metrics.json().get("engine");
        engine.and_then(serde_json::Value::as_str) == Some("virtual")
    });
    let smallest = smallest_p_value(base.len(), new.len());
    if smallest < SIGNIFICANT {
        return format!(
            "medians of {} and {}; p is from the two-sided Mann-Whitney U test{}; a metric \
             that exceeds its tolerance is a regression if p < {SIGNIFICANT} and noise otherwise",
            base.len(),
            counted(new.len() as u64, "run"),
            if base.len() + new.len() <= 60 {
                ", exact"
            } else {
                ", normal approximation"
            },
        );
    }
    match (base.len(), new.len(), is_virtual) {
        (1, 1, true) if seeds == others => "one run each, on the virtual engine with the same \
             seed: the metrics are exact, so every difference is real; other seeds may not \
             show it"
            .to_owned(),
        (1, 1, true) => "one run each, with different seeds: a difference may come from the seed; \
             compare runs with one seed, or several seeds each"
            .to_owned(),
        (1, 1, false) => {
            "one run each: a difference may be noise; compare four or more runs each".to_owned()
        }
        (base, new, _) => format!(
            "medians of {base} and {}: too few to distinguish noise from change (no p-value can \
             be below {smallest:.2}), so only the tolerance decides; use at least four runs each",
            counted(new as u64, "run"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::result;
    use super::*;

    fn with_elapsed(values: &[f64]) -> Vec<Loaded> {
        let seeded =
            |(seed, value): (usize, &f64)| result(json!({"seed": seed, "elapsed_seconds": value}));
        values.iter().enumerate().map(seeded).collect()
    }

    fn row_of(base: &[f64], new: &[f64]) -> Row {
        let (base, new) = (with_elapsed(base), with_elapsed(new));
        let comparison = compare(&base, &new, &Tolerances::default(), &[]);
        let of_elapsed = |row: &Row| row.metric.to_string() == "elapsed_seconds";
        comparison.metrics.into_iter().find(of_elapsed).unwrap()
    }

    #[test]
    fn with_one_run_each_the_tolerance_decides() {
        for (base, new, verdict) in [
            (10.0, 10.0, Verdict::Same),
            (10.0, 10.5, Verdict::WithinTolerance),
            (10.0, 10.6, Verdict::Regression),
            (10.0, 9.9, Verdict::WithinTolerance),
            (10.0, 9.0, Verdict::Better),
            (0.0, 1.0, Verdict::Regression),
            (1e-9, 0.0, Verdict::Same),
        ] {
            let row = row_of(&[base], &[new]);
            assert_eq!(row.verdict, verdict, "{base} {new}");
            assert_eq!(row.p_value, None);
        }
        assert_eq!(row_of(&[10.0], &[20.0]).ratio, Some(2.0));
        assert_eq!(row_of(&[0.0], &[20.0]).ratio, None);
    }

    #[test]
    fn with_several_runs_the_test_decides_too() {
        let row = row_of(&[10.0, 11.0, 10.5, 10.2], &[20.0, 21.0, 22.0, 20.5]);
        assert_eq!(row.verdict, Verdict::Regression);
        assert!(row.p_value.unwrap() < 0.03);
        let row = row_of(&[10.0, 20.0, 10.5, 30.0], &[10.2, 25.0, 31.0, 19.0]);
        assert_eq!(row.verdict, Verdict::Noise);
        let row = row_of(&[10.0, 11.0], &[20.0, 21.0]);
        assert_eq!((row.verdict, row.p_value), (Verdict::Regression, None));
    }

    #[test]
    fn metrics_without_a_direction_are_changed() {
        let base = result(json!({}));
        let new = result(json!({
            "pods": {"created": 200}, "api_calls": {"create pods 409": 3},
            "host": {"wall_seconds": 1.0}, "phases": [],
        }));
        let comparison = compare(&[base], &[new], &Tolerances::default(), &[]);
        let of = |name: &str| {
            let row = comparison
                .metrics
                .iter()
                .find(|row| row.metric.to_string() == name);
            row.unwrap_or_else(|| panic!("{name}")).verdict
        };
        assert_eq!(of("pods.created"), Verdict::Changed);
        assert_eq!(of("api_calls"), Verdict::Better);
        assert_eq!(of("api_calls{create pods 201}"), Verdict::Changed);
        assert_eq!(of("api_calls{create pods 409}"), Verdict::Regression);
        assert_eq!(of("host.wall_seconds"), Verdict::OnlyInNew);
        assert_eq!(of("phase{up}.seconds"), Verdict::OnlyInBase);
        assert_eq!(comparison.regressions, 1);
        assert_eq!(comparison.regressed().count(), 1);
    }

    #[test]
    fn the_method_states_its_limits() {
        let one = |members| vec![result(members)];
        let said = |base: &[Loaded], new: &[Loaded]| {
            compare(base, new, &Tolerances::default(), &[]).method
        };
        let (base, other) = (one(json!({})), one(json!({"seed": 2})));
        assert!(said(&base, &base).contains("exact"));
        assert!(said(&base, &other).contains("may come from the seed"));
        let threads = one(json!({"engine": "threads"}));
        assert!(said(&threads, &threads).contains("may be noise"));
        let three = with_elapsed(&[1.0, 2.0, 3.0]);
        assert!(said(&three, &three).contains("below 0.10"));
        let four = with_elapsed(&[1.0, 2.0, 3.0, 4.0]);
        assert!(said(&four, &four).contains("Mann-Whitney U test, exact"));
    }

    #[test]
    fn only_selected_metrics_have_verdicts() {
        let base = [result(json!({}))];
        let only = [MetricName::parse("convergence.p99").unwrap()];
        let comparison = compare(&base, &base, &Tolerances::default(), &only);
        assert_eq!(comparison.metrics.len(), 1);
        let name = comparison.metrics[0].metric.to_string();
        assert_eq!(name, "convergence_seconds p99");
    }
}
