//! The guide in `docs/`: every command of its stories runs, and prints what the guide shows.

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
    let story = read(tree().join("docs"), name);
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

/// Returns the headings of a page in the form of links: lower-case letters, digits and dashes.
fn headings(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).expect("a page of text");
    let headings = text.lines().filter_map(|line| {
        let heading = line.strip_prefix('#')?.trim_start_matches('#').trim();
        let kept = heading
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        Some(kept.collect::<String>().to_lowercase().replace(' ', "-"))
    });
    headings.collect()
}

#[test]
fn links_of_pages_resolve() {
    let mut broken = Vec::new();
    for folder in ["", "docs", "loadgen", "bench", "tests"] {
        let folder = tree().join(folder);
        for entry in fs::read_dir(&folder).expect("a folder of pages") {
            let path = entry.expect("the folder can be read").path();
            if path.extension().is_none_or(|extension| extension != "md") {
                continue;
            }
            let text = fs::read_to_string(&path).expect("a page of text");
            let links = text.split("](").skip(1);
            let links = links.filter_map(|link| link.split(')').next());
            for link in links.filter(|link| !link.contains("://")) {
                let (file, heading) = link.split_once('#').unwrap_or((link, ""));
                let target = match file {
                    "" => path.clone(),
                    file => folder.join(file),
                };
                let is_there = target.exists()
                    && (heading.is_empty() || headings(&target).iter().any(|one| one == heading));
                if !is_there {
                    broken.push(format!("{}: {link}", path.display()));
                }
            }
        }
    }
    assert_eq!(broken, [""; 0]);
}
