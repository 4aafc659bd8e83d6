//! Cases of `active`: which pods count, and which are on their way out.

use podstorm::object::Pod;
use serde_json::Value;

use super::ranking::decode_pod;
use super::{Fields, expect_eq};

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let pods = case.all("pods", decode_pod)?;
    let active = case.list("active")?;
    let terminating = case.list("terminating")?;

    let names = |counts: fn(&Pod) -> bool| -> Vec<Value> {
        let pods = pods.iter().filter(|pod| counts(pod));
        pods.map(|pod| Value::from(pod.metadata.name.as_str()))
            .collect()
    };
    expect_eq("active", &names(Pod::is_active), &active)?;
    expect_eq("terminating", &names(Pod::is_terminating), &terminating)
}
