//! Random requests to a server, in which the checkers must find no violation.

mod wrong;

use std::sync::Arc;

use podstorm_objects::{
    AnyObject, Kind, Namespace, Now, Pod, PodPhase, ReplicaSet, ResourceVersion, Str, Time,
    WatchEvent,
};
use serde_json::json;

use super::*;
use crate::latency::Latency;
use crate::testing::{self, at};
use crate::{
    Change, Cluster, ClusterOptions, ClusterResource, DeleteOptions, History as Kept, ListOptions,
    Watch, WatchFrom, WatchOptions,
};

const SECOND: i64 = 1_000_000_000;

fn pod(name: &str, namespace: &str) -> Pod {
    testing::pod(name, json!({"metadata": {"namespace": namespace}}))
}

fn replica_set(name: &str, namespace: &str) -> ReplicaSet {
    testing::replica_set(name, json!({"metadata": {"namespace": namespace}}))
}

fn server(kept: Kept) -> (Cluster, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let cluster = Cluster::new(ClusterOptions {
        seed: 3,
        history: kept,
        keeps_past: true,
        observer: Some(recorder.clone()),
        ..ClusterOptions::default()
    });
    for name in ["a", "b"] {
        let mut namespace = Namespace::default();
        namespace.metadata.name = name.into();
        cluster.create(namespace, at(0)).unwrap();
    }
    (cluster, recorder)
}

/// Empties a terminating namespace, and finalizes it once it is empty.
fn empty_namespace(cluster: &Cluster, name: &str, now: Now) {
    let Ok(found) = cluster.get::<Namespace>("", name) else {
        return;
    };
    if !found.metadata.is_deleting() {
        return;
    }
    let mut left = 0;
    for kind in [Kind::POD, Kind::REPLICA_SET] {
        let api = cluster.api(kind);
        let deleted = api.delete_collection(Some(name), &|_| true, &DeleteOptions::default(), now);
        deleted.expect("every listed kind is served");
        let of_namespace = ListOptions {
            namespace: Some(name),
            ..ListOptions::default()
        };
        left += api.list(&of_namespace).unwrap().items.len();
    }
    if left == 0 {
        let mut free = Namespace::clone(&found);
        free.fields.insert("spec".to_owned(), json!({}));
        // Another thread may have been faster.
        drop(cluster.finalize(free, false, now));
    }
}

/// Makes one random write. Many are refused, which is intended.
fn write(cluster: &Cluster, random: &mut fastrand::Rng, now: Now) {
    let namespace = if random.bool() { "a" } else { "b" };
    let name = format!("o{}", random.u32(..8));
    match random.u32(..14) {
        0..=3 => drop(cluster.create(pod(&name, namespace), now)),
        4 => drop(cluster.create(replica_set(&name, namespace), now)),
        5 => drop(cluster.bind(namespace, &name, &Str::from("n1"), now)),
        6..=7 => {
            let options = DeleteOptions {
                grace_period_seconds: random.bool().then_some(0),
                ..DeleteOptions::default()
            };
            drop(cluster.delete::<Pod>(namespace, &name, &options, now));
        }
        8 => {
            let options = DeleteOptions::default();
            drop(cluster.delete::<ReplicaSet>(namespace, &name, &options, now));
        }
        9 => {
            cluster.collect_garbage(10, now);
            empty_namespace(cluster, "b", now);
        }
        12 => drop(cluster.set_pod_quota(namespace, random.bool().then_some(4), now)),
        13 if random.u32(..4) > 0 => {}
        13 => {
            let mut new = Namespace::default();
            new.metadata.name = "b".into();
            if cluster.create(new, now).is_err() && random.bool() {
                let options = DeleteOptions::default();
                drop(cluster.delete::<Namespace>("", "b", &options, now));
            }
        }
        10 => {
            if let Ok(found) = cluster.get::<Pod>(namespace, &name) {
                let mut new = Pod::clone(&found);
                let end = random.u32(..8) == 0;
                new.status.phase = if end {
                    PodPhase::Failed
                } else {
                    PodPhase::Running
                };
                drop(cluster.update_status(new, now));
            }
        }
        _ => {
            if let Ok(found) = cluster.get::<Pod>(namespace, &name) {
                let mut new = Pod::clone(&found);
                let value = random.u32(..3).to_string();
                new.metadata.labels = new.metadata.labels.with("tier", &value);
                new.metadata.finalizers =
                    (random.u32(..6) == 0).then(|| vec![Str::from("a.b/c")].into());
                // Some writers use a stale version.
                if random.bool() {
                    new.metadata.resource_version = ResourceVersion::Unset;
                }
                drop(cluster.update(new, now));
            }
        }
    }
}

/// Returns a past or future version, often one close to the current version or a compaction.
fn some_version(present: u64, window: &Window, random: &mut fastrand::Rng) -> u64 {
    let compacted = window.compactions.values().flatten().last();
    match (random.u32(..3), compacted) {
        (0, _) => random.u64(..=present),
        (1, Some(compacted)) => (compacted + 4).saturating_sub(random.u64(..10)),
        _ => (present + 2).saturating_sub(random.u64(..10)),
    }
}

/// The kind, the requested version, the server's version, and the error.
type Refusal = (Kind, u64, u64, podstorm_objects::ApiError);

/// A watch and the events that it has delivered.
struct Client<R: ClusterResource> {
    watch: Watch<R>,
    recorded: RecordedWatch<R>,
}

impl<R: ClusterResource> Client<R> {
    /// Opens a random watch. A refusal is checked later.
    fn open(
        cluster: &Cluster,
        window: &Window,
        random: &mut fastrand::Rng,
        refusals: &mut Vec<Refusal>,
    ) -> Option<Client<R>> {
        let version = cluster.resource_version();
        let some = some_version(version, window, random);
        let from = match random.u32(..3) {
            0 => WatchFrom::Initial,
            1 => WatchFrom::InitialAsOf(some),
            _ => WatchFrom::Version(some),
        };
        let latency = match random.u32(..3) {
            0 => Latency::ZERO,
            1 => Latency::Constant(20 * SECOND),
            _ => Latency::Uniform(0, 100 * SECOND),
        };
        let options = WatchOptions {
            latency,
            seed: random.u64(..),
            bookmark_every: random.bool().then_some(30 * SECOND),
            waker: None,
        };
        match cluster.watch::<R>(from, options) {
            Ok(watch) => Some(Client {
                watch,
                recorded: RecordedWatch::new(from, version),
            }),
            Err(error) => {
                refusals.push((R::KIND, some, version, error));
                None
            }
        }
    }

    fn poll(&mut self, cluster: &Cluster, random: &mut fastrand::Rng, now: Now) {
        match random.u32(..10) {
            0 => self.watch.request_bookmark(),
            1 => self.watch.delay_until(now.mono_ns + 50 * SECOND),
            2 => self
                .watch
                .set_latency(Latency::Constant(random.i64(0..50) * SECOND)),
            _ => {}
        }
        let most = random.usize(1..20);
        self.watch.poll(most, now, &mut self.recorded.events);
        self.recorded.polled_at = cluster.resource_version();
    }

    /// Polls until the watch has no more events.
    fn drain(&mut self, cluster: &Cluster) {
        self.watch.delay_until(i64::MIN);
        self.watch.set_latency(Latency::ZERO);
        let now = at(1_000_000);
        while self.watch.poll(100, now, &mut self.recorded.events).more {}
        let version = cluster.resource_version();
        self.recorded.polled_at = version;
        self.recorded.drained_at = if self.watch.is_ended() { 0 } else { version };
    }
}

fn expect_sound(found: Vec<Violation>, what: &str) {
    let shown: Vec<String> = found.iter().map(Violation::to_string).collect();
    assert!(shown.is_empty(), "{what}: {shown:#?}");
}

/// The namespace, items and version of a list, and the server's versions before and after the
/// request.
type List = (Option<&'static str>, Vec<Arc<Pod>>, u64, (u64, u64));

/// The recorded reads.
#[derive(Default)]
struct Reads {
    lists: Vec<List>,
    past: Vec<(Vec<Arc<Pod>>, u64)>,
    refusals: Vec<Refusal>,
    gets: Vec<(String, Option<AnyObject>, (u64, u64))>,
}

impl Reads {
    fn read(&mut self, cluster: &Cluster, window: &Window, random: &mut fastrand::Rng) {
        let before = cluster.resource_version();
        match random.u32(..3) {
            0 => {
                let namespace = random.bool().then_some("a");
                let (items, version) = cluster.list::<Pod>(namespace);
                let during = (before, cluster.resource_version());
                let version = version.number().unwrap();
                self.lists.push((namespace, items, version, during));
            }
            1 => {
                let version = some_version(before, window, random);
                match cluster.list_as_of::<Pod>(None, version) {
                    Ok((items, answered)) => {
                        assert_eq!(answered.number(), Some(version));
                        self.past.push((items, version));
                    }
                    Err(error) => self.refusals.push((Kind::POD, version, before, error)),
                }
            }
            _ => {
                let name = format!("o{}", random.u32(..8));
                let found = cluster.get::<Pod>("a", &name).ok();
                let found = found.map(|pod| -> AnyObject { pod });
                let during = (before, cluster.resource_version());
                self.gets.push((name, found, during));
            }
        }
    }

    fn check(&self, history: &History, window: &Window) {
        for (namespace, items, version, during) in &self.lists {
            let found = history.check_list(*namespace, items, *version, *during);
            expect_sound(found, "a list");
        }
        for (items, version) in &self.past {
            let found = history.check_list_as_of(None, items, *version);
            expect_sound(found, "a list at an older version");
        }
        for (name, object, during) in &self.gets {
            let key = (Kind::POD, "a", name.as_str());
            expect_sound(history.check_get(key, object.as_ref(), *during), "a read");
        }
        for (kind, version, server, error) in &self.refusals {
            let found = if *kind == Kind::POD {
                history.check_refusal::<Pod>(*version, *server, error, window)
            } else {
                history.check_refusal::<ReplicaSet>(*version, *server, error, window)
            };
            expect_sound(found, "a refusal");
        }
    }
}

/// Makes `steps` random steps and checks everything. Returns the numbers of watched events,
/// refusals and expired watches.
fn live(seed: u64, steps: u32) -> (usize, usize, usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let kept = Kept {
        min_events: random.usize(..600),
        max_events: 600 + random.usize(..600),
        ..Kept::default()
    };
    let (cluster, recorder) = server(kept);
    let mut window = Window {
        history: kept,
        ..Window::default()
    };
    let mut reads = Reads::default();
    let mut pods: Vec<Client<Pod>> = Vec::new();
    let mut sets: Vec<Client<ReplicaSet>> = Vec::new();
    for step in 0..steps {
        let now = at(i64::from(step));
        match random.u32(..400) {
            0..=1 => {
                cluster.compact::<Pod>();
                window.compacted(Kind::POD, cluster.resource_version());
            }
            2..=9 => {
                let refusals = &mut reads.refusals;
                pods.extend(Client::open(&cluster, &window, &mut random, refusals));
            }
            10..=13 => {
                let refusals = &mut reads.refusals;
                sets.extend(Client::open(&cluster, &window, &mut random, refusals));
            }
            14..=40 => reads.read(&cluster, &window, &mut random),
            41..=80 if !pods.is_empty() => {
                let chosen = random.usize(..pods.len());
                pods[chosen].poll(&cluster, &mut random, now);
            }
            81..=100 if !sets.is_empty() => {
                let chosen = random.usize(..sets.len());
                sets[chosen].poll(&cluster, &mut random, now);
            }
            _ => write(&cluster, &mut random, now),
        }
    }
    let history = recorder.history();
    expect_sound(history.check(), "the history");
    assert_eq!(history.last_version(), cluster.resource_version());
    reads.check(&history, &window);
    let (mut events, mut ended) = (0, 0);
    for client in &mut pods {
        let sofar = history.check_watch(&client.recorded, &window);
        expect_sound(sofar, "a watch in progress");
        client.drain(&cluster);
        let found = history.check_watch(&client.recorded, &window);
        expect_sound(found, "a watch");
        events += client.recorded.events.len();
        ended += usize::from(client.watch.is_ended());
    }
    for client in &mut sets {
        client.drain(&cluster);
        let found = history.check_watch(&client.recorded, &window);
        expect_sound(found, "a watch");
    }
    (events, reads.refusals.len(), ended)
}

#[test]
fn random_requests_to_the_server_violate_no_rule() {
    let (mut events, mut refusals, mut ended) = (0, 0, 0);
    for seed in 0..30 {
        let (more_events, more_refusals, more_ended) = live(seed, 4000);
        events += more_events;
        refusals += more_refusals;
        ended += more_ended;
    }
    // The run must have exercised all of these cases.
    assert!(events > 25_000, "{events} events");
    assert!(refusals > 50, "{refusals} refusals");
    assert!(ended > 5, "{ended} watches expired");
}

#[test]
fn concurrent_writes_to_the_server_violate_no_rule() {
    let (cluster, recorder) = server(Kept::default());
    let start = cluster.resource_version();
    let window = Window::default();
    std::thread::scope(|scope| {
        let cluster = &cluster;
        for thread in 0..3 {
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                for step in 0..1500 {
                    write(cluster, &mut random, at(step));
                }
            });
        }
    });
    let history = recorder.history();
    let mut client = Client {
        watch: cluster
            .watch::<Pod>(WatchFrom::Version(start), WatchOptions::default())
            .unwrap(),
        recorded: RecordedWatch::new(WatchFrom::Version(start), start),
    };
    client.drain(&cluster);
    expect_sound(history.check(), "the history");
    expect_sound(history.check_watch(&client.recorded, &window), "a watch");
}
