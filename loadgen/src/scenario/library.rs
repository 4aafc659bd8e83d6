//! The built-in scenarios: the files in `scenarios/`, embedded in the program.
//! `loadgen scenarios --print` prints exactly these files.

use std::sync::{Arc, OnceLock};

use super::definition::Scenario;

macro_rules! library {
    ($($name:literal),* $(,)?) => {
        /// The names and texts, in the order of lists.
        const FILES: [(&str, &str); [$($name),*].len()] = [
            $(($name, include_str!(concat!("../../scenarios/", $name, ".yaml")))),*
        ];
    };
}

library![
    "scale-out",
    "up-down",
    "scale-up",
    "scale-down",
    "burst",
    "churn",
    "pod-kill-storm",
    "node-failure",
    "rollout-storm",
    "deployment-rollout",
    "deployment-rollover",
    "failed-rollout",
    "job-farm",
    "retry-storm",
    "array-job",
    "statefulset-upgrade",
    "stuck-upgrade",
    "zone-loss",
    "node-drain",
    "adoption",
    "relabel",
    "quota-exhausted",
    "namespace-termination",
    "cold-start",
    "flapping",
    "recreate",
    "slow-api",
    "lossy-watch",
    "stale-watch",
    "resync",
    "kubelet-reject",
    "cl2-load",
    "mixed-day",
    "manifests",
];

static READ: [OnceLock<Arc<Scenario>>; FILES.len()] = [const { OnceLock::new() }; FILES.len()];

impl Scenario {
    /// Returns the names of the built-in scenarios, in the order of lists.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|(name, _)| *name)
    }

    /// Returns the built-in scenario with this name; `None` if there is none.
    pub fn built_in(name: &str) -> Option<Arc<Scenario>> {
        let at = FILES.iter().position(|(known, _)| *known == name)?;
        let read = READ[at].get_or_init(|| {
            let read = Scenario::from_yaml(FILES[at].1, name);
            Arc::new(read.expect("a test parses every built-in scenario"))
        });
        Some(Arc::clone(read))
    }

    /// Returns the default scenario.
    pub fn by_default() -> Arc<Scenario> {
        Scenario::built_in("scale-out").expect("the default scenario is in the library")
    }

    /// Returns the built-in scenario that runs the objects of files.
    pub fn manifests() -> Arc<Scenario> {
        Scenario::built_in("manifests").expect("the scenario manifests is in the library")
    }

    /// Returns the commented text of a built-in scenario's file; `None` for an unknown name.
    pub fn text(name: &str) -> Option<&'static str> {
        let found = FILES.iter().find(|(known, _)| *known == name);
        found.map(|(_, text)| *text)
    }

    /// Returns the scenario for a name or a path: a built-in scenario, or the scenario in the file.
    ///
    /// # Errors
    /// The name is unknown (the error contains the most similar names), or the file is invalid.
    pub fn find(value: &str) -> Result<Arc<Scenario>, String> {
        if let Some(path) = Scenario::is_path(value) {
            return Scenario::from_file(&path).map_err(|error| error.to_string());
        }
        Scenario::built_in(value).ok_or_else(|| {
            let near = Scenario::names()
                .map(|name| (strsim::damerau_levenshtein(value, name), name))
                .min()
                .filter(|(distance, name)| *distance <= name.len() / 2);
            let hint = near.map(|(_, name)| format!(" Did you mean {name}?"));
            let known: Vec<&str> = Scenario::names().collect();
            format!(
                "no such scenario; the built-in ones are {}. For a file include the extension: my.yaml.{}",
                known.join(", "),
                hint.unwrap_or_default()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_scenario_parses_and_asks_a_question() {
        for (name, text) in FILES {
            let scenario =
                Scenario::from_yaml(text, name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(scenario.name, name);
            assert!(scenario.question.contains('?'), "{name}");
            assert!(scenario.answer.is_some(), "{name} has no answer");
            assert!(
                text.starts_with("# "),
                "{name} does not begin with a comment"
            );
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_nearest_one() {
        let problem = Scenario::find("stalewatch").unwrap_err();
        assert!(problem.ends_with("Did you mean stale-watch?"), "{problem}");
        assert!(!Scenario::find("x").unwrap_err().contains("Did you mean"));
    }
}
