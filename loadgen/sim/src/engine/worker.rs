//! Controller workers: each part is one concurrent sync. A worker takes a key and drives its sync over its
//! `Connection` until it is done.
//!
//! A worker with nothing to do lists itself as idle; whoever adds keys wakes as many idle workers as
//! there are keys.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use podstorm::driver::{Driver, Progress, SyncState, Workload};
use podstorm::intern::KeyId;
use podstorm::replicaset::Controller;
use podstorm_objects::Now;
use smallvec::SmallVec;

use super::by_phase::Recorder;
use super::client::{ApiCalls, Trip};
use super::connection::{Connection, Travel};
use super::pool::Pool;
use crate::executor::{Next, Part, PartId};
use crate::faults::CrashPoint;

/// A run ends after that many syncs…
const SYNCS_PER_RUN: u32 = 16;

/// …or after the sync with which it has carried out that many requests.
const REQUESTS_PER_RUN: u32 = 64;

/// One concurrent sync.
#[derive(Debug)]
pub struct Worker<W: Workload = Controller> {
    id: PartId,
    pool: Arc<Pool<W>>,
    driver: Driver<W::Sync>,
    connection: Connection<W>,
    /// Whether a sync is under way.
    busy: bool,
    begun_at: Now,
    /// What it counts.
    pub tally: Tally,
    /// What it measures.
    pub recorder: Recorder,
}

/// What a worker counts.
#[derive(Debug, Default)]
pub struct Tally {
    /// Syncs by how they ended, in the words of [`SyncState::outcome_label`].
    pub syncs: SmallVec<[(&'static str, u64); 8]>,
    /// Syncs that asked for nothing.
    pub syncs_without_requests: u64,
}

impl Tally {
    fn count(&mut self, outcome: &'static str) {
        match self.syncs.iter_mut().find(|(known, _)| *known == outcome) {
            Some((_, count)) => *count += 1,
            None => self.syncs.push((outcome, 1)),
        }
    }
}

impl<W: Workload> Worker<W> {
    pub(crate) fn new(id: PartId, pool: Arc<Pool<W>>, trip: Trip) -> Worker<W> {
        let recorder = Recorder::new(Arc::clone(&pool.times), Arc::clone(&pool.recorded));
        Worker {
            id,
            recorder,
            connection: Connection::new(Arc::clone(&pool), trip),
            pool,
            driver: Driver::default(),
            busy: false,
            begun_at: Now::default(),
            tally: Tally::default(),
        }
    }

    /// Its API calls.
    pub fn calls(&self) -> &ApiCalls {
        &self.connection.calls
    }

    fn begin(&mut self, key: KeyId, now: Now) -> Progress {
        let pool = &self.pool;
        let present = pool.present(now);
        self.busy = true;
        self.begun_at = present;
        // Release: see `Pool::rests_after`.
        let number = pool.begun.fetch_add(1, Ordering::Release) + 1;
        self.connection.begin(key, number);
        if let (Some(wire), Some(sync)) = (&pool.wire, self.connection.sync_id()) {
            wire.probe.sync_begins(sync, &pool.controller, key, present);
        }
        let own = pool.own_clock(present);
        let sent_at = &mut self.connection.at(now);
        self.driver.begin(&*pool.controller, key, sent_at, own)
    }

    fn resume(&mut self, now: Now) -> Progress {
        let own = self.pool.own_clock(now);
        let sent_at = &mut self.connection.at(now);
        self.driver.poll(&*self.pool.controller, sent_at, own)
    }

    /// Moves what travels and hands answers over; the next moment at which something happens, if the
    /// sync waits for one.
    fn travel(&mut self, now: Now) -> Option<i64> {
        loop {
            match self.connection.travel(self.driver.sync.requests(), now) {
                Travel::Over => return None,
                Travel::Until(due_ns) => return Some(due_ns),
                Travel::Answered(index, answer) => {
                    self.driver.answer(index, answer);
                    if self.pool.dies_at(CrashPoint::AfterAnswer) {
                        return None;
                    }
                }
            }
        }
    }

    fn finish(&mut self, now: Now) {
        let now = self.pool.present(now);
        let pool = &*self.pool;
        self.busy = false;
        let events = self.driver.sync.events();
        if !events.is_empty() {
            pool.events.offer(events.drain(..), now);
        }
        self.tally.count(self.driver.sync.outcome_label());
        let asked_nothing = self.connection.asked == 0;
        self.tally.syncs_without_requests += u64::from(asked_nothing);
        let begun_ns = self.begun_at.mono_ns;
        let took_ns = u64::try_from(now.mono_ns - begun_ns).unwrap_or(0);
        self.recorder.worked(begun_ns, took_ns, asked_nothing);
        if let (Some(wire), Some(sync)) = (&pool.wire, self.connection.sync_id()) {
            let (workload, state) = (&*pool.controller, &self.driver.sync);
            wire.probe.sync_ended(sync, workload, state, now);
        }
        pool.controller
            .finish(&mut self.driver.sync, pool.own_clock(now));
        // Release: see `Pool::rests_after`.
        pool.finished.fetch_add(1, Ordering::Release);
        pool.keys_added(now);
    }
}

/// A worker of whatever workload, whose controller has died.
pub(super) trait Abandon: Send {
    /// Lets what is on its way to the server go on alone.
    fn abandon(&mut self);
}

impl<W: Workload> Abandon for Worker<W> {
    fn abandon(&mut self) {
        self.connection.abandon(self.driver.sync.requests());
    }
}

impl<W: Workload> Part for Worker<W> {
    fn run(&mut self, now: Now) -> Next {
        let pool = Arc::clone(&self.pool);
        if let Some(until_ns) = pool.stopped_until(now) {
            return Next::not_before(until_ns);
        }
        let (mut syncs, carried_out) = (0, self.connection.carried_out);
        loop {
            let progress = if self.busy {
                if let Some(due_ns) = self.travel(now) {
                    return Next::At(due_ns);
                }
                if pool.is_dead() {
                    return Next::Idle;
                }
                self.resume(now)
            } else {
                let requests = self.connection.carried_out.wrapping_sub(carried_out);
                if syncs >= SYNCS_PER_RUN || requests >= REQUESTS_PER_RUN {
                    return Next::Again;
                }
                let Some((key, waited_ns)) = pool.take(now) else {
                    pool.list_idle(self.id);
                    pool.keys_added(now);
                    return Next::Idle;
                };
                if pool.dies_at(CrashPoint::AfterTake) {
                    return Next::Idle;
                }
                syncs += 1;
                self.recorder.taken(waited_ns, now.mono_ns);
                self.begin(key, now)
            };
            if progress == Progress::Finished {
                self.finish(now);
            }
            if pool.is_dead() {
                return Next::Idle;
            }
        }
    }
}
