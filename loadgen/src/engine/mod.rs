//! Being written.

use std::sync::atomic::AtomicBool;

use crate::input::InputObject;
use crate::result::RunResult;
use crate::settings::Settings;

/// Sees how a run gets on.
pub trait Observer: Sync {
    /// Called a few times a second of real time.
    fn progress(&self, progress: &Progress<'_>);
}

/// How far a run has got.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The phase's name.
    pub phase: &'a str,
    /// Its number, from 0.
    pub phase_index: usize,
    /// How many there are.
    pub phase_count: usize,
    /// Pods of the phase's target reached.
    pub done: u64,
    /// Pods of the phase's target.
    pub total: u64,
    /// Pods that exist.
    pub pods: u64,
    /// Keys waiting.
    pub queue_depth: usize,
    /// Engine time.
    pub engine_seconds: f64,
}

/// A run that could not be made.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RunError(pub String);

/// Being written.
///
/// # Errors
/// Always.
pub fn run(
    _settings: &Settings,
    _objects: Vec<InputObject>,
    _observer: &dyn Observer,
    _cancel: &AtomicBool,
) -> Result<RunResult, RunError> {
    Err(RunError("the engine is being written".into()))
}
