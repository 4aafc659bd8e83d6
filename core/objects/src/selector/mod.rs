//! Label selectors: as written in objects, and compiled for matching.
//!
//! Compiling sorts the requirements by key, as labels are sorted. Matching then searches few
//! labels, or walks over both sorted lists. It allocates nothing and stops at the first requirement
//! that fails.

use std::fmt;
use std::sync::Arc;

use super::{Labels, Str};

mod parse;
mod syntax;

pub use syntax::{SyntaxError, check_label_key, check_label_value, is_dns_subdomain};

/// Up to this many labels, matching searches the labels for each requirement. Above it, matching
/// walks over both sorted lists.
const SEARCHED_LABELS: usize = 8;

/// A `LabelSelector` as written: all of `match_labels` and all of `match_expressions` must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    /// The pairs that must be present.
    pub match_labels: Labels,
    /// Further requirements, in the order written; empty if absent.
    pub match_expressions: Arc<[LabelSelectorRequirement]>,
}

/// A requirement as written. The operator may be any string until the selector is compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelectorRequirement {
    /// The label key.
    pub key: Str,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: Str,
    /// The values of `In` and `NotIn`.
    pub values: Arc<[Str]>,
}

/// The error for a selector that could not be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);

/// A compiled selector. Cloning shares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Sorted by key, requirements of one key in the order written. `None` matches nothing.
    requirements: Option<Arc<[Requirement]>>,
    /// The pairs that every match has, sorted by key, one pair per key.
    required_pairs: Arc<[(Str, Str)]>,
}

/// A requirement whose syntax has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: Str,
    test: Test,
}

/// The condition that a requirement imposes on its key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Equals(Str),
    /// Sorted, at least one value. Duplicates stay, because they are printed.
    In(Arc<[Str]>),
    NotEquals(Str),
    /// Like `In`.
    NotIn(Arc<[Str]>),
    Exists,
    DoesNotExist,
    /// Strictly above this number. Only selector strings can express it.
    GreaterThan(i64, Str),
    /// Strictly below this number. Only selector strings can express it.
    LessThan(i64, Str),
}

impl Selector {
    /// Compiles a selector. Absent matches nothing, empty matches everything.
    ///
    /// # Errors
    /// Fails for an operator other than `In`, `NotIn`, `Exists` and `DoesNotExist`, if the first
    /// two have no values or the others have some, and for a key or a value that no label can have.
    pub fn compile(selector: Option<&LabelSelector>) -> Result<Selector, SelectorError> {
        let Some(selector) = selector else {
            return Ok(Selector::nothing());
        };
        let pairs = selector.match_labels.pairs().iter();
        let mut requirements: Vec<Requirement> = pairs
            .map(|(key, value)| Requirement {
                key: key.clone(),
                test: Test::Equals(value.clone()),
            })
            .collect();
        for written in selector.match_expressions.iter() {
            requirements.push(Requirement {
                key: written.key.clone(),
                test: test_of(written)?,
            });
        }
        Selector::from_requirements(requirements)
    }

    /// Creates the selector of a plain map, as in Services and ReplicationControllers: absent
    /// matches nothing, empty matches everything. The syntax is not checked: such maps are compared
    /// unchanged, and a pair that no label can have never matches.
    pub fn of_pairs(labels: &Labels) -> Selector {
        if labels.is_absent() {
            return Selector::nothing();
        }
        let pairs = labels.pairs().iter();
        Selector {
            requirements: Some(
                pairs
                    .map(|(key, value)| Requirement {
                        key: key.clone(),
                        test: Test::Equals(value.clone()),
                    })
                    .collect(),
            ),
            required_pairs: labels.pairs().into(),
        }
    }

    /// Parses the canonical string form and the other forms that `kubectl --selector` accepts:
    /// `app=web,tier in (a,b),env!=dev,x,!y,cores>4`. The empty string matches everything.
    ///
    /// # Errors
    /// Fails for a string that is not a selector, or that has a key or a value that no label can
    /// have.
    pub fn parse(text: &str) -> Result<Selector, SelectorError> {
        Selector::from_requirements(parse::requirements(text)?)
    }

    /// Returns the selector that matches nothing.
    pub fn nothing() -> Selector {
        Selector {
            requirements: None,
            required_pairs: Arc::new([]),
        }
    }

    fn from_requirements(mut requirements: Vec<Requirement>) -> Result<Selector, SelectorError> {
        for requirement in &requirements {
            requirement.check()?;
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        let mut pairs: Vec<(Str, Str)> = Vec::new();
        let mut contradicts = false;
        for requirement in &requirements {
            let Some(value) = requirement.only_value() else {
                continue;
            };
            match pairs.last() {
                Some((key, other)) if *key == requirement.key => contradicts |= other != value,
                _ => pairs.push((requirement.key.clone(), value.clone())),
            }
        }
        if contradicts {
            pairs.clear();
        }
        Ok(Selector {
            requirements: Some(requirements.into()),
            required_pairs: pairs.into(),
        })
    }

    /// Reports whether the selector was present without requirements, so that it matches
    /// everything.
    pub fn is_empty(&self) -> bool {
        self.requirements
            .as_ref()
            .is_some_and(|requirements| requirements.is_empty())
    }

    /// Reports whether these labels satisfy every requirement. O(requirements + labels), no
    /// allocation.
    pub fn matches(&self, labels: &Labels) -> bool {
        let Some(requirements) = &self.requirements else {
            return false;
        };
        let mut labels = labels.pairs();
        for requirement in requirements.iter() {
            let key = &requirement.key;
            let value = if labels.len() <= SEARCHED_LABELS {
                // Strings of different lengths differ, so most labels are skipped without reading
                // their text. Labels before the one found are not searched again.
                labels.iter().position(|(probe, _)| probe == key).map(|at| {
                    labels = &labels[at..];
                    &*labels[0].1
                })
            } else {
                loop {
                    match labels.first() {
                        Some((probe, _)) if **probe < **key => labels = &labels[1..],
                        // The label stays, because the next requirement may have the same key.
                        Some((probe, value)) if probe == key => break Some(&**value),
                        _ => break None,
                    }
                }
            };
            if !requirement.test.holds(value) {
                return false;
            }
        }
        true
    }

    /// Returns the pairs that a match must have (`matchLabels`, and `In` with a single value),
    /// sorted by key, for lookups in an index. Empty if there are none or nothing can match.
    pub fn required_pairs(&self) -> &[(Str, Str)] {
        &self.required_pairs
    }

    /// Returns the keys of the requirements, in order. A key occurs once per requirement.
    pub fn keys(&self) -> impl Iterator<Item = &Str> {
        let requirements = self.requirements.iter().flat_map(|all| all.iter());
        requirements.map(|requirement| &requirement.key)
    }
}

impl Requirement {
    fn check(&self) -> Result<(), SelectorError> {
        let wrong = |what: &str, text: &str, problem: SyntaxError| {
            SelectorError(format!("{what} {text:?}: {problem}"))
        };
        check_label_key(&self.key).map_err(|problem| wrong("label key", &self.key, problem))?;
        for value in self.test.values() {
            check_label_value(value).map_err(|problem| wrong("label value", value, problem))?;
        }
        Ok(())
    }

    /// Returns the value that satisfies the requirement; `None` unless there is exactly one.
    fn only_value(&self) -> Option<&Str> {
        match &self.test {
            Test::Equals(value) => Some(value),
            Test::In(values) if values.first() == values.last() => values.first(),
            _ => None,
        }
    }
}

impl Test {
    fn values(&self) -> &[Str] {
        match self {
            Test::Equals(value) | Test::NotEquals(value) => std::slice::from_ref(value),
            Test::In(values) | Test::NotIn(values) => values,
            Test::GreaterThan(_, text) | Test::LessThan(_, text) => std::slice::from_ref(text),
            Test::Exists | Test::DoesNotExist => &[],
        }
    }

    /// Reports whether a label with this value satisfies the test; `None` means that there is no
    /// such label.
    fn holds(&self, value: Option<&str>) -> bool {
        let Some(value) = value else {
            return matches!(
                self,
                Test::NotEquals(_) | Test::NotIn(_) | Test::DoesNotExist
            );
        };
        match self {
            Test::Equals(wanted) => **wanted == *value,
            Test::NotEquals(unwanted) => **unwanted != *value,
            Test::In(wanted) => wanted.iter().any(|wanted| **wanted == *value),
            Test::NotIn(unwanted) => unwanted.iter().all(|unwanted| **unwanted != *value),
            Test::Exists => true,
            Test::DoesNotExist => false,
            Test::GreaterThan(bound, _) => value.parse().is_ok_and(|value: i64| value > *bound),
            Test::LessThan(bound, _) => value.parse().is_ok_and(|value: i64| value < *bound),
        }
    }
}

/// Returns the test that a written requirement describes.
fn test_of(written: &LabelSelectorRequirement) -> Result<Test, SelectorError> {
    let values = &written.values;
    let of_values = |test: fn(Arc<[Str]>) -> Test| match values.len() {
        0 => Err(SelectorError(
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
                .to_owned(),
        )),
        _ => Ok(test(sorted(values))),
    };
    let of_none = |test: Test| match values.len() {
        0 => Ok(test),
        _ => Err(SelectorError(format!(
            "values: Invalid value: {:?}: values set must be empty for exists and does not exist",
            values
        ))),
    };
    match &*written.operator {
        "In" => of_values(Test::In),
        "NotIn" => of_values(Test::NotIn),
        "Exists" => of_none(Test::Exists),
        "DoesNotExist" => of_none(Test::DoesNotExist),
        other => Err(SelectorError(format!(
            "{other:?} is not a valid label selector operator"
        ))),
    }
}

fn sorted(values: &[Str]) -> Arc<[Str]> {
    let mut values = values.to_vec();
    values.sort();
    values.into()
}

/// Formats the canonical string form, e.g. `app=web,tier in (a,b),!x`, sorted by key. The selector
/// that matches everything and the one that matches nothing both print as the empty string.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, requirement) in self
            .requirements
            .iter()
            .flat_map(|all| all.iter())
            .enumerate()
        {
            if at > 0 {
                f.write_str(",")?;
            }
            let key = &requirement.key;
            match &requirement.test {
                Test::Equals(value) => write!(f, "{key}={value}")?,
                Test::NotEquals(value) => write!(f, "{key}!={value}")?,
                Test::In(values) => write!(f, "{key} in ({})", values.join(","))?,
                Test::NotIn(values) => write!(f, "{key} notin ({})", values.join(","))?,
                Test::Exists => write!(f, "{key}")?,
                Test::DoesNotExist => write!(f, "!{key}")?,
                Test::GreaterThan(_, bound) => write!(f, "{key}>{bound}")?,
                Test::LessThan(_, bound) => write!(f, "{key}<{bound}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
