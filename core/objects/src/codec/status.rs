//! JSON of API errors: `Status` objects.

use serde_json::Value;

use crate::decode::{DecodeError, Members, Path};
use crate::json::{JsonValue, Tape, Writer};
use crate::{ApiError, Cause, Details, Reason};

impl ApiError {
    /// Returns the `Status` object.
    pub fn to_json(&self) -> Value {
        Writer::object_value(|out| {
            out.put("kind", "Status");
            out.put("apiVersion", "v1");
            let token = self.details.as_ref().map(|details| &details.continue_token);
            out.member("metadata", |out| {
                out.object(|out| {
                    token
                        .into_iter()
                        .for_each(|it| out.put_text("continue", it))
                });
            });
            out.put("status", "Failure");
            out.put_text("message", &self.message);
            out.put_text("reason", self.reason.as_str());
            out.put_number("code", self.code.into());
            let Some(details) = &self.details else {
                return;
            };
            let write = |out: &mut Writer| {
                out.put_text("name", &details.name);
                out.put_text("group", &details.group);
                out.put_text("kind", &details.kind);
                out.put_text("uid", &details.uid);
                out.put_objects("causes", &details.causes, |out, it| it.write(out));
                out.put_number("retryAfterSeconds", details.retry_after_seconds.into());
            };
            match details.continue_token.is_empty() {
                true => out.member("details", |out| out.object(write)),
                // The token is written in `metadata`. Upstream has no `details` then.
                false => out.put_object("details", write),
            }
        })
    }

    /// Reads a `Status` object.
    ///
    /// # Errors
    /// Fails if the object is not a `Status` or a member has a wrong type.
    pub fn from_json(value: Value) -> Result<ApiError, DecodeError> {
        const ROOT: &Path<'static> = &Path::ROOT;
        let tape = Tape::new(&value);
        let mut members = Members::new(tape.root(), ROOT)?;
        let kind = members.text("kind")?;
        if !kind.is_empty() && kind != "Status" {
            return Err(ROOT.error(format!("expected v1 Status, found {kind}")));
        }
        let code = members.opt_i64("code")?.unwrap_or(0);
        let code = u16::try_from(code).map_err(|_| {
            ROOT.member("code").error(format!(
                "expected an HTTP status code, found the number {code}"
            ))
        })?;
        let mut error = ApiError::status(
            code,
            Reason::new(members.text("reason")?),
            members.text("message")?,
        );
        let read = |value: JsonValue<'_>, path: &Path<'_>| {
            let mut details = Members::new(value, path)?;
            Ok(Details {
                name: details.text("name")?.to_owned(),
                group: details.text("group")?.to_owned(),
                kind: details.text("kind")?.to_owned(),
                uid: details.text("uid")?.to_owned(),
                causes: details.list("causes", Cause::read)?,
                retry_after_seconds: details
                    .opt_i32("retryAfterSeconds")?
                    .and_then(|seconds| u32::try_from(seconds).ok())
                    .unwrap_or(0),
                continue_token: String::new(),
            })
        };
        let details = members.child("details", read)?;
        let has_details = details.is_some();
        let mut details = details.unwrap_or_default();
        let token = |value: JsonValue<'_>, path: &Path<'_>| {
            Ok(Members::new(value, path)?.text("continue")?.to_owned())
        };
        details.continue_token = members.child("metadata", token)?.unwrap_or_default();
        let has_details = has_details || !details.continue_token.is_empty();
        error.details = has_details.then(|| Box::new(details));
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
        let error = ApiError::status(403, Reason::Forbidden, "no new content");
        assert_eq!(ApiError::from_json(error.to_json()), Ok(error.clone()));
        assert_eq!(error.to_json().get("details"), None);
        let error = error.with_retry_after(1).with_cause(Cause {
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
    fn a_status_may_have_a_continue_token() {
        let error = ApiError::status(410, Reason::Expired, "m").with_details(Details {
            continue_token: "abc".into(),
            ..Details::default()
        });
        let json = error.to_json();
        assert_eq!(json["metadata"], json!({"continue": "abc"}));
        assert_eq!(json.get("details"), None);
        assert_eq!(ApiError::from_json(json), Ok(error));
    }

    #[test]
    fn other_objects_are_refused() {
        assert!(ApiError::from_json(json!({"kind": "Pod"})).is_err());
        let error = ApiError::from_json(json!({"code": -1})).unwrap_err();
        assert_eq!(
            error.to_string(),
            "code: expected an HTTP status code, found the number -1"
        );
    }
}
