//! Pages about the code: the map names and counts what exists, tables that repeat the code are
//! complete, links resolve, and `docs` is a book with a summary.
#![expect(
    clippy::unwrap_used,
    reason = "a file that can't be read is a failed test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use podstorm_tests::tree::{self, root};

const MAP: &str = "ARCHITECTURE.md";

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    let text = std::fs::read_to_string(&path);
    text.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the text below a second-level heading, up to the next one.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, after) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    after.split("\n## ").next().unwrap()
}

/// Returns the cells of a table's rows, without its head.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = text.lines().filter(|line| line.starts_with('|'));
    lines
        .skip(2)
        .map(|line| line.split('|').map(str::trim).collect())
}

/// Returns the inline code of a text. Code blocks are skipped.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    let mut in_block = false;
    let prose = text.lines().filter(move |line| {
        let is_fence = line.starts_with("```");
        in_block ^= is_fence;
        !in_block && !is_fence
    });
    prose.flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Expands `a/{b,c}.rs` to `a/b.rs` and `a/c.rs`.
fn expanded(span: &str) -> Vec<String> {
    let Some((before, rest)) = span.split_once('{') else {
        return vec![span.to_owned()];
    };
    let (names, after) = rest.split_once('}').unwrap();
    let names = names.split(',');
    names.map(|name| format!("{before}{name}{after}")).collect()
}

/// Returns the paths in a text's inline code.
fn paths(text: &str) -> Vec<String> {
    let is_path = |span: &&str| {
        let is_part = |c: char| c.is_alphanumeric() || "/_-.{,}".contains(c);
        span.contains('/') && !span.starts_with('/') && span.chars().all(is_part)
    };
    spans(text).filter(is_path).flat_map(expanded).collect()
}

/// Returns the folders of the packages by their short names, as listed in the map.
fn packages(map: &str) -> BTreeMap<&str, &str> {
    rows(section(map, "The crates"))
        .map(|cells| (cells[1].trim_matches('`'), cells[2].trim_matches('`')))
        .collect()
}

#[test]
fn the_map_names_each_package() {
    let map = read(MAP);
    let listed: BTreeSet<&str> = packages(&map).into_values().collect();
    let workspace = read("Cargo.toml");
    let (_, members) = workspace.split_once("members = [").unwrap();
    let members = members.split(']').next().unwrap().split('"');
    let members: BTreeSet<&str> = members.skip(1).step_by(2).collect();
    assert_eq!(listed, members);
    let counted = format!("There are {} packages.", members.len());
    assert!(map.contains(&counted), "{counted}");
}

#[test]
fn each_path_of_the_map_exists() {
    let map = read(MAP);
    let packages = packages(&map);
    let mut missing = Vec::new();
    let mut found = 0;
    for page in [MAP, "docs/reference/specification.md"] {
        for path in paths(&read(page)) {
            let (first, rest) = path.split_once('/').unwrap();
            if path == "src/" {
                continue;
            }
            let in_package = packages
                .get(first)
                .map(|folder| root().join(folder).join("src").join(rest));
            let is_there = |path: PathBuf| path.exists();
            found += 1;
            if !in_package.is_some_and(is_there) && !is_there(root().join(&path)) {
                missing.push(format!("{page}: {path}"));
            }
        }
    }
    assert!(found > 150, "{found}");
    assert_eq!(missing, [""; 0]);
}

/// Returns the number of steps and of files in a walk of the map.
fn counted(walk: &str) -> (usize, usize) {
    let is_step = |line: &&str| line.starts_with(|c: char| c.is_ascii_digit());
    let steps = walk.lines().filter(is_step).count();
    let lines = walk.lines();
    let lines: Vec<&str> = lines
        .filter(|line| is_step(line) || line.starts_with("   "))
        .collect();
    let files = paths(&lines.join("\n")).into_iter();
    let files: BTreeSet<String> = files.filter(|path| path.ends_with(".rs")).collect();
    (steps, files.len())
}

#[test]
fn the_map_counts_what_it_lists() {
    let map = read(MAP);
    for heading in ["The way of one event", "The way of one request"] {
        let walk = section(&map, heading);
        let (steps, files) = counted(walk);
        let counted = format!("{steps} steps through {files} files");
        assert!(walk.contains(&counted), "{heading}: {counted}");
    }
    let walk = "1. A. `a/{b,c}.rs`\n   `a/b.rs`, `d/`\n2. E.\n\nAs `f/g.rs`.";
    assert_eq!(counted(walk), (2, 2));
}

#[test]
fn each_test_that_the_map_names_exists() {
    let map = read(MAP);
    let is_name = |span: &&str| span.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let named: Vec<&str> = rows(section(&map, "Where to add what"))
        .flat_map(|cells| spans(cells[3]).filter(is_name).collect::<Vec<_>>())
        .collect();
    assert!(named.len() > 15, "{named:?}");
    let folders = ["core", "bench", "loadgen", "tests"];
    let sources: Vec<tree::Source> = folders.into_iter().flat_map(tree::sources).collect();
    let is_missing = |name: &&str| {
        let declared = format!("fn {name}(");
        !sources.iter().any(|file| file.text.contains(&declared))
    };
    let missing: Vec<&str> = named.into_iter().filter(is_missing).collect();
    assert_eq!(missing, [""; 0]);
}

/// Maximum length of a page in `docs/decisions`, in lines.
const DECISION_LINES_MAX: usize = 40;

#[test]
fn each_decision_is_short_and_listed() {
    let folder = root().join("docs/decisions");
    let mut pages = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name != "README.md" {
            let lines = read(&path).lines().count();
            assert!(lines <= DECISION_LINES_MAX, "{name}: {lines} lines");
            pages.insert(name);
        }
    }
    let index = read("docs/decisions/README.md");
    let listed = rows(&index).map(|cells| {
        let (_, link) = cells[1].split_once("](").unwrap();
        link.trim_end_matches(')').to_owned()
    });
    assert_eq!(listed.collect::<BTreeSet<String>>(), pages);
    assert!(pages.len() > 10, "{pages:?}");
}

#[test]
fn the_page_of_the_behaviours_has_each_row_of_the_policy() {
    let policy = read("core/src/policy.rs");
    let (_, fields) = policy.split_once("pub struct Policy {").unwrap();
    let fields = fields.split("\n}").next().unwrap().lines();
    let fields = fields.filter_map(|line| line.trim().strip_prefix("pub ")?.split(':').next());
    let page = read("docs/reference/behaviours.md");
    let listed = rows(&page).map(|cells| cells[1].trim_matches('`'));
    let fields: BTreeSet<&str> = fields.collect();
    assert_eq!(listed.collect::<BTreeSet<&str>>(), fields);
    assert!(fields.contains("delete_by_uid"), "{fields:?}");
}

/// Returns the anchors of a page, as GitHub derives them from the headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = text
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

/// The folders whose pages' links are checked, with the folders below them.
const LINKED: [&str; 7] = [
    "docs",
    "core",
    "bench",
    "tests",
    "loadgen",
    "flamegraphs",
    ".ci",
];

/// The pages of the tree, by their paths from the root.
fn pages() -> BTreeMap<String, String> {
    let below = LINKED
        .iter()
        .flat_map(|folder| tree::texts(folder, &["md"]));
    let mut pages: BTreeMap<String, String> = below.map(|it| (it.path, it.text)).collect();
    for entry in std::fs::read_dir(root()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "md") {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            pages.insert(name, read(&path));
        }
    }
    pages
}

/// The targets of the links and pictures of a page, without those on the web.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let in_marks = text.split("](").skip(1);
    let in_tags = text.split("<img src=\"").skip(1);
    let marked = in_marks.filter_map(|after| after.split(')').next());
    let tagged = in_tags.filter_map(|after| after.split('"').next());
    marked.chain(tagged).filter(|link| !link.contains("://"))
}

#[test]
fn every_link_resolves() {
    let pages = pages();
    let mut broken = Vec::new();
    let mut followed = 0;
    for (name, text) in &pages {
        let page = root().join(name);
        for link in links(text) {
            followed += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => page.clone(),
                path => page.parent().unwrap().join(path),
            };
            let is_there =
                target.exists() && (anchor.is_empty() || anchors(&read(&target)).contains(anchor));
            if !is_there {
                broken.push(format!("{name}: {link}"));
            }
        }
    }
    assert!(followed > 150, "{followed}");
    assert_eq!(broken, [""; 0]);
}

/// The pages and pictures of `docs` that a text names by their path, such as `docs/README.md`.
fn named(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("docs/").filter_map(|(at, _)| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
        let end = text[at..]
            .find(|c| !is_part(c))
            .map_or(text.len(), |length| at + length);
        let path = text[at..end].trim_end_matches('.');
        let is_start = !text[..at].ends_with(is_part) || text[..at].ends_with("../");
        let is_file = [".md", ".svg", ".png"].iter().any(|it| path.ends_with(it));
        (is_start && is_file).then_some(path)
    })
}

#[test]
fn texts_name_pages_that_exist() {
    let kinds = ["rs", "md", "toml"];
    let below = LINKED.iter().flat_map(|folder| tree::texts(folder, &kinds));
    let below = below.map(|it| (it.path, it.text));
    let mut missing = Vec::new();
    let mut found = 0;
    for (path, text) in below.chain(pages()) {
        for page in named(&text) {
            found += 1;
            if path != "tests/tests/all/docs.rs" && !root().join(page).exists() {
                missing.push(format!("{path}: {page}"));
            }
        }
    }
    assert!(found > 20, "{found}");
    assert_eq!(missing, [""; 0]);
    let text = "`docs/a.md`, ../docs/b/c.svg and https://k8s.io/docs/d.md, see docs/e.md.";
    assert_eq!(
        named(text).collect::<Vec<_>>(),
        ["docs/a.md", "docs/b/c.svg", "docs/e.md"]
    );
}

/// The lines of the book's summary that lead to a page: its title and its path from `docs`.
fn chapters(summary: &str) -> Vec<(&str, &str)> {
    let mut chapters = Vec::new();
    for line in summary.lines() {
        // Headings of parts, and the chapter before the first part, which has no bullet.
        let Some(link) = line.trim_start().trim_start_matches("- ").strip_prefix('[') else {
            assert!(line.is_empty() || line.starts_with("# "), "{line:?}");
            continue;
        };
        let (title, path) = link.split_once("](").unwrap();
        let path = path.strip_suffix(')').unwrap();
        chapters.push((title, path));
    }
    chapters
}

#[test]
fn the_summary_has_each_page_by_its_title() {
    let summary = read("docs/SUMMARY.md");
    let mut listed = BTreeSet::new();
    for (title, path) in chapters(&summary) {
        let page = read(format!("docs/{path}"));
        assert_eq!(page.lines().next(), Some(&*format!("# {title}")), "{path}");
        assert!(
            listed.insert(format!("docs/{path}")),
            "{path} is there twice"
        );
    }
    let pages = pages().into_keys();
    let pages = pages.filter(|it| it.starts_with("docs/") && it != "docs/SUMMARY.md");
    assert_eq!(listed, pages.collect::<BTreeSet<String>>());
}

#[test]
fn each_page_of_the_book_begins_with_its_question() {
    let mut silent = Vec::new();
    for (path, text) in pages() {
        if !path.starts_with("docs/") || path == "docs/SUMMARY.md" {
            continue;
        }
        let first = text.split("\n\n").nth(1).unwrap_or_default();
        if !(first.starts_with('*') && first.ends_with("?*")) {
            silent.push(path);
        }
    }
    assert_eq!(silent, [""; 0]);
}
