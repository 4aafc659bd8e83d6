//! JSON parsing without a tree of values, compared with the tree of `serde_json`.

use podstorm::object::json::{Tape, Writer};
use serde_json::Value;

use super::Target;

pub(super) const JSON: Target = Target {
    name: "json",
    claim: "a text is read as serde_json reads it and survives a round trip; only texts that serde_json refuses \
            and texts with a repeated member are refused",
    run,
    runs: 20_000,
};

fn run(data: &[u8]) -> bool {
    let expected = serde_json::from_slice::<Value>(data);
    let tape = match Tape::from_slice(data) {
        Err(error) => {
            let twice = error.to_string().contains("twice");
            assert!(twice || expected.is_err(), "refused: {error}");
            return false;
        }
        Ok(tape) => tape,
    };
    let value = tape.root().to_value();
    let expected = expected.expect("serde_json accepts what the tape accepts");
    assert_eq!(value, expected);
    let mut writer = Writer::new();
    writer.value(&value);
    let again = Tape::from_slice(writer.as_str().as_bytes()).expect("the writer's output is JSON");
    assert_eq!(again.root().to_value(), value, "{}", writer.as_str());
    true
}
