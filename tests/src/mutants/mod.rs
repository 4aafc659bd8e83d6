//! Mutants: small wrong changes of the product and of the checkers, kept as text in `tests/mutants`,
//! each of which the rig must notice. This file reads and checks them, `plant.rs` puts them into a
//! copy of the sources, all of them at once and each asleep until it is called by its number, and
//! `hunt.rs` wakes one after the other and looks whether what it was told to notices.

pub mod hunt;
pub mod plant;

use std::collections::BTreeSet;
use std::path::Path;

use toml::{Table, Value};

/// The lists, in the order in which mutants are numbered.
pub const LISTS: [&str; 2] = ["product.toml", "checker.toml"];

/// Seeds played at most, unless the mutant says otherwise.
const SEEDS: u64 = 200;

/// One wrong change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// Its name.
    pub id: String,
    /// Known bugs (`M1`), invariants (`S1`, `L1`) and faults (`F1`) that it belongs to; of the
    /// checkers' mutants, the checker.
    pub of: Vec<String>,
    /// The file, from the root of the workspace.
    pub file: String,
    /// What stands before the part that is replaced, that part, and what stands behind.
    pub before: String,
    /// See `before`.
    pub part: String,
    /// See `before`.
    pub behind: String,
    /// What comes in the part's place.
    pub replace: String,
    /// What is wrong then.
    pub what: String,
    /// What must notice.
    pub kill: Kill,
    /// Whether it is one of the product's, and not one of a checker's.
    pub of_product: bool,
}

/// What must notice a mutant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kill {
    /// So many seeds of the simulator.
    Fuzz {
        /// `upstream`, `hardened` or `both`.
        behaviour: String,
        /// How many at most.
        seeds: u64,
        /// Only these classes of faults; all when empty.
        faults: String,
    },
    /// A test, or several.
    Test {
        /// The package.
        package: String,
        /// `lib` for unit tests, else the name of the test program.
        target: String,
        /// Which of its tests: those whose names contain this.
        filter: String,
    },
}

impl std::fmt::Display for Kill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Kill::Fuzz {
                behaviour, faults, ..
            } if faults.is_empty() => write!(f, "fuzz, {behaviour}"),
            Kill::Fuzz {
                behaviour, faults, ..
            } => write!(f, "fuzz, {behaviour}, {faults}"),
            Kill::Test {
                package,
                target,
                filter,
            } => write!(f, "{package} {target} {filter}"),
        }
    }
}

/// Every mutant, from the folder of the lists.
///
/// # Errors
/// What can't be read, or is not as it should be.
pub fn load(folder: &Path) -> Result<Vec<Mutant>, String> {
    let mut mutants = Vec::new();
    for list in LISTS {
        let path = folder.join(list);
        let text = std::fs::read_to_string(&path)
            .map_err(|error| format!("can't read {}: {error}", path.display()))?;
        let table: Table = text.parse().map_err(|error| format!("{list}: {error}"))?;
        let entries = table.get("mutant").and_then(Value::as_array);
        let entries = entries.ok_or_else(|| format!("{list} has no mutants"))?;
        for entry in entries {
            let mutant = mutant(entry, list == LISTS[0])?;
            mutants.push(mutant);
        }
    }
    let mut ids = BTreeSet::new();
    match mutants.iter().find(|mutant| !ids.insert(&mutant.id)) {
        Some(twice) => Err(format!("there are two mutants {}", twice.id)),
        None => Ok(mutants),
    }
}

fn mutant(entry: &Value, of_product: bool) -> Result<Mutant, String> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).map(str::to_owned);
    let id = text("id").ok_or("a mutant has no id")?;
    let need = |name: &str| text(name).ok_or_else(|| format!("{id} has no {name}"));
    let of: Vec<String> = entry
        .get("of")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect();
    let find = need("find")?;
    let (before, part, behind) = marked(&find);
    let seeds = entry.get("seeds").and_then(Value::as_integer);
    let seeds = seeds.map_or(Ok(SEEDS), u64::try_from);
    let kill = match (text("fuzz"), text("test")) {
        (Some(behaviour), None) => Kill::Fuzz {
            behaviour,
            seeds: seeds.map_err(|_| format!("{id} asks for fewer seeds than none"))?,
            faults: text("faults").unwrap_or_default(),
        },
        (None, Some(test)) => {
            let mut words = test.splitn(3, ' ').map(str::to_owned);
            let (package, target, filter) = (words.next(), words.next(), words.next());
            let (Some(package), Some(target), Some(filter)) = (package, target, filter) else {
                return Err(format!("{id}: a test is a package, a target and a name"));
            };
            Kill::Test {
                package,
                target,
                filter,
            }
        }
        _ => return Err(format!("{id} is to be killed by `fuzz` or by `test`")),
    };
    Ok(Mutant {
        file: need("file")?,
        replace: need("replace")?,
        what: need("what")?,
        id,
        of,
        before,
        part,
        behind,
        kill,
        of_product,
    })
}

/// The text before `«`, up to `»`, and behind; without the marks all of it is the part.
fn marked(find: &str) -> (String, String, String) {
    let marks = find.split_once('«').and_then(|(before, rest)| {
        let (part, behind) = rest.split_once('»')?;
        Some((before, part, behind))
    });
    let (before, part, behind) = marks.unwrap_or(("", find, ""));
    (before.to_owned(), part.to_owned(), behind.to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    fn all() -> Vec<Mutant> {
        load(&root().join("tests/mutants")).unwrap()
    }

    #[test]
    fn every_mutant_still_fits_its_file() {
        let mutants = all();
        let planted = plant::plant(&root(), &mutants).unwrap();
        let files: BTreeSet<&str> = mutants.iter().map(|mutant| &*mutant.file).collect();
        assert_eq!(planted.len(), files.len());
    }

    #[test]
    fn every_known_bug_invariant_and_fault_has_a_mutant() {
        let mutants = all();
        let product = || mutants.iter().filter(|mutant| mutant.of_product);
        let names: BTreeSet<&str> = product()
            .flat_map(|mutant| mutant.of.iter().map(String::as_str))
            .collect();
        let of = |letter: char, last: usize| (1..=last).map(move |n| format!("{letter}{n}"));
        let missing: Vec<String> = of('M', 12)
            .chain(of('S', 14))
            .chain(of('L', 5))
            .chain(of('F', 26))
            .filter(|name| !names.contains(&**name))
            .collect();
        assert_eq!(missing, [""; 0]);
        assert!(product().count() >= 50, "{}", product().count());
        assert!(mutants.len() - product().count() >= 10);
    }

    #[test]
    fn the_part_to_replace_stands_between_marks() {
        let split = |text| {
            let (before, part, behind) = marked(text);
            [before, part, behind]
        };
        assert_eq!(split("a + b"), ["", "a + b", ""]);
        assert_eq!(split("if «a» {"), ["if ", "a", " {"]);
    }
}
