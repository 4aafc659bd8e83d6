//! Snapshots of a served cluster, and servers that continue from them.

use anyhow::{Context, Result};
use podstorm_http::Settings;
use podstorm_objects::Now;
use podstorm_sim::engine::{Harness, HarnessState};

use super::{Served, Simulated};

/// The state of a [`Served`], in memory. Any number of servers can continue from it. It shares
/// the objects with the cluster, so it costs one reference per object.
/// [`write_snapshot`](super::write_snapshot) writes the parts that a file can hold.
#[derive(Clone, Debug)]
pub struct Snapshot {
    state: HarnessState,
    simulated: Simulated,
    settings: Settings,
}

impl Snapshot {
    /// Returns the cluster's time.
    pub fn now(&self) -> Now {
        self.state.now()
    }

    /// Returns the cluster's last resource version.
    pub fn resource_version(&self) -> u64 {
        self.state.cluster().resource_version()
    }
}

impl Served {
    /// Takes a snapshot of the current state. On the virtual engine, everything that is due has
    /// happened. On the threads engine, the cluster keeps running, but the snapshot has all kinds
    /// at the same version. O(n log n) in the number of objects.
    ///
    /// # Errors
    /// On the threads engine, clients write thousands of objects while the snapshot is taken.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let state = self.harness.state();
        Ok(Snapshot {
            state: state.context("the cluster changes too fast for a snapshot")?,
            simulated: self.simulated.clone(),
            settings: self.api.settings().clone(),
        })
    }

    /// Starts a server that continues from a snapshot.
    ///
    /// The new server has the snapshot's objects with their UIDs, resource versions and times, the
    /// clock, and the next names and UIDs. Credentials, limits, log, seed and latencies are those
    /// of the original server. Controllers, scheduler and kubelets restart, so state that they had
    /// only in memory (back-offs, expectations, how long a node was silent) is lost. Pods that were
    /// starting or terminating have waited for as long as their objects indicate. The history for
    /// watches begins here: a watch from an older version gets a 410. No faults are armed.
    ///
    /// On the virtual engine, servers from the same snapshot that get the same requests stay
    /// identical, byte for byte. On the threads engine, the clock continues from the time of the
    /// snapshot, and the servers diverge.
    ///
    /// # Errors
    /// Fails only on a bug: the snapshot comes from a server of the same program.
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

    /// Starts a second server that continues from the current state of this one. The two are
    /// independent afterwards. The same as [`restore`](Served::restore) of a
    /// [`snapshot`](Served::snapshot) taken now.
    ///
    /// # Errors
    /// The same as [`snapshot`](Served::snapshot) and [`restore`](Served::restore).
    pub fn fork(&self) -> Result<Served> {
        Served::restore(&self.snapshot()?)
    }
}
