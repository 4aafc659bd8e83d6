//! What a pattern gives is what reading in full gives, for values of every sort in both languages,
//! usual and odd.

use podstorm_objects::Pod;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Map;

use super::*;
use crate::manifest::{json, yaml_list};

const POD_JSON: &str = include_str!("pod.json");
const POD_YAML: &str = include_str!("pod.yaml");

/// The values of the texts: placeholder, usual values, and values that must be read in full or are
/// wrong. `$` and a word stands for a value in the texts.
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

fn text(language: Language, values: &[&str]) -> String {
    let mut text = match language {
        Language::Json => POD_JSON,
        Language::Yaml => POD_YAML,
    }
    .to_owned();
    for ((placeholder, ..), value) in VALUES.iter().zip(values) {
        text = text.replace(placeholder, value);
    }
    assert!(!text.contains('$'), "{text}");
    text
}

fn usual() -> Vec<&'static str> {
    VALUES.iter().map(|(_, usual, _)| usual[0]).collect()
}

fn in_full(language: Language, text: &str) -> Decoded {
    match language {
        Language::Json => json::decode_item(text.as_bytes(), &Map::new()),
        Language::Yaml => yaml_list::decode_item(text.as_bytes(), &Map::new()),
    }
}

fn pod_in_full(language: Language, text: &str) -> Result<Box<Pod>, String> {
    match in_full(language, text) {
        Decoded::Object(InputObject::Pod(pod)) => Ok(pod),
        other => Err(format!("{other:?}")),
    }
}

/// Patterns that have learned the pod of the usual values.
fn learned(language: Language) -> Patterns {
    let first = text(language, &usual());
    let mut patterns = Patterns::new(language);
    let Likeness::First(pattern) = patterns.learn(first.as_bytes()) else {
        panic!("no pattern of {first}")
    };
    let mut decoded = in_full(language, &first);
    Collector::new().share(&mut decoded);
    pattern.set_first(first.as_bytes(), &decoded);
    assert!(pattern.first.get().unwrap().is_some(), "not understood");
    patterns
}

/// The pod of a text by its pattern; the error says why it must be read in full.
fn by_pattern(patterns: &mut Patterns, text: &str) -> Result<Box<Pod>, &'static str> {
    let Some((Likeness::Next(pattern, values), end)) = patterns.fit(text.as_bytes()) else {
        return Err("does not fit");
    };
    if end != text.len() {
        return Err("goes on");
    }
    pattern.pod(text.as_bytes(), &values).ok_or("in doubt")
}

const LANGUAGES: [Language; 2] = [Language::Json, Language::Yaml];

#[test]
fn usual_values_are_put_in() {
    for language in LANGUAGES {
        let mut patterns = learned(language);
        for (place, (placeholder, all, _)) in VALUES.iter().enumerate() {
            for value in all {
                let mut values = usual();
                values[place] = value;
                let text = text(language, &values);
                let in_full = pod_in_full(language, &text).unwrap();
                match by_pattern(&mut patterns, &text) {
                    Ok(pod) => assert_eq!(pod, in_full, "{placeholder} {value}"),
                    Err(why) => panic!("{language:?} {placeholder} {value}: {why}"),
                }
            }
        }
    }
}

#[test]
fn odd_values_are_read_in_full_or_give_the_same() {
    for language in LANGUAGES {
        let mut patterns = learned(language);
        let mut in_doubt = 0;
        for (place, (placeholder, _, odd)) in VALUES.iter().enumerate() {
            for value in odd {
                let mut values = usual();
                values[place] = value;
                let text = text(language, &values);
                match by_pattern(&mut patterns, &text) {
                    Ok(pod) => {
                        let in_full = pod_in_full(language, &text);
                        assert_eq!(Ok(pod), in_full, "{language:?} {placeholder} {value}");
                    }
                    Err(_) => in_doubt += 1,
                }
            }
        }
        assert!(in_doubt > VALUES.len() * 2, "{in_doubt}");
    }
}

#[test]
fn every_value_of_its_own_has_a_place() {
    for language in LANGUAGES {
        let first = text(language, &usual());
        let patterns = learned(language);
        let (_, pattern) = patterns.latest.as_ref().unwrap();
        let occurrences = |text: &str| {
            let counted = VALUES.iter().map(|(word, ..)| text.matches(word).count());
            counted.sum::<usize>()
        };
        let source = match language {
            Language::Json => POD_JSON,
            Language::Yaml => POD_YAML,
        };
        assert_eq!(pattern.slots.len(), occurrences(source), "{language:?}");
        let (values, end) = pattern.fit(first.as_bytes()).unwrap();
        assert_eq!((values.len(), end), (pattern.slots.len(), first.len()));
    }
}

#[test]
fn a_text_of_another_form_does_not_fit() {
    let usual = text(Language::Json, &usual());
    let mut patterns = learned(Language::Json);
    for other in [
        usual.replace(
            "\"qosClass\": \"Burstable\"",
            "\"qosClass\": \"BestEffort\"",
        ),
        usual.replace("\"phase\": \"Running\"", "\"phase\":  \"Running\""),
        usual[..usual.len() - 1].to_owned(),
        usual[..usual.len() / 2].to_owned(),
        String::new(),
    ] {
        assert!(by_pattern(&mut patterns, &other).is_err(), "{other}");
    }
    let (likeness, end) = patterns.fit(format!("{usual},{usual}").as_bytes()).unwrap();
    assert!(matches!(likeness, Likeness::Next(..)));
    assert_eq!(end, usual.len());
}

#[test]
fn two_names_of_a_volume_are_read_in_full() {
    for language in LANGUAGES {
        let mut patterns = learned(language);
        let text = text(language, &usual());
        let two = text.replacen("kube-api-access-q7w2n", "kube-api-access-bbbbb", 1);
        assert_eq!(by_pattern(&mut patterns, &two), Err("in doubt"));
    }
}

#[test]
fn addresses_that_differ_from_their_lists_are_read_in_full() {
    for language in LANGUAGES {
        let mut patterns = learned(language);
        let text = text(language, &usual());
        let two = text.replacen("10.64.42.17\"", "10.64.42.18\"", 1);
        let two = two.replacen("podIP: 10.64.42.17", "podIP: 10.64.42.18", 1);
        assert_ne!(two, text);
        assert_eq!(by_pattern(&mut patterns, &two), Err("in doubt"));
    }
}

#[test]
fn what_is_no_pod_with_kin_is_not_learned() {
    for text in [
        r#"{"kind":"Node","metadata":{"name":"n"}}"#,
        r#"{"kind":"Pod","metadata":{"name":"n","namespace":"default"}}"#,
        r#"{"generateName":"a-","namespace":"b""#,
        r#"{"generateName":"a-","namespace":"b"}"#,
    ] {
        let likeness = Patterns::new(Language::Json).learn(text.as_bytes());
        assert!(matches!(likeness, Likeness::None), "{text}");
    }
    let deep = format!(
        r#"{{"generateName":"a-","namespace":"b","metadata":{{"name":"c"}},"x":{}{}}}"#,
        "[".repeat(1_000_000),
        "]".repeat(1_000_000)
    );
    let likeness = Patterns::new(Language::Json).learn(deep.as_bytes());
    assert!(matches!(likeness, Likeness::None));
}

#[test]
fn kin_that_never_fits_is_given_up_and_patterns_are_bounded() {
    let mut patterns = Patterns::new(Language::Json);
    let first = text(Language::Json, &usual());
    let learned = (0..100).filter(|number| {
        let text = first.replace("Burstable", &format!("Class{number}"));
        matches!(patterns.learn(text.as_bytes()), Likeness::First(_))
    });
    assert_eq!(learned.count(), 8);

    let mut patterns = Patterns::new(Language::Json);
    patterns.bytes_max = 10 * first.len();
    for number in 0..100 {
        let text = first.replace("web-1-\"", &format!("web-{number}-\""));
        assert!(matches!(
            patterns.learn(text.as_bytes()),
            Likeness::First(_)
        ));
        assert!(patterns.bytes <= patterns.bytes_max);
        assert!(patterns.by_kin.len() <= 11 && patterns.oldest.len() <= 11);
    }
    // The latest are there still.
    let text = first.replace("web-1-\"", "web-95-\"");
    assert!(patterns.fit(text.as_bytes()).is_some());
    assert!(patterns.fit(first.as_bytes()).is_none());
}

proptest! {
    /// Any mixture of usual and odd values gives by pattern what it gives in full.
    #[test]
    fn mixtures_give_the_same(
        language in select(&LANGUAGES[..]),
        picks in proptest::collection::vec((any::<u8>(), 0..12_usize), VALUES.len()),
    ) {
        let values: Vec<&str> = VALUES.iter().zip(picks).map(|((_, usual, odd), (pick, is_odd))| {
            match is_odd {
                0 => odd[usize::from(pick) % odd.len()],
                _ => usual[usize::from(pick) % usual.len()],
            }
        }).collect();
        let text = text(language, &values);
        if let Ok(pod) = by_pattern(&mut learned(language), &text) {
            prop_assert_eq!(Ok(pod), pod_in_full(language, &text));
        }
    }

    /// No text of a pod with a byte changed gives another pod than in full.
    #[test]
    fn a_changed_byte_gives_the_same(
        language in select(&LANGUAGES[..]),
        at in any::<proptest::sample::Index>(),
        byte in select(&b"0aZ-.:/_ \"'\\\n{}[],#&*~$\xff"[..]),
    ) {
        let mut bytes = text(language, &usual()).into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let mut patterns = learned(language);
        let fitted = match patterns.fit(&bytes) {
            Some((Likeness::Next(pattern, values), end)) if end == bytes.len() => {
                pattern.pod(&bytes, &values)
            }
            _ => None,
        };
        if let Some(pod) = fitted {
            let text = std::str::from_utf8(&bytes).unwrap();
            prop_assert_eq!(Ok(pod), pod_in_full(language, text));
        }
    }
}

#[test]
fn the_texts_are_of_one_pod() {
    let [json, yaml] = LANGUAGES.map(|language| pod_in_full(language, &text(language, &usual())));
    assert_eq!(json.unwrap(), yaml.unwrap());
}
