//! `--service-account-signing-key-file` and `--service-account-key-file`: the keys of service
//! account tokens.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use podstorm_http::{PublicKey, TokenKey};

/// Reads the key that signs tokens from a file, or creates one, and adds the keys of further files,
/// whose tokens are also accepted. Returns `None` if no file is given.
///
/// # Errors
/// A file can't be read or contains no usable key (the error names the flag), or the system has no
/// random numbers for a new key.
pub fn read_token_key(
    signing: Option<&PathBuf>,
    verifying: &[PathBuf],
) -> Result<Option<TokenKey>> {
    let key = match signing {
        Some(path) => read("--service-account-signing-key-file", path, TokenKey::read)?,
        None if verifying.is_empty() => return Ok(None),
        None => TokenKey::new().context("service account tokens")?,
    };
    let mut believed = Vec::new();
    for path in verifying {
        believed.extend(read(
            "--service-account-key-file",
            path,
            PublicKey::read_all,
        )?);
    }
    Ok(Some(key.believing(believed)))
}

fn read<T, E: std::error::Error + Send + Sync + 'static>(
    flag: &str,
    path: &Path,
    key: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T> {
    let named = || format!("{flag} {}", path.display());
    let text = fs::read_to_string(path).with_context(named)?;
    key(&text).with_context(named)
}
