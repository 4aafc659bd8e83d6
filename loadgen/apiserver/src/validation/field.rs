//! The rules of objects without a Rust type of their own: values that know where they are, and what may be said
//! of them in upstream's words.

use std::cell::RefCell;

use podstorm_objects::{Cause, DynamicObject};
use serde_json::Value;

use super::{Causes, IMMUTABLE, MUST_NOT_BE_NEGATIVE};
use crate::errors;

/// What is found wrong with an object while its fields are looked at.
#[derive(Debug, Default)]
pub(crate) struct Checks(RefCell<Causes>);

impl Checks {
    /// A member of the object, beside its metadata.
    pub(crate) fn field<'a>(&'a self, object: &'a DynamicObject, member: &str) -> Field<'a> {
        self.value(member, object.fields.get(member).unwrap_or(&Value::Null))
    }

    /// A value that is said to be at this path.
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

/// A value, which may be absent, with its path.
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

    /// An entry of a map.
    pub(crate) fn key(&self, key: &str) -> Field<'a> {
        let path = format!("{}[{key}]", self.path);
        self.checks.value(path, &self.value[key])
    }

    /// The entries of a list.
    pub(crate) fn items(&self) -> impl Iterator<Item = Field<'a>> {
        let all = self.value.as_array().into_iter().flatten().enumerate();
        all.map(move |(index, item)| self.checks.value(format!("{}[{index}]", self.path), item))
    }

    /// The entries of a map.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, Field<'a>)> {
        let all = self.value.as_object().into_iter().flatten();
        all.map(move |(key, _)| (key.as_str(), self.key(key)))
    }

    pub(crate) fn is_null(&self) -> bool {
        self.value.is_null()
    }

    /// The text; empty where it is none.
    pub(crate) fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or("")
    }

    /// The whole number; 0 where it is none.
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

    /// As [`invalid`](Field::invalid), and the message shows another value.
    pub(crate) fn invalid_as(&self, shown: impl Into<Value>, detail: impl AsRef<str>) {
        let cause = errors::invalid_value(self.path.as_str(), &shown.into(), detail.as_ref());
        self.checks.push(cause);
    }

    pub(crate) fn duplicate(&self) {
        self.checks
            .push(errors::duplicate(self.path.as_str(), self.value));
    }

    /// A text that is given is one of these.
    pub(crate) fn one_of(&self, supported: &[&str]) {
        if self.value.is_string() {
            self.must_be_one_of(supported);
        }
    }

    /// The text is one of these, and none is the empty one.
    pub(crate) fn must_be_one_of(&self, supported: &[&str]) {
        if !supported.contains(&self.text()) {
            let cause = errors::not_supported(self.path.as_str(), self.text(), supported);
            self.checks.push(cause);
        }
    }

    /// The text keeps a rule of names.
    pub(crate) fn fits(&self, rule: impl Fn(&str) -> Option<String>) {
        if let Some(problem) = rule(self.text()) {
            self.invalid_as(self.text(), problem);
        }
    }

    /// There is a text.
    pub(crate) fn needs_text(&self, detail: &str) {
        if self.text().is_empty() {
            self.required(detail);
        }
    }

    /// There is a text, and it keeps a rule of names.
    pub(crate) fn must_fit(&self, rule: impl Fn(&str) -> Option<String>) {
        match self.text() {
            "" => self.required(""),
            _ => self.fits(rule),
        }
    }

    pub(crate) fn not_negative(&self) {
        self.at_least(0, MUST_NOT_BE_NEGATIVE);
    }

    /// Refuses a value that is not an integer of 32 bits, as the API's type is.
    pub(crate) fn fits_32_bits(&self) {
        let fits = self
            .value
            .as_i64()
            .is_some_and(|it| i32::try_from(it).is_ok());
        if !self.is_null() && !fits {
            self.invalid(format!(
                "expected an integer of 32 bits, found {}",
                self.value
            ));
        }
    }

    /// A number that is given is not less than this.
    pub(crate) fn at_least(&self, least: i64, detail: &str) {
        if self.value.as_i64().is_some_and(|number| number < least) {
            self.invalid(detail);
        }
    }

    /// An update leaves it as it was.
    pub(crate) fn unchanged(&self, old: &Value) {
        if self.value != old {
            self.invalid(IMMUTABLE);
        }
    }

    /// Whether an update changes any member but these.
    pub(crate) fn changes_beyond(&self, old: &'a Value, mutable: &[&str]) -> bool {
        let members = |value: &'a Value| value.as_object().into_iter().flatten();
        let is_fixed = |(name, _): &(&String, &Value)| !mutable.contains(&name.as_str());
        let (new, old) = (members(self.value), members(old));
        new.filter(is_fixed).ne(old.filter(is_fixed))
    }
}
