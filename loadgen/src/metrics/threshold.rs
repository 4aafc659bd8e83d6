//! A bound on a metric: `pod_ready_latency p99 < 5s`, in the notation of this program or of k6
//! (`p(99)<5s`).

use std::fmt;
use std::str::FromStr;

use anyhow::{Error, Result, anyhow, bail};
use schemars::JsonSchema;
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};

use super::catalogue::Unit;
use super::name::MetricName;
use super::values::MetricValues;

/// The comparisons as they may be written and as they are shown. The longest come first, so that
/// `<=` is not parsed as `<`; `===` and `!==` are from k6.
const COMPARISONS: [(&str, &str); 8] = [
    ("===", "=="),
    ("!==", "!="),
    ("<=", "<="),
    (">=", ">="),
    ("==", "=="),
    ("!=", "!="),
    ("<", "<"),
    (">", ">"),
];

/// Reports whether a value satisfies a comparison with its bound.
fn holds(comparison: &str, value: f64, bound: f64) -> bool {
    match comparison {
        "<" => value < bound,
        "<=" => value <= bound,
        ">" => value > bound,
        ">=" => value >= bound,
        "==" => value == bound,
        _ => value != bound,
    }
}

/// A bound on one metric of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    metric: MetricName,
    /// The comparison as it is shown, from [`COMPARISONS`].
    comparison: &'static str,
    bound: f64,
    /// The bound as the user wrote it.
    bound_text: String,
}

/// The outcome of checking a threshold.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ThresholdOutcome {
    /// The threshold: `pod_ready_latency p99 < 5s`.
    pub threshold: String,
    /// The measured value, in `unit`; absent if the result has no value.
    pub value: Option<f64>,
    /// The unit of the value.
    pub unit: Unit,
    /// Whether the threshold is met. It is not met if there is no value.
    pub met: bool,
    /// Why there is no value, or a remark about it; otherwise empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl ThresholdOutcome {
    /// Formats the measured value, or the reason why there is no value.
    pub fn seen(&self) -> String {
        match (self.value, self.note.is_empty()) {
            (Some(value), true) => self.unit.for_people(value),
            (Some(value), false) => format!("{}; {}", self.unit.for_people(value), self.note),
            (None, _) => format!("no value: {}", self.note),
        }
    }

    /// Describes the outcome in words: the threshold, whether it is met, and the value.
    pub fn reason(&self) -> String {
        let verdict = if self.met { "met" } else { "not met" };
        format!("threshold {verdict}: {} ({})", self.threshold, self.seen())
    }
}

impl Threshold {
    /// Parses a threshold: the metric's name (`pod_ready_latency`, `api_calls{create pods 201}`)
    /// and a condition (`p99 < 5s`, `p(99)<5s`, `== 0`, `value >= 1k`).
    ///
    /// # Errors
    /// The metric or statistic is unknown, the comparison is missing, or the bound has a missing or
    /// wrong unit.
    pub fn parse(metric: &str, expression: &str) -> Result<Threshold> {
        let metric = MetricName::metric(metric)?;
        let name = metric.written().to_owned();
        let found = COMPARISONS
            .iter()
            .filter_map(|(text, comparison)| {
                let at = expression.find(text)?;
                Some((at, *text, *comparison))
            })
            // The first comparison in the string; at the same position the longest, which comes
            // first.
            .min_by_key(|(at, ..)| *at);
        let Some((at, text, comparison)) = found else {
            if expression.contains('=') {
                bail!("{name}: {expression:?} has = instead of ==");
            }
            bail!(
                "{name}: {:?} has no comparison; write such as {}",
                expression.trim(),
                example(&metric)
            );
        };
        let (statistic, bound_text) = (&expression[..at], expression[at + text.len()..].trim());
        let metric = metric.with(Some(statistic))?;
        if bound_text.is_empty() {
            bail!(
                "{name}: there is nothing after {text}; write such as {}",
                example(&metric)
            );
        }
        let bound = metric
            .unit()
            .parse(bound_text)
            .map_err(|error| anyhow!("{metric} {text} {bound_text}: {error}"))?;
        Ok(Threshold {
            metric,
            comparison,
            bound,
            bound_text: bound_text.to_owned(),
        })
    }

    /// Checks the threshold against a result's metrics.
    pub fn outcome(&self, metrics: &MetricValues) -> ThresholdOutcome {
        let found = metrics.find(&self.metric);
        let holds = |value| holds(self.comparison, value, self.bound);
        ThresholdOutcome {
            threshold: self.to_string(),
            value: found.value,
            unit: self.metric.unit(),
            met: found.value.is_some_and(holds),
            note: found.note,
        }
    }

    /// Returns the metric.
    pub fn metric(&self) -> &MetricName {
        &self.metric
    }

    /// Reports whether the bound is an upper bound: `<` or `<=`. A count or a maximum that exceeds
    /// it during a run stays above it.
    pub fn is_upper_bound(&self) -> bool {
        self.comparison.starts_with('<')
    }

    /// Returns the part after the metric's name: `p99 < 5s`.
    pub fn expression(&self) -> String {
        let bound = format!("{} {}", self.comparison, self.bound_text);
        match self.metric.statistic {
            Some(statistic) => format!("{} {bound}", statistic.name()),
            None => bound,
        }
    }
}

fn example(metric: &MetricName) -> String {
    let statistic = match (metric.statistic, metric.metric.shape) {
        (Some(statistic), _) => format!(" {}", statistic.name()),
        (None, super::Shape::Distribution) => " p99".to_owned(),
        (None, _) => String::new(),
    };
    let bound = match metric.unit() {
        Unit::Seconds => "5s",
        Unit::Count => "1k",
        Unit::Bytes => "500MB",
        Unit::PerSecond => "1000/s",
    };
    format!("'{}{statistic} < {bound}'", metric.written())
}

/// Formats the canonical text: `pod_ready_latency p99 < 5s`.
impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.metric.written(), self.expression())
    }
}

/// Parses a threshold from a single string: `pod_ready_latency p99 < 5s` or
/// `pod_ready_latency: p99 < 5s`.
impl FromStr for Threshold {
    type Err = Error;

    fn from_str(text: &str) -> Result<Threshold> {
        let text = text.trim();
        // Braces may contain spaces and comparison operators.
        let braces = text.rfind('}').map_or(0, |at| at + 1);
        let ends = |c: char| c.is_whitespace() || matches!(c, ':' | '<' | '>' | '=' | '!');
        let end = text[braces..]
            .find(ends)
            .map_or(text.len(), |at| braces + at);
        let (metric, rest) = text.split_at(end);
        let rest = rest.trim_start();
        Threshold::parse(metric, rest.strip_prefix(':').unwrap_or(rest))
    }
}

impl Serialize for Threshold {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

/// Accepts a single string, or `{metric, expression}`.
impl<'de> Deserialize<'de> for Threshold {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Threshold, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Parts { metric: String, expression: String },
        }
        let threshold = match Written::deserialize(from)? {
            Written::Text(text) => text.parse(),
            Written::Parts { metric, expression } => Threshold::parse(&metric, &expression),
        };
        threshold.map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metrics() -> MetricValues {
        MetricValues::from_json(json!({
            "pod_ready_seconds": {"count": 9, "p99": 0.2, "max": 6.0},
            "convergence_seconds": {"count": 0},
            "excess_pods_created": 0,
            "api_calls": {"create pods 201": 1000},
            "phases": [{"name": "a < b", "seconds": 2.0}],
        }))
    }

    fn outcome(text: &str) -> ThresholdOutcome {
        text.parse::<Threshold>().unwrap().outcome(&metrics())
    }

    #[test]
    fn thresholds_have_many_spellings_and_one_canonical_form() {
        let p99 = "pod_ready_latency p99 < 5s";
        let max = "pod_ready_latency max <= 200ms";
        let created = "api_calls{create pods 201} >= 1k";
        for (text, canonical) in [
            (p99, p99),
            ("pod_ready_latency:p(99)<5s", p99),
            ("pod_ready_latency: p(99) < 5s", p99),
            ("pod_ready_latency.max<=200ms", max),
            ("excess_pods_created===0", "excess_pods_created == 0"),
            ("excess_pods_created value < 10", "excess_pods_created < 10"),
            (created, created),
            ("phase{a < b}.seconds<5s", "phase{a < b}.seconds < 5s"),
        ] {
            let threshold: Threshold = text.parse().unwrap();
            assert_eq!(threshold.to_string(), canonical);
            assert_eq!(canonical.parse::<Threshold>().unwrap(), threshold);
        }
        let parts = Threshold::parse("pod_ready_latency", "p(99)<5s").unwrap();
        assert_eq!(parts.to_string(), p99);
        assert!(parts.is_upper_bound());
    }

    #[test]
    fn thresholds_are_met_or_not() {
        for (text, met) in [
            ("pod_ready_latency p99 < 5s", true),
            ("pod_ready_latency p99 <= 200ms", true),
            ("pod_ready_latency p99 < 200ms", false),
            ("pod_ready_latency max > 5s", true),
            ("pod_ready_latency count != 9", false),
            ("excess_pods_created == 0", true),
            ("api_calls{create pods *} >= 1000", true),
            ("api_calls{create pods 500} == 0", true),
            ("phase{a < b}.seconds < 1s", false),
        ] {
            assert_eq!(outcome(text).met, met, "{text}");
        }
    }

    #[test]
    fn a_missing_value_is_not_met_and_is_reported() {
        let outcome = outcome("convergence p99 < 5s");
        assert_eq!((outcome.value, outcome.met), (None, false));
        let reason = "threshold not met: convergence p99 < 5s (no value: nothing was measured)";
        assert_eq!(outcome.reason(), reason);
    }

    #[test]
    fn the_reason_names_the_threshold_and_the_value() {
        let reason = outcome("pod_ready_latency max < 5s").reason();
        let expected = "threshold not met: pod_ready_latency max < 5s (6 s)";
        assert_eq!(reason, expected);
    }

    #[test]
    fn invalid_thresholds_are_refused_with_alternatives() {
        for (text, words) in [
            (
                "pod_ready_latency",
                "no comparison; write such as 'pod_ready_latency p99 < 5s'",
            ),
            ("pod_ready_latency p99", "no comparison"),
            ("pod_ready_latency p99 = 5s", "has = instead of =="),
            ("pod_ready_latency < 5s", "add a statistic"),
            ("pod_ready_latency p95 < 5s", "recorded are count, mean"),
            ("pod_ready_latency p99 <", "there is nothing after <"),
            (
                "pod_ready_latency p99 < 5",
                "a unit is missing: write 5ms, 5s",
            ),
            (
                "pod_ready_latncy p99 < 5s",
                "did you mean pod_ready_latency",
            ),
            ("excess_pods_created < 5s", "this is a count"),
            ("excess_pods_created <<5", "expected a number"),
            ("peak_memory < 500", "500MB"),
            ("< 5s", "name of a metric is missing"),
            ("", "name of a metric is missing"),
        ] {
            let problem = text.parse::<Threshold>().unwrap_err().to_string();
            assert!(problem.contains(words), "{text}: {problem}");
        }
    }

    #[test]
    fn files_hold_a_text_or_its_parts() {
        let canonical = "pod_ready_latency p99 < 5s";
        let threshold: Threshold = canonical.parse().unwrap();
        let text = json!("pod_ready_latency p(99)<5s");
        let parts = json!({"metric": "pod_ready_latency", "expression": "p99 < 5s"});
        for written in [text, parts] {
            let read: Threshold = serde_json::from_value(written).unwrap();
            assert_eq!(read, threshold);
        }
        assert_eq!(serde_json::to_value(&threshold).unwrap(), canonical);
        let wrong = serde_json::from_value::<Threshold>(json!("nothing < 5s"));
        let problem = wrong.unwrap_err().to_string();
        assert!(problem.contains("there is no metric"));
    }
}
