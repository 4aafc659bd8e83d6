//! The state of a served cluster as a value, and servers that go on from it.

use anyhow::{Context, Result};
use podstorm_http::Settings;
use podstorm_objects::Now;
use podstorm_sim::engine::{Harness, HarnessState};

use super::{Served, Simulated};

/// The state of a [`Served`], in memory: any number of servers go on from it. It shares the objects with the cluster,
/// so it takes a reference for each. [`write_snapshot`](super::write_snapshot) writes what a file keeps.
#[derive(Clone, Debug)]
pub struct Snapshot {
    state: HarnessState,
    simulated: Simulated,
    settings: Settings,
}

impl Snapshot {
    /// The time of the cluster.
    pub fn now(&self) -> Now {
        self.state.now()
    }

    /// The last version of the cluster.
    pub fn resource_version(&self) -> u64 {
        self.state.cluster().resource_version()
    }
}

impl Served {
    /// The state as of now. On the virtual engine everything that is due has happened. On the threads engine the
    /// cluster goes on meanwhile; all kinds are as of one version. O(n log n) in the number of objects.
    ///
    /// # Errors
    /// On the threads engine, where clients write thousands of objects while the state is taken.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let state = self.harness.state();
        Ok(Snapshot {
            state: state.context("the cluster changes too fast to be looked at")?,
            simulated: self.simulated.clone(),
            settings: self.api.settings().clone(),
        })
    }

    /// A server that goes on from a state.
    ///
    /// It has the objects with their UIDs, resource versions and times, the clock, and the names and UIDs that come
    /// next; credentials, limits and log are those of the server that the state is of, and so are its seed
    /// and its latencies. Controllers, scheduler and kubelets restart: what they had only in
    /// memory (back-offs, expectations, how long a node was silent) is gone. Pods that were starting or ending
    /// have waited for as long as their objects say. The history of watches begins here: one from an older
    /// version gets 410. No fault is armed.
    ///
    /// On the virtual engine servers of one state that are treated alike stay the same, byte for byte. On the threads
    /// engine the clock goes on from the moment of the state, and each takes its own way.
    ///
    /// # Errors
    /// Fails only on a bug: the state comes from a server of the same program.
    pub fn restore(snapshot: &Snapshot) -> Result<Served> {
        let simulated = snapshot.simulated.clone();
        let harness = Harness::resuming(
            &simulated.sim,
            simulated.node_times,
            simulated.rules.clone(),
            &snapshot.state,
        )?;
        let settings = snapshot.settings.clone();
        Ok(Served::over(harness, simulated, |api| {
            api.settings(settings)
        }))
    }

    /// A second server that goes on from the state of this one; nothing that happens in one reaches the other. As
    /// [`restore`](Served::restore) of a [`snapshot`](Served::snapshot) of now.
    ///
    /// # Errors
    /// As there.
    pub fn fork(&self) -> Result<Served> {
        Served::restore(&self.snapshot()?)
    }
}
