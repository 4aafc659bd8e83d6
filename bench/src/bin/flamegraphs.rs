//! Regenerates `flamegraphs/` with one sampled run per standard scenario, and draws the difference
//! between two profiles.
//!
//!     cargo run --release -p podstorm-bench --bin flamegraphs -- remake [SCENARIO...]
//!     cargo run --release -p podstorm-bench --bin flamegraphs -- diff BEFORE.txt AFTER.txt OUT.svg

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use podstorm_bench::results::machine::Commit;
use podstorm_bench::results::target_directory;
use podstorm_bench::write_whole;
use podstorm_loadgen::profile::{draw_difference, parse_folded};

/// The minimum number of samples. With fewer, a profile is inaccurate about code that takes a tenth
/// of the time.
const SAMPLES_MIN: u64 = 1_000;

/// The scenarios with their flags. Each has the smallest size that yields enough samples even on a
/// slow day.
const SCENARIOS: [(&str, &str); 8] = [
    (
        "up-down",
        "--scenario up-down --pods 1m --replicasets 20k --nodes 15k",
    ),
    ("burst", "--scenario burst --pods 500k --burst 500k"),
    (
        "scale-down",
        "--scenario scale-down --pods 1m --replicasets 2k --nodes 15k",
    ),
    ("churn", "--scenario churn --engine virtual --duration 1h"),
    (
        "cold-start",
        "--scenario cold-start --pods 1m --replicasets 20k --nodes 15k",
    ),
    ("adoption", "--scenario adoption --pods 700k"),
    ("array-job", "--scenario array-job"),
    (
        "statefulset-upgrade",
        "--scenario statefulset-upgrade --statefulsets 4k --pods-per-statefulset 3",
    ),
];

#[derive(Debug, Parser)]
#[command(about = "Regenerates flamegraphs/, and draws the difference between two profiles")]
struct Cli {
    #[command(subcommand)]
    command: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Run scenarios with sampling, and write
    /// flamegraphs/SCENARIO/{flame.svg,stacks.txt,summary.md}
    Remake {
        /// The scenarios to run [default: all]
        #[arg(value_parser = SCENARIOS.map(|(name, _)| name))]
        scenarios: Vec<String>,
    },
    /// Draw what grew (red) or shrank (blue) between two files of folded stacks, as
    /// `loadgen run --folded` writes them
    Diff {
        /// The folded stacks of the earlier run
        before: PathBuf,
        /// The folded stacks of the later run
        after: PathBuf,
        /// The SVG file to write
        output: PathBuf,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Action::Remake { scenarios } => remake(&scenarios),
        Action::Diff {
            before,
            after,
            output,
        } => diff(&before, &after, &output),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn remake(wanted: &[String]) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (name, flags) in SCENARIOS {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            remake_one(&root, name, flags).with_context(|| format!("scenario {name}"))?;
        }
    }
    Ok(())
}

fn remake_one(root: &Path, name: &str, flags: &str) -> Result<()> {
    // Move all files into place together after the run has succeeded.
    let folder = target_directory().join("flamegraphs").join(name);
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let (svg, stacks) = (folder.join("flame.svg"), folder.join("stacks.txt"));
    let command = "run --release --quiet -p podstorm-loadgen --features profile -- run";
    let status = podstorm_bench::cargo()
        .args(command.split(' '))
        .args(flags.split_whitespace())
        .arg("--flamegraph")
        .arg(&svg)
        .arg("--folded")
        .arg(&stacks)
        .current_dir(root)
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "the run failed: {status}");
    let folded = read_folded(&stacks)?;
    let summary = summary(name, flags, &folded);
    let place = root.join("flamegraphs").join(name);
    fs::create_dir_all(&place).with_context(|| place.display().to_string())?;
    write_whole("the drawing", &place.join("flame.svg"), &read(&svg)?)?;
    write_whole("the stacks", &place.join("stacks.txt"), &read(&stacks)?)?;
    write_whole("the summary", &place.join("summary.md"), &summary)?;
    let samples: u64 = folded.iter().map(|(_, samples)| samples).sum();
    if samples < SAMPLES_MIN {
        let _ = writeln!(
            io::stderr(),
            "warning: {name}: only {samples} samples; at least {SAMPLES_MIN} are needed"
        );
    }
    Ok(())
}

fn diff(before: &Path, after: &Path, output: &Path) -> Result<()> {
    for input in [before, after] {
        let same = fs::canonicalize(input)
            .ok()
            .zip(fs::canonicalize(output).ok());
        ensure!(
            same.is_none_or(|(input, output)| input != output),
            "{} would be overwritten; choose another output file",
            input.display()
        );
    }
    let (before_text, after_text) = (read(before)?, read(after)?);
    for (path, text) in [(before, &before_text), (after, &after_text)] {
        parse_folded(text).with_context(|| path.display().to_string())?;
    }
    let title = format!("{} to {}", before.display(), after.display());
    let mut drawing = Vec::new();
    draw_difference(&title, &before_text, &after_text, &mut drawing)?;
    let drawing = String::from_utf8(drawing).context("the drawing is not UTF-8")?;
    write_whole("the drawing", output, &drawing)?;
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Reads stacks with their numbers of samples.
fn read_folded(path: &Path) -> Result<Vec<(String, u64)>> {
    parse_folded(&read(path)?).with_context(|| path.display().to_string())
}

/// Returns tables of where the time is spent: by part of the run, then by function.
fn summary(name: &str, flags: &str, folded: &[(String, u64)]) -> String {
    let total: u64 = folded.iter().map(|(_, samples)| samples).sum();
    let (mut parts, mut within, mut alone) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for (stack, samples) in folded {
        let calls: Vec<&str> = stack.split(';').collect();
        let part = calls.iter().find_map(|call| part_of(call));
        *parts
            .entry(part.unwrap_or("outside the parts"))
            .or_default() += samples;
        // Count a stack once, even if the function calls itself.
        let distinct: BTreeSet<&str> = calls.iter().copied().filter(|call| is_ours(call)).collect();
        for call in distinct {
            *within.entry(call).or_default() += samples;
        }
        if let Some(last) = calls.last() {
            *alone.entry(*last).or_default() += samples;
        }
    }
    let machine = format!(
        "{} threads",
        std::thread::available_parallelism().map_or(1, usize::from)
    );
    let mut text = format!(
        "# {name}\n\nGenerated by `flamegraphs remake {name}` from {total} samples of commit `{}` with \
         {machine}:\n\n    loadgen run {flags}\n",
        Commit::here().short()
    );
    table(&mut text, "Part of the run", &parts, total, 12);
    table(
        &mut text,
        "Function, including its callees",
        &within,
        total,
        20,
    );
    table(
        &mut text,
        "Function, excluding its callees",
        &alone,
        total,
        15,
    );
    text
}

/// Reports whether a function is called from a part of the run, i.e. does the actual work.
fn is_ours(call: &str) -> bool {
    let outer = [
        "engine::run",
        "executor::threads",
        "executor::virtual_time",
        "Tasks::run",
        "cli::",
    ];
    call.contains("podstorm") && !outer.iter().any(|outer| call.contains(outer))
}

fn part_of(call: &str) -> Option<&'static str> {
    const PARTS: [(&str, &str); 9] = [
        (
            "engine::worker::Worker",
            "workers: syncs and their requests",
        ),
        (
            "informer::Informer<",
            "informers: reflector, cache, handlers",
        ),
        ("kubelet::Kubelets as", "kubelets"),
        ("scheduler::Scheduler as", "scheduler"),
        ("driver::Driver as", "scenario"),
        ("event_sink::EventWriter as", "event writer"),
        ("GarbageCollectorTask as", "garbage collector"),
        ("runner::Timer<", "timer"),
        ("Executor::", "executor"),
    ];
    let found = PARTS.iter().find(|(word, _)| call.contains(word))?;
    // An executor call inside a part belongs to that part.
    Some(found.1)
}

fn table(text: &mut String, head: &str, rows: &BTreeMap<&str, u64>, total: u64, most: usize) {
    let mut rows: Vec<(&str, u64)> = rows
        .iter()
        .map(|(name, samples)| (*name, *samples))
        .collect();
    rows.sort_by_key(|&(_, samples)| std::cmp::Reverse(samples));
    text.push_str(&format!("\n| {head} | % |\n|---|---|\n"));
    for (name, samples) in rows.into_iter().take(most) {
        let percent = 100.0 * samples as f64 / total.max(1) as f64;
        let name = name.replace('|', "\\|");
        text.push_str(&format!("| `{name}` | {percent:.1} |\n"));
    }
}

#[cfg(test)]
mod tests {
    use std::any::type_name;

    use podstorm::replicaset::Controller;
    use podstorm_sim::engine::event_sink::EventWriter;
    use podstorm_sim::engine::worker::Worker;
    use podstorm_sim::nodes::{Kubelets, Scheduler};

    use super::*;

    /// The names of the parts must match these types' method names in stacks. The test notices when
    /// a type is renamed.
    #[test]
    fn the_tasks_of_a_run_are_parts_of_it() {
        for (task, part) in [
            (
                type_name::<Worker<Controller>>(),
                "workers: syncs and their requests",
            ),
            (type_name::<Kubelets>(), "kubelets"),
            (type_name::<Scheduler>(), "scheduler"),
            (type_name::<EventWriter>(), "event writer"),
        ] {
            let call = format!("<{task} as podstorm_sim::executor::Task>::run");
            assert_eq!(part_of(&call), Some(part), "{call}");
        }
    }

    #[test]
    fn a_difference_is_drawn_only_into_a_separate_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, text) in [
            ("before", "a;b 3\n"),
            ("after", "a;c 3\n"),
            ("broken", "a;b\n"),
        ] {
            fs::write(path(name), text).unwrap();
        }
        let draw = |before: &str, after: &str, output: &str| {
            let done = diff(&path(before), &path(after), &path(output));
            done.map_err(|error| format!("{error:#}"))
        };
        for (before, after, output, said) in [
            ("before", "after", "before", "before would be overwritten"),
            ("before", "after", "./after", "after would be overwritten"),
            ("before", "none", "svg", "cannot read"),
            ("before", "broken", "svg", "broken: line 1"),
            ("before", "after", "no/svg", "there is no directory"),
            ("before", "after", "", "is a directory"),
        ] {
            let error = draw(before, after, output).unwrap_err();
            assert!(error.contains(said), "{said:?} is not in {error:?}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
        assert_eq!(draw("before", "after", "svg"), Ok(()));
        assert!(read(&path("svg")).unwrap().trim_end().ends_with("</svg>"));
    }

    #[test]
    fn a_summary_counts_a_stack_once_per_function() {
        let folded = [
            ("main;<podstorm_sim::nodes::kubelet::Kubelets as Task>::run;podstorm::a;podstorm::a".to_owned(), 3),
            ("main;malloc".to_owned(), 1),
        ];
        let text = summary("x", "--pods 1", &folded);
        assert!(text.contains("| `kubelets` | 75.0 |"), "{text}");
        assert!(text.contains("| `podstorm::a` | 75.0 |"), "{text}");
        assert!(text.contains("| `malloc` | 25.0 |"), "{text}");
    }
}
