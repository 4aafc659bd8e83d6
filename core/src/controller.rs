//! The interface between a controller and the programs that run it.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm_runtime::driver::Workload;
use podstorm_runtime::informer::Informers;
use podstorm_runtime::limits::BURST_REPLICAS;
use podstorm_runtime::row::ControllerRow;

use crate::identity::Identity;
use crate::policy::{Behaviour, Policy};

/// A type of controller: its row and its constructor.
pub trait ControllerType: 'static {
    /// The workload that the controller manages.
    type Workload: Workload;

    /// The row of the controller.
    const ROW: &'static ControllerRow;

    /// Creates the workload. Takes its stores from the informers of the controller manager.
    fn make(setup: &Setup, informers: &mut Informers) -> Arc<Self::Workload>;
}

/// The settings that all controllers of a controller manager share.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The behaviour of the controllers, row by row.
    pub policy: Policy,
    /// The maximum number of pods that one sync creates or deletes.
    pub burst_replicas: usize,
    /// The feature gates that are set, by name. The others have the defaults of the controllers'
    /// rows.
    pub feature_gates: BTreeMap<String, bool>,
    /// The numeric options that are set, by the names of their flags. The others have the defaults
    /// of the controllers' rows.
    pub numbers: BTreeMap<&'static str, i64>,
    /// The root certificate and the token signer for the controllers of service accounts.
    pub identity: Identity,
    /// Whether the controllers continue from the state of predecessors that have just ended. They
    /// then leave out what only reports their start.
    pub goes_on: bool,
}

impl Default for Setup {
    /// Returns the settings that upstream has by default.
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
