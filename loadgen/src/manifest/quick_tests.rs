//! Tests that the fast path for YAML gives the same result as the library, for the pod of a dump
//! with usual and unusual values of every kind, and that JSON and YAML give the same pod.

use podstorm_objects::Pod;
use podstorm_objects::json::Tape;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Map;

use super::Kinds;
use super::check::CheckedSpecs;
use super::decode::Decoded;
use super::{json, yaml, yaml_list};
use crate::input::InputObject;

const POD_JSON: &str = include_str!("../../../core/fixtures/dump/pod.json");
const POD_YAML: &str = include_str!("../../../core/fixtures/dump/pod.yaml");

/// The values to insert into the texts: a placeholder, usual values, and values that are invalid or
/// that only a YAML library handles. In the texts, `$` and a word is a placeholder.
const VALUES: [(&str, [&str; 3], [&str; 5]); 13] = [
    (
        "$NAME",
        ["web-1-abcde", "web-1-x2x9k", "w.e.b"],
        ["null", "1e5", "web_1", "-web", "web-1-\\u0061"],
    ),
    (
        "$UID",
        [
            "3b1f0d52-8c1e-4a7b-9c55-6f1f2f0a7e11",
            "00000000-0000-4000-8000-000000000001",
            "1e345678-1234-4234-8234-123456789012",
        ],
        ["u1", "3B1F0D52-8C1E-4A7B-9C55-6F1F2F0A7E11", "", "1", "~"],
    ),
    (
        "$VERSION",
        ["184467", "1", "18446744073709551615"],
        ["0184467", "opaque", "", "18446744073709551616", "0"],
    ),
    (
        "$CREATED",
        [
            "2026-01-02T03:04:05Z",
            "1999-12-31T23:59:59Z",
            "2028-02-29T00:00:00Z",
        ],
        [
            "2026-01-02T03:04:05.5Z",
            "2026-01-02T03:04:05+02:00",
            "0001-01-01T00:00:00Z",
            "2026-02-30T00:00:00Z",
            "",
        ],
    ),
    (
        "$CIDR",
        ["10.64.42.17/32", "10.64.42.171/32", "fd00::17/128"],
        ["", "a b", "1", "true", "x: y"],
    ),
    (
        "$NODE",
        ["node-0042", "ip-10-0-0-1.region.internal", "n1"],
        ["", "42", "Node", "true", "a/b"],
    ),
    (
        "$LETTERS",
        ["q7w2n", "aaaaa", "00000"],
        ["q7w2", "q7w2nn", "Q7w2n", "*", "q-w2n"],
    ),
    (
        "$HOST",
        ["10.20.0.42", "10.20.0.1", "192.168.0.255"],
        ["", "010.1.1.1", "fd00::1", "10.20.0", "1:20:30"],
    ),
    (
        "$IP",
        ["10.64.42.17", "10.64.0.1", "0.0.0.0"],
        ["", "10.64.42.256", "fd00::2", "::1", "10"],
    ),
    (
        "$ID",
        [
            "containerd://91d7aa07c3",
            "cri-o://0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "docker://0",
        ],
        ["", "91d7aa07c3", "x://:", "containerd:", "1e9"],
    ),
    (
        "$SINCE",
        [
            "2026-01-02T03:04:12Z",
            "2026-01-02T03:04:13Z",
            "1970-01-01T00:00:00Z",
        ],
        [
            "",
            "0001-01-01T00:00:00Z",
            "2026-01-02 03:04:12Z",
            "x",
            "2026-01-02T03:04:12z",
        ],
    ),
    (
        "$ENDED",
        [
            "2026-01-02T03:04:11Z",
            "2026-01-02T03:04:10Z",
            "2000-01-01T00:00:00Z",
        ],
        [
            "",
            "0001-01-01T00:00:00Z",
            "soon",
            "2026-01-02T03:04:11.000Z",
            "1",
        ],
    ),
    (
        "$COUNT",
        ["1", "0", "2147483647"],
        ["01", "2147483648", "-1", "1.5", "null"],
    ),
];

fn text(pod: &str, values: &[&str]) -> String {
    let mut text = pod.to_owned();
    for ((placeholder, ..), value) in VALUES.iter().zip(values) {
        text = text.replace(placeholder, value);
    }
    assert!(!text.contains('$'), "{text}");
    text
}

fn usual() -> Vec<&'static str> {
    VALUES.iter().map(|(_, usual, _)| usual[0]).collect()
}

/// Returns the pod with these values as a document, with a space in place of the item's dash.
fn document(values: &[&str]) -> String {
    text(POD_YAML, values).replacen('-', " ", 1)
}

/// Reports whether the fast path accepts an input. If it does, checks that the result is the same
/// as the library's.
fn is_quick(text: &str) -> bool {
    let Some(tape) = Tape::from_block_yaml(text) else {
        return false;
    };
    let in_full = yaml::read_value(text).map_err(|error| error.problem);
    assert_eq!(Ok(tape.root().to_value()), in_full, "{text}");
    true
}

#[test]
fn usual_values_take_the_fast_path() {
    for (place, (placeholder, all, _)) in VALUES.iter().enumerate() {
        for value in all {
            let mut values = usual();
            values[place] = value;
            let is_v6 = value.contains("::");
            assert!(
                is_v6 || is_quick(&document(&values)),
                "{placeholder} {value}"
            );
        }
    }
}

#[test]
fn odd_values_use_the_library_or_parse_the_same() {
    let mut left = 0;
    for (place, (_, _, odd)) in VALUES.iter().enumerate() {
        for value in odd {
            let mut values = usual();
            values[place] = value;
            left += usize::from(!is_quick(&document(&values)));
        }
    }
    assert!(left > VALUES.len(), "{left}");
}

#[test]
fn scalars_of_every_kind_parse_the_same() {
    let short = [
        "a", "a b", "a:b", "a: b", "a #b", "a#b", "a:", "~", "null", "Null", "true", "True", "yes",
        "on", "y", "0", "-0", "7", "-7", "+7", "007", "0644", "0o17", "0x1F", "0b1", "1_000",
        "1.5", ".5", "5.", "1e3", "1E3", "1e-3", "12e", ".inf", "-.inf", ".nan", "inf", "nan",
        "1:30", "10.0.0.1", "100m", "128Mi", "1.5Gi", "1e5m", "5e7", "0e7", "--a: b", "-x", "- x",
        "---", "...", "\"q\"", "\"q\\n\"", "\"q\" x", "'s'", "'it''s'", "''", "\"\"", "{}", "[]",
        "{a: 1}", "[1]", "&a x", "*a", "!t x", "|x", "> x", "@x", "`x`", "%x", "?x", "? x", "$(X)",
        "/bin/sh", "_x", "\u{e9}", "x\ty", "x\u{85}y", "=", "<<", "a, b", "a]", "{", "a}", "a\\b",
        "a\"b", "a'b",
    ];
    let long = [
        "190:20:30",
        "10.1.0.0/16",
        "2026-01-02",
        "2026-01-02T03:04:05Z",
        "7d9c5b8f6d",
        "3b1f0d52-8c1e-4a7b-9c55-6f1f2f0a7e11",
        "00000000-0000-4000-8000-000000000001",
        "--port=80",
        "18446744073709551615",
        "123456789012345678",
        "1234567890123456789",
    ];
    let mut quick = 0;
    for scalar in short.into_iter().chain(long) {
        for form in [
            "  k: V",
            "  - V",
            "  k:\n  - V\n  - b: V",
            "  V: 1",
            "  k:\n    V: x\n",
        ] {
            quick += usize::from(is_quick(&form.replace('V', scalar)));
        }
    }
    assert!(quick > 120, "{quick}");
}

#[test]
fn blocks_of_every_kind_parse_the_same() {
    let blocks = [
        "  a:\n    b: 1\n    c:\n    - 1\n    - x: 2\n      w: 3\n  d: e\n",
        "  a:\n  - - 1\n    - 2\n  - 3\n",
        "  a:\n      - 1\n  b:\n  c: 2",
        "  a:\n\n    b: 1\n\n\n  c: 2\n\n",
        "  a: |\n    x\n\n     w\n  b: 1\n",
        "  a: |-\n    x: w\n    # no comment\n  b: |\n    z\n",
        "  a: |\n    x\n\n",
        "  a: |\n    x",
        "  a: |+\n    x\n",
        "  a: >-\n    x\n    w\n",
        "  a: |2\n     x\n",
        "  - |\n    x\n  - w\n",
        "  a: x\n    w\n",
        "  a: 'x\n    w'\n",
        "  a: x # c\n",
        "  # c\n  a: x\n",
        "  a: x\n# c\n",
        "  a: x\n b: w\n",
        "  a: x\n   b: w\n",
        "  a: x\n  a: w\n",
        "  b: x\n  a: w\n",
        "  a:\n  -  b: 1\n     c: 2\n",
        "  a:\n  -\n    b: 1\n",
        "  a:\n  - b:\n    c: 1\n  - d:\n    - 1\n",
        "  a: &x 1\n  b: *x\n",
        "  ? a\n  : b\n",
        "  \"a\": 1\n",
        "  a: {}\n  b: []\n  c: { }\n",
        "  a: x\r\n  b: w\r\n",
        "  a:\tx\n",
        "  a\t: x\n",
        "  a : x\n",
        "",
        "  ",
        "  x",
        "  - 1\n  - 2\n",
        "  - a: 1\n    b: 2\n  -   c: 3\n      d: 4\n",
    ];
    let quick: Vec<&&str> = blocks.iter().filter(|block| is_quick(block)).collect();
    assert!(quick.len() >= 10, "{quick:#?}");
    let deep: String = (0..300)
        .map(|level| format!("{}a:\n", " ".repeat(level)))
        .collect();
    assert!(!is_quick(&deep));
}

fn pod_of(decoded: Decoded) -> Box<Pod> {
    match decoded {
        Decoded::Object(InputObject::Pod(pod), _) => pod,
        other => panic!("{other:?}"),
    }
}

#[test]
fn json_and_yaml_give_the_same_pod() {
    let json = json::decode_item(
        text(POD_JSON, &usual()).as_bytes(),
        &Map::new(),
        &CheckedSpecs::new(Kinds::Simulated),
    );
    let yaml = yaml_list::decode_item(
        text(POD_YAML, &usual()).as_bytes(),
        &Map::new(),
        &CheckedSpecs::new(Kinds::Simulated),
    );
    assert_eq!(pod_of(json), pod_of(yaml));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1_000,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn mixtures_parse_the_same(
        picks in proptest::collection::vec((any::<u8>(), 0..12_usize), VALUES.len()),
    ) {
        let values: Vec<&str> = VALUES.iter().zip(picks).map(|((_, usual, odd), (pick, is_odd))| {
            match is_odd {
                0 => odd[usize::from(pick) % odd.len()],
                _ => usual[usize::from(pick) % usual.len()],
            }
        }).collect();
        is_quick(&document(&values));
    }

    /// A text in which some bytes are replaced, inserted or removed.
    #[test]
    fn a_changed_text_parses_the_same(
        changes in proptest::collection::vec((
            any::<proptest::sample::Index>(),
            select(&b"0aZ-.:/_ \"'\\\n{}[],#&*~$|>\t%"[..]),
            0..3_u8,
        ), 1..4),
    ) {
        let mut bytes = document(&usual()).into_bytes();
        for (at, byte, change) in changes {
            let at = at.index(bytes.len());
            match change {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        is_quick(std::str::from_utf8(&bytes).unwrap());
    }
}
