//! Rules for all source files that the compiler and clippy cannot check.
#![expect(
    clippy::unwrap_used,
    reason = "a file that can't be read is a failed test"
)]

use podstorm_tests::tree::{self, Source, root};

/// Maximum length of a source file in lines. A longer file probably holds two ideas. The limit leaves
/// room for one idea whole: an `impl` of one type must not be cut over several files to stay short.
const LINES_MAX: usize = 900;

/// The folders of the workspace's packages.
const PACKAGES: [&str; 4] = ["core", "bench", "loadgen", "tests"];

fn sources() -> Vec<Source> {
    let files = PACKAGES.iter().flat_map(|package| tree::sources(package));
    let files: Vec<Source> = files.collect();
    assert!(files.len() > 300, "the sources were not found");
    files
}

/// Returns the lines with one of `words` in the files selected by `applies`, as `path:line: word`.
/// Skips this file, which contains the words.
fn lines_with(words: &[&str], applies: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for file in sources() {
        if !applies(&file.path) || file.path == "tests/tests/all/tidy.rs" {
            continue;
        }
        for (number, line) in (1..).zip(file.text.lines()) {
            if let Some(word) = words.iter().find(|word| line.contains(*word)) {
                found.push(format!("{}:{number}: {word}", file.path));
            }
        }
    }
    found
}

#[test]
fn every_file_says_what_lives_there() {
    let silent = |file: &Source| !file.text.starts_with("//! ");
    let silent: Vec<String> = sources()
        .into_iter()
        .filter(silent)
        .map(|file| file.path)
        .collect();
    assert_eq!(silent, [""; 0]);
}

#[test]
fn no_file_holds_two_ideas() {
    let mut long = Vec::new();
    for file in sources() {
        let lines = file.text.lines().count();
        if lines > LINES_MAX {
            long.push(format!("{}: {lines} lines", file.path));
        }
    }
    assert_eq!(long, [""; 0]);
}

/// The limits of ARCHITECTURE.md, which is a map rather than a manual: details of a crate belong to
/// the crate's documentation, and reasons to docs/decisions.
const MAP_LINES_MAX: usize = 200;
const MAP_BYTES_MAX: usize = 14_000;
const MAP_WIDTH_MAX: usize = 160;

#[test]
fn the_map_stays_a_map() {
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let lines = map.lines().count();
    assert!(lines <= MAP_LINES_MAX, "{lines} lines");
    assert!(map.len() <= MAP_BYTES_MAX, "{} bytes", map.len());
    let wide = map
        .lines()
        .filter(|line| line.chars().count() > MAP_WIDTH_MAX);
    assert_eq!(wide.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn nothing_is_left_unwritten() {
    let words = ["todo!(", "unimplemented!(", "dbg!(", "TODO", "FIXME"];
    assert_eq!(lines_with(&words, |_| true), [""; 0]);
}

#[test]
fn no_lint_is_silenced_without_a_reason() {
    assert_eq!(lines_with(&["#[allow(", "#![allow("], |_| true), [""; 0]);
}

#[test]
fn no_path_of_one_machine_is_written_down() {
    let words = ["\"/home/", "\"/root/", "\"/Users/", "\"C:\\\\"];
    assert_eq!(lines_with(&words, |_| true), [""; 0]);
}

#[test]
fn the_library_reads_no_clock_and_starts_no_thread() {
    let words = [
        "Instant::now",
        "SystemTime::now",
        "thread::spawn",
        "std::fs::",
        "std::net::",
    ];
    let found = lines_with(&words, |path| {
        path.starts_with("core/") && path.contains("/src/")
    });
    assert_eq!(found, [""; 0]);
}

#[test]
fn no_map_has_an_order_of_its_own() {
    let words = [
        "std::collections::HashMap",
        "std::collections::HashSet",
        "collections::{HashMap",
        "RandomState::new()",
    ];
    assert_eq!(lines_with(&words, |_| true), [""; 0]);
}

/// Words that a technical writer would not use, each with a replacement.
const PLAIN: [(&str, &str); 18] = [
    ("anew", "again"),
    ("whom", "the noun"),
    ("nobody", "no client, no thread, no owner"),
    ("is told", "gets, is notified"),
    ("are told", "get, are reported"),
    ("by lot", "at random"),
    ("said aloud", "reported"),
    ("that is none", "invalid"),
    ("for ever", "forever, endlessly"),
    ("of one's own", "custom"),
    ("whoever", "the noun"),
    ("unless given", "defaults to"),
    ("lets go", "releases"),
    ("on its way out", "terminating"),
    ("goes on", "continues"),
    ("in vain", "without success"),
    ("is to be", "must be"),
    ("are to be", "must be"),
];

/// Exceptions: a part of the line, and the reason.
const NOT_PLAIN: [(&str, &str); 1] = [(
    "\"nobody\"",
    "the name of a scheduler or a user in test data",
)];

/// Reports whether a line contains the phrase as whole words, in any case.
fn has_words(line: &str, phrase: &str) -> bool {
    let line = line.to_lowercase();
    let is_part = |end: Option<char>| end.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(phrase).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + phrase.len()..]);
        !is_part(before.chars().next_back()) && !is_part(after.chars().next())
    })
}

#[test]
fn words_are_plain() {
    let folders = PACKAGES.iter().chain(&["docs", "flamegraphs"]);
    let mut files: Vec<Source> = folders
        .flat_map(|folder| tree::texts(folder, &["rs", "md", "yaml", "toml"]))
        // Recorded data.
        .filter(|file| !file.path.starts_with("tests/fuzz/corpus/"))
        .collect();
    for path in [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
    ] {
        let text = std::fs::read_to_string(root().join(path)).unwrap();
        files.push(Source {
            path: path.to_owned(),
            text,
        });
    }
    let mut found = Vec::new();
    for file in files
        .iter()
        .filter(|file| file.path != "tests/tests/all/tidy.rs")
    {
        for (number, line) in (1..).zip(file.text.lines()) {
            let stays = NOT_PLAIN.iter().any(|(part, _)| line.contains(part));
            let words = PLAIN.iter().find(|(words, _)| has_words(line, words));
            if let Some((words, instead)) = words.filter(|_| !stays) {
                found.push(format!(
                    "{}:{number}: {words:?}, write {instead:?}",
                    file.path
                ));
            }
        }
    }
    assert_eq!(found, [""; 0]);
}

/// Returns the listed hazards with this letter: their numbers, and their tests as `module::name`,
/// in the order of the table.
fn hazards_listed(letter: &str) -> Vec<(usize, String)> {
    let text = std::fs::read_to_string(root().join("tests/HAZARDS.md")).unwrap();
    let rows = text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.strip_prefix(letter)?.split(" | ");
        let number = cells.next()?.parse().ok()?;
        Some((number, cells.next()?.trim_matches('`').to_owned()))
    });
    rows.collect()
}

/// Returns the tests of hazards with this prefix: their numbers, and `module::name`.
fn hazards_written(prefix: &str) -> Vec<(usize, String)> {
    let mut written = Vec::new();
    for file in sources() {
        let Some(module) = file.path.strip_prefix("tests/tests/all/hazards/") else {
            continue;
        };
        for after in file.text.split(&format!("#[test]\nfn {prefix}_")).skip(1) {
            let name = after.split('(').next().unwrap();
            let number: usize = name[..2].parse().unwrap();
            let module = module.trim_end_matches(".rs");
            written.push((number, format!("{module}::{prefix}_{name}")));
        }
    }
    written.sort();
    written
}

#[test]
fn every_hazard_has_its_test() {
    for (letter, prefix, count) in [("", "hazard", 82), ("H", "deployment", 11), ("J", "job", 9)] {
        let written = hazards_written(prefix);
        assert_eq!(hazards_listed(letter), written);
        let numbers: Vec<usize> = written.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, (1..=count).collect::<Vec<_>>());
    }
}
