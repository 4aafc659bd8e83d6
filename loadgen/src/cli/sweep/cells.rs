//! Builds the cells of a sweep from its flags. Each cell is parsed like a command line of
//! `loadgen run`, so every flag can vary. The errors are the same, prefixed with the cell or the
//! value.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::error::ErrorKind;
use clap::{Args, Command};

use super::SweepFlags;
use crate::cli::effective;
use crate::cli::flags::RunFlags;
use crate::input::{InputCounts, InputObject, InputSize};
use crate::manifest;
use crate::metrics::name::proposal;
use crate::settings::EngineKind;
use crate::settings::resolve::{Machine, SettingsRequest, resolve};
use crate::sweep::{Grid, RunPlan};
use crate::values::EngineName;

/// Returns the names of the flags for the settings of a run that were given.
fn given(asked: &SettingsRequest) -> Vec<String> {
    let settings = asked.settings.members().into_iter();
    let settings = settings.filter(|(_, value)| !value.is_null());
    let mut given: Vec<String> = settings.map(|(name, _)| name).collect();
    given.extend(asked.scenario.as_ref().map(|_| "scenario".to_owned()));
    given.extend(asked.files.first().map(|_| "filename".to_owned()));
    given
}

/// Parses flag values by name, as `loadgen run` does.
fn read(values: &[(&str, &str)]) -> Result<SettingsRequest, String> {
    let command = SettingsRequest::command();
    let mut arguments = Vec::new();
    for (name, value) in values {
        let mut known = command.get_arguments();
        let known = known.find(|one| one.get_long() == Some(name));
        let takes_value = known.is_none_or(|one| one.get_action().takes_values());
        match (takes_value, *value) {
            (true, _) => arguments.push(format!("--{name}={value}")),
            (false, "true") => arguments.push(format!("--{name}")),
            (false, "false") => {}
            (false, _) => {
                return Err(format!(
                    "invalid value '{value}': --{name} is true or false"
                ));
            }
        }
    }
    SettingsRequest::read(arguments).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp => "is a word that run interprets as --help".to_owned(),
        _ => {
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            let first = text.split("\n\n").next().unwrap_or(text);
            first.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
        }
    })
}

/// Returns the grid. Its dimensions must be flags for the settings of a run, and must not be given
/// separately.
pub(super) fn grid(flags: &SweepFlags) -> Result<Grid> {
    if flags.vary.is_empty() {
        bail!(
            "nothing is varied: use --vary NAME=V1,V2,..., such as --vary burst-replicas=100,500"
        );
    }
    let grid = Grid::parse(&flags.vary)?;
    let varied = grid.dimensions.iter().filter(|one| one.name == "scenario");
    let mut scenarios = varied.flat_map(|one| &one.values);
    let path = flags
        .shape
        .scenario
        .as_ref()
        .and_then(|one| one.path.as_deref());
    if path == Some("-") || scenarios.any(|value| value == "-") {
        bail!(
            "--scenario -: every cell reads the scenario, but standard input can be read only once; use a file"
        );
    }
    let known = SettingsRequest::command();
    let names: Vec<&str> = known
        .get_arguments()
        .filter_map(|one| one.get_long())
        .collect();
    let given = given(&flags.shape);
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
        if given.contains(&dimension.name) {
            bail!("--{name} is both given and varied: use only one of them");
        }
    }
    Ok(grid)
}

/// Returns the settings of each cell: the flags of the sweep, overridden by the cell's values.
pub(super) fn shapes(flags: &SweepFlags, grid: &Grid) -> Result<Vec<SettingsRequest>> {
    let mut base = flags.shape.clone();
    if !grid.dimensions.iter().any(|one| one.name == "engine") {
        let engine = EngineName(EngineKind::Virtual);
        base.settings.engine.get_or_insert(engine);
    }
    // Check each value separately first, so that the error is about the value and not about a cell.
    for dimension in &grid.dimensions {
        for value in &dimension.values {
            if let Err(problem) = read(&[(&dimension.name, value)]) {
                let hint = match value.contains('=') {
                    true => " (separate values that contain commas with ;)",
                    false => "",
                };
                bail!("--vary {}: {problem}{hint}", dimension.name);
            }
        }
    }
    let cell = |number: usize| {
        let cell = read(&grid.values(number))
            .map_err(|problem| anyhow::anyhow!("cell {}: {problem}", grid.name(number)))?;
        Ok(SettingsRequest {
            scenario: cell.scenario.or_else(|| base.scenario.clone()),
            files: [&base.files[..], &cell.files].concat(),
            settings: cell.settings.or(&base.settings),
            input: None,
        })
    };
    (0..grid.cells()).map(cell).collect()
}

/// Refuses contradicting flags, and equal cells, before any file is read.
pub(super) fn check_settings(
    grid: &Grid,
    shapes: &[SettingsRequest],
    flags: &SweepFlags,
) -> Result<()> {
    let machine = Machine::this();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for (number, shape) in shapes.iter().enumerate() {
        let has_files = !shape.files.is_empty();
        let request = shape.with_input(has_files.then(InputSize::default));
        let settings =
            resolve(&request, machine).with_context(|| format!("cell {}", grid.name(number)))?;
        if settings.engine == EngineKind::Virtual
            && let Some(one) = of_host(flags)
        {
            bail!("{one} is a metric of the machine, and runs on the virtual engine have none");
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

/// Returns the first flag that selects a metric of the machine; `None` if there is none.
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

/// Returns the plans of all runs, ordered by cell and then by seed. Each file is read only once,
/// even if several cells use it.
pub(super) fn plans(
    grid: &Grid,
    shapes: &[SettingsRequest],
    seeds: &[u64],
) -> Result<Vec<RunPlan>> {
    type Files = (Arc<Vec<InputObject>>, InputCounts, Option<InputSize>);
    let machine = Machine::this();
    let mut read: BTreeMap<&[PathBuf], Files> = BTreeMap::new();
    let mut plans = Vec::with_capacity(shapes.len() * seeds.len());
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
            let mut request = shape.with_input(size.clone());
            if seeds.len() > 1 {
                request.settings.seed = Some(*seed);
            }
            let settings = resolve(&request, machine)
                .with_context(|| format!("cell {}", grid.name(number)))?;
            plans.push(RunPlan {
                settings,
                objects: Arc::clone(objects),
                input: input.clone(),
                keeps_host: false,
            });
        }
    }
    Ok(plans)
}

/// Returns the settings that are the same in all cells.
pub(super) fn base_text(shape: &SettingsRequest, plans: &[RunPlan]) -> Vec<(String, String)> {
    let all = |plan: &RunPlan| effective::settings(&plan.settings, &shape.files);
    let Some(first) = plans.first() else {
        return Vec::new();
    };
    let rest: Vec<_> = plans[1..].iter().map(all).collect();
    let is_common =
        |one: &(String, serde_json::Value)| rest.iter().all(|other| other.contains(one));
    let common = all(first).into_iter().filter(is_common);
    common
        .map(|(name, value)| match value {
            serde_json::Value::String(text) => (name, text),
            value => (name, value.to_string()),
        })
        .collect()
}
