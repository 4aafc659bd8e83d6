//! JSON of API errors: `Status` objects.

use serde_json::Value;

use crate::decode::{DecodeError, Members, Path};
use crate::json::{JsonValue, Tape, Writer};
use crate::{ApiError, Cause, Reason, Subject};

impl ApiError {
    /// The `Status` object. `details` is written only if it is not empty.
    pub fn to_json(&self) -> Value {
        let mut out = Writer::new();
        out.object(|out| {
            out.put("apiVersion", "v1");
            out.put("kind", "Status");
            out.member("metadata", |out| out.object(|_| {}));
            out.put("status", "Failure");
            out.put_text("message", &self.message);
            out.put_text("reason", self.reason.as_str());
            out.put_number("code", self.code.into());
            out.put_object("details", |out| {
                if let Some(subject) = &self.subject {
                    out.put_text("name", &subject.name);
                    out.put_text("group", &subject.group);
                    out.put_text("kind", &subject.kind);
                    out.put_text("uid", &subject.uid);
                }
                out.put_list("causes", &self.causes, |out, cause| {
                    out.object(|out| cause.write(out));
                });
                let seconds = self.retry_after_seconds.unwrap_or(0);
                out.put_number("retryAfterSeconds", seconds.into());
            });
        });
        out.to_value()
    }

    /// Reads a `Status` object.
    ///
    /// # Errors
    /// The object is not a `Status`, or a member has a wrong type.
    pub fn from_json(value: Value) -> Result<ApiError, DecodeError> {
        const ROOT: &Path<'static> = &Path::ROOT;
        let tape = Tape::of(&value);
        let mut members = Members::new(tape.root(), ROOT)?;
        let kind = members.text("kind")?;
        if !kind.is_empty() && kind != "Status" {
            return Err(ROOT.error(format!("expected v1 Status, found {kind}")));
        }
        let code = members.opt_i64("code")?.unwrap_or(0);
        let code = u16::try_from(code).map_err(|_| {
            ROOT.member("code")
                .error(format!("{code} is no HTTP status code"))
        })?;
        let mut error = ApiError::status(
            code,
            Reason::new(members.text("reason")?),
            members.text("message")?,
        );
        let read = |value: JsonValue<'_>, path: &Path<'_>| {
            let mut details = Members::new(value, path)?;
            let subject = Subject {
                name: details.text("name")?.to_owned(),
                group: details.text("group")?.to_owned(),
                kind: details.text("kind")?.to_owned(),
                uid: details.text("uid")?.to_owned(),
            };
            let causes = details.list("causes", Cause::read)?;
            let seconds = details.opt_i32("retryAfterSeconds")?.unwrap_or(0);
            Ok((
                (subject != Subject::default()).then(|| Box::new(subject)),
                causes,
                u32::try_from(seconds).ok().filter(|&seconds| seconds != 0),
            ))
        };
        if let Some((subject, causes, seconds)) = members.child("details", read)? {
            error.subject = subject;
            error.causes = causes;
            error.retry_after_seconds = seconds;
        }
        Ok(error)
    }
}

impl Cause {
    fn read(value: JsonValue<'_>, path: &Path<'_>) -> Result<Cause, DecodeError> {
        let mut members = Members::new(value, path)?;
        Ok(Cause {
            reason: members.text("reason")?.to_owned(),
            message: members.text("message")?.to_owned(),
            field: members.text("field")?.to_owned(),
        })
    }

    fn write(&self, out: &mut Writer) {
        out.put_text("reason", &self.reason);
        out.put_text("message", &self.message);
        out.put_text("field", &self.field);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_round_trips() {
        let mut error = ApiError::status(403, Reason::Forbidden, "no new content");
        assert_eq!(ApiError::from_json(error.to_json()), Ok(error.clone()));
        assert_eq!(error.to_json().get("details"), None);
        error.retry_after_seconds = Some(1);
        error.causes.push(Cause {
            reason: "NamespaceTerminating".into(),
            message: "m".into(),
            field: "metadata.namespace".into(),
        });
        assert_eq!(ApiError::from_json(error.to_json()), Ok(error.clone()));
        assert_eq!(
            error.to_json(),
            json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
                "message": "no new content", "reason": "Forbidden", "code": 403,
                "details": {"retryAfterSeconds": 1, "causes": [{"reason": "NamespaceTerminating",
                    "message": "m", "field": "metadata.namespace"}]}})
        );
    }

    #[test]
    fn other_objects_are_refused() {
        assert!(ApiError::from_json(json!({"kind": "Pod"})).is_err());
        let error = ApiError::from_json(json!({"code": -1})).unwrap_err();
        assert_eq!(error.to_string(), "code: -1 is no HTTP status code");
    }
}
