//! Fuzz targets: what reads text and bytes from outside, each with a claim beyond "it does not panic".
//!
//! A target is a function of bytes that panics where its claim does not hold. `cargo test` runs each
//! over its corpus (`tests/fuzz/corpus/TARGET/`) and a few thousand mutations of it, the same ones every
//! time; `cargo run -p podstorm-tests --bin fuzz -- TARGET --time 1h` goes on for longer. The folder
//! `tests/fuzz/libfuzzer` calls the same functions from libFuzzer, for who has a nightly toolchain.

mod campaign;
mod manifests;
mod mutate;
mod patches;
mod scenarios;
mod schedules;
mod selectors;
mod texts;
mod versions;

pub use campaign::{Crash, Limit, Summary, minimise, run};
pub use mutate::Mutator;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::{fs, io};

/// What an input came to, coarsely: inputs with an outcome not seen before are mutated further.
pub type Outcome = u64;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// What holds for every input.
    pub claim: &'static str,
    /// Takes any bytes; panics where the claim does not hold.
    pub run: fn(&[u8]) -> Outcome,
    /// Words that inputs are made of.
    pub words: &'static [&'static str],
    /// Inputs in `cargo test`, so that each target takes about half a second.
    pub short_runs: u64,
}

/// All targets.
pub const TARGETS: [Target; 10] = [
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

/// The outcome that a message stands for: its words, without numbers and what it quotes.
fn outcome(message: &str) -> Outcome {
    let mut hasher = DefaultHasher::new();
    let mut quoted = false;
    for char in message.chars() {
        quoted ^= char == '"';
        if !quoted && !char.is_ascii_digit() {
            char.hash(&mut hasher);
        }
    }
    hasher.finish()
}
