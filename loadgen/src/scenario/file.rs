//! Parses a scenario from YAML or TOML. Errors contain the file, line and column, or the path of
//! the field if no single value is wrong.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use podstorm_located::{Located, Mistake};
use podstorm_objects::Kind;

use super::definition::{Scenario, ScenarioStep};
use super::template::pod_template;
use super::toml;
use crate::gates;
use crate::units::without_mark;
use crate::workloads::flags::FlagValues;
use crate::workloads::{self, Sizes};

/// The maximum size of a scenario file, in bytes: far more than any realistic file.
const MAX_BYTES: u64 = 4 << 20;

/// The maximum number of steps in a scenario, with repetitions expanded.
const MAX_STEPS: u64 = 1_000_000;

/// The maximum number of levels of nested repetitions.
const MAX_DEPTH: u32 = 8;

/// The error about an invalid scenario: the place and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ScenarioError {
    /// The file, with line and column if they are known.
    place: String,
    problem: String,
}

/// The formats of a scenario file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Yaml,
    Toml,
}

impl Scenario {
    /// Reads a scenario file: TOML if its name ends with `.toml`, otherwise YAML (which includes
    /// JSON); `-` is YAML from standard input.
    ///
    /// # Errors
    /// The file can't be read, is larger than 4 MiB, or is not a valid scenario.
    pub fn from_file(path: &Path) -> Result<Arc<Scenario>, ScenarioError> {
        let unreadable = |error: io::Error| ScenarioError {
            place: path.display().to_string(),
            problem: match error.kind() {
                io::ErrorKind::NotFound => "there is no such file".to_owned(),
                io::ErrorKind::IsADirectory => "is a directory; expected a file".to_owned(),
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
                problem:
                    "is larger than 4 MiB, the limit for scenarios; use -f for files with objects"
                        .to_owned(),
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

    /// Returns the path if a value of `--scenario` names a file; `None` if it names a built-in
    /// scenario.
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

    /// Parses a scenario from YAML text; `origin` names it in errors.
    ///
    /// # Errors
    /// The text is not a valid scenario.
    pub fn from_yaml(text: &str, origin: &str) -> Result<Scenario, ScenarioError> {
        parse(text, Form::Yaml, origin)
    }

    /// Parses a scenario from TOML text; `origin` names it in errors.
    ///
    /// # Errors
    /// The text is not a valid scenario.
    pub fn from_toml(text: &str, origin: &str) -> Result<Scenario, ScenarioError> {
        parse(text, Form::Toml, origin)
    }
}

fn parse(text: &str, form: Form, origin: &str) -> Result<Scenario, ScenarioError> {
    let unreadable = |mistake: Mistake| ScenarioError {
        place: match mistake.place {
            Some(at) => format!("{origin}:{}:{}", at.line, at.column),
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
        place: format!("{origin}:{}: {field}", file.place_of(&field).line),
        problem,
    })?;
    Ok(scenario)
}

/// The path of a field, and the rule that the field violates.
type Breach = (String, String);

impl Scenario {
    /// Reports whether the scenario requires workloads that own pods in a way that this kind does
    /// not.
    fn is_about_other_owners(&self, kind: Kind) -> bool {
        match workloads::pods_of(kind) {
            Some(_) => self.makes_pods(),
            None => self.has_free_owners(),
        }
    }

    /// Checks the switches that create a workload in place of the workloads that its controller
    /// would create.
    ///
    /// # Errors
    /// The invalid switch, and what it requires of the scenario.
    pub(crate) fn check_switches(&self, values: &FlagValues) -> Result<(), (&'static str, String)> {
        for workload in workloads::ALL {
            let Some(makes) = workload.makes() else {
                continue;
            };
            let can_be_used = self.creates_parts() && !self.creates_free_owners();
            if makes.switch.is_on(values) && !can_be_used {
                let (kind, part) = (workload.kind().name(), makes.kind.name());
                let problem = format!(
                    "needs a scenario that creates its {part}s with asParts: true and creates no others, and that \
                     neither touches nor recreates them; create{kind}s creates {kind}s in any scenario"
                );
                return Err((makes.switch.name, problem));
            }
        }
        Ok(())
    }
}

/// Checks the rules that involve more than one value.
fn check(scenario: &Scenario) -> Result<(), Breach> {
    let wrong = |field: &str, problem: &str| Err((field.to_owned(), problem.to_owned()));
    let name = &scenario.name;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || !name.chars().all(plain) {
        return wrong(
            "name",
            "a name consists of lower-case letters, digits and hyphens",
        );
    }
    if scenario.question.trim().is_empty() || scenario.question.contains('\n') {
        return wrong(
            "question",
            "expected one line with the question that a run answers",
        );
    }
    if scenario.phases.is_empty() {
        return wrong("phases", "a scenario needs at least one phase");
    }
    for (number, phase) in scenario.phases.iter().enumerate() {
        let path = format!("phases[{number}]");
        if phase.name.trim().is_empty() {
            return wrong(&format!("{path}.name"), "a phase needs a name");
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
            "every phase has setUp: true, so nothing is measured; remove it from the phase that answers the \
             question",
        );
    }
    let created = scenario.creations();
    let rolls_out =
        |kind: &Kind| workloads::for_kind(*kind).is_some_and(|it| it.rollouts().is_some());
    let maker = created
        .iter()
        .map(|(kind, _)| kind)
        .find(|kind| rolls_out(kind));
    if let Some(maker) = maker
        && (scenario.creates_parts() || scenario.is_about_other_owners(*maker))
    {
        let (name, owns_pods) = (maker.name(), workloads::pods_of(*maker).is_some());
        let more = if owns_pods {
            ""
        } else {
            ", touch and recreate"
        };
        return wrong(
            "phases",
            &format!(
                "create{name}s numbers {name}s, but other steps number the workloads that own pods: \
                 with {name}s, remove the steps that create parts of others, and createOwnedPods, \
                 createBarePods, writeStatuses{more}"
            ),
        );
    }
    if scenario.is_mixed() && scenario.numbers_workloads() {
        return wrong(
            "phases",
            "the scenario creates workloads of several kinds, but some steps number those of one kind: remove the steps \
             that create others, or scale, rollOut, touch, recreate, createOwnedPods, createBarePods, \
             writeStatuses, setPodQuota, deleteNamespaces, loseAnswers and asParts",
        );
    }
    for (kind, create) in &created {
        if create.as_parts && workloads::maker_of(*kind).is_none() {
            let kind = kind.name();
            return wrong(
                "phases",
                &format!("create{kind}s: no workload creates {kind}s; remove asParts"),
            );
        }
    }
    let values = scenario.settings.rows.generated();
    scenario
        .check_switches(&values)
        .map_err(|(flag, problem)| (format!("settings.{flag}"), problem))?;
    if scenario.sets_unpullable_images() && scenario.has_node_faults() {
        return wrong(
            "phases",
            "setImage with unpullable can't be combined with steps that let nodes fail: use only one \
             of them",
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
                &format!("the shares add up to {sum}% instead of 100%"),
            );
        }
        if scenario.is_mixed() {
            return wrong(
                "groups",
                "apply to workloads of one kind: remove the steps that create others",
            );
        }
        let Sizes { count, each } = scenario.sized_kinds()[0].sizes;
        let rows = &scenario.settings.rows;
        if rows.has(count) || rows.has(each) {
            return wrong(
                "groups",
                &format!("set the sizes of the workloads: remove {count} and {each}"),
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

/// Returns the number of steps with repetitions expanded; `None` if they are nested too deep.
fn count_steps(steps: &[ScenarioStep], depth: u32) -> Option<u64> {
    if depth > MAX_DEPTH {
        return None;
    }
    let mut count = 0u64;
    for step in steps {
        count = count.saturating_add(match step {
            ScenarioStep::Repeat(repeat) => {
                count_steps(&repeat.steps, depth + 1)?.saturating_mul(repeat.times.0)
            }
            _ => 1,
        });
    }
    Some(count)
}
