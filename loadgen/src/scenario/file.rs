//! Reads a scenario from YAML or TOML: mistakes are named with file, line and column, or with the path
//! of the field where what is wrong is no single value.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use podstorm_located::{Located, Mistake};

use super::definition::{Scenario, Step};
use super::template::pod_template;
use super::toml;
use crate::gates;
use crate::units::without_mark;

/// Most bytes of a scenario file: far more than anybody writes.
const MAX_BYTES: u64 = 4 << 20;

/// Most steps of a scenario, repeated ones counted as often as they are done.
const MAX_STEPS: u64 = 1_000_000;

/// How deep repetitions may lie within each other.
const MAX_DEPTH: u32 = 8;

/// A scenario that can't be read: where, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ScenarioError {
    /// File, and line and column where they are known.
    place: String,
    problem: String,
}

/// The two forms of a scenario file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Yaml,
    Toml,
}

impl Scenario {
    /// Reads a scenario file: TOML where its name ends in `.toml`, YAML (or JSON) otherwise; `-` is
    /// YAML from standard input.
    ///
    /// # Errors
    /// A file that can't be read, is larger than 4 MiB, or is no scenario.
    pub fn from_file(path: &Path) -> Result<Arc<Scenario>, ScenarioError> {
        let unreadable = |error: io::Error| ScenarioError {
            place: path.display().to_string(),
            problem: match error.kind() {
                io::ErrorKind::NotFound => "there is no such file".to_owned(),
                io::ErrorKind::IsADirectory => "is a directory; name a file".to_owned(),
                io::ErrorKind::InvalidData => "is not text in UTF-8".to_owned(),
                _ => format!("can't be read: {error}"),
            },
        };
        let mut text = String::new();
        let from: Box<dyn Read> = if path.as_os_str() == "-" {
            Box::new(io::stdin().lock())
        } else {
            Box::new(fs::File::open(path).map_err(unreadable)?)
        };
        from.take(MAX_BYTES + 1)
            .read_to_string(&mut text)
            .map_err(unreadable)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(ScenarioError {
                place: path.display().to_string(),
                problem: "is larger than 4 MiB: no scenario; objects are given with -f".to_owned(),
            });
        }
        let form = match path.extension() {
            Some(extension) if extension.eq_ignore_ascii_case("toml") => Form::Toml,
            _ => Form::Yaml,
        };
        let mut scenario = parse(&text, form, &path.display().to_string())?;
        scenario.path = Some(path.display().to_string());
        Ok(Arc::new(scenario))
    }

    /// Whether a `--scenario` value names a file rather than a built-in scenario.
    pub fn is_path(value: &str) -> Option<PathBuf> {
        let path = Path::new(value);
        let has_form = path.extension().is_some_and(|extension| {
            let known = ["yaml", "yml", "toml", "json"];
            known
                .iter()
                .any(|known| extension.eq_ignore_ascii_case(known))
        });
        (has_form || value == "-" || value.contains('/')).then(|| path.to_owned())
    }

    /// Reads a scenario from a text in YAML; `origin` names it in errors.
    ///
    /// # Errors
    /// As [`Scenario::from_file`].
    pub fn from_yaml(text: &str, origin: &str) -> Result<Scenario, ScenarioError> {
        parse(text, Form::Yaml, origin)
    }

    /// The same from a text in TOML.
    ///
    /// # Errors
    /// As [`Scenario::from_file`].
    pub fn from_toml(text: &str, origin: &str) -> Result<Scenario, ScenarioError> {
        parse(text, Form::Toml, origin)
    }
}

fn parse(text: &str, form: Form, origin: &str) -> Result<Scenario, ScenarioError> {
    let unreadable = |mistake: Mistake| ScenarioError {
        place: match mistake.place {
            Some((line, column)) => format!("{origin}:{line}:{column}"),
            None => origin.to_owned(),
        },
        problem: mistake.problem,
    };
    let text = without_mark(text);
    let file = match form {
        Form::Toml => toml::read(text),
        Form::Yaml => Located::from_yaml(text),
    };
    let file = file.map_err(unreadable)?;
    let scenario: Scenario = file.read().map_err(unreadable)?;
    check(&scenario).map_err(|(field, problem)| ScenarioError {
        place: format!("{origin}:{}: {field}", file.place_of(&field).0),
        problem,
    })?;
    Ok(scenario)
}

/// A field's path and the rule that it breaks.
type Breach = (String, String);

/// Why a scenario can't use Deployments in place of ReplicaSets.
const NO_PARTS: &str = "takes a scenario that creates its ReplicaSets with underDeployments: true, and none \
    otherwise, and neither touches nor recreates them; createDeployments creates Deployments in any";

impl Scenario {
    /// Whether it can use Deployments where it has ReplicaSets that are parts of some.
    pub(crate) fn can_use_deployments(&self) -> bool {
        self.creates_parts() && !self.creates_free_sets()
    }

    /// Whether Deployments are created in it: by a step of its own, or in place of ReplicaSets.
    ///
    /// # Errors
    /// Why it can't use them in their place.
    pub(crate) fn check_deployments(&self, asked: bool) -> Result<(), String> {
        match asked && !self.can_use_deployments() {
            true => Err(format!("--deployments {NO_PARTS}")),
            false => Ok(()),
        }
    }
}

/// What no single value says.
fn check(scenario: &Scenario) -> Result<(), Breach> {
    let wrong = |field: &str, problem: &str| Err((field.to_owned(), problem.to_owned()));
    let name = &scenario.name;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || !name.chars().all(plain) {
        return wrong("name", "a name has lower-case letters, digits and hyphens");
    }
    if scenario.question.trim().is_empty() || scenario.question.contains('\n') {
        return wrong("question", "one line that says what a run answers");
    }
    if scenario.phases.is_empty() {
        return wrong("phases", "a scenario has at least one phase");
    }
    for (number, phase) in scenario.phases.iter().enumerate() {
        let path = format!("phases[{number}]");
        if phase.name.trim().is_empty() {
            return wrong(&format!("{path}.name"), "a phase has a name");
        }
        if count_steps(&phase.steps, 0).is_none_or(|steps| steps > MAX_STEPS) {
            return wrong(
                &format!("{path}.steps"),
                "more than a million steps, or repetitions more than 8 deep",
            );
        }
    }
    if scenario.phases.iter().all(|phase| phase.set_up) {
        return wrong(
            "phases",
            "every phase has setUp: true, and nothing is measured; leave it out where the question is \
             answered",
        );
    }
    let makes_sets = scenario.creates_free_sets() || scenario.creates_parts();
    if scenario.creates_deployments() && makes_sets {
        return wrong(
            "phases",
            "createDeployments numbers Deployments as createReplicaSets numbers ReplicaSets: leave out one \
             of them, and with Deployments createOwnedPods, createBarePods, writeStatuses, touch and \
             recreateReplicaSets too",
        );
    }
    if scenario.settings.deployments && !scenario.can_use_deployments() {
        return wrong("settings.deployments", NO_PARTS);
    }
    if scenario.sets_unpullable_images() && scenario.has_node_faults() {
        return wrong(
            "phases",
            "setImage with unpullable and steps that let nodes fail are not simulated together: leave one \
             of them out",
        );
    }
    gates::parse(scenario.settings.feature_gates.iter().map(String::as_str))
        .map_err(|problem| ("settings.feature-gates".to_owned(), problem))?;
    scenario.settings.check_client_limit()?;
    if !scenario.groups.is_empty() {
        let sum: f64 = scenario.groups.iter().map(|group| group.share.0).sum();
        if (sum - 1.0).abs() > 1e-6 {
            let sum = (sum * 1e4).round() / 100.0;
            return wrong(
                "groups",
                &format!("the shares make {sum}%: they have to make 100%"),
            );
        }
        let sized = &scenario.settings;
        if sized.replicasets.is_some() || sized.pods_per_replicaset.is_some() {
            return wrong(
                "groups",
                "say how large the ReplicaSets are: leave replicasets and pods-per-replicaset out",
            );
        }
    }
    if let Some(template) = &scenario.pod_template {
        pod_template(template).map_err(|problem| ("podTemplate".to_owned(), problem))?;
    }
    scenario.read_thresholds()?;
    if let Some(answer) = &scenario.answer {
        super::answer::check(answer).map_err(|problem| ("answer".to_owned(), problem))?;
    }
    Ok(())
}

/// How many steps there are with repeated ones written out; nothing where they lie too deep.
fn count_steps(steps: &[Step], depth: u32) -> Option<u64> {
    if depth > MAX_DEPTH {
        return None;
    }
    let mut count = 0u64;
    for step in steps {
        count = count.saturating_add(match step {
            Step::Repeat(repeat) => {
                count_steps(&repeat.steps, depth + 1)?.saturating_mul(repeat.times.0)
            }
            _ => 1,
        });
    }
    Some(count)
}
