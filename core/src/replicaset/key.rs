//! Work items as strings: `namespace/name`.

/// The error for a work item that is not a valid key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unexpected key format: {0:?}")]
pub struct KeyError(String);

/// Splits a key into namespace and name. The namespace of a key without a slash is empty.
///
/// # Errors
/// Fails if the key has more than one slash.
pub fn parse_key(key: &str) -> Result<(&str, &str), KeyError> {
    match key.split_once('/') {
        None => Ok(("", key)),
        Some((namespace, name)) if !name.contains('/') => Ok((namespace, name)),
        Some(_) => Err(KeyError(key.to_owned())),
    }
}
