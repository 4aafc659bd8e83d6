//! Feature gates under upstream's names: which exist, what they are by default, and the
//! `NAME=bool,...` that sets them.

use std::collections::BTreeMap;

use podstorm::row::Gate;
use podstorm_sim::rows::Rows;

use crate::units::refuse;

/// Every known gate by its name.
fn known() -> BTreeMap<&'static str, Gate> {
    Rows::installed().gates()
}

/// Every known gate as Kubernetes 1.36 has it.
pub fn defaults() -> BTreeMap<String, bool> {
    let known = known().into_values();
    known
        .map(|gate| (gate.name.to_owned(), gate.default))
        .collect()
}

/// What `--help` and the schema say: the gates, and what they are by default.
pub fn help() -> String {
    let word = |gate: Gate| match gate {
        Gate {
            locked_since: Some(_),
            name,
            ..
        } => format!("{name} (locked on)"),
        Gate {
            name,
            default: false,
            ..
        } => format!("{name} (off by default)"),
        Gate { name, .. } => name.to_owned(),
    };
    let words: Vec<String> = known().into_values().map(word).collect();
    format!(
        "Gates that change behaviour: {}. They are on by default where nothing else is said; the scenario \
         stale-watch has StaleControllerConsistencyReplicaSet off, as before 1.36, unless it is given",
        words.join(", ")
    )
}

/// Whether one of the assignments names that gate.
pub fn names<'a>(assignments: impl IntoIterator<Item = &'a str>, gate: &str) -> bool {
    let items = assignments.into_iter().flat_map(|list| list.split(','));
    let mut named = items.filter_map(|item| item.split_once('='));
    named.any(|(name, _)| name.trim() == gate)
}

/// The defaults with every `NAME=bool,...` of `assignments` applied.
///
/// # Errors
/// A gate that is not known or locked, a value other than true or false, or one gate set to both.
pub fn parse<'a>(
    assignments: impl IntoIterator<Item = &'a str>,
) -> Result<BTreeMap<String, bool>, String> {
    let mut chosen = BTreeMap::new();
    let items = assignments.into_iter().flat_map(|list| list.split(','));
    for item in items.map(str::trim).filter(|item| !item.is_empty()) {
        let Some((name, value)) = item.split_once('=') else {
            return refuse(format!(
                "{item:?} sets nothing: write {item}=true or =false"
            ));
        };
        let (name, value) = (name.trim(), value.trim());
        let value = match value.to_ascii_lowercase().as_str() {
            "true" | "t" | "1" => true,
            "false" | "f" | "0" => false,
            _ => return refuse(format!("{name} is true or false, not {value:?}")),
        };
        let before = chosen.insert(name.to_owned(), value);
        if before.is_some_and(|before| before != value) {
            return refuse(format!("{name} is set to both true and false"));
        }
    }
    let checked = Rows::installed().check_gates(&chosen);
    checked.map_err(|problem| problem.to_string())?;
    let mut gates = defaults();
    gates.extend(chosen);
    Ok(gates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_that_are_not_named_keep_their_default() {
        let gates = parse(["PodDeletionCost=false"]).unwrap();
        assert_eq!(gates.len(), defaults().len());
        assert!(!gates["PodDeletionCost"]);
        assert!(gates["LogarithmicScaleDown"]);
        assert_eq!(parse([]), Ok(defaults()));
        assert_eq!(parse(["LogarithmicScaleDown=true"]), Ok(defaults()));
    }

    #[test]
    fn a_gate_is_named_or_not_whatever_its_value() {
        assert!(names(["A=true, PodDeletionCost = true"], "PodDeletionCost"));
        assert!(!names(["A=true"], "PodDeletionCost"));
    }

    #[test]
    fn what_upstream_does_not_have_is_refused() {
        for (text, word) in [
            ("Nonsense=true", "known gates:"),
            ("LogarithmicScaleDown=false", "locked"),
            ("PodDeletionCost", "sets nothing"),
            ("PodDeletionCost=maybe", "true or false"),
            ("PodDeletionCost=true,PodDeletionCost=false", "both"),
        ] {
            let problem = parse([text]).expect_err(text);
            assert!(problem.contains(word), "{text}: {problem}");
        }
    }
}
