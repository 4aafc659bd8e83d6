//! Results for the tests of comparisons.

use serde_json::{Value, json};

use super::Loaded;
use crate::metrics::MetricValues;
use crate::result::SCHEMA_VERSION;

/// Returns a small result in which these members are replaced.
pub(super) fn result(members: Value) -> Loaded {
    let mut json = json!({
        "schema_version": SCHEMA_VERSION, "version": "0.1.0", "scenario": "up-down", "engine": "virtual",
        "behaviour": "upstream", "seed": 1, "settings": {"controller": {"kube_api_qps": null}},
        "outcome": {"converged": true, "violations": []},
        "elapsed_seconds": 10.0, "excess_pods_created": 0,
        "pods": {"created": 100},
        "convergence_seconds": {"count": 4, "mean": 1.0, "p50": 1.0, "p90": 1.0, "p99": 2.0,
                                "p999": 2.0, "max": 2.0},
        "api_calls": {"create pods 201": 100},
        "phases": [{"name": "up", "seconds": 5.0}],
    });
    let into = json.as_object_mut().unwrap();
    for (name, value) in members.as_object().unwrap() {
        into.insert(name.clone(), value.clone());
    }
    Loaded {
        place: "a.json".to_owned(),
        metrics: MetricValues::from_json(json),
    }
}
