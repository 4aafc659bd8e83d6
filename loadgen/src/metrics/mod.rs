//! The metrics of a result, selected by name for `--threshold`, `compare` and `sweep`:
//! `pod_ready_latency p99`, `pods.created` or `api_calls{create pods 201}`.
//!
//! [`catalogue`] lists every metric with its unit and better direction; [`name`] parses the name of
//! a metric; [`MetricValues`] looks up values in a result, of this run or from a file;
//! [`threshold`] compares a metric with a bound.
//!
//! A new metric needs a member of the result (`result`), filled in `run::gather`, a line of `TABLE`
//! in [`catalogue`], and a line in `report::terminal` and `report::html`. API calls by status code
//! and syncs by outcome are counted without any of this. The metrics for Prometheus
//! (`ControllerMetrics`) are separate and not part of the result.

pub mod catalogue;
pub mod name;
pub mod quantity;
pub mod threshold;
pub mod values;

pub use catalogue::{Better, METRICS, Metric, Shape, Statistic, Unit};
pub use name::MetricName;
pub use threshold::{Threshold, ThresholdOutcome};
pub use values::MetricValues;
