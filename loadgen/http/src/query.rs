//! The parameters after the `?` of a request.

use std::borrow::Cow;
use std::num::{IntErrorKind, ParseIntError};

use podstorm_apiserver::errors;
use podstorm_objects::{ApiError, Cause, ResourceVersion};

/// The parameters of a request, decoded, in the order that they were sent in.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    pub(crate) fn of(text: Option<&'a str>) -> Query<'a> {
        let pairs = form_urlencoded::parse(text.unwrap_or("").as_bytes());
        Query(pairs.collect())
    }

    /// The first value of that name; empty when there is none.
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

    /// A yes or no: absent, `false` and `0` are no.
    ///
    /// Source: `Convert_Slice_string_To_bool` of apimachinery.
    pub(crate) fn flag(&self, name: &str) -> bool {
        match self.all(name).next() {
            None => false,
            Some(value) => !(value.eq_ignore_ascii_case("false") || value == "0"),
        }
    }

    /// A whole number; `None` when absent.
    ///
    /// # Errors
    /// 400 for any other text.
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

    /// The numbers of a request for a collection, whatever it uses of them: `timeoutSeconds` and `limit`.
    ///
    /// # Errors
    /// 400 for an invalid one.
    pub(crate) fn of_collection(&self) -> Result<(Option<i64>, Option<i64>), ApiError> {
        Ok((self.number("timeoutSeconds")?, self.number("limit")?))
    }

    /// Looks at `timeout`, how long a client would wait for the answer.
    ///
    /// # Errors
    /// 400 for what is no duration.
    pub(crate) fn check_timeout(&self) -> Result<(), ApiError> {
        duration_problem(self.text("timeout")).map_or(Ok(()), |problem| {
            let why = format!("invalid timeout specified in the request URL - time: {problem}");
            Err(errors::bad_request(why))
        })
    }

    pub(crate) fn resource_version(&self) -> ResourceVersion {
        ResourceVersion::new(self.text("resourceVersion"))
    }

    /// Whether nothing is to be written: `dryRun=All`.
    ///
    /// # Errors
    /// 422 for any other value.
    pub(crate) fn dry_run(&self, options: &str) -> Result<bool, ApiError> {
        check_dry_run(self.all("dryRun"), options)
    }
}

/// Why a text is no duration, as Go says it; nothing is wrong with an empty one.
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

/// Whether all of these values of `dryRun` are `All`; none is no.
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

/// The number of a resource version that a list or a watch asks for.
///
/// # Errors
/// 422 unless the value is a number.
pub(crate) fn version_number(text: &str) -> Result<u64, ApiError> {
    text.parse().map_err(|_| {
        let message =
            format!("Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax");
        let cause = cause("resourceVersion", "FieldValueInvalid", message);
        options_invalid("ListOptions", cause)
    })
}

/// What is wrong with an option.
pub(crate) fn cause(field: &str, reason: &str, message: String) -> Cause {
    Cause {
        reason: reason.to_owned(),
        message,
        field: field.to_owned(),
    }
}

/// 422: an option of a request has a value that it can't have.
pub(crate) fn options_invalid(options: &str, cause: Cause) -> ApiError {
    errors::invalid_of((options, "meta.k8s.io"), "", vec![cause])
}
