//! Text formats: columns for the terminal, and JSON.

pub(crate) mod columns;
pub(crate) mod json;
