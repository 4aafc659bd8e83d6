//! The query parameters of a request.

use std::borrow::Cow;
use std::num::{IntErrorKind, ParseIntError};

use podstorm_apiserver::errors;
use podstorm_objects::{ApiError, Cause, ResourceVersion};

/// The decoded query parameters of a request, in the order in which they were sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    pub(crate) fn parse(text: Option<&'a str>) -> Query<'a> {
        let pairs = form_urlencoded::parse(text.unwrap_or("").as_bytes());
        Query(pairs.collect())
    }

    /// Returns the first value of a parameter, or an empty string.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.all(name).next().unwrap_or("")
    }

    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let of_name = self.0.iter().filter(move |(key, _)| key == name);
        of_name.map(|(_, value)| &**value)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }

    /// Returns a boolean parameter: false if it is absent, `false` or `0`; true otherwise.
    ///
    /// Source: `Convert_Slice_string_To_bool` of apimachinery.
    pub(crate) fn flag(&self, name: &str) -> bool {
        match self.all(name).next() {
            None => false,
            Some(value) => !(value.eq_ignore_ascii_case("false") || value == "0"),
        }
    }

    /// Returns an integer parameter, or `None` if it is absent.
    ///
    /// # Errors
    /// 400 if the value is not an integer.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.all(name).next() else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|error: ParseIntError| {
            let problem = match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            errors::bad_request(format!("strconv.ParseInt: parsing {text:?}: {problem}"))
        })
    }

    /// Returns `timeoutSeconds` and `limit` of a request for a collection. Both are checked, even
    /// if the request uses only one.
    ///
    /// # Errors
    /// 400 if either is invalid.
    pub(crate) fn of_collection(&self) -> Result<(Option<i64>, Option<i64>), ApiError> {
        Ok((self.number("timeoutSeconds")?, self.number("limit")?))
    }

    /// Checks the parameter `timeout`: how long the client would wait for the answer.
    ///
    /// # Errors
    /// 400 if the value is not a duration.
    pub(crate) fn check_timeout(&self) -> Result<(), ApiError> {
        duration_problem(self.text("timeout")).map_or(Ok(()), |problem| {
            let why = format!("invalid timeout specified in the request URL - time: {problem}");
            Err(errors::bad_request(why))
        })
    }

    pub(crate) fn resource_version(&self) -> ResourceVersion {
        ResourceVersion::new(self.text("resourceVersion"))
    }

    /// Reports whether the request is a dry run: `dryRun=All`.
    ///
    /// # Errors
    /// 422 for any other value.
    pub(crate) fn dry_run(&self, options: &str) -> Result<bool, ApiError> {
        check_dry_run(self.all("dryRun"), options)
    }
}

/// Returns Go's reason for rejecting a string as a duration; `None` if it is valid or empty.
fn duration_problem(text: &str) -> Option<String> {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if text.is_empty() || rest == "0" {
        return None;
    }
    let invalid = || Some(format!("invalid duration {text:?}"));
    if rest.is_empty() {
        return invalid();
    }
    while !rest.is_empty() {
        let number = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let fraction = number.strip_prefix('.');
        let after = fraction.map_or(number, |digits| {
            digits.trim_start_matches(|c: char| c.is_ascii_digit())
        });
        let digits = rest[..rest.len() - after.len()].trim_matches('.');
        let whole = rest[..rest.len() - number.len()].parse::<i64>();
        if digits.is_empty() || whole.is_err() && rest.len() > number.len() {
            return invalid();
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit());
        let (unit, others) = after.split_at(end.unwrap_or(after.len()));
        match unit {
            "" => return Some(format!("missing unit in duration {text:?}")),
            "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h" => rest = others,
            unknown => return Some(format!("unknown unit {unknown:?} in duration {text:?}")),
        }
    }
    None
}

/// Reports whether `dryRun` has values; all of them must be `All`.
///
/// # Errors
/// 422 for any other value.
pub(crate) fn check_dry_run<'v>(
    values: impl Iterator<Item = &'v str>,
    options: &str,
) -> Result<bool, ApiError> {
    let mut dry_run = false;
    for value in values {
        if value != "All" {
            let message = format!("Unsupported value: [{value:?}]: supported values: \"All\"");
            let cause = cause("dryRun", "FieldValueNotSupported", message);
            return Err(options_invalid(options, cause));
        }
        dry_run = true;
    }
    Ok(dry_run)
}

/// Parses the `resourceVersion` of a list or a watch.
///
/// # Errors
/// 422 if the string is not a number.
pub(crate) fn version_number(text: &str) -> Result<u64, ApiError> {
    text.parse().map_err(|_| {
        let message =
            format!("Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax");
        let cause = cause("resourceVersion", "FieldValueInvalid", message);
        options_invalid("ListOptions", cause)
    })
}

/// Returns the cause of an error about a request option.
pub(crate) fn cause(field: &str, reason: &str, message: String) -> Cause {
    Cause {
        reason: reason.to_owned(),
        message,
        field: field.to_owned(),
    }
}

/// Returns a 422: an option of the request is invalid.
pub(crate) fn options_invalid(options: &str, cause: Cause) -> ApiError {
    errors::invalid_of(options, "meta.k8s.io", "", vec![cause])
}
