//! A verdict on every metric of two sides: its medians, their ratio, whether the difference can be chance,
//! and whether it is worse by more than it may be.

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
    /// Worse by more than it may be.
    Regression,
    /// Better by more than it might be worse.
    Better,
    /// Worse or better by no more than the tolerance.
    WithinTolerance,
    /// More than the tolerance, but such a difference is likely by chance alone.
    Noise,
    /// Other than it was, and neither better nor worse for it.
    Changed,
    /// Equal.
    Same,
    /// Only the base has it.
    OnlyInBase,
    /// Only the new one has it.
    OnlyInNew,
}

impl Verdict {
    /// The words for people.
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

/// One metric of both sides.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which.
    #[serde(rename = "figure", serialize_with = "as_text")]
    pub metric: MetricName,
    /// What it is counted in.
    pub unit: Unit,
    /// Which way is better.
    pub better: Better,
    /// The base's median.
    pub base: Option<f64>,
    /// The new one's median.
    pub new: Option<f64>,
    /// New by base; absent where the base is zero.
    pub ratio: Option<f64>,
    /// Of the Mann-Whitney test; absent where it can't tell anything.
    pub p_value: Option<f64>,
    /// By how much it may be worse.
    pub tolerance: String,
    /// The verdict.
    pub verdict: Verdict,
}

fn as_text<S: Serializer>(name: &MetricName, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(name)
}

/// Two sides compared.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Seeds of the base's results.
    pub base_seeds: Vec<u64>,
    /// Seeds of the new results.
    pub new_seeds: Vec<u64>,
    /// In what they differ besides their metrics.
    pub differences: Vec<Difference>,
    /// How the verdicts came about, and what they can't tell.
    pub method: String,
    /// How many metrics are worse by more than they may be.
    pub regressions: usize,
    /// Every metric, in the order of the catalogue.
    #[serde(rename = "figures")]
    pub metrics: Vec<Row>,
}

impl Comparison {
    /// The metrics that are worse by more than they may be.
    pub fn regressed(&self) -> impl Iterator<Item = &Row> {
        let is_regression = |row: &&Row| row.verdict == Verdict::Regression;
        self.metrics.iter().filter(is_regression)
    }
}

/// Compares results, one or more a side; `only` are the metrics wanted, none is all.
///
/// # Panics
/// When a side has no result.
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
        // A pattern stands for the sum that it names, not for each entry.
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

/// A nanosecond is the least that the histograms hold: it stands for no time at all.
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
        // By as much as the base would be worse than the new one.
        false => tolerances.exceeded(name, new, base),
    };
    match (exceeded, p_value) {
        (false, _) => Verdict::WithinTolerance,
        (true, Some(p_value)) if p_value >= SIGNIFICANT => Verdict::Noise,
        _ if is_worse => Verdict::Regression,
        _ => Verdict::Better,
    }
}

/// How the verdicts came about, and what they can't tell.
fn method(base: &[Loaded], new: &[Loaded]) -> String {
    let (seeds, others) = (identity::seeds(base), identity::seeds(new));
    let is_virtual = base.iter().chain(new).all(|loaded| {
        let engine = loaded.metrics.json().get("engine");
        engine.and_then(serde_json::Value::as_str) == Some("virtual")
    });
    let smallest = smallest_p_value(base.len(), new.len());
    if smallest < SIGNIFICANT {
        return format!(
            "medians of {} and {}; p is that of the two-sided Mann-Whitney U test{}; a metric \
             that exceeds its tolerance is a regression where p < {SIGNIFICANT} and noise elsewhere",
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
        (1, 1, true) if seeds == others => "one run each, on the virtual engine and of the same \
             seed: the metrics are exact, and every difference comes from what differs; whether it \
             holds for other seeds can't be told"
            .to_owned(),
        (1, 1, true) => "one run each, of different seeds: whether a difference comes from the \
             seed can't be told; compare runs of one seed, or several seeds each"
            .to_owned(),
        (1, 1, false) => "one run each: whether a difference is noise can't be told; compare four \
             or more runs each"
            .to_owned(),
        (base, new, _) => format!(
            "medians of {base} and {}: too few to tell noise from change (no p-value can \
             be below {smallest:.2}), so that the tolerance alone decides; four of each would do",
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
    fn one_run_each_goes_by_the_tolerance() {
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
    fn several_runs_go_by_the_test_as_well() {
        let row = row_of(&[10.0, 11.0, 10.5, 10.2], &[20.0, 21.0, 22.0, 20.5]);
        assert_eq!(row.verdict, Verdict::Regression);
        assert!(row.p_value.unwrap() < 0.03);
        let row = row_of(&[10.0, 20.0, 10.5, 30.0], &[10.2, 25.0, 31.0, 19.0]);
        assert_eq!(row.verdict, Verdict::Noise);
        let row = row_of(&[10.0, 11.0], &[20.0, 21.0]);
        assert_eq!((row.verdict, row.p_value), (Verdict::Regression, None));
    }

    #[test]
    fn what_is_neither_better_nor_worse_has_changed() {
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
    fn what_can_not_be_told_is_said() {
        let one = |members| vec![result(members)];
        let said = |base: &[Loaded], new: &[Loaded]| {
            compare(base, new, &Tolerances::default(), &[]).method
        };
        let (base, other) = (one(json!({})), one(json!({"seed": 2})));
        assert!(said(&base, &base).contains("exact"));
        assert!(said(&base, &other).contains("comes from the seed can't be told"));
        let threads = one(json!({"engine": "threads"}));
        assert!(said(&threads, &threads).contains("is noise can't be told"));
        let three = with_elapsed(&[1.0, 2.0, 3.0]);
        assert!(said(&three, &three).contains("below 0.10"));
        let four = with_elapsed(&[1.0, 2.0, 3.0, 4.0]);
        assert!(said(&four, &four).contains("Mann-Whitney U test, exact"));
    }

    #[test]
    fn only_the_metrics_asked_for_have_verdicts() {
        let base = [result(json!({}))];
        let only = [MetricName::parse("convergence.p99").unwrap()];
        let comparison = compare(&base, &base, &Tolerances::default(), &only);
        assert_eq!(comparison.metrics.len(), 1);
        let name = comparison.metrics[0].metric.to_string();
        assert_eq!(name, "convergence_seconds p99");
    }
}
