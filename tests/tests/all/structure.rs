//! Layering: dependencies between crates, and between the modules of each crate, have no cycles.
//! Both are read from the paths in the code (`podstorm_objects::…`, `crate::…`, `super::…`), except
//! in tests.
#![expect(
    clippy::unwrap_used,
    reason = "a file that can't be read is a failed test"
)]

use std::collections::{BTreeMap, BTreeSet};

use podstorm::object::Kind;
use podstorm::row::{ControllerRow, RunsIn};
use podstorm_sim::rows::Rows;
use podstorm_tests::tree::{self, root};

/// The crates and their folders from the lowest layer up. Each may name those before it.
const LAYERS: [(&str, &str); 9] = [
    ("podstorm_objects", "core/objects"),
    ("podstorm_runtime", "core/runtime"),
    ("podstorm", "core"),
    // Only for the model-checked locks of the runtime.
    ("podstorm_apiserver", "loadgen/apiserver"),
    ("podstorm_http", "loadgen/http"),
    ("podstorm_located", "loadgen/located"),
    ("podstorm_sim", "loadgen/sim"),
    ("podstorm_faultsim", "loadgen/faultsim"),
    ("podstorm_loadgen", "loadgen"),
];

/// Pairs of a crate and a crate that it must not name: neither the server nor its HTTP layer
/// knows the controllers.
const APART: [(&str, &str); 2] = [
    ("podstorm_apiserver", "podstorm"),
    ("podstorm_http", "podstorm"),
];

/// The crates whose root module has items. Modules may name these items, and the root names the
/// modules; the check of cycles does not see such a pair.
const WITH_ROOT_ITEMS: [&str; 4] = [
    "podstorm_objects",
    "podstorm_apiserver",
    "podstorm_located",
    "podstorm_sim",
];

/// A source file of a crate: its module path from the root, and its text without comments, literals
/// and tests.
struct Source {
    path: String,
    module: Vec<String>,
    text: String,
}

fn sources(folder: &str) -> Vec<Source> {
    let below = format!("{folder}/src");
    let files = tree::sources(&below).into_iter();
    let mut found: Vec<Source> = files
        .map(|file| Source {
            module: module_of(&file.path[below.len() + 1..]),
            text: bare(&file.text),
            path: file.path,
        })
        .collect();
    // There must be the crate's root, and at least one file for each module that it declares.
    let root = found.iter().min_by_key(|source| source.module.len());
    let declared = root.map_or(0, |root| {
        let lines = root.text.lines().map(str::trim);
        let modules = lines.filter(|line| {
            let line = line.strip_prefix("pub ").unwrap_or(line);
            line.starts_with("mod ") && line.ends_with(';')
        });
        modules.count()
    });
    assert!(found.len() > declared, "{folder}: sources are missing");
    // A module declared with `#[cfg(test)] mod x;` is a test too.
    let tests: Vec<Vec<String>> = found
        .iter()
        .flat_map(|source| {
            let names = source.text.split(TEST_MODULE).skip(1);
            names.map(|rest| {
                let name = identifier(rest).to_owned();
                source.module.iter().cloned().chain([name]).collect()
            })
        })
        .collect();
    found.retain(|source| !tests.iter().any(|test| source.module.starts_with(test)));
    found
}

/// Returns the module of a file below `src/`.
fn module_of(path: &str) -> Vec<String> {
    let parts = path.trim_end_matches(".rs").split('/');
    let mut module: Vec<String> = parts.map(str::to_owned).collect();
    module.pop_if(|last| ["lib", "main", "mod"].contains(&last.as_str()));
    module
}

/// Replaces `#[cfg(test)] mod` in a bare text.
const TEST_MODULE: &str = "\u{1}";

/// Removes comments, literals, and the bodies of items that are compiled only for tests.
fn bare(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if rest.starts_with("r#\"") {
            rest = &rest[rest.find("\"#").unwrap() + 2..];
        } else if c == '"' {
            rest = after_literal(rest);
        } else if rest.starts_with("'\"'") || rest.starts_with("'{'") || rest.starts_with("'}'") {
            rest = &rest[3..];
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    without_tests(&out)
}

fn after_literal(text: &str) -> &str {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return &text[at + 1..],
            _ => {}
        }
    }
    ""
}

fn without_tests(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = ["#[cfg(test)]", "#[cfg(all(test"]
        .iter()
        .filter_map(|mark| rest.find(mark))
        .min()
    {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find(['{', ';']).unwrap();
        if rest[end..].starts_with(';') {
            if let Some((_, name)) = rest[..end].rsplit_once("mod ") {
                out.push_str(TEST_MODULE);
                out.push_str(name);
                out.push(' ');
            }
            rest = &rest[end + 1..];
        } else {
            let mut depth = 0;
            let close = rest.char_indices().find(|(_, c)| {
                depth += i32::from(*c == '{') - i32::from(*c == '}');
                *c == '}' && depth == 0
            });
            rest = &rest[close.unwrap().0 + 1..];
        }
    }
    out.push_str(rest);
    out
}

fn identifier(text: &str) -> &str {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    &text[..text.find(|c| !is_part(c)).unwrap_or(text.len())]
}

/// Returns what follows each occurrence of `word::` as a whole word.
fn after<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    let mark = format!("{word}::");
    text.match_indices(word).filter_map(move |(at, _)| {
        let before = text[..at].chars().next_back();
        let is_own = before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':');
        (is_own && text[at..].starts_with(&mark)).then(|| &text[at + mark.len()..])
    })
}

/// Returns the first names of a path, or of each branch of a `{…}` group.
fn heads(text: &str) -> Vec<&str> {
    let Some(group) = text.strip_prefix('{') else {
        return vec![identifier(text)];
    };
    let mut names = Vec::new();
    let mut depth = 0;
    let mut fresh = true;
    for (at, c) in group.char_indices() {
        match c {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => fresh = true,
            c if c.is_whitespace() => {}
            _ if fresh => {
                names.push(identifier(&group[at..]));
                fresh = false;
            }
            _ => {}
        }
    }
    names
}

/// Returns the names that a crate's root exports, with the module of each.
fn exported(sources: &[Source]) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for source in sources.iter().filter(|source| source.module.is_empty()) {
        for line in source.text.split("use ").skip(1) {
            let path = line.split(';').next().unwrap();
            let Some((module, items)) = path.split_once("::") else {
                continue;
            };
            let items = items.replace(['{', '}', '\n'], " ");
            for item in items.split(',') {
                let name = item.rsplit(['/', ' ', ':']).find(|word| !word.is_empty());
                if let Some(name) = name {
                    names.insert(name.to_owned(), module.trim().to_owned());
                }
            }
        }
    }
    names
}

/// Returns which top-level modules each top-level module of a crate names.
fn arrows(folder: &str) -> BTreeMap<String, BTreeSet<String>> {
    let sources = sources(folder);
    let top: BTreeSet<&str> = sources
        .iter()
        .filter_map(|source| source.module.first().map(String::as_str))
        .collect();
    let exported = exported(&sources);
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in &sources {
        let Some(own) = source.module.first() else {
            continue;
        };
        let up = vec!["super"; source.module.len()].join("::");
        let rooted = after(&source.text, "crate").chain(after(&source.text, &up));
        for name in rooted.flat_map(heads) {
            let module = exported.get(name).map_or(name, String::as_str);
            if top.contains(module) && module != own {
                arrows
                    .entry(own.clone())
                    .or_default()
                    .insert(module.to_owned());
            }
        }
    }
    arrows
}

/// Returns the modules of a cycle in order, if there is one.
fn cycle(arrows: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    fn walk(
        at: &str,
        arrows: &BTreeMap<String, BTreeSet<String>>,
        path: &mut Vec<String>,
        done: &mut BTreeSet<String>,
    ) -> Option<Vec<String>> {
        if let Some(start) = path.iter().position(|known| known == at) {
            return Some(path[start..].to_vec());
        }
        if !done.insert(at.to_owned()) {
            return None;
        }
        path.push(at.to_owned());
        for next in arrows.get(at).into_iter().flatten() {
            if let Some(found) = walk(next, arrows, path, done) {
                return Some(found);
            }
        }
        path.pop();
        None
    }
    let mut done = BTreeSet::new();
    arrows
        .keys()
        .find_map(|start| walk(start, arrows, &mut Vec::new(), &mut done))
}

#[test]
fn crates_point_one_way() {
    for (place, (name, folder)) in LAYERS.iter().enumerate() {
        for source in sources(folder) {
            for (at, (other, _)) in LAYERS.iter().enumerate() {
                let named = after(&source.text, other).next().is_some();
                assert!(
                    !named || at <= place && !APART.contains(&(*name, *other)),
                    "{folder}, module {}: names {other}, which is not below it",
                    source.module.join("::")
                );
            }
        }
    }
}

#[test]
fn no_cycle_joins_the_modules_of_a_crate() {
    let mut found = Vec::new();
    for (name, folder) in LAYERS {
        let arrows = arrows(folder);
        if let Some(cycle) = cycle(&arrows) {
            found.push(format!("{name}: {}", cycle.join(" -> ")));
        }
    }
    assert_eq!(found, [""; 0]);
}

/// The root of a crate only declares modules and re-exports their items.
#[test]
fn no_root_hides_a_cycle() {
    let mut found = Vec::new();
    for (name, folder) in LAYERS {
        let root = format!("{folder}/src/lib.rs");
        let Some(source) = sources(folder).into_iter().find(|it| it.path == root) else {
            panic!("{root} is missing");
        };
        let lines = source.text.lines().map(str::trim);
        let lines: Vec<&str> = lines.filter(|line| !line.starts_with('#')).collect();
        let text = lines.join(" ").replace(TEST_MODULE, "; mod ");
        let has_items = text.split(';').map(str::trim).any(|item| {
            let item = item.strip_prefix("pub ").unwrap_or(item);
            !item.is_empty() && !item.starts_with("mod ") && !item.starts_with("use ")
        });
        if has_items != WITH_ROOT_ITEMS.contains(&name) {
            found.push(format!("{name}: has items: {has_items}"));
        }
    }
    assert_eq!(found, [""; 0]);
}

/// The library does no I/O. Its driver brings the async runtime and the client.
#[test]
fn the_core_depends_on_no_runtime_and_no_client() {
    for (_, folder) in &LAYERS[..3] {
        let manifest = std::fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        for other in ["tokio", "kube", "hyper", "podstorm-loadgen", "podstorm-sim"] {
            let depends = manifest.lines().any(|line| line.starts_with(other));
            assert!(!depends, "{folder} depends on {other}");
        }
    }
}

#[test]
fn a_planted_cycle_is_found() {
    let arrow = |from: &str, to: &str| (from.to_owned(), BTreeSet::from([to.to_owned()]));
    let straight = BTreeMap::from([arrow("a", "b"), arrow("b", "c")]);
    assert_eq!(cycle(&straight), None);
    let round = BTreeMap::from([arrow("a", "b"), arrow("b", "c"), arrow("c", "b")]);
    assert_eq!(cycle(&round), Some(vec!["b".to_owned(), "c".to_owned()]));
}

#[test]
fn paths_are_read_as_the_compiler_does() {
    let text = bare(
        "use crate::{a::{b, c}, d};\n// crate::comment\nlet x = \"crate::text\"; crate::e::f();\n\
         #[cfg(test)]\nmod tests { use crate::g; }\nuse mycrate::h; use super::super::i;",
    );
    let names: Vec<&str> = after(&text, "crate").flat_map(heads).collect();
    assert_eq!(names, ["a", "d", "e"]);
    assert_eq!(after(&text, "super::super").flat_map(heads).count(), 1);
}

/// The table in the documentation has a row for each controller.
#[test]
fn the_documentation_has_each_controller() {
    let text = std::fs::read_to_string(root().join("docs/reference/api.md")).unwrap();
    let (_, table) = text.split_once("| name, older name |").unwrap();
    let lines = table.lines().skip(2);
    let lines = lines.take_while(|line| line.starts_with('|'));
    let listed: BTreeSet<&str> = lines
        .map(|line| line.split('|').nth(1).unwrap().trim())
        .collect();
    let rows = Rows::upstream();
    let names: Vec<String> = rows
        .iter()
        .map(|row| format!("`{}`, `{}`", row.name, row.alias))
        .collect();
    assert_eq!(listed, names.iter().map(String::as_str).collect());
}

/// The crates whose general modules must not name a workload.
const GENERAL: [&str; 4] = ["core/runtime", "loadgen/sim", "loadgen/faultsim", "loadgen"];

/// The folders of the workloads.
const WORKLOADS: [&str; 2] = ["loadgen/faultsim/src/workloads/", "loadgen/src/workloads/"];

/// Returns the parts of an identifier in lower case. `ReplicaSet`, `REPLICA_SET` and `replica_set`
/// have the same parts.
fn parts(identifier: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for word in identifier.split('_').filter(|word| !word.is_empty()) {
        let is_constant = word.chars().all(|c| !c.is_lowercase());
        for c in word.chars() {
            if parts.is_empty() || c.is_uppercase() && !is_constant {
                parts.push(String::new());
            }
            let last: &mut String = parts.last_mut().unwrap();
            last.extend(c.to_lowercase());
        }
        parts.push(String::new());
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Reports whether an identifier contains one of the words, in the singular or the plural.
fn names(identifier: &str, words: &BTreeSet<String>) -> bool {
    let parts = parts(identifier);
    (0..parts.len()).any(|from| {
        (from..parts.len()).any(|to| {
            let name = parts[from..=to].concat();
            let singular = name.strip_suffix('s').unwrap_or(&name);
            words.contains(&name) || words.contains(singular)
        })
    })
}

/// A workload is a folder, and general modules iterate over the rows. Controllers that only served
/// clusters run support the workloads and may be named, as may simulated nodes, volumes and
/// Services.
#[test]
fn general_modules_name_no_workload() {
    let plain = |name: &str| name.replace('-', "").to_lowercase();
    let rows = Rows::upstream();
    let is_workload = |row: &&ControllerRow| row.runs_in == RunsIn::Manager && !row.served_only;
    let controllers = rows.iter().filter(is_workload);
    let words: BTreeSet<String> = controllers
        .flat_map(|row| {
            [
                Some(row.name),
                Some(row.alias),
                // Every workload consists of pods.
                row.kind
                    .filter(|kind| *kind != Kind::POD)
                    .map(|kind| kind.name()),
            ]
        })
        .flatten()
        .map(plain)
        .collect();
    assert!(
        words.contains("replicaset") && words.contains("deployment"),
        "{words:?}"
    );
    let mut naming: BTreeSet<String> = BTreeSet::new();
    for source in GENERAL.iter().flat_map(|folder| sources(folder)) {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let mut identifiers = source.text.split(|c| !is_part(c));
        let in_folder = WORKLOADS
            .iter()
            .any(|folder| source.path.starts_with(folder));
        if !in_folder && identifiers.any(|word| names(word, &words)) {
            naming.insert(source.path);
        }
    }
    assert_eq!(
        naming,
        BTreeSet::new(),
        "these files name a workload: use its row, or move the code to its folder"
    );
}

#[test]
fn names_are_found_in_every_form_of_identifier() {
    let words = BTreeSet::from(["replicaset".to_owned(), "job".to_owned()]);
    for name in [
        "ReplicaSet",
        "REPLICA_SET",
        "replica_sets",
        "of_replicaset",
        "JobUsers",
    ] {
        assert!(names(name, &words), "{name}");
    }
    for name in ["replica", "ReplicaCount", "jobless", "reset"] {
        assert!(!names(name, &words), "{name}");
    }
}
