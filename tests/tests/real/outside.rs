//! A third-party controller: `loadgen/examples/flock`, a crate outside the workspace with a custom
//! kind that owns pods and ConfigMaps. It is built as its author would build it, run under faults,
//! and used through kubectl.

use std::path::{Path, PathBuf};
use std::process::Command;

use podstorm_tests::tree::root;
use serde_json::Value;

use crate::served::with_program;

/// Maximum number of lines of a controller, including its row, comments and blank lines.
const MOST_LINES: usize = 250;

#[test]
#[ignore = "needs kubectl: cargo real"]
fn a_third_party_controller_survives_faults() {
    let folder = root().join("loadgen/examples/flock");
    let controller = std::fs::read_to_string(folder.join("src/controller.rs"));
    let lines = controller
        .expect("the source of the example")
        .lines()
        .count();
    assert!(lines < MOST_LINES, "{lines} lines");
    let program = build(&folder);
    stands_faults(&program);
    with_program(&program, |served| {
        let definition = folder.join("flock.json");
        served.run(&format!("apply -f {}", definition.display()));
        served.run("wait --for=condition=Established crd/flocks.example.com --timeout=10s");
        served.apply(
            "apiVersion: example.com/v1\nkind: Flock\nmetadata: {name: geese}\nspec: {size: 3}\n",
        );
        served.becomes("get flocks --no-headers", "geese 3 3");
        let names = "get pods -l flock=geese -o jsonpath={.items[*].metadata.name}";
        let names = served.run(names).split(' ').collect::<Vec<_>>().join("\n");
        let roster = "get configmap geese-roster -o jsonpath={.data.pods}";
        served.becomes(roster, &names);
        // A deleted roster and a deleted pod are recreated, and the size is maintained.
        served.run("delete configmap geese-roster");
        served.becomes(roster, &names);
        let grown = "patch flock geese --type=merge -p '{\"spec\":{\"size\":5}}'";
        served.says(grown, "flock.example.com/geese patched");
        served.becomes("get flocks --no-headers", "geese 5 5");
        let count = |served: &str| served.lines().count();
        served.comes_to(roster, |text| count(text) == 5);
        let first = names.lines().next().expect("at least one pod");
        served.run(&format!("delete pod {first} --now"));
        served.comes_to(roster, |text| count(text) == 5 && !text.contains(first));
        // Deleting the Flock deletes what it owns.
        served.run("delete flock geese");
        served.becomes("get pods,configmaps -l flock=geese -o name", "");
        served.comes_to("get configmaps -o name", |text| {
            !text.contains("geese-roster")
        });
    });
}

/// Builds the example with the workspace's versions of libraries.
fn build(folder: &Path) -> PathBuf {
    let lock = root().join("Cargo.lock");
    std::fs::copy(lock, folder.join("Cargo.lock")).expect("the example's folder is writable");
    let target = root().join("target/outside");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--offline", "--target-dir"])
        .arg(&target)
        .current_dir(folder)
        // Without line numbers, which only the workspace's own tests read.
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .status();
    assert!(
        built.expect("cargo runs").success(),
        "the example does not build"
    );
    target.join(format!("debug/flock{}", std::env::consts::EXE_SUFFIX))
}

/// Runs seeds of the fault simulator, and asserts that they pass and that its invariants are
/// checked.
fn stands_faults(program: &Path) {
    let played = Command::new(program)
        .args(["fuzz", "--workload", "flock", "--seeds", "40", "--quiet"])
        .args(["--json", "-"])
        .output();
    let played = played.expect("a running process");
    let outcome: Value = serde_json::from_slice(&played.stdout).expect("JSON output");
    assert_eq!(outcome["failures"], serde_json::json!([]));
    assert_eq!(outcome["seeds"], 40);
    assert!(played.status.success());
    let sized = &outcome["situations"]["a Flock is resized"];
    assert!(sized.as_u64().is_some_and(|seeds| seeds > 10), "{sized}");
}
