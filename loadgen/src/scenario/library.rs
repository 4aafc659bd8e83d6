//! The built-in scenarios: files of their own in `scenarios/`, part of the program. What `loadgen
//! scenarios --print` shows is what runs.

use std::sync::{Arc, OnceLock};

use super::definition::Scenario;

macro_rules! library {
    ($($name:literal),* $(,)?) => {
        /// Names and texts in the order in which they are listed.
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
    /// The names of the built-in scenarios, in the order in which they are listed.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|(name, _)| *name)
    }

    /// The built-in scenario of that name.
    pub fn built_in(name: &str) -> Option<Arc<Scenario>> {
        let at = FILES.iter().position(|(known, _)| *known == name)?;
        let read = READ[at].get_or_init(|| {
            let read = Scenario::from_yaml(FILES[at].1, name);
            Arc::new(read.expect("a test reads every built-in scenario"))
        });
        Some(Arc::clone(read))
    }

    /// The built-in scenario that runs by default.
    pub fn by_default() -> Arc<Scenario> {
        Scenario::built_in("scale-out").expect("it is in the library")
    }

    /// The built-in scenario of what files bring.
    pub fn manifests() -> Arc<Scenario> {
        Scenario::built_in("manifests").expect("it is in the library")
    }

    /// The text of a built-in scenario's file, commented.
    pub fn text(name: &str) -> Option<&'static str> {
        let found = FILES.iter().find(|(known, _)| *known == name);
        found.map(|(_, text)| *text)
    }

    /// The scenario that a name or path means: a built-in one, or that of a file.
    ///
    /// # Errors
    /// A name that is not known, with those that come nearest, or what is wrong with the file.
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
                "no such scenario; built in are {}. A file is named with its ending: my.yaml.{}",
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
    fn every_built_in_scenario_can_be_read_and_asks_a_question() {
        for (name, text) in FILES {
            let scenario =
                Scenario::from_yaml(text, name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(scenario.name, name);
            assert!(scenario.question.contains('?'), "{name}");
            assert!(scenario.answer.is_some(), "{name} has no answer");
            assert!(text.starts_with("# "), "{name} does not say what it is");
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_nearest_one() {
        let problem = Scenario::find("stalewatch").unwrap_err();
        assert!(problem.ends_with("Did you mean stale-watch?"), "{problem}");
        assert!(!Scenario::find("x").unwrap_err().contains("Did you mean"));
    }
}
