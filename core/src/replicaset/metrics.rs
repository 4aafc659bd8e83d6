//! The ReplicaSet controller's own metrics, under upstream's names.

use podstorm_runtime::metrics::{Family, Histogram, Kind, Value};

/// Buckets of the age ratio: 0.25 * 2^i for i = 0..=5.
const AGE_RATIO_BOUNDS: [f64; 6] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0];

/// The ReplicaSet controller's own metrics.
#[derive(Debug)]
pub struct ControllerMetrics {
    /// The age of each ready pod that a scale-down deletes, divided by the age of the youngest
    /// ready candidate.
    pub sorting_deletion_age_ratio: Histogram,
}

impl ControllerMetrics {
    /// Creates metrics that are all zero.
    pub fn new() -> Self {
        ControllerMetrics {
            sorting_deletion_age_ratio: Histogram::new(&AGE_RATIO_BOUNDS),
        }
    }

    /// Returns all metrics with their current values.
    pub fn families(&self) -> Vec<Family> {
        vec![Family::single(
            "replicaset_controller_sorting_deletion_age_ratio",
            "Age of a ready pod chosen for deletion over the age of the youngest ready pod.",
            Kind::Histogram,
            Vec::new(),
            Value::Histogram(self.sorting_deletion_age_ratio.snapshot()),
        )]
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
    fn metric_families_render_in_the_text_format() {
        let metrics = ControllerMetrics::new();
        metrics.sorting_deletion_age_ratio.observe(1.0);
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
        ] {
            assert!(
                text.lines().any(|other| other == line),
                "no {line:?} in\n{text}"
            );
        }
    }
}
