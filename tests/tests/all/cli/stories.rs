//! The guide in `docs/guide`: every command of its stories runs, and prints what the guide shows.
//! The flags that the pages name exist, and the guide has each flag of `serve`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use podstorm_tests::command::{ended, run, run_in, stdout};
use podstorm_tests::tree;

use super::{folder, read};

/// A command of a story, and the output that the story shows.
struct Shown {
    command: String,
    exit_code: i32,
    lines: Vec<String>,
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
    let story = read(tree::root().join("docs/guide"), name);
    let folder = folder();
    let examples = folder.path().join("loadgen/examples");
    fs::create_dir_all(&examples).expect("the folder can be written");
    for entry in fs::read_dir(tree::root().join("loadgen/examples")).expect("examples are there") {
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
fn choosing_which_pods_a_scale_down_deletes() {
    play("scale-down.md", 2, &[]);
}

#[test]
fn what_a_rollout_really_does() {
    play("deployments.md", 3, &[]);
}

#[test]
fn what_a_job_really_does() {
    play("jobs.md", 1, &[]);
}

#[test]
fn what_a_stateful_set_really_does() {
    play("statefulsets.md", 2, &[]);
}

#[test]
fn catching_a_regression_in_ci() {
    play("regressions.md", 8, &["run.xml", "run.html", "new.json"]);
}

/// The flags in a text.
fn flags(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("--").filter_map(|(at, _)| {
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_start = !text[..at].ends_with(|c: char| !c.is_whitespace() && !"`(\"'".contains(c));
        let name = &text[at..];
        let flag = &name[..name.find(|c| !is_part(c)).unwrap_or(name.len())];
        (is_start && flag.len() > 2).then_some(flag)
    })
}

/// The `loadgen` commands of a page, in sentences, tables and blocks, each without the program's name.
fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut in_block = false;
    for line in page.replace("\\\n", " ").lines() {
        if line.starts_with("```") {
            in_block = !in_block;
            continue;
        }
        let codes: Vec<&str> = match in_block || line.starts_with("    ") {
            true => vec![line],
            false => line.split('`').skip(1).step_by(2).collect(),
        };
        for code in codes {
            let code = code.trim().trim_start_matches("$ ");
            let code = code.rsplit("| ").next().unwrap_or(code);
            let of_cargo = code.split_once("-p podstorm-loadgen").map(|(_, rest)| rest);
            let of_cargo = of_cargo.and_then(|rest| Some(rest.split_once("-- ")?.1));
            if let Some(command) = code.strip_prefix("loadgen ").or(of_cargo) {
                let command = command.split("  #").next().unwrap_or(command);
                commands.push(command.to_owned());
            }
        }
    }
    commands
}

#[test]
fn the_flags_that_the_pages_name_exist() {
    let mut pages = tree::texts("docs", &["md"]);
    for path in ["README.md", "CONTRIBUTING.md", "SECURITY.md"] {
        let text = read(tree::root(), path);
        let path = path.to_owned();
        pages.push(tree::Source { path, text });
    }
    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    let mut unknown = Vec::new();
    let mut found = 0;
    for page in &pages {
        for command in commands(&page.text) {
            let name = command.split(' ').next().unwrap_or_default();
            // `loadgen COMMAND --help`, `loadgen --version`
            if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
                continue;
            }
            let help = helps.entry(name.to_owned()).or_insert_with(|| {
                let output = run(&format!("{name} --help"));
                ended(&output, 0);
                stdout(&output)
            });
            found += 1;
            let known: BTreeSet<&str> = flags(help).collect();
            let wrong = flags(&command).filter(|flag| !known.contains(flag));
            unknown.extend(wrong.map(|flag| format!("{}: {command}: {flag}", page.path)));
        }
    }
    assert!(found > 80, "{found}");
    assert_eq!(unknown, [""; 0]);
    let text = "`loadgen run -q` and\n\n    cat a | loadgen explain -f -\n\n```console\n$ loadgen fuzz \\\n--a\n```\n";
    assert_eq!(commands(text), ["run -q", "explain -f -", "fuzz  --a"]);
}

#[test]
fn the_guide_has_each_flag_of_serve() {
    let guide = read(tree::root(), "docs/guide/apiserver.md");
    let rows = guide.lines().filter_map(|line| line.strip_prefix("| `--"));
    let first = rows.filter_map(|row| row.split(" | ").next());
    let first: Vec<String> = first.map(|cell| format!("`--{cell}")).collect();
    let listed: BTreeSet<&str> = first.iter().flat_map(|cell| flags(cell)).collect();
    let help = stdout(&run("serve --help"));
    let declared = help.lines().map(str::trim_start);
    let declared = declared.filter(|line| line.starts_with('-'));
    let known: BTreeSet<&str> = declared
        .filter_map(|line| flags(line).next())
        .filter(|flag| !["--help", "--filename"].contains(flag))
        .collect();
    assert_eq!(listed, known);
}
