//! Being written.

pub mod defaulting;
pub mod validation;
