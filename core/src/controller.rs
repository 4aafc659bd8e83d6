//! What a controller brings for the programs that run it.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm_runtime::driver::Workload;
use podstorm_runtime::informer::Informers;
use podstorm_runtime::limits::BURST_REPLICAS;
use podstorm_runtime::row::ControllerRow;

use crate::identity::Identity;
use crate::policy::{Behaviour, Policy};

/// A controller that is a workload: its row, and how it is made.
pub trait ControllerType: 'static {
    /// The controller.
    type Workload: Workload;

    /// What it is.
    const ROW: &'static ControllerRow;

    /// Makes it over the informers of its controller manager.
    fn make(setup: &Setup, informers: &mut Informers) -> Arc<Self::Workload>;
}

/// What all controllers of a controller manager are made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The rows of the controllers' behaviour.
    pub policy: Policy,
    /// The most pods that one sync creates or deletes.
    pub burst_replicas: usize,
    /// The feature gates that are set, by their names. The others are as their rows say.
    pub feature_gates: BTreeMap<String, bool>,
    /// The numbers that are set, by the names of their flags. The others are as their rows say.
    pub numbers: BTreeMap<&'static str, i64>,
    /// What controllers of service accounts give namespaces and Secrets.
    pub identity: Identity,
    /// Whether the controllers go on from the state of others that have ended a moment ago. They leave out what only says
    /// that they have started.
    pub goes_on: bool,
}

impl Default for Setup {
    /// Upstream's.
    fn default() -> Setup {
        Setup {
            policy: Behaviour::Upstream.policy(),
            burst_replicas: BURST_REPLICAS,
            feature_gates: BTreeMap::new(),
            numbers: BTreeMap::new(),
            identity: Identity::default(),
            goes_on: false,
        }
    }
}
