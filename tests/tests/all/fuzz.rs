//! The fuzz targets, run over their corpora and some thousand reproducible mutations.
#![expect(
    clippy::unwrap_used,
    reason = "a corpus that can't be read is a failed test"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use podstorm_tests::fuzz::{Mutator, TARGETS, Target};

fn holds(name: &str) {
    let target = Target::by_name(name).unwrap();
    let corpus = target.corpus().unwrap();
    let mut mutator = Mutator::new(1, &corpus);
    let mutated = (0..target.runs).map(|_| mutator.next_input());
    let mut read = [0, 0];
    for input in corpus.iter().cloned().chain(mutated) {
        let run = || (target.run)(&input);
        let was_read = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-crash"));
            std::fs::write(&path, &input).unwrap();
            panic!("{}: broken by {}", target.claim, path.display())
        });
        read[usize::from(was_read)] += 1;
    }
    let [refused, accepted] = read;
    assert!(
        refused.min(accepted) * 100 > target.runs,
        "the corpus of {name} is one-sided: {refused} refused, {accepted} accepted"
    );
}

macro_rules! targets {
    ($($test:ident: $name:literal,)*) => {
        const TESTED: &[&str] = &[$($name),*];
        $(
            #[test]
            fn $test() {
                holds($name);
            }
        )*
    };
}

targets! {
    selector_strings: "selector-string",
    selectors_as_json: "selector-json",
    manifests: "manifest",
    objects: "object",
    scenarios: "scenario",
    schedules: "schedule",
    resource_versions: "resource-version",
    continue_tokens: "continue-token",
    patches: "patch",
    settings: "setting",
    json: "json",
    requests: "request",
    protobuf_bodies: "protobuf",
    applies: "apply",
    definitions: "definition",
    field_selectors: "selector-field",
}

#[test]
fn every_target_is_run() {
    let all: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(TESTED, all);
}
