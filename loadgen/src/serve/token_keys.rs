//! `--service-account-signing-key-file` and `--service-account-key-file`: the keys of the tokens of service accounts.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use podstorm_http::{PublicKey, TokenKey};

/// The key that signs tokens, from a file or new, with the keys of other files whose tokens it believes. `None` where no
/// file is named.
///
/// # Errors
/// A file that can't be read, or that has no usable key, with the name of its flag; no random numbers for a new key.
pub fn read_token_key(
    signing: Option<&PathBuf>,
    verifying: &[PathBuf],
) -> Result<Option<TokenKey>> {
    let key = match signing {
        Some(path) => read("--service-account-signing-key-file", path, TokenKey::read)?,
        None if verifying.is_empty() => return Ok(None),
        None => TokenKey::new().context("tokens of service accounts")?,
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
