//! Validation of the numbers in a status: no number is negative, and no part exceeds its whole.

use podstorm_objects::{Cause, DynamicObject};

use crate::errors::invalid_value;

const COLLISIONS: &str = "collisionCount";

/// The numbers in the status of a kind.
pub(super) struct StatusNumbers {
    pub(super) numbers: &'static [&'static str],
    /// The name of a part, the name of its whole, and the whole in messages.
    pub(super) parts: &'static [(&'static str, &'static str, &'static str)],
}

impl StatusNumbers {
    /// Returns the rules that a changed status breaks.
    pub(super) fn check(&self, new: &DynamicObject, old: &DynamicObject) -> Vec<Cause> {
        let count = |object: &DynamicObject, member: &str| {
            let status = object.fields.get("status");
            status.and_then(|status| status.get(member)?.as_i64())
        };
        let of_new = |member: &str| count(new, member).unwrap_or(0);
        let mut causes = Vec::new();
        let mut wrong = |member: &str, detail: &str| {
            let field = format!("status.{member}");
            causes.push(invalid_value(field, &of_new(member).into(), detail));
        };
        for member in self.numbers {
            if of_new(member) < 0 {
                wrong(member, "must be greater than or equal to 0");
            }
        }
        for (part, whole, told) in self.parts {
            if of_new(part) > of_new(whole) {
                wrong(part, &format!("cannot be greater than {told}"));
            }
        }
        let (new, old) = (count(new, COLLISIONS), count(old, COLLISIONS));
        // A removed number is less than any other.
        if self.numbers.contains(&COLLISIONS) && old.is_some() && new < old {
            wrong(COLLISIONS, "cannot be decremented");
        }
        causes
    }
}
