//! Puts mutants into source texts: each part that a mutant replaces becomes a choice between what
//! stands there and what the mutant has in its place, made by the number in an environment variable.
//! So one build serves all mutants.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use super::Mutant;

/// The environment variable that wakes a mutant, by its number from 1.
pub const VARIABLE: &str = "PODSTORM_MUTANT";

/// The crate that all others stand on, whose module `mutation` says which mutant is awake.
pub const SWITCH_CRATE: &str = "core/objects/src";

/// Its text.
pub const SWITCH: &str = r#"//! Which mutant is awake: its number is in the environment.

use std::sync::OnceLock;

static AWAKE: OnceLock<u32> = OnceLock::new();

/// Whether the mutant of that number is awake.
#[inline]
pub fn is(number: u32) -> bool {
    let awake = || std::env::var("PODSTORM_MUTANT").ok()?.parse().ok();
    *AWAKE.get_or_init(|| awake().unwrap_or(0)) == number
}
"#;

/// Where a mutant's part is, and the numbers of those that replace it.
#[derive(Debug)]
struct Place {
    start: usize,
    end: usize,
    numbers: Vec<usize>,
}

/// The texts, by file, of all files with mutants; a mutant's number is its place in the list, from 1.
///
/// # Errors
/// Mutants whose text does not occur exactly once, or whose parts overlap.
pub fn plant(root: &Path, mutants: &[Mutant]) -> Result<BTreeMap<String, String>, String> {
    let mut files: BTreeMap<&str, (String, Vec<Place>)> = BTreeMap::new();
    for (index, mutant) in mutants.iter().enumerate() {
        if !files.contains_key(&*mutant.file) {
            let text = std::fs::read_to_string(root.join(&mutant.file))
                .map_err(|error| format!("{}: can't read {}: {error}", mutant.id, mutant.file))?;
            files.insert(&mutant.file, (text, Vec::new()));
        }
        let (text, places) = files.get_mut(&*mutant.file).expect("it was put there");
        let (start, end) = place(text, mutant)?;
        match places
            .iter_mut()
            .find(|it| (it.start, it.end) == (start, end))
        {
            Some(place) => place.numbers.push(index + 1),
            None => places.push(Place {
                start,
                end,
                numbers: vec![index + 1],
            }),
        }
    }
    let mut planted = BTreeMap::new();
    for (file, (mut text, mut places)) in files {
        places.sort_by_key(|place| place.start);
        for pair in places.windows(2) {
            if pair[0].end > pair[1].start {
                let id = |place: &Place| mutants[place.numbers[0] - 1].id.clone();
                let (a, b) = (id(&pair[0]), id(&pair[1]));
                return Err(format!("{a} and {b} overlap in {file}"));
            }
        }
        for place in places.iter().rev() {
            let choice = choice(file, &text[place.start..place.end], &place.numbers, mutants);
            text.replace_range(place.start..place.end, &choice);
        }
        planted.insert(file.to_owned(), text);
    }
    Ok(planted)
}

/// Where the part of the mutant is.
fn place(text: &str, mutant: &Mutant) -> Result<(usize, usize), String> {
    let whole = format!("{}{}{}", mutant.before, mutant.part, mutant.behind);
    let mut found = text.match_indices(&whole);
    match (found.next(), found.next()) {
        (Some((at, _)), None) => {
            let start = at + mutant.before.len();
            Ok((start, start + mutant.part.len()))
        }
        (None, _) => Err(format!(
            "{}: its text is no longer in {}",
            mutant.id, mutant.file
        )),
        _ => Err(format!(
            "{}: its text is in {} more than once",
            mutant.id, mutant.file
        )),
    }
}

/// Statements and blocks become a statement, anything else an expression.
fn choice(file: &str, part: &str, numbers: &[usize], mutants: &[Mutant]) -> String {
    let switch = match file.starts_with(SWITCH_CRATE) {
        true => "crate::mutation::is",
        false => "podstorm_objects::mutation::is",
    };
    let mut text = String::new();
    for number in numbers {
        let replace = &mutants[number - 1].replace;
        write!(text, "if {switch}({number}) {{ {replace} }} else ").expect("a text takes all");
    }
    write!(text, "{{ {part} }}").expect("a text takes all");
    match part.trim_end().ends_with([';', '}']) {
        true => text,
        false => format!("({text})"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kill, marked};
    use super::*;

    fn mutant(find: &str, replace: &str) -> Mutant {
        let (before, part, behind) = marked(find);
        Mutant {
            id: find.to_owned(),
            of: Vec::new(),
            file: "core/objects/src/a.rs".to_owned(),
            before,
            part,
            behind,
            replace: replace.to_owned(),
            what: String::new(),
            kill: Kill::Test {
                package: String::new(),
                target: String::new(),
                filter: String::new(),
            },
            of_product: true,
        }
    }

    #[test]
    fn a_part_becomes_a_choice_among_all_that_replace_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("core/objects/src")).unwrap();
        std::fs::write(
            folder.path().join("core/objects/src/a.rs"),
            "if a < b { f(); }",
        )
        .unwrap();
        let plant = |mutants: &[Mutant]| {
            let planted = plant(folder.path(), mutants)?;
            Ok::<String, String>(planted["core/objects/src/a.rs"].clone())
        };
        let mutants = [
            mutant("if «a < b»", "true"),
            mutant("if «a < b»", "a"),
            mutant("f();", ""),
        ];
        assert_eq!(
            plant(&mutants).unwrap(),
            "if (if crate::mutation::is(1) { true } else if crate::mutation::is(2) { a } \
             else { a < b }) { if crate::mutation::is(3) {  } else { f(); } }"
        );
        assert!(plant(&[mutant("g", "")]).unwrap_err().contains("no longer"));
        assert!(
            plant(&[mutant(" ", "")])
                .unwrap_err()
                .contains("more than once")
        );
        let overlapping = [mutant("a < b", "true"), mutant("b {", "c {")];
        assert!(plant(&overlapping).unwrap_err().contains("overlap"));
    }
}
