//! The fuzz targets over their corpora and some thousand mutations, the same ones every time. For longer
//! runs: `cargo run -p podstorm-tests --bin fuzz -- TARGET --time 1h`.
#![expect(
    clippy::unwrap_used,
    reason = "a corpus that can't be read is a failed test"
)]

use std::path::Path;

use podstorm_tests::fuzz::{self, Limit, TARGETS, Target};

fn holds(name: &str) {
    let target = Target::by_name(name).unwrap();
    let limit = Limit {
        runs: Some(target.short_runs),
        time: None,
    };
    let summary = fuzz::run(&target, target.corpus().unwrap(), 1, limit, |_, _| ());
    if let Some(crash) = summary.crash {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-crash"));
        std::fs::write(&path, &crash.input).unwrap();
        panic!(
            "{}\n{}\ninput {} of seed 1, saved: fuzz {name} --input {}",
            target.claim,
            crash.message,
            summary.runs,
            path.display()
        );
    }
    assert!(
        summary.outcomes > 1,
        "the corpus of {name} says nothing: {} outcomes",
        summary.outcomes
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
}

#[test]
fn every_target_is_run() {
    let all: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(TESTED, all);
}
