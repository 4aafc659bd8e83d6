//! The blocks of a PEM file.
//!
//! Source: RFC 7468.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::KeyError;

/// The type of the block that names the curve of the next key. The key itself names the curve, too.
const PARAMETERS: &str = "EC PARAMETERS";

/// A block of a PEM file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// The type, e.g. `PRIVATE KEY`.
    pub(super) label: String,
    /// The content.
    pub(super) bytes: Vec<u8>,
}

/// Returns the blocks of a file, except EC parameters. Text around blocks is ignored.
///
/// # Errors
/// Fails if a block has no end, or is not valid base64.
pub(super) fn blocks(text: &str) -> Result<Vec<Block>, KeyError> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let label = line.strip_prefix("-----BEGIN ");
        let Some(label) = label.and_then(|rest| rest.strip_suffix("-----")) else {
            continue;
        };
        let damaged = || KeyError::BadBlock(label.to_owned());
        let end = format!("-----END {label}-----");
        let mut body = String::new();
        loop {
            match lines.next().ok_or_else(damaged)? {
                line if line == end => break,
                line => body.push_str(line),
            }
        }
        let bytes = BASE64_STANDARD.decode(body).map_err(|_| damaged())?;
        if label != PARAMETERS {
            blocks.push(Block {
                label: label.to_owned(),
                bytes,
            });
        }
    }
    Ok(blocks)
}
