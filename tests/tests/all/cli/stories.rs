//! The guide in `docs/guide`: every command of its stories runs, and prints what the guide shows.

use std::fs;
use std::path::{Path, PathBuf};

use podstorm_tests::command::{ended, run_in};

use super::{folder, read};

/// A command of a story, and the output that the story shows.
struct Shown {
    command: String,
    exit_code: i32,
    lines: Vec<String>,
}

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn shown(story: &str) -> Vec<Shown> {
    let mut all: Vec<Shown> = Vec::new();
    let mut within = false;
    for line in story.lines() {
        match line {
            "```console" => within = true,
            "```" => within = false,
            _ if !within => {}
            _ => match (line.strip_prefix("$ loadgen "), all.last_mut()) {
                (Some(command), _) => {
                    let (command, exit_code) = match command.split_once("  # exit code ") {
                        Some((command, code)) => (command, code.parse().expect("a number")),
                        None => (command, 0),
                    };
                    all.push(Shown {
                        command: command.to_owned(),
                        exit_code,
                        lines: Vec::new(),
                    });
                }
                (None, Some(last)) if line != "…" && !line.is_empty() => {
                    last.lines.push(line.to_owned());
                }
                _ => {}
            },
        }
    }
    all
}

/// Runs a story in an empty directory with the examples.
fn play(name: &str, commands: usize, left: &[&str]) {
    let story = read(tree().join("docs/guide"), name);
    let folder = folder();
    let examples = folder.path().join("loadgen/examples");
    fs::create_dir_all(&examples).expect("the folder can be written");
    for entry in fs::read_dir(tree().join("loadgen/examples")).expect("the folder of examples") {
        let entry = entry.expect("the folder can be read");
        // Example programs are not part of a story.
        if entry.path().is_dir() {
            continue;
        }
        fs::copy(entry.path(), examples.join(entry.file_name())).expect("a file can be copied");
    }
    let shown = shown(&story);
    assert_eq!(shown.len(), commands, "commands of {name}");
    for shown in shown {
        let command = &shown.command;
        let text = ended(&run_in(&folder, command), shown.exit_code);
        let mut printed = text.lines().map(str::trim_end);
        for line in shown.lines {
            assert!(
                printed.any(|printed| printed == line),
                "{command} does not print, or not in this order:\n{line}\nbut:\n{text}"
            );
        }
    }
    for file in left {
        let path = folder.path().join(file);
        assert!(path.is_file(), "{name} leaves no {file}");
    }
}

#[test]
fn sizing_the_controller_for_a_big_cluster() {
    play("sizing.md", 3, &["sweep.html"]);
}

#[test]
fn choosing_who_dies_on_scale_down() {
    play("scale-down.md", 2, &[]);
}

#[test]
fn what_a_rollout_really_does() {
    play("deployments.md", 3, &[]);
}

#[test]
fn catching_a_regression_in_ci() {
    play("regressions.md", 8, &["run.xml", "run.html", "new.json"]);
}
