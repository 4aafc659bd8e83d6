//! Reading and writing one pod as JSON: 8.3 kB, as `kubectl get -o json` writes it. The pod shares
//! nothing with a pod that was read before.

use std::hint::black_box;

use podstorm::object::json::Writer;
use podstorm::object::{Object, Pod, Resource};

use super::loading;

/// Reads the pod.
pub fn decode() -> impl FnMut() -> u64 {
    let text = loading::json_pod();
    move || {
        let pod = Pod::from_slice(black_box(text.as_bytes())).expect("a pod");
        pod.metadata.generation as u64
    }
}

/// Writes the pod.
pub fn encode() -> impl FnMut() -> u64 {
    let pod = Pod::from_slice(loading::json_pod().as_bytes()).expect("a pod");
    let mut out = Writer::new();
    move || {
        out.clear();
        black_box(&pod).write_json(&mut out);
        out.as_str().len() as u64
    }
}
