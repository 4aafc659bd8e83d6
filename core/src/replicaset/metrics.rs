//! The ReplicaSet controller's own metrics, under upstream's names.

use podstorm_runtime::metrics::{Counter, Family, Histogram, Kind, Series, Value};

/// Buckets of the age ratio: 0.25 * 2^i for i = 0..=5.
const AGE_RATIO_BOUNDS: [f64; 6] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0];

/// The ReplicaSet controller's own metrics.
#[derive(Debug)]
pub struct ControllerMetrics {
    /// Per ready pod that a scale-down deletes: its age divided by the age of the youngest ready
    /// candidate.
    pub sorting_deletion_age_ratio: Histogram,
    /// Syncs postponed because the cache did not show one of the controller's own writes of a pod.
    pub stale_sync_skips_pods: Counter,
    /// Syncs postponed because the cache did not show one of the controller's own writes of a
    /// ReplicaSet.
    pub stale_sync_skips_replicasets: Counter,
    /// Reads of versions that the caches must reach; hardened behaviour only.
    pub fences: Counter,
    /// Keys with open expectations although the caches showed all that had been done; hardened
    /// behaviour only.
    pub expectations_settled: Counter,
}

impl ControllerMetrics {
    /// New metrics, all zero.
    pub fn new() -> Self {
        ControllerMetrics {
            sorting_deletion_age_ratio: Histogram::new(&AGE_RATIO_BOUNDS),
            stale_sync_skips_pods: Counter::default(),
            stale_sync_skips_replicasets: Counter::default(),
            fences: Counter::default(),
            expectations_settled: Counter::default(),
        }
    }

    /// All metrics with their values now.
    pub fn families(&self) -> Vec<Family> {
        let skips = |group: &str, resource: &str, counter: &Counter| Series {
            labels: vec![("group", group.into()), ("resource", resource.into())],
            value: Value::Number(counter.value() as f64),
        };
        let mut families = vec![
            Family::single(
                "replicaset_controller_sorting_deletion_age_ratio",
                "Age of a ready pod chosen for deletion over the age of the youngest ready pod.",
                Kind::Histogram,
                Vec::new(),
                Value::Histogram(self.sorting_deletion_age_ratio.snapshot()),
            ),
            Family {
                name: "replicaset_controller_stale_sync_skips_total",
                help: "Syncs put off because the cache was behind the controller's own writes.",
                kind: Kind::Counter,
                series: vec![
                    skips("", "pods", &self.stale_sync_skips_pods),
                    skips("apps", "replicasets", &self.stale_sync_skips_replicasets),
                ],
            },
        ];
        for (name, help, counter) in [
            (
                "podstorm_fences_total",
                "Reads of a version that the caches must come to before pods are counted.",
                &self.fences,
            ),
            (
                "podstorm_expectations_settled_total",
                "Keys of which something was still expected when the caches showed all writes.",
                &self.expectations_settled,
            ),
        ] {
            // Upstream has no such metrics, so they are hidden while they are zero.
            if counter.value() > 0 {
                let value = Value::Number(counter.value() as f64);
                families.push(Family::single(name, help, Kind::Counter, Vec::new(), value));
            }
        }
        families
    }
}

impl Default for ControllerMetrics {
    fn default() -> Self {
        ControllerMetrics::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_written_in_the_text_format() {
        let metrics = ControllerMetrics::new();
        metrics.sorting_deletion_age_ratio.observe(1.0);
        metrics.stale_sync_skips_pods.increment();
        let mut text = String::new();
        metrics
            .families()
            .iter()
            .for_each(|family| family.write_text(&mut text));
        for line in [
            "# TYPE replicaset_controller_sorting_deletion_age_ratio histogram",
            "replicaset_controller_sorting_deletion_age_ratio_bucket{le=\"0.5\"} 0",
            "replicaset_controller_sorting_deletion_age_ratio_bucket{le=\"+Inf\"} 1",
            "replicaset_controller_sorting_deletion_age_ratio_count 1",
            "replicaset_controller_stale_sync_skips_total{group=\"\",resource=\"pods\"} 1",
            "replicaset_controller_stale_sync_skips_total{group=\"apps\",resource=\"replicasets\"} 0",
        ] {
            assert!(
                text.lines().any(|other| other == line),
                "no {line:?} in\n{text}"
            );
        }
    }
}
