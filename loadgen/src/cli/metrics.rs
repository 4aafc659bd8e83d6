//! `loadgen metrics`: lists the metrics of a result, each with its unit and the better direction.

use crate::metrics::{METRICS, Metric, Shape, Statistic, Unit};

/// Formats the list of metrics.
pub(super) fn list() -> String {
    let names: Vec<String> = METRICS.iter().map(Metric::shown).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    let mut text = format!(
        "{:width$}  {:9} {:6}  meaning (other names)\n",
        "metric", "unit", "better"
    );
    for (metric, name) in METRICS.iter().zip(&names) {
        let unit = match (metric.unit, metric.shape) {
            (_, Shape::Distribution) => "seconds *",
            (Unit::Seconds, _) => "seconds",
            (Unit::Count, _) => "count",
            (Unit::Bytes, _) => "bytes",
            (Unit::PerSecond, _) => "/s",
        };
        let mut about = metric.about.clone();
        if !metric.aliases.is_empty() {
            about.push_str(&format!(" ({})", metric.aliases.join(", ")));
        }
        let better = metric.better.word();
        text.push_str(&format!("{name:width$}  {unit:9} {better:6}  {about}\n"));
    }
    let statistics = Statistic::ALL.map(Statistic::name).join(", ");
    text.push_str(&format!(
        "\n* A distribution; add a statistic: {statistics}.\n  \
         In {{NAME}}, * matches any text, and matching entries are summed; without {{NAME}} all are.\n\n\
         A threshold is a metric and its bound; times always have a unit:\n  \
         loadgen run --threshold 'pod_ready_latency p99 < 5s' \
         --threshold 'api_calls{{create pods 4*}} == 0'\n"
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_listed_and_the_example_is_valid() {
        let text = list();
        for metric in METRICS.iter() {
            assert!(text.contains(&metric.shown()), "{}", metric.name);
        }
        for example in text.split("--threshold '").skip(1) {
            let threshold = example.split('\'').next().unwrap();
            threshold.parse::<crate::metrics::Threshold>().unwrap();
        }
    }
}
