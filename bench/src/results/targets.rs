//! The targets.
