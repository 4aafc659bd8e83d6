//! From the flags of a sweep to its cells: each made by reading a command line as `loadgen run` would, so
//! that every flag can be varied and errors are the same, with the cell's or the value's name.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::{SweepCommand, SweepFlags};
use crate::cli::effective;
use crate::cli::flags::{RunFlags, ShapeFlags};
use crate::input::InputObject;
use crate::manifest;
use crate::metrics::name::proposal;
use crate::result::InputCounts;
use crate::settings::EngineKind;
use crate::settings::resolve::{Machine, resolve};
use crate::size::InputSize;
use crate::sweep::{Grid, Job};

/// The command that reads a cell's flags.
fn cell_command() -> Command {
    let command = Command::new("run").no_binary_name(true);
    ShapeFlags::augment_args(command)
}

/// The flags that shape a run as they were written, by name and value.
pub(super) fn given(matches: &ArgMatches) -> Vec<(String, OsString)> {
    let mut given = Vec::new();
    for argument in cell_command().get_arguments() {
        let id = argument.get_id().as_str();
        let Some(name) = argument.get_long() else {
            continue;
        };
        if matches.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        if argument.get_action().takes_values() {
            let values = matches.get_raw(id).into_iter().flatten();
            given.extend(values.map(|value| (name.to_owned(), value.to_owned())));
        } else {
            given.push((name.to_owned(), OsString::from("true")));
        }
    }
    given
}

/// Reads flags as `loadgen run` does.
fn shape(flags: &[(String, OsString)]) -> Result<ShapeFlags, String> {
    let command = cell_command();
    let mut arguments: Vec<OsString> = Vec::new();
    for (name, value) in flags {
        let known = command
            .get_arguments()
            .find(|one| one.get_long() == Some(name));
        let takes_value = known.is_none_or(|one| one.get_action().takes_values());
        match (takes_value, value.to_str()) {
            (true, _) => {
                let mut argument = OsString::from(format!("--{name}="));
                argument.push(value);
                arguments.push(argument);
            }
            (false, Some("true")) => arguments.push(format!("--{name}").into()),
            (false, Some("false")) => {}
            (false, _) => {
                let value = value.to_string_lossy();
                return Err(format!(
                    "invalid value '{value}': --{name} is true or false"
                ));
            }
        }
    }
    let matches = command.try_get_matches_from(arguments);
    let shape = matches.and_then(|matches| ShapeFlags::from_arg_matches(&matches));
    shape.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp => "is a word that run takes for --help".to_owned(),
        _ => {
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            let first = text.split("\n\n").next().unwrap_or(text);
            first.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
        }
    })
}

/// The grid, its names known to be flags that shape a run and aren't given besides.
pub(super) fn grid(command: &SweepCommand) -> Result<Grid> {
    let flags = &command.flags;
    if flags.vary.is_empty() {
        bail!(
            "nothing is varied: say --vary NAME=V1,V2,..., such as --vary burst-replicas=100,500"
        );
    }
    let grid = Grid::parse(&flags.vary)?;
    let varied = grid.dimensions.iter().filter(|one| one.name == "scenario");
    let mut scenarios = varied.flat_map(|one| &one.values);
    let is_stdin = |(name, value): &(String, OsString)| name == "scenario" && value == "-";
    if command.given.iter().any(is_stdin) || scenarios.any(|value| value == "-") {
        bail!(
            "--scenario -: every cell reads the scenario, and standard input can be read once only; name a file"
        );
    }
    let known = cell_command();
    let names: Vec<&str> = known
        .get_arguments()
        .filter_map(|one| one.get_long())
        .collect();
    for dimension in &grid.dimensions {
        let name = dimension.name.as_str();
        if !names.contains(&name) {
            let all = RunFlags::augment_args(Command::new("run"));
            let is_output = all.get_arguments().any(|one| one.get_long() == Some(name));
            match is_output {
                true => bail!("--vary {name}: --{name} does not shape a run and can't be varied"),
                false => bail!(
                    "--vary {name}: there is no flag --{name}{}; `loadgen sweep --help` lists them",
                    proposal(name, names)
                ),
            }
        }
        if command.given.iter().any(|(given, _)| given == name) {
            bail!("--{name} is given and varied too: leave one of them out");
        }
    }
    Ok(grid)
}

/// The flags of each cell.
pub(super) fn shapes(command: &SweepCommand, grid: &Grid) -> Result<Vec<ShapeFlags>> {
    let mut base = command.given.clone();
    let is_varied = |name: &str| grid.dimensions.iter().any(|one| one.name == name);
    if !is_varied("engine") && !base.iter().any(|(name, _)| name == "engine") {
        base.push(("engine".to_owned(), "virtual".into()));
    }
    // Each value by itself first: the error is that value's, not some cell's.
    for dimension in &grid.dimensions {
        for value in &dimension.values {
            if let Err(problem) = shape(&[(dimension.name.clone(), value.into())]) {
                let hint = match value.contains('=') {
                    true => " (values that hold commas are parted by ;)",
                    false => "",
                };
                bail!("--vary {}: {problem}{hint}", dimension.name);
            }
        }
    }
    let cell = |number: usize| {
        let mut flags = base.clone();
        let values = grid.values(number);
        flags.extend(
            values
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.into())),
        );
        shape(&flags).map_err(|problem| anyhow::anyhow!("cell {}: {problem}", grid.name(number)))
    };
    (0..grid.len()).map(cell).collect()
}

/// Contradictions among flags are told before any file is read.
pub(super) fn check_settings(grid: &Grid, shapes: &[ShapeFlags], flags: &SweepFlags) -> Result<()> {
    let machine = Machine::this();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for (number, shape) in shapes.iter().enumerate() {
        let has_files = !shape.files.is_empty();
        let request = shape.request(has_files.then(InputSize::default));
        let settings =
            resolve(&request, machine).with_context(|| format!("cell {}", grid.name(number)))?;
        if settings.engine == EngineKind::Virtual
            && let Some(one) = of_host(flags)
        {
            bail!(
                "{one} is a metric of the machine, which a run on the virtual engine has none of"
            );
        }
        let key = format!("{settings:?} {:?}", shape.files);
        if let Some(other) = known.insert(key, number) {
            bail!(
                "the cells {} and {} are one and the same run",
                grid.name(other),
                grid.name(number)
            );
        }
    }
    Ok(())
}

/// The first flag that asks for a metric of the machine.
fn of_host(flags: &SweepFlags) -> Option<String> {
    let shown = flags.metrics.iter().filter(|name| name.is_of_host());
    let shown = shown.map(|name| format!("--figure {name}"));
    let bound = flags
        .thresholds
        .iter()
        .filter(|one| one.metric().is_of_host());
    shown
        .chain(bound.map(|one| format!("--threshold '{one}'")))
        .next()
}

/// The runs, cell by cell and seed by seed. Files are read once, however many cells they are for.
pub(super) fn jobs(grid: &Grid, shapes: &[ShapeFlags], seeds: &[u64]) -> Result<Vec<Job>> {
    type Files = (Arc<Vec<InputObject>>, InputCounts, Option<InputSize>);
    let machine = Machine::this();
    let mut read: BTreeMap<&[PathBuf], Files> = BTreeMap::new();
    let mut jobs = Vec::with_capacity(shapes.len() * seeds.len());
    for (number, shape) in shapes.iter().enumerate() {
        if !read.contains_key(&shape.files[..]) {
            let files = match shape.files.is_empty() {
                true => Files::default(),
                false => {
                    let loaded = manifest::load(&shape.files, io::stdin().lock())?;
                    crate::cli::warn(&loaded.warnings);
                    (Arc::new(loaded.objects), loaded.counts, Some(loaded.size))
                }
            };
            read.insert(&shape.files, files);
        }
        let (objects, input, size) = &read[&shape.files[..]];
        for seed in seeds {
            let mut request = shape.request(*size);
            if seeds.len() > 1 {
                request.seed = Some(*seed);
            }
            let settings = resolve(&request, machine)
                .with_context(|| format!("cell {}", grid.name(number)))?;
            jobs.push(Job {
                settings,
                objects: Arc::clone(objects),
                input: input.clone(),
            });
        }
    }
    Ok(jobs)
}

/// What every cell has in common: the settings that are the same in all of them.
pub(super) fn base_text(shape: &ShapeFlags, jobs: &[Job]) -> Vec<(String, String)> {
    let all = |job: &Job| effective::settings(&job.settings, &shape.files);
    let Some(first) = jobs.first() else {
        return Vec::new();
    };
    let rest: Vec<_> = jobs[1..].iter().map(all).collect();
    let is_common = |one: &(&str, serde_json::Value)| rest.iter().all(|other| other.contains(one));
    let common = all(first).into_iter().filter(is_common);
    common
        .map(|(name, value)| match value {
            serde_json::Value::String(text) => (name.to_owned(), text),
            value => (name.to_owned(), value.to_string()),
        })
        .collect()
}
