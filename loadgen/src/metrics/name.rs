//! The name of a metric: the metric itself, its entry or phase if it has several, and the statistic
//! of a distribution: `pod_ready_latency p99`, `api_calls{create pods *}`,
//! `phase{scale to 100 %}.seconds`.

use std::fmt;

use anyhow::{Error, Result, anyhow, bail};

use super::catalogue::{Better, METRICS, Metric, Shape, Statistic, Unit};

/// The minimum similarity of a name to be proposed, from 0 to 1.
const LIKE_ENOUGH: f64 = 0.72;

/// The maximum number of names to propose.
const PROPOSED: usize = 3;

/// The name of a value in a result: a metric with its selections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricName {
    /// The metric's name as the user wrote it.
    written: String,
    /// The metric in the catalogue.
    pub metric: &'static Metric,
    /// The content of `{…}`: an entry of a map, a pattern with `*`, or a phase.
    pub key: Option<String>,
    /// The statistic; `None` if the metric is not a distribution.
    pub statistic: Option<Statistic>,
}

impl MetricName {
    /// Parses a metric's name, which may include `.statistic`.
    ///
    /// # Errors
    /// The metric does not exist, has no entries or phases to select from, or requires a selection
    /// that is missing.
    pub fn metric(text: &str) -> Result<MetricName> {
        let text = text.trim();
        let (base, key) = split_key(text)?;
        let (metric, statistic) = match Metric::by_name(&base) {
            Some(metric) => (metric, None),
            None => with_statistic(&base).ok_or_else(|| unknown(text, &base))?,
        };
        let written = match statistic {
            // The part after the last point is the statistic, which `written` omits.
            Some(_) => text.rsplit_once('.').map_or(text, |(name, _)| name),
            None => text,
        };
        match (metric.shape, &key) {
            (Shape::Phase, None) => {
                bail!("{text} needs a phase: write {}", metric.shown())
            }
            (Shape::Value | Shape::Length | Shape::Distribution, Some(_)) => {
                bail!("{} has no entries to select: remove {{…}}", metric.name)
            }
            _ => {}
        }
        Ok(MetricName {
            written: written.to_owned(),
            metric,
            key,
            statistic,
        })
    }

    /// Returns the selected phase; `None` if the metric is not a metric of a phase.
    pub fn phase(&self) -> Option<&str> {
        self.key
            .as_deref()
            .filter(|_| self.metric.shape == Shape::Phase)
    }

    /// Parses a complete name: `pod_ready_latency.p99`, `pod_ready_latency p99`, `pods.created`. A
    /// distribution requires a statistic.
    ///
    /// # Errors
    /// The same as [`MetricName::metric`] and [`MetricName::with`].
    pub fn parse(text: &str) -> Result<MetricName> {
        let end = text.rfind('}').map_or(0, |at| at + 1);
        match text[end..].trim().split_once(char::is_whitespace) {
            Some((_, statistic)) => {
                let metric = text.trim().strip_suffix(statistic).unwrap_or(text);
                MetricName::metric(metric)?.with(Some(statistic))
            }
            None => MetricName::metric(text)?.with(None),
        }
    }

    /// Adds a statistic to this metric. For a single number, `statistic` must be `value` or absent.
    ///
    /// # Errors
    /// A distribution has no statistic, a single number has one, or the statistic isn't recorded.
    pub fn with(mut self, statistic: Option<&str>) -> Result<MetricName> {
        let name = &self.written;
        let statistic = statistic.map(str::trim).filter(|text| !text.is_empty());
        if self.metric.shape != Shape::Distribution {
            return match statistic {
                None | Some("value") => Ok(self),
                Some(other) => bail!("{name} is a single number and has no {other}: remove it"),
            };
        }
        match (statistic, self.statistic) {
            (None, Some(_)) => Ok(self),
            (None, None) => bail!(
                "{name} is a distribution: add a statistic, one of {}",
                statistics()
            ),
            (Some(text), already) => {
                let wanted = Statistic::by_name(text);
                let wanted = wanted.ok_or_else(|| no_statistic(name, text))?;
                if already.is_some_and(|already| already != wanted) {
                    bail!("{name} has two statistics: remove one");
                }
                self.statistic = Some(wanted);
                Ok(self)
            }
        }
    }

    /// Creates the name of a metric in the catalogue.
    pub(super) fn known(
        metric: &'static Metric,
        key: Option<&str>,
        statistic: Option<Statistic>,
    ) -> MetricName {
        let written = match (metric.shape, key) {
            (Shape::Phase, Some(key)) => metric.name.replace("{}", &format!("{{{key}}}")),
            (_, Some(key)) => format!("{}{{{key}}}", metric.name),
            (_, None) => metric.name.to_owned(),
        };
        MetricName {
            written,
            metric,
            key: key.map(str::to_owned),
            statistic,
        }
    }

    /// Returns the unit of the named value.
    pub fn unit(&self) -> Unit {
        match self.statistic {
            Some(Statistic::Count) => Unit::Count,
            _ => self.metric.unit,
        }
    }

    /// Returns the better direction of the named value.
    pub fn better(&self) -> Better {
        match self.statistic {
            Some(Statistic::Count) => Better::Neither,
            _ => self.metric.better_of(self.key.as_deref()),
        }
    }

    /// Returns the same selection under the metric's name in the catalogue.
    pub fn canonical(&self) -> MetricName {
        MetricName::known(self.metric, self.key.as_deref(), self.statistic)
    }

    /// Returns the metric as the user wrote it, without the statistic.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// Reports whether the metric depends on the machine. Virtual results omit such metrics by
    /// default.
    pub fn is_of_host(&self) -> bool {
        self.metric.name.starts_with("host.")
    }
}

/// Formats the metric as the user wrote it, followed by a space and the statistic.
impl fmt::Display for MetricName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)?;
        match self.statistic {
            Some(statistic) => write!(f, " {}", statistic.name()),
            None => Ok(()),
        }
    }
}

/// Splits `api_calls{create pods 201}` into `api_calls` and the content of the braces.
fn split_key(text: &str) -> Result<(String, Option<String>)> {
    if text.is_empty() {
        bail!("the name of a metric is missing, such as pod_ready_latency or excess_pods_created");
    }
    let Some(open) = text.find('{') else {
        return Ok((text.to_owned(), None));
    };
    let Some(close) = text.rfind('}').filter(|close| *close > open) else {
        bail!("{text:?}: the {{ is not closed with }}");
    };
    let key = text[open + 1..close].trim();
    if key.is_empty() {
        bail!("{text:?}: there is nothing between {{ and }}");
    }
    let base = format!("{}{}", &text[..open], &text[close + 1..]);
    Ok((base, Some(key.to_owned())))
}

/// Splits `pod_ready_latency.p99` into the metric and the statistic.
fn with_statistic(base: &str) -> Option<(&'static Metric, Option<Statistic>)> {
    // `p99.9` contains a point, too.
    base.match_indices('.').find_map(|(at, _)| {
        let metric = Metric::by_name(&base[..at])?;
        let statistic = Statistic::by_name(&base[at + 1..])?;
        (metric.shape == Shape::Distribution).then_some((metric, Some(statistic)))
    })
}

fn no_statistic(name: &str, text: &str) -> Error {
    let (near, all) = (
        proposal(text, Statistic::ALL.map(Statistic::name)),
        statistics(),
    );
    anyhow!("{name} has no {text:?}{near}; recorded are {all}")
}

fn statistics() -> String {
    Statistic::ALL.map(Statistic::name).join(", ")
}

fn unknown(text: &str, base: &str) -> Error {
    if let Some((name, statistic)) = base.split_once('.')
        && let Some(metric) = Metric::by_name(name)
        && metric.shape == Shape::Distribution
    {
        return no_statistic(metric.name, statistic);
    }
    let names = METRICS
        .iter()
        .flat_map(|metric| metric.aliases.iter().chain([&metric.name]));
    anyhow!(
        "there is no metric {text:?}{}; loadgen metrics lists them",
        proposal(base, names.copied())
    )
}

/// Formats the names that are most similar to a string as ` (did you mean a or b?)`; empty if none
/// is similar.
pub(crate) fn proposal<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let lower = text.to_ascii_lowercase();
    let similarity = |name: &str| {
        let contained = lower.len() >= 3 && (name.contains(&lower) || lower.contains(name));
        // A name that contains the string is as good a guess as a name with a typo.
        strsim::jaro_winkler(&lower, name).max(if contained { 0.9 } else { 0.0 })
    };
    let like = names.into_iter().map(|name| (similarity(name), name));
    let like = like.filter(|(similarity, _)| *similarity >= LIKE_ENOUGH);
    let mut like: Vec<(f64, &str)> = like.collect();
    like.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let names: Vec<&str> = like.iter().take(PROPOSED).map(|(_, name)| *name).collect();
    match names.split_last() {
        None => String::new(),
        Some((one, [])) => format!(" (did you mean {one}?)"),
        Some((last, rest)) => format!(" (did you mean {} or {last}?)", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        MetricName::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_name_is_a_metric_an_entry_and_a_statistic() {
        let rows = "\
pod_ready_latency p99         | pod_ready_seconds            |                 | p99
pod_ready_seconds.p(99)       | pod_ready_seconds            |                 | p99
convergence.p99.9             | convergence_seconds          |                 | p999
excess_pods_created value     | excess_pods_created          |                 |
surplus_pods                  | wasted_work.pods_never_ready |                 |
api_calls                     | api_calls                    |                 |
api_calls{create pods 201}    | api_calls                    | create pods 201 |
phase{scale to 100 %}.seconds | phase{}.seconds              | scale to 100 %  |
phase{a}                      | phase{}.seconds              | a               |";
        for row in rows.lines() {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let [text, metric, key, statistic] = cells[..] else {
                panic!("{row}");
            };
            let some = |cell: &'static str| Some(cell).filter(|cell| !cell.is_empty());
            let name = MetricName::parse(text).unwrap();
            assert_eq!(name.metric.name, metric, "{text}");
            assert_eq!(name.key.as_deref(), some(key), "{text}");
            assert_eq!(name.statistic.map(Statistic::name), some(statistic));
        }
        let name = MetricName::parse(" excess_pods_created ").unwrap();
        assert_eq!(name.metric.name, "excess_pods_created");
    }

    #[test]
    fn a_name_keeps_its_spelling() {
        let shown = |text| MetricName::parse(text).unwrap().to_string();
        assert_eq!(shown("pod_ready_latency.p(99)"), "pod_ready_latency p99");
        assert_eq!(shown("phase{a b}.seconds"), "phase{a b}.seconds");
        let name = MetricName::parse("pod_ready_latency.p99").unwrap();
        assert_eq!(name.canonical().to_string(), "pod_ready_seconds p99");
        let name = MetricName::parse("phase{a b}").unwrap();
        assert_eq!(name.canonical().to_string(), "phase{a b}.seconds");
    }

    #[test]
    fn invalid_names_are_refused_with_alternatives() {
        let which = "add a statistic, one of count, mean, p50";
        for (text, words) in [
            ("pod_ready_latncy p99", "did you mean pod_ready_latency"),
            ("zzz", "there is no metric \"zzz\"; loadgen metrics"),
            ("pod_ready_latency", which),
            ("pod_ready_latency p95", "has no \"p95\" (did you mean p9"),
            ("pod_ready_latency.p95", "has no \"p95\" (did you mean p9"),
            ("excess_pods_created p99", "single number and has no p99"),
            ("pods.created{x}", "has no entries"),
            ("phase.seconds", "write phase{NAME}.seconds"),
            ("api_calls{x", "not closed"),
            ("api_calls{}", "there is nothing between"),
            ("", "missing"),
        ] {
            assert!(problem(text).contains(words), "{text}: {}", problem(text));
        }
    }
}
