//! Fuzz targets: everything that reads text and bytes from outside, each with a claim beyond "it does
//! not panic".
//!
//! A target is a function of bytes that panics where its claim does not hold. `cargo test` runs each
//! over its corpus (`tests/fuzz/corpus/TARGET/`) and some thousand mutations of it, the same ones every
//! time. The long runs are libFuzzer's: `tests/fuzz/libfuzzer` calls the same functions.

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
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// What holds for every input.
    pub claim: &'static str,
    /// Takes any bytes, and says whether they could be read; panics where the claim does not hold.
    pub run: fn(&[u8]) -> bool,
    /// Mutations in `cargo test`, so that each target takes about half a second.
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
    /// The target of that name.
    pub fn by_name(name: &str) -> Option<Target> {
        TARGETS.into_iter().find(|target| target.name == name)
    }

    /// The files of its corpus, in the order of their names.
    ///
    /// # Errors
    /// When they can't be read.
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
