//! Tolerances for how much worse a metric may be: `5%`, `p99=10%`, `pod_ready_latency=5%`,
//! `excess=10`.

use std::fmt;
use std::str::FromStr;

use anyhow::{Error, Result, anyhow, bail};

use crate::metrics::{Better, MetricName, Statistic, Unit};

/// The default tolerance of a metric.
const DEFAULT: Limit = Limit::Share(0.05);

/// By how much a metric may be worse than in the base.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    /// A share of the base.
    Share(f64),
    /// An absolute amount, in the metric's unit.
    Amount(f64),
}

/// The metrics that a tolerance covers, from the widest scope to the narrowest.
#[derive(Clone, Debug, PartialEq)]
enum Scope {
    /// Every metric.
    All,
    /// One statistic of every distribution.
    Statistic(Statistic),
    /// A metric with all its statistics or entries.
    Metric(MetricName),
    /// One statistic or one entry of a metric.
    One(MetricName),
}

impl Scope {
    fn width(&self) -> u8 {
        match self {
            Scope::All => 0,
            Scope::Statistic(_) => 1,
            Scope::Metric(_) => 2,
            Scope::One(_) => 3,
        }
    }

    fn covers(&self, metric: &MetricName) -> bool {
        match self {
            Scope::All => true,
            Scope::Statistic(statistic) => metric.statistic == Some(*statistic),
            Scope::Metric(name) => name.metric == metric.metric,
            Scope::One(name) => *metric == name.canonical(),
        }
    }
}

/// The value of one `--tolerance`.
#[derive(Clone, Debug, PartialEq)]
pub struct Tolerance {
    scope: Scope,
    limit: Limit,
    /// The tolerance as the user wrote it.
    text: String,
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Tolerance {
    type Err = Error;

    fn from_str(text: &str) -> Result<Tolerance> {
        let tolerance = |scope, limit| Tolerance {
            scope,
            limit,
            text: text.to_owned(),
        };
        let Some((name, limit)) = text.rsplit_once('=') else {
            let expected = || {
                anyhow!(
                    "expected a share such as 5%, or NAME=LIMIT such as p99=10% or excess=10, \
                     got {text:?}"
                )
            };
            return Ok(tolerance(Scope::All, share(text)?.ok_or_else(expected)?));
        };
        let scope = scope(name.trim())?;
        if let Some(limit) = share(limit)? {
            return Ok(tolerance(scope, limit));
        }
        let unit = match &scope {
            Scope::Metric(name) | Scope::One(name) => name.unit(),
            // Every distribution is one of times.
            Scope::Statistic(Statistic::Count) => Unit::Count,
            Scope::All | Scope::Statistic(_) => Unit::Seconds,
        };
        match unit.parse(limit) {
            Ok(amount) => Ok(tolerance(scope, Limit::Amount(amount))),
            Err(error) => bail!("{name}: expected a share such as 5%, or an amount: {error}"),
        }
    }
}

fn scope(name: &str) -> Result<Scope> {
    if let Some(statistic) = Statistic::by_name(name) {
        return Ok(Scope::Statistic(statistic));
    }
    if let Ok(metric) = MetricName::parse(name) {
        return Ok(match metric.metric.shape {
            crate::metrics::Shape::Map if metric.key.is_none() => Scope::Metric(metric),
            _ => Scope::One(metric),
        });
    }
    MetricName::metric(name).map(Scope::Metric)
}

/// Parses a share such as `5%`; `None` if the string does not end with `%`.
fn share(text: &str) -> Result<Option<Limit>> {
    let Some(digits) = text.trim().strip_suffix('%') else {
        return Ok(None);
    };
    match digits.trim().parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => {
            Ok(Some(Limit::Share(percent / 100.0)))
        }
        Ok(_) => bail!("{text} is not a tolerance: it must be 0% or more"),
        Err(_) => bail!("{text:?}: expected a number before %, such as 5%"),
    }
}

/// All tolerances of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Tolerances {
    given: Vec<Tolerance>,
}

impl Tolerances {
    /// Combines tolerances. The narrowest one that covers a metric applies; among equally narrow
    /// ones, the last.
    pub fn new(given: Vec<Tolerance>) -> Tolerances {
        Tolerances { given }
    }

    fn limit(&self, metric: &MetricName) -> Limit {
        let covering = self.given.iter().filter(|one| one.scope.covers(metric));
        covering
            .max_by_key(|one| one.scope.width())
            .map_or(DEFAULT, |one| one.limit)
    }

    /// Reports whether `new` is worse than `base` by more than the tolerance. A share of a base of
    /// zero is zero.
    pub fn exceeded(&self, metric: &MetricName, base: f64, new: f64) -> bool {
        let worse_by = match metric.better() {
            Better::Less => new - base,
            Better::More => base - new,
            Better::Neither => return false,
        };
        // Ignore rounding errors in the last digit of the product.
        let allowed = match self.limit(metric) {
            Limit::Share(share) => share * base.abs() * (1.0 + 1e-12),
            Limit::Amount(amount) => amount,
        };
        worse_by > allowed
    }

    /// Formats the tolerance of a metric.
    pub fn text(&self, metric: &MetricName) -> String {
        match self.limit(metric) {
            Limit::Share(share) => format!("{}%", share * 100.0),
            Limit::Amount(amount) => metric.unit().for_people(amount),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tolerances(texts: &[&str]) -> Tolerances {
        Tolerances::new(texts.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn metric(name: &str) -> MetricName {
        MetricName::parse(name).unwrap().canonical()
    }

    #[test]
    fn the_narrowest_tolerance_applies() {
        let some = tolerances(&[
            "1%",
            "convergence.p99=40%",
            "p99=10%",
            "pod_ready_latency=20%",
            "excess=3",
            "queue_wait=1ms",
        ]);
        for (name, text) in [
            ("elapsed", "1%"),
            ("convergence p50", "1%"),
            ("convergence p99", "40%"),
            ("work_duration p99", "10%"),
            ("pod_ready p99", "20%"),
            ("pod_ready max", "20%"),
            ("excess", "3"),
            ("queue_wait p99", "1 ms"),
        ] {
            assert_eq!(some.text(&metric(name)), text, "{name}");
        }
        assert_eq!(tolerances(&[]).text(&metric("elapsed")), "5%");
        assert_eq!(tolerances(&["5%", "9%"]).text(&metric("elapsed")), "9%");
    }

    #[test]
    fn worse_depends_on_the_direction_of_the_metric() {
        let some = tolerances(&["10%", "excess=3"]);
        for (name, base, new, exceeded) in [
            ("elapsed", 10.0, 11.0, false),
            ("elapsed", 10.0, 11.1, true),
            ("elapsed", 10.0, 1.0, false),
            ("elapsed", 0.0, 0.1, true),
            ("pods_per_second", 100.0, 80.0, true),
            ("pods_per_second", 100.0, 200.0, false),
            ("pods.created", 1.0, 100.0, false),
            ("excess", 0.0, 3.0, false),
            ("excess", 0.0, 4.0, true),
        ] {
            let seen = some.exceeded(&metric(name), base, new);
            assert_eq!(seen, exceeded, "{name} {base} {new}");
        }
    }

    #[test]
    fn invalid_tolerances_are_refused() {
        for (text, words) in [
            ("5", "expected a share such as 5%"),
            ("", "expected a share"),
            ("-5%", "0% or more"),
            ("x%", "a number before %"),
            ("pod_redy=5%", "did you mean pod_ready"),
            ("excess=5s", "this is a count"),
            ("pod_ready_latency=5", "a unit is missing"),
            ("p95=5%", "no metric \"p95\""),
        ] {
            let problem = text.parse::<Tolerance>().unwrap_err().to_string();
            assert!(problem.contains(words), "{text}: {problem}");
        }
    }
}
