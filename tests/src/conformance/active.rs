//! Cases of `active`: which pods count as active, and which ones are terminating.

use podstorm::object::Pod;
use serde_json::{Value, json};

use super::Fields;
use super::ranking::decode_pod;

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let pods = case.all("pods", decode_pod)?;
    let names = |counts: fn(&Pod) -> bool| -> Value {
        let pods = pods.iter().filter(|pod| counts(pod));
        pods.map(|pod| pod.metadata.name.as_str()).collect()
    };
    case.is(json!({"active": names(Pod::is_active), "terminating": names(Pod::is_terminating)}))
}
