//! A simulated Kubernetes cluster with real controllers: podstorm's workload controllers and the
//! API server [`podstorm_apiserver`] in one process. It runs on virtual time (one seed gives one
//! run) or on real threads.
//!
//! A [`Harness`](engine::Harness) is a running cluster: API server, scheduler, kubelets, garbage
//! collector and the controllers that its options select. A test writes objects to the cluster and
//! waits for the result:
//!
//! ```
//! use podstorm_objects::{Namespace, Node, Pod, ReplicaSet, Resource};
//! use podstorm_sim::engine::Harness;
//! use podstorm_sim::options::{EngineKind, SimOptions};
//! use serde_json::json;
//!
//! let mut harness = Harness::new(&SimOptions::new(EngineKind::Virtual, 1));
//! let (cluster, now) = (harness.cluster().clone(), harness.now());
//! cluster.create(Namespace::from_json(json!({"metadata": {"name": "shop"}}))?, now)?;
//! cluster.create(Node::from_json(json!({"metadata": {"name": "node-1"}}))?, now)?;
//! let replica_set = json!({
//!     "metadata": {"name": "web", "namespace": "shop"},
//!     "spec": {
//!         "replicas": 3,
//!         "selector": {"matchLabels": {"app": "web"}},
//!         "template": {
//!             "metadata": {"labels": {"app": "web"}},
//!             "spec": {"containers": [{"name": "app", "image": "shop/web:1"}]},
//!         },
//!     },
//! });
//! cluster.create(ReplicaSet::from_json(replica_set)?, now)?;
//!
//! let second_ns = 1_000_000_000;
//! assert!(harness.until(60 * second_ns, |cluster| {
//!     let (pods, _) = cluster.list::<Pod>(Some("shop"));
//!     pods.len() == 3 && pods.iter().all(|pod| pod.is_ready())
//! }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`FaultHarness`](engine::fault_harness::FaultHarness) is the same cluster with fault injection:
//! a test can disturb, kill and restart its controller managers.
//!
//! # Modules
//!
//! * [`options`]: the options of a simulated cluster;
//! * [`rows`]: the controllers that this process can run; flags, gates, settings, schemas and watch
//!   names are derived from them. [`services`]: the selection of controllers that run;
//! * [`engine`]: builds a cluster and runs it: informers, workers with their transport, Events;
//! * [`executor`]: runs tasks on virtual time or on threads;
//! * [`due_queue`]: items ordered by due time;
//! * [`nodes`]: the simulated scheduler, kubelets and node controller;
//! * [`provisioner`], [`load_balancers`]: the simulated volume provisioner and the simulated cloud
//!   for Services, both API clients with their own rows;
//! * [`faults`]: faults between a controller and its cluster;
//! * [`clock`]: the only module that reads a real clock.

pub mod clock;
pub mod due_queue;
pub mod engine;
pub mod executor;
pub mod faults;
pub mod load_balancers;
pub mod nodes;
pub mod options;
pub mod provisioner;
pub mod rows;
pub mod services;

use std::sync::{Mutex, MutexGuard};

/// Locks a mutex of the simulation.
///
/// # Panics
/// If a thread panicked while it held the lock.
#[inline]
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .expect("no thread panics while it holds this lock")
}
