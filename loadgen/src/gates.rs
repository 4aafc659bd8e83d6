//! Feature gates under upstream's names: the known gates, their defaults, and the syntax
//! `NAME=bool,...`.

use std::collections::BTreeMap;

use podstorm::row::Gate;
use podstorm_sim::rows::Rows;

use crate::units::refuse;

/// Returns every known gate by name.
fn known() -> BTreeMap<&'static str, Gate> {
    Rows::installed().gates()
}

/// Returns every known gate with its default in Kubernetes 1.36.
pub fn defaults() -> BTreeMap<String, bool> {
    let known = known().into_values();
    known
        .map(|gate| (gate.name.to_owned(), gate.default))
        .collect()
}

/// Returns the text about gates in `--help` and in the schema: the gates and their defaults.
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

/// Reports whether one of the assignments sets this gate.
pub fn names<'a>(assignments: impl IntoIterator<Item = &'a str>, gate: &str) -> bool {
    let items = assignments.into_iter().flat_map(|list| list.split(','));
    let mut named = items.filter_map(|item| item.split_once('='));
    named.any(|(name, _)| name.trim() == gate)
}

/// Returns the defaults with every `NAME=bool,...` of `assignments` applied.
///
/// # Errors
/// A gate is unknown, locked, or set to both values; or a value is neither `true` nor `false`.
pub fn parse<'a>(
    assignments: impl IntoIterator<Item = &'a str>,
) -> Result<BTreeMap<String, bool>, String> {
    let mut chosen = BTreeMap::new();
    let items = assignments.into_iter().flat_map(|list| list.split(','));
    for item in items.map(str::trim).filter(|item| !item.is_empty()) {
        let Some((name, value)) = item.split_once('=') else {
            return refuse(format!(
                "{item:?} has no value: write {item}=true or {item}=false"
            ));
        };
        let (name, value) = (name.trim(), value.trim());
        let value = match value.to_ascii_lowercase().as_str() {
            "true" | "t" | "1" => true,
            "false" | "f" | "0" => false,
            _ => return refuse(format!("{name} must be true or false, not {value:?}")),
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
    fn unset_gates_keep_their_default() {
        let gates = parse(["PodDeletionCost=false"]).unwrap();
        assert_eq!(gates.len(), defaults().len());
        assert!(!gates["PodDeletionCost"]);
        assert!(gates["LogarithmicScaleDown"]);
        assert_eq!(parse([]), Ok(defaults()));
        assert_eq!(parse(["LogarithmicScaleDown=true"]), Ok(defaults()));
    }

    #[test]
    fn a_gate_counts_as_set_whatever_its_value() {
        assert!(names(["A=true, PodDeletionCost = true"], "PodDeletionCost"));
        assert!(!names(["A=true"], "PodDeletionCost"));
    }

    #[test]
    fn unknown_gates_and_values_are_refused() {
        for (text, word) in [
            ("Nonsense=true", "known gates:"),
            ("LogarithmicScaleDown=false", "locked"),
            ("PodDeletionCost", "has no value"),
            ("PodDeletionCost=maybe", "true or false"),
            ("PodDeletionCost=true,PodDeletionCost=false", "both"),
        ] {
            let problem = parse([text]).expect_err(text);
            assert!(problem.contains(word), "{text}: {problem}");
        }
    }
}
