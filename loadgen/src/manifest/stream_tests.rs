//! Tests of dumps as streams: compressed, truncated, and far larger than what is held in memory.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{Loaded, ManifestError, load};

fn load_bytes(bytes: &[u8]) -> Result<Loaded, Box<ManifestError>> {
    load(&[PathBuf::from("-")], bytes)
}

fn refused(bytes: &[u8]) -> String {
    load_bytes(bytes).unwrap_err().to_string()
}

/// Returns a list as `kubectl get ... -o json` writes it.
fn list(pods: usize) -> String {
    let mut text = String::from("{\n    \"apiVersion\": \"v1\",\n    \"items\": [");
    for number in 0..pods {
        let comma = if number == 0 { "" } else { "," };
        text.push_str(&format!(
            "{comma}\n        {{\n            \"apiVersion\": \"v1\",\n            \"kind\": \
             \"Pod\",\n            \"metadata\": {{\"name\": \"p{number}\", \"annotations\": \
             {{\"note\": \"]}}, \\\"quoted\\\\\"}}}},\n            \"spec\": {{\"containers\": \
             [{{\"name\": \"c\", \"image\": \"i\"}}]}}\n        }}"
        ));
    }
    text.push_str("\n    ],\n    \"kind\": \"List\",\n    \"metadata\": {}\n}\n");
    text
}

fn packed(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn gzip_data_is_detected_by_its_first_bytes() {
    let text = list(3);
    let plain = load_bytes(text.as_bytes()).unwrap();
    assert_eq!(plain.counts.taken["Pod"], 3);
    let unpacked = load_bytes(&packed(&text)).unwrap();
    assert_eq!(format!("{unpacked:?}"), format!("{plain:?}"));
    // Concatenated gzip members decompress to one text.
    let (first, second) = text.split_at(100);
    let pieces = [packed(first), packed(second)].concat();
    let unpacked = load_bytes(&pieces).unwrap();
    assert_eq!(format!("{unpacked:?}"), format!("{plain:?}"));
    let yaml = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n";
    assert_eq!(load_bytes(&packed(yaml)).unwrap().counts.taken["Node"], 1);
}

#[test]
fn truncated_or_damaged_gzip_data_is_reported() {
    let whole = packed(&list(2_000));
    for end in [5, 50, whole.len() / 2, whole.len() - 1] {
        let problem = refused(&whole[..end]);
        for words in ["gzip data ends too early", "standard input"] {
            assert!(problem.contains(words), "{end}: {problem}");
        }
    }
    let mut damaged = whole.clone();
    let end = damaged.len();
    damaged[end - 6] ^= 0xff;
    let problem = refused(&damaged);
    assert!(problem.contains("gzip data is damaged"), "{problem}");
}

#[test]
fn a_truncated_dump_is_refused_with_the_place() {
    let text = list(2);
    let end = text.trim_end().len();
    for cut in 1..end {
        let problem = refused(&text.as_bytes()[..cut]);
        let lines = text[..cut].matches('\n').count() + 1;
        let (after, line) = (format!("after {cut} bytes"), format!("line {lines} "));
        for words in ["cut off", &after, &line] {
            assert!(problem.contains(words), "{cut}: {problem}");
        }
    }
    assert!(load_bytes(&text.as_bytes()[..end]).is_ok());
}

#[test]
fn errors_in_an_item_have_their_place_in_the_file() {
    let good = list(3);
    let (name, end, kind) = (r#""p2""#, "}\n    ],", r#""kind": "List""#);
    let twice = "(Pod default/p1): items[2]: is a duplicate of";
    let no_list = "the list of objects in items";
    for (from, to, words) in [
        (name, r#""p2" 1"#, "line 19 column 39"),
        (name, r#""p1""#, twice),
        (name, "2", "items[2].metadata.name: expected a string"),
        (name, r#""p2", "name": "q""#, r#""name" is given twice"#),
        ("        {\n", "        ,{\n", "line 16 column 9"),
        (end, "},\n    ],", "expected a value"),
        (end, "}}\n    ],", "line 21 column 10: expected `,` or `]`"),
        ("],\n", "]\n", "expected `,` or `}`"),
        (kind, r#""kind": List"#, "expected value"),
        (kind, r#""items": []"#, r#""items" is given twice"#),
        (kind, r#""kind": "Shelf""#, "write kind: List"),
        (kind, r#"kind: "List""#, "the name of a member in quotes"),
        (r#""items": ["#, r#""items": 3, "more": ["#, no_list),
    ] {
        assert!(good.contains(from), "{from}");
        let at = good.rfind(from).unwrap();
        let bad = format!("{}{to}{}", &good[..at], &good[at + from.len()..]);
        let problem = load_bytes(bad.as_bytes()).expect_err(to).to_string();
        assert!(problem.contains(words), "{to}: {words}: {problem}");
        assert!(problem.contains("document 1"), "{problem}");
    }
}

#[test]
fn items_of_other_kinds_are_counted() {
    let other = "{\"apiVersion\":\"v1\",\"kind\":\"Secret\"}";
    let text = list(2).replacen('[', &format!("[{other},{other},"), 1);
    let loaded = load_bytes(text.as_bytes()).unwrap();
    assert_eq!(loaded.counts.ignored["Secret"], 2);
    assert_eq!(loaded.counts.taken["Pod"], 2);
}

#[test]
fn an_empty_list_is_the_same_as_no_items() {
    let pod = "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n\"}}";
    for empty in ["[]", "null", " [ ] "] {
        let text = format!("{{\"items\":{empty},\"kind\":\"List\"}}{pod}");
        assert_eq!(load_bytes(text.as_bytes()).unwrap().objects.len(), 1);
    }
}

/// A reader that counts the bytes read.
struct Counted<'a> {
    text: &'a [u8],
    given: &'a mut usize,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(self.text.len() - *self.given);
        buffer[..count].copy_from_slice(&self.text[*self.given..*self.given + count]);
        *self.given += count;
        Ok(count)
    }
}

#[test]
fn items_of_a_large_list_are_taken_before_its_end_is_read() {
    let node =
        |number| format!("- apiVersion: v1\n  kind: Node\n  metadata:\n    name: \"p{number}\"\n");
    let nodes: String = (0..300_000).map(node).collect();
    let yaml = format!("apiVersion: v1\nitems:\n{nodes}kind: List\n");
    for text in [list(80_000), yaml] {
        assert!(text.len() > 16 << 20, "{}", text.len());
        // The error about a duplicate name stops the reading.
        let text = text.replacen("\"p1\"", "\"p0\"", 1);
        let mut given = 0;
        let reader = Counted {
            text: text.as_bytes(),
            given: &mut given,
        };
        let error = load(&[PathBuf::from("-")], reader).expect_err("one name is a duplicate");
        assert!(error.to_string().contains("items[1]"), "{error}");
        assert!(given < 5 << 20, "{given} bytes were read");
    }
}

/// Returns the texts of pods of three ReplicaSets as JSON or YAML. The pods differ only in their
/// own values.
fn alike(count: usize, is_json: bool) -> Vec<String> {
    let pattern = match is_json {
        true => include_str!("../../../core/fixtures/dump/pod.json"),
        false => include_str!("../../../core/fixtures/dump/pod.yaml"),
    };
    let pod = |number: usize| {
        let time = |second: usize| format!("2026-01-02T03:{:02}:{:02}Z", number % 60, second % 60);
        [
            ("web-1-", format!("web-{}-", number % 3)),
            ("$NAME", format!("web-{}-{number}", number % 3)),
            ("$UID", format!("00000000-0000-4000-8000-{number:012x}")),
            ("$VERSION", format!("{}", number + 1)),
            ("$CREATED", time(number)),
            ("$SINCE", time(number + 1)),
            ("$ENDED", time(number + 2)),
            (
                "$CIDR",
                format!("10.1.{}.{}/32", number / 250, number % 250),
            ),
            ("$NODE", format!("node-{}", number % 50)),
            ("$LETTERS", format!("{number:05}")),
            ("$HOST", format!("10.0.0.{}", number % 50)),
            ("$IP", format!("10.1.{}.{}", number / 250, number % 250)),
            ("$ID", format!("containerd://{number:064x}")),
            ("$COUNT", format!("{}", number % 2)),
        ]
        .iter()
        .fold(pattern.to_owned(), |text, (word, value)| {
            text.replace(word, value)
        })
    };
    (0..count).map(pod).collect()
}

fn as_list(pods: &[String], is_json: bool) -> String {
    match is_json {
        true => format!(
            r#"{{"apiVersion":"v1","items":[{}],"kind":"List"}}"#,
            pods.join(",")
        ),
        false => format!("apiVersion: v1\nitems:\n{}kind: List\n", pods.concat()),
    }
}

#[test]
fn similar_pods_parse_the_same_as_separate_ones() {
    for is_json in [true, false] {
        let pods = alike(1_200, is_json);
        let list = load_bytes(as_list(&pods, is_json).as_bytes()).unwrap();
        // In separate documents, no pod benefits from the one before it.
        let documents: String = match is_json {
            true => pods.join("\n"),
            // Indented documents, with a space in place of the dash.
            false => {
                let document = |pod: &String| format!("---\n {}", &pod[1..]);
                pods.iter().map(document).collect()
            }
        };
        let alone = load_bytes(documents.as_bytes()).unwrap();
        assert_eq!(list.objects.len(), 1_200);
        let texts = [list, alone].map(|loaded| format!("{:?}", loaded.objects));
        assert_eq!(texts[0], texts[1], "is_json: {is_json}");
    }
}

#[test]
fn an_error_among_similar_pods_is_reported_as_usual() {
    let created = "items[1100].metadata.creationTimestamp";
    for is_json in [true, false] {
        for (right, wrong, told) in [
            ("web-2-1100", "Web_2", "items[1100].metadata.name"),
            ("node-0\n", "no_de\n", "items[1100].spec.nodeName"),
            ("node-0\"", "no_de\"", "items[1100].spec.nodeName"),
            ("-00000000044c", "-00000000044b", "Pod shop/web-1-1099"),
            ("web-2-1100", "web-2-1097", "is a duplicate of"),
            ("03:20:20Z", "03:20:61Z", created),
        ] {
            let mut pods = alike(1_200, is_json);
            let pod = pods[1100].replace(right, wrong);
            if pod == pods[1100] {
                continue;
            }
            pods[1100] = pod;
            let problem = refused(as_list(&pods, is_json).as_bytes());
            assert!(problem.contains(told), "{right} {wrong}: {problem}");
        }
    }
}

/// Endless text. Counts the bytes that were requested.
struct Endless {
    lines: Vec<u8>,
    at: usize,
    given: usize,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let rest = &self.lines[self.at..];
        let given = rest.len().min(buffer.len());
        buffer[..given].copy_from_slice(&rest[..given]);
        self.at = (self.at + given) % self.lines.len();
        self.given += given;
        Ok(given)
    }
}

#[test]
fn endless_text_is_refused_after_a_bounded_part() {
    let in_list = r#"{"kind":"List","items":[{"a":["#;
    for (begins, line, words) in [
        // JSON that is a single value, or only spaces.
        ("{\"a\":\"", "x", &["more than 24 MiB", "List"][..]),
        ("{\"a\":", " ", &["more than 24 MiB"]),
        (in_list, "1,", &["more than 24 MiB"]),
        // YAML that is one line, one document, or only comments.
        ("a: ", "x", &["line 1", "larger than 64 MiB", "JSON"]),
        (
            "a: 1\n",
            "b: 2\n",
            &["line 1", "larger than 64 MiB", "List"],
        ),
        ("", "# nothing\n", &["larger than 64 MiB"]),
        ("items:\n- a: 1\n", "  b: 2\n", &["larger than 64 MiB"]),
        // Binary data.
        ("a: 1\nb", "\0", &["line 2 column 2", "NUL byte"]),
        ("", "\0", &["line 1 column 1", "NUL byte"]),
    ] {
        let mut endless = Endless {
            lines: line.repeat(4_096).into_bytes(),
            at: 0,
            given: 0,
        };
        let text = begins.as_bytes().chain(&mut endless);
        let error = load(&[PathBuf::from("-")], text)
            .expect_err(line)
            .to_string();
        for word in words {
            assert!(error.contains(word), "{begins:?} {word:?}: {error}");
        }
        assert!(error.len() < 1_000, "{error}");
        assert!(
            endless.given < 80 << 20,
            "{begins:?}: {} bytes",
            endless.given
        );
    }
}

#[test]
fn binary_data_is_refused_at_its_beginning() {
    // Lines of bytes that are neither UTF-8 nor contain a NUL, as from a random device.
    let line = [0xc3, 0x28, 0xff, b'a', b'\n'];
    let mut endless = Endless {
        lines: line.to_vec(),
        at: 0,
        given: 0,
    };
    let error = load(&[PathBuf::from("-")], &mut endless).expect_err("no text");
    assert!(error.to_string().contains("not UTF-8 text"), "{error}");
    assert!(endless.given < 8 << 20, "{}", endless.given);
    let wide: Vec<u8> = "\u{feff}kind: Pod\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let error = refused(&wide);
    assert!(error.contains("UTF-16; save it as UTF-8"), "{error}");
}

#[test]
fn quoted_text_is_truncated() {
    let name = "x".repeat(3 << 20);
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{"containers":[]}}}}"#
    );
    let error = refused(text.as_bytes());
    assert!(error.contains("metadata.name"), "{}", &error[..200]);
    assert!(error.contains("more characters"), "{}", &error[..200]);
    assert!(error.len() < 4_000, "{}", error.len());
    let kind = format!("kind: {name}\napiVersion: v1\n");
    assert!(refused(kind.as_bytes()).len() < 1_000);
}

#[test]
fn for_unsimulated_owners_of_pods_the_error_says_what_to_dump() {
    let text = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: web}\n";
    let error = refused(text.as_bytes());
    assert!(error.contains("1 DaemonSet"), "{error}");
    let dump = "kubectl get deploy,rs,rc,pods,nodes -A -o json";
    assert!(error.contains(dump), "{error}");
}

#[test]
fn an_alias_bomb_is_reported_in_terms_of_yaml() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for at in 1..12 {
        let aliases = vec![format!("*a{}", at - 1); 10].join(", ");
        text.push_str(&format!("a{at}: &a{at} [{aliases}]\n"));
    }
    let error = refused(text.as_bytes());
    assert!(error.contains("anchors and aliases"), "{error}");
    assert!(!error.contains("limits breached"), "{error}");
    assert!(!error.contains('{'), "{error}");
}

#[test]
fn deep_nesting_is_accepted_or_refused() {
    // In debug builds the YAML reader needs more stack than a test thread has.
    let roomy = std::thread::Builder::new().stack_size(32 << 20);
    let reading = roomy.spawn(read_what_lies_deep).unwrap();
    reading.join().unwrap();
}

fn read_what_lies_deep() {
    for levels in [100, 150, 190, 250, 100_000] {
        let deep = |open: &str| open.repeat(levels) + "1" + &"}".repeat(levels);
        let yaml = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  containers: [{{name: c, image: i}}]\n  \
             affinity: {{nodeAffinity: {}}}\n",
            deep("{a: ")
        );
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p"}},"spec":{{"containers":
            [{{"name":"c","image":"i"}}],"affinity":{{"nodeAffinity":{}}}}}}}"#,
            deep(r#"{"a":"#)
        );
        for (text, most, words) in [(yaml, 120, "deeper than 127"), (json, 120, "recursion")] {
            match load_bytes(text.as_bytes()) {
                Ok(loaded) => {
                    assert!(levels <= most, "{levels}");
                    let object = loaded.objects[0].as_object().to_json();
                    assert!(object["spec"]["affinity"]["nodeAffinity"].is_object());
                }
                Err(error) => {
                    assert!(levels > most, "{levels}: {error}");
                    assert!(error.to_string().contains(words), "{error}");
                }
            }
        }
    }
}
