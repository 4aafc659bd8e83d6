//! Label selectors: as written, and compiled for matching.

use std::sync::Arc;

use super::{Labels, Str};

/// A `LabelSelector` as written: all of `match_labels` and all of `match_expressions` must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    /// Pairs that must be present.
    pub match_labels: Labels,
    /// Further requirements, in the order written; empty when absent.
    pub match_expressions: Arc<[LabelSelectorRequirement]>,
}

/// One requirement as written; the operator is any text until it is compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelectorRequirement {
    /// The label key.
    pub key: Str,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: Str,
    /// The values of `In` and `NotIn`.
    pub values: Arc<[Str]>,
}

/// A selector that can't be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);

/// A compiled selector.
#[derive(Clone, Debug)]
pub struct Selector {}

impl Selector {
    /// Compiles a selector; absent matches nothing, empty matches everything.
    ///
    /// # Errors
    /// See `spec/api-rules.md` section 3: unknown operator, missing or surplus values, bad syntax.
    pub fn compile(_selector: Option<&LabelSelector>) -> Result<Selector, SelectorError> {
        Err(SelectorError("being written".into()))
    }

    /// Whether the selector was present and has no requirement: it matches everything.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether these labels satisfy every requirement.
    pub fn matches(&self, _labels: &Labels) -> bool {
        false
    }

    /// The pairs that a match must carry (`matchLabels`, and `In` with a single value), sorted by
    /// key: what an index can look up. Empty when there are none or nothing can match.
    pub fn required_pairs(&self) -> &[(Str, Str)] {
        &[]
    }
}
