//! Reads a scenario from YAML or TOML: mistakes are named with file, line and column, or with the path
//! of the field where what is wrong is no single value.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use podstorm_located::{Located, Mistake};
use podstorm_objects::Kind;

use super::definition::{Scenario, Step};
use super::template::pod_template;
use super::toml;
use crate::gates;
use crate::units::without_mark;
use crate::workloads::flags::FlagValues;
use crate::workloads::{self, Sizes};

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

impl Scenario {
    /// Whether it is about workloads that own pods as workloads of that kind don't.
    fn is_about_other_owners(&self, kind: Kind) -> bool {
        match workloads::pods_of(kind) {
            Some(_) => self.makes_pods(),
            None => self.has_free_owners(),
        }
    }

    /// Checks the switches of workloads that take the place of their parts.
    ///
    /// # Errors
    /// The switch, and what the scenario would have to be for it.
    pub(crate) fn check_switches(&self, values: &FlagValues) -> Result<(), (&'static str, String)> {
        for workload in workloads::ALL {
            let Some(makes) = workload.makes() else {
                continue;
            };
            let can_be_used = self.creates_parts() && !self.creates_free_owners();
            if makes.switch.is_on(values) && !can_be_used {
                let (kind, part) = (workload.kind().name(), makes.kind.name());
                let problem = format!(
                    "takes a scenario that creates its {part}s with asParts: true, and none otherwise, and \
                     neither touches nor recreates them; create{kind}s creates {kind}s in any"
                );
                return Err((makes.switch.name, problem));
            }
        }
        Ok(())
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
    let created = scenario.creations();
    let rolls_out = |kind: &Kind| workloads::of(*kind).is_some_and(|it| it.rollouts().is_some());
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
                "create{name}s numbers {name}s, and the other steps number the workloads that own pods: \
                 with {name}s leave out the steps that create parts of others, and createOwnedPods, \
                 createBarePods, writeStatuses{more}"
            ),
        );
    }
    if scenario.is_mixed() && scenario.numbers_workloads() {
        return wrong(
            "phases",
            "workloads of several kinds are created, and steps number those of one kind: leave out the steps \
             that create others, or scale, rollOut, touch, recreate, createOwnedPods, createBarePods, \
             writeStatuses, setPodQuota, deleteNamespaces, loseAnswers and asParts",
        );
    }
    for (kind, create) in &created {
        if create.as_parts && workloads::maker_of(*kind).is_none() {
            let kind = kind.name();
            return wrong(
                "phases",
                &format!("create{kind}s: no workload makes {kind}s; leave asParts out"),
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
        if scenario.is_mixed() {
            return wrong(
                "groups",
                "are of workloads of one kind: leave out the steps that create others",
            );
        }
        let Sizes { count, each } = scenario.sized_kinds()[0].1;
        let rows = &scenario.settings.rows;
        if rows.has(count) || rows.has(each) {
            return wrong(
                "groups",
                &format!("say how large the workloads are: leave {count} and {each} out"),
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
