//! Validation of objects without a Rust type: fields that know their path, and checks with
//! upstream's messages.

use std::cell::RefCell;

use podstorm_objects::{Cause, DynamicObject};
use serde_json::Value;

use super::{Causes, IMMUTABLE, MUST_NOT_BE_NEGATIVE};
use crate::errors;

/// The causes found so far while an object is checked.
#[derive(Debug, Default)]
pub(crate) struct Checks(RefCell<Causes>);

impl Checks {
    /// Returns a member of the object, outside its metadata, as a field.
    pub(crate) fn field<'a>(&'a self, object: &'a DynamicObject, member: &str) -> Field<'a> {
        self.value(member, object.fields.get(member).unwrap_or(&Value::Null))
    }

    /// Returns a value as a field with this path.
    pub(crate) fn value<'a>(&'a self, path: impl Into<String>, value: &'a Value) -> Field<'a> {
        Field {
            value,
            path: path.into(),
            checks: self,
        }
    }

    pub(crate) fn push(&self, cause: Cause) {
        self.0.borrow_mut().push(cause);
    }

    pub(crate) fn extend(&self, causes: Vec<Cause>) {
        let mut all = self.0.borrow_mut();
        causes.into_iter().for_each(|cause| all.push(cause));
    }

    pub(crate) fn found(self) -> Vec<Cause> {
        self.0.into_inner().found()
    }
}

/// A value that may be absent (null), and its path.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) value: &'a Value,
    pub(crate) path: String,
    pub(crate) checks: &'a Checks,
}

impl<'a> Field<'a> {
    pub(crate) fn at(&self, member: &str) -> Field<'a> {
        let path = format!("{}.{member}", self.path);
        self.checks.value(path, &self.value[member])
    }

    /// Returns the entry of a map for this key.
    pub(crate) fn key(&self, key: &str) -> Field<'a> {
        let path = format!("{}[{key}]", self.path);
        self.checks.value(path, &self.value[key])
    }

    /// Returns the entries of a list; none for any other value.
    pub(crate) fn items(&self) -> impl Iterator<Item = Field<'a>> {
        let all = self.value.as_array().into_iter().flatten().enumerate();
        all.map(move |(index, item)| self.checks.value(format!("{}[{index}]", self.path), item))
    }

    /// Returns the entries of a map; none for any other value.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, Field<'a>)> {
        let all = self.value.as_object().into_iter().flatten();
        all.map(move |(key, _)| (key.as_str(), self.key(key)))
    }

    pub(crate) fn is_null(&self) -> bool {
        self.value.is_null()
    }

    /// Returns the string; empty if the value is not a string.
    pub(crate) fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or("")
    }

    /// Returns the integer; 0 if the value is not an integer.
    pub(crate) fn number(&self) -> i64 {
        self.value.as_i64().unwrap_or(0)
    }

    pub(crate) fn required(&self, detail: &str) {
        self.checks
            .push(errors::required(self.path.as_str(), detail));
    }

    pub(crate) fn forbidden(&self, detail: impl AsRef<str>) {
        let cause = errors::forbidden_field(self.path.as_str(), detail.as_ref());
        self.checks.push(cause);
    }

    pub(crate) fn invalid(&self, detail: impl AsRef<str>) {
        let cause = errors::invalid_value(self.path.as_str(), self.value, detail.as_ref());
        self.checks.push(cause);
    }

    /// Like [`invalid`](Field::invalid), but the message shows another value.
    pub(crate) fn invalid_as(&self, shown: impl Into<Value>, detail: impl AsRef<str>) {
        let cause = errors::invalid_value(self.path.as_str(), &shown.into(), detail.as_ref());
        self.checks.push(cause);
    }

    pub(crate) fn duplicate(&self) {
        self.checks
            .push(errors::duplicate(self.path.as_str(), self.value));
    }

    /// Checks that the string, if it is set, is a supported value.
    pub(crate) fn one_of(&self, supported: &[&str]) {
        if self.value.is_string() {
            self.must_be_one_of(supported);
        }
    }

    /// Checks that the string is a supported value. An absent string counts as empty.
    pub(crate) fn must_be_one_of(&self, supported: &[&str]) {
        if !supported.contains(&self.text()) {
            let cause = errors::not_supported(self.path.as_str(), self.text(), supported);
            self.checks.push(cause);
        }
    }

    /// Checks that the string obeys a rule.
    pub(crate) fn fits(&self, rule: impl Fn(&str) -> Option<String>) {
        if let Some(problem) = rule(self.text()) {
            self.invalid_as(self.text(), problem);
        }
    }

    /// Checks that the string is not empty.
    pub(crate) fn needs_text(&self, detail: &str) {
        if self.text().is_empty() {
            self.required(detail);
        }
    }

    /// Checks that the string is not empty and obeys a rule.
    pub(crate) fn must_fit(&self, rule: impl Fn(&str) -> Option<String>) {
        match self.text() {
            "" => self.required(""),
            _ => self.fits(rule),
        }
    }

    pub(crate) fn not_negative(&self) {
        self.at_least(0, MUST_NOT_BE_NEGATIVE);
    }

    /// Checks that the value, if it is set, is a 32-bit integer, like the API's type.
    pub(crate) fn fits_32_bits(&self) {
        let fits = self
            .value
            .as_i64()
            .is_some_and(|it| i32::try_from(it).is_ok());
        if !self.is_null() && !fits {
            self.invalid(format!("expected a 32-bit integer, found {}", self.value));
        }
    }

    /// Checks that the number, if it is set, is at least `least`.
    pub(crate) fn at_least(&self, least: i64, detail: &str) {
        if self.value.as_i64().is_some_and(|number| number < least) {
            self.invalid(detail);
        }
    }

    /// Checks that an update does not change the value.
    pub(crate) fn unchanged(&self, old: &Value) {
        if self.value != old {
            self.invalid(IMMUTABLE);
        }
    }

    /// Reports whether an update changes any member except the mutable ones.
    pub(crate) fn changes_beyond(&self, old: &'a Value, mutable: &[&str]) -> bool {
        let members = |value: &'a Value| value.as_object().into_iter().flatten();
        let is_fixed = |(name, _): &(&String, &Value)| !mutable.contains(&name.as_str());
        let (new, old) = (members(self.value), members(old));
        new.filter(is_fixed).ne(old.filter(is_fixed))
    }
}
