//! Fuzz targets for all code that reads text or bytes from outside. Each target checks more than
//! the absence of panics.
//!
//! A target is a function of bytes that panics if its claim does not hold. `cargo test` runs each
//! target on its corpus (`tests/fuzz/corpus/TARGET/`) and on some thousand mutations of it, which
//! are always the same. Long runs use libFuzzer: `tests/fuzz/libfuzzer` calls the same functions.

mod applies;
mod definitions;
mod field_selectors;
mod json;
mod manifests;
mod mutate;
mod patches;
mod requests;
mod scenarios;
mod schedules;
mod selectors;
mod texts;
mod versions;

use std::path::PathBuf;
use std::{fs, io};

pub use mutate::Mutator;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the target and of its corpus.
    pub name: &'static str,
    /// The property that must hold for every input.
    pub claim: &'static str,
    /// Runs the target on arbitrary bytes and returns whether it accepted them. Panics if the claim
    /// does not hold.
    pub run: fn(&[u8]) -> bool,
    /// The number of mutations in `cargo test`, chosen so that each target takes about half a
    /// second.
    pub runs: usize,
}

/// All targets.
pub const TARGETS: [Target; 16] = [
    selectors::STRING,
    selectors::JSON,
    manifests::FILES,
    manifests::OBJECTS,
    scenarios::SCENARIOS,
    schedules::SCHEDULES,
    versions::RESOURCE_VERSIONS,
    versions::CONTINUE_TOKENS,
    patches::PATCHES,
    texts::SETTINGS,
    json::JSON,
    requests::REQUESTS,
    requests::PROTOBUF,
    applies::APPLIES,
    definitions::DEFINITIONS,
    field_selectors::FIELDS,
];

impl Target {
    /// Returns the target with this name; `None` if there is none.
    pub fn by_name(name: &str) -> Option<Target> {
        TARGETS.into_iter().find(|target| target.name == name)
    }

    /// Returns the contents of the files in the target's corpus, ordered by the names of the files.
    ///
    /// # Errors
    /// Fails if a file or the folder is unreadable.
    pub fn corpus(&self) -> io::Result<Vec<Vec<u8>>> {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
        let entries = fs::read_dir(folder.join(self.name))?;
        let mut paths: Vec<PathBuf> = entries
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<_>>()?;
        paths.sort();
        paths.iter().map(fs::read).collect()
    }
}
