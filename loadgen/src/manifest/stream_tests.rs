//! Dumps as streams: packed, cut off, and far larger than what is held of them.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{Loaded, ManifestError, load};

fn load_bytes(bytes: &[u8]) -> Result<Loaded, Box<ManifestError>> {
    load(&[PathBuf::from("-")], bytes)
}

/// A list as `kubectl get ... -o json` writes it.
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
fn gzip_data_is_known_by_its_first_bytes() {
    let text = list(3);
    let plain = load_bytes(text.as_bytes()).unwrap();
    assert_eq!(plain.counts.taken["Pod"], 3);
    let unpacked = load_bytes(&packed(&text)).unwrap();
    assert_eq!(format!("{unpacked:?}"), format!("{plain:?}"));
    // Packed pieces, one behind the other, are one text.
    let (first, second) = text.split_at(100);
    let pieces = [packed(first), packed(second)].concat();
    let unpacked = load_bytes(&pieces).unwrap();
    assert_eq!(format!("{unpacked:?}"), format!("{plain:?}"));
    let yaml = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n";
    assert_eq!(load_bytes(&packed(yaml)).unwrap().counts.taken["Node"], 1);
}

#[test]
fn gzip_data_that_ends_or_is_damaged_is_told() {
    let whole = packed(&list(2_000));
    for end in [5, 50, whole.len() / 2, whole.len() - 1] {
        let problem = load_bytes(&whole[..end]).unwrap_err().to_string();
        assert!(
            problem.contains("gzip data ends too early"),
            "{end}: {problem}"
        );
        assert!(problem.contains("standard input"), "{problem}");
    }
    let mut damaged = whole.clone();
    let end = damaged.len();
    damaged[end - 6] ^= 0xff;
    let problem = load_bytes(&damaged).unwrap_err().to_string();
    assert!(problem.contains("gzip data is damaged"), "{problem}");
}

#[test]
fn a_dump_that_is_cut_off_anywhere_is_refused_with_the_place() {
    let text = list(2);
    let end = text.trim_end().len();
    for cut in 1..end {
        let problem = load_bytes(&text.as_bytes()[..cut]).unwrap_err().to_string();
        assert!(problem.contains("cut off"), "{cut}: {problem}");
        let lines = text[..cut].matches('\n').count() + 1;
        assert!(
            problem.contains(&format!("after {cut} bytes")),
            "{cut}: {problem}"
        );
        assert!(
            problem.contains(&format!("line {lines} ")),
            "{cut}: {problem}"
        );
    }
    assert!(load_bytes(&text.as_bytes()[..end]).is_ok());
}

#[test]
fn what_is_wrong_in_an_item_is_placed_in_the_file() {
    let good = list(3);
    for (from, to, words) in [
        ("\"p2\"", "\"p2\" 1", "line 19 column 39"),
        (
            "\"p2\"",
            "\"p1\"",
            "(Pod default/p1): items[2]: is there twice",
        ),
        ("\"p2\"", "2", "items[2].metadata.name: expected a string"),
        (
            "\"p2\"",
            "\"p2\", \"name\": \"q\"",
            "\"name\" is given twice",
        ),
        ("        {\n", "        ,{\n", "line 16 column 9"),
        ("}\n    ],", "},\n    ],", "expected a value"),
        (
            "}\n    ],",
            "}}\n    ],",
            "line 21 column 10: expected `,` or `]`",
        ),
        ("],\n", "]\n", "expected `,` or `}`"),
        ("\"kind\": \"List\"", "\"kind\": List", "expected value"),
        (
            "\"kind\": \"List\"",
            "\"items\": []",
            "\"items\" is given twice",
        ),
        (
            "\"kind\": \"List\"",
            "\"kind\": \"Shelf\"",
            "write kind: List",
        ),
        (
            "\"kind\": \"List\"",
            "kind: \"List\"",
            "the name of a member in quotes",
        ),
        (
            "\"items\": [",
            "\"items\": 3, \"more\": [",
            "the list of objects in items",
        ),
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
fn no_items_are_as_good_as_none() {
    let pod = "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n\"}}";
    for empty in ["[]", "null", " [ ] "] {
        let text = format!("{{\"items\":{empty},\"kind\":\"List\"}}{pod}");
        assert_eq!(load_bytes(text.as_bytes()).unwrap().objects.len(), 1);
    }
}

/// Counts how far it was read.
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
fn a_large_list_is_not_read_to_its_end_before_its_items_are_taken() {
    let text = list(80_000);
    assert!(text.len() > 16 << 20);
    // The second pod of a name stops the reading.
    let text = text.replacen("\"p1\"", "\"p0\"", 1);
    let mut given = 0;
    let reader = Counted {
        text: text.as_bytes(),
        given: &mut given,
    };
    let error = load(&[PathBuf::from("-")], reader).expect_err("one is double");
    assert!(error.to_string().contains("items[1]"), "{error}");
    assert!(given < 5 << 20, "{given} bytes were read");
}
