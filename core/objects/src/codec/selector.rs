//! JSON of label selectors.

use std::sync::Arc;

use serde_json::Value;

use super::item;
use crate::decode::{DecodeError, Members, Path, read_string};
use crate::json::{JsonValue, Tape, Writer};
use crate::{LabelSelector, LabelSelectorRequirement, Str};

impl LabelSelector {
    /// Reads a selector. Null reads as an empty selector, so the caller must first check whether
    /// the member is present.
    ///
    /// # Errors
    /// Fails if a member has a wrong type. Operators and values are not checked.
    pub fn from_json(value: Value) -> Result<LabelSelector, DecodeError> {
        LabelSelector::read(Tape::new(&value).root(), &Path::ROOT)
    }

    pub(super) fn read(
        value: JsonValue<'_>,
        path: &Path<'_>,
    ) -> Result<LabelSelector, DecodeError> {
        let mut members = Members::new(value, path)?;
        Ok(LabelSelector {
            match_labels: members.labels("matchLabels")?.or_absent(),
            match_expressions: members
                .list::<_, Arc<[_]>>("matchExpressions", LabelSelectorRequirement::read)?,
        })
    }

    /// Returns the JSON object, `{}` if there is no requirement.
    pub fn to_json(&self) -> Value {
        Writer::object_value(|out| self.write(out))
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.put_labels("matchLabels", &self.match_labels);
        out.put_objects("matchExpressions", &*self.match_expressions, |out, it| {
            it.write(out)
        });
    }
}

impl LabelSelectorRequirement {
    fn read(
        value: JsonValue<'_>,
        path: &Path<'_>,
    ) -> Result<LabelSelectorRequirement, DecodeError> {
        let mut members = item(value, path)?;
        Ok(LabelSelectorRequirement {
            key: members.string("key")?,
            operator: members.string("operator")?,
            values: members.list::<Str, Arc<[Str]>>("values", read_string)?,
        })
    }

    fn write(&self, out: &mut Writer) {
        out.put("key", &*self.key);
        out.put("operator", &*self.operator);
        out.put_list("values", &*self.values, |out, value| out.text(value));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_round_trip() {
        for value in [
            json!({}),
            json!({"matchLabels": {"app": "web", "tier": ""}}),
            json!({"matchExpressions": [
                {"key": "app", "operator": "In", "values": ["b", "a", "a"]},
                {"key": "x", "operator": "Exists"}, {"key": "", "operator": "odd"}]}),
        ] {
            let selector = LabelSelector::from_json(value.clone()).unwrap();
            assert_eq!(selector.to_json(), value);
        }
    }

    #[test]
    fn wrong_types_are_refused_with_their_path() {
        let error = |value| LabelSelector::from_json(value).unwrap_err().to_string();
        assert_eq!(
            error(json!({"matchExpressions": [{"values": [1]}]})),
            "matchExpressions[0].values[0]: expected a string, found the number 1"
        );
        assert_eq!(
            error(json!({"matchLabels": "app=web"})),
            "matchLabels: expected a map of strings, found the string \"app=web\""
        );
    }
}
