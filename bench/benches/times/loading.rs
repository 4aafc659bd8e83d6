//! The rivals of loading dumps, and of reading and writing one pod: the least that a plain reader
//! does. It parses the same text into JSON values, and does not decode, check or share them.

use std::hint::black_box;

use podstorm_bench::hot::loading;
use serde_json::Value;

use super::Timed;

pub(crate) fn timed() -> Vec<Timed> {
    vec![
        Timed::new("loading/json-alike-plain/1000", || {
            parse(loading::json(1_000, 10))
        }),
        Timed::new("loading/json-strangers-plain/100", || {
            parse(loading::json(100, 100))
        }),
        Timed::new("json/decode-pod-plain/8300", || parse(loading::json_pod())),
        Timed::new("json/encode-pod-plain/8300", || {
            let tree: Value = serde_json::from_str(&loading::json_pod()).expect("the pod is JSON");
            move || black_box(&tree).to_string().len() as u64
        }),
    ]
}

fn parse(text: String) -> impl FnMut() -> u64 {
    move || {
        let tree: Value = serde_json::from_str(black_box(&text)).expect("the text is JSON");
        black_box(&tree).is_object().into()
    }
}
