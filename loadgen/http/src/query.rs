//! The parameters after the `?` of a request.

use std::borrow::Cow;

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

    /// A whole number; `None` when absent or empty.
    ///
    /// # Errors
    /// 400 for any other text.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, ApiError> {
        match self.text(name) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                let why = format!("strconv.ParseInt: parsing {text:?}: invalid syntax");
                errors::bad_request(why)
            }),
        }
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
/// 422 for what is no number.
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
