//! Metrics as Prometheus' text format, spelt as Kubernetes' components spell it. A library of the format
//! names counters and writes bounds of buckets its own way, and then nobody's queries fit.

use std::fmt::{self, Write};

use podstorm::metrics::{Family, HistogramSnapshot, Value};

/// The `Content-Type` of [`prometheus`].
pub(super) const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The families in Prometheus' text format.
pub(super) fn prometheus(families: &[Family]) -> String {
    let mut out = String::new();
    for family in families {
        // Writing to a `String` cannot fail, so the results are dropped.
        let _ = write_family(&mut out, family);
    }
    out
}

fn write_family(out: &mut String, family: &Family) -> fmt::Result {
    let name = family.name;
    writeln!(out, "# HELP {name} {}", family.help)?;
    writeln!(out, "# TYPE {name} {}", family.kind.as_str())?;
    for series in &family.series {
        let labels: Vec<(&str, String)> = series
            .labels
            .iter()
            .map(|(name, value)| (*name, value.to_string()))
            .collect();
        match &series.value {
            Value::Number(number) => {
                writeln!(
                    out,
                    "{name}{} {}",
                    label_text(&labels, None),
                    float(*number)
                )?;
            }
            Value::Histogram(histogram) => {
                for (bound, total) in buckets(histogram) {
                    let labels = label_text(&labels, Some(&float(bound)));
                    writeln!(out, "{name}_bucket{labels} {total}")?;
                }
                let labels = label_text(&labels, None);
                writeln!(out, "{name}_sum{labels} {}", float(histogram.sum))?;
                writeln!(out, "{name}_count{labels} {}", histogram.count())?;
            }
        }
    }
    Ok(())
}

fn label_text(labels: &[(&str, String)], bound: Option<&str>) -> String {
    let mut all: Vec<String> = labels
        .iter()
        .map(|(name, value)| {
            let value = value
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            format!("{name}=\"{value}\"")
        })
        .collect();
    all.extend(bound.map(|bound| format!("le=\"{bound}\"")));
    if all.is_empty() {
        String::new()
    } else {
        format!("{{{}}}", all.join(","))
    }
}

/// The buckets with their inclusive bounds and what lies in them and below, the last without bound.
/// Upstream computes each bound from the one before: so the fourth of the queue's is
/// 9.999999999999999e-06, and a query for a bucket by its name finds it under this one.
fn buckets(histogram: &HistogramSnapshot) -> Vec<(f64, u64)> {
    let bounds = &histogram.bounds;
    let factor = match bounds[..] {
        [first, second, ..] => (second / first).round(),
        _ => 1.0,
    };
    let mut next = bounds.first().copied().unwrap_or(0.0);
    let mut total = 0;
    let mut buckets = Vec::with_capacity(bounds.len() + 1);
    for (&bound, count) in bounds.iter().chain([&f64::INFINITY]).zip(&histogram.counts) {
        total += count;
        let is_next = (next / bound - 1.0).abs() < 1e-9;
        buckets.push((if is_next { next } else { bound }, total));
        next *= factor;
    }
    buckets
}

/// A number as Go writes it in this format: shortest, and with an exponent of two digits where it is
/// very small or very large.
fn float(value: f64) -> String {
    if value == f64::INFINITY {
        return "+Inf".to_owned();
    }
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    if exponent
        .parse()
        .is_ok_and(|power: i32| (-4..21).contains(&power))
    {
        return value.to_string();
    }
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

#[cfg(test)]
mod tests {
    use podstorm::metrics::{Kind, Series};

    use super::*;

    fn families() -> Vec<Family> {
        let bounds: Vec<f64> = (0..10).map(|power| 10f64.powi(power - 8)).collect();
        let mut counts = vec![0; 11];
        (counts[3], counts[10]) = (5, 2);
        vec![
            Family {
                name: "workqueue_queue_duration_seconds",
                help: "Seconds.",
                kind: Kind::Histogram,
                series: vec![Series {
                    labels: vec![("name", "replicaset".into())],
                    value: Value::Histogram(HistogramSnapshot {
                        bounds,
                        counts,
                        sum: 21.5,
                    }),
                }],
            },
            Family::single(
                "workqueue_adds_total",
                "Adds.",
                Kind::Counter,
                vec![("name", "a\"b".into())],
                Value::Number(7.0),
            ),
        ]
    }

    #[test]
    fn bounds_are_spelt_as_upstream_spells_them() {
        let text = prometheus(&families());
        for line in [
            "# TYPE workqueue_queue_duration_seconds histogram",
            "workqueue_queue_duration_seconds_bucket{name=\"replicaset\",le=\"1e-08\"} 0",
            "workqueue_queue_duration_seconds_bucket{name=\"replicaset\",le=\"1e-06\"} 0",
            "workqueue_queue_duration_seconds_bucket{name=\"replicaset\",le=\"9.999999999999999e-06\"} 5",
            "workqueue_queue_duration_seconds_bucket{name=\"replicaset\",le=\"9.999999999999999e-05\"} 5",
            "workqueue_queue_duration_seconds_bucket{name=\"replicaset\",le=\"0.001\"} 5",
            "workqueue_queue_duration_seconds_bucket{name=\"replicaset\",le=\"10\"} 5",
            "workqueue_queue_duration_seconds_bucket{name=\"replicaset\",le=\"+Inf\"} 7",
            "workqueue_queue_duration_seconds_sum{name=\"replicaset\"} 21.5",
            "workqueue_queue_duration_seconds_count{name=\"replicaset\"} 7",
            "# TYPE workqueue_adds_total counter",
            "workqueue_adds_total{name=\"a\\\"b\"} 7",
        ] {
            assert!(
                text.lines().any(|other| other == line),
                "no {line} in\n{text}"
            );
        }
    }

    #[test]
    fn numbers_are_written_as_go_does() {
        for (value, text) in [
            (0.0, "0"),
            (7.0, "7"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e21, "1e+21"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(float(value), text);
        }
    }
}
