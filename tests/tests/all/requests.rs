//! Requests over every transport: each has its effect and its answer, or the right error.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug, Formatter};
use std::pin::Pin;
use std::sync::{Arc, Mutex, Once, OnceLock};

use podstorm::client::{Answer, Request};
use podstorm::controller::Setup;
use podstorm::driver::{AsyncWorkload, Calls, Steps, join_all};
use podstorm::informer::{Handler, Informers};
use podstorm::intern::{KeyId, ObjectKey};
use podstorm::object::{AnyObject, Kind, Now};
use podstorm::row::ControllerRow;
use podstorm::store::Change;
use podstorm::workqueue::{End, RateLimitingQueue};
use podstorm_apiserver::latency::Latency;
use podstorm_apiserver::{Cluster, ClusterOptions};
use podstorm_sim::engine::client::{ApiCalls, Client, RequestInfo};
use podstorm_sim::engine::fault_harness::{FaultHarness, Stopped};
use podstorm_sim::engine::observer::NoopObserver;
use podstorm_sim::engine::registry::Registry;
use podstorm_sim::faults::{ApiFault, Armed, Call, Effect};
use podstorm_sim::options::{EngineKind, SimOptions};
use podstorm_sim::services::Controllers;
use podstorm_tests::requests::{SORTS, Sample, changes, furnish, samples, sort, state, words};

const NOW: Now = Now {
    mono_ns: 0,
    wall_ns: 1_767_225_600_000_000_000,
};
const SECOND: i64 = 1_000_000_000;

fn furnished() -> Arc<Cluster> {
    let cluster = Arc::new(Cluster::new(ClusterOptions::default()));
    furnish(&cluster, NOW);
    cluster
}

#[test]
fn there_is_a_sample_of_every_kind_of_request() {
    let samples = samples(&furnished());
    let sorts: BTreeSet<usize> = samples.iter().map(|it| sort(&it.request)).collect();
    assert_eq!(sorts, (0..SORTS).collect());
    let calls: BTreeSet<Call> = samples
        .iter()
        .map(|it| Call::from_request(&it.request))
        .collect();
    let mut all = BTreeSet::from(Call::ALL);
    // Not a request of a sync.
    all.remove(&Call::WriteEvent);
    assert_eq!(calls, all, "a fault can strike each call");
}

#[test]
fn the_client_executes_and_counts_each_request() {
    let cluster = furnished();
    let client = Client::new(cluster.clone(), None);
    let mut calls = ApiCalls::default();
    let mut expected = BTreeMap::new();
    for sample in samples(&cluster) {
        let Sample { request, .. } = &sample;
        assert_eq!(RequestInfo::from_request(request).to_string(), sample.info);
        let before = state(&cluster);
        let answer = client.carry_out(request, &mut calls, NOW);
        assert_eq!(words(&answer), sample.answer, "{request:?}");
        assert_eq!(
            changes(&before, &state(&cluster)),
            sample.effect,
            "{request:?}"
        );
        let code = match (&answer, sample.info.starts_with("create")) {
            (Answer::Failed(error), _) => error.code,
            (_, true) => 201,
            (_, false) => 200,
        };
        *expected
            .entry(format!("{} {code}", sample.info))
            .or_insert(0) += 1;
    }
    let mut counted = BTreeMap::new();
    calls.add_to(&mut counted);
    assert_eq!(counted, expected);
}

/// A workload with one key. Its sync runs these steps once, when the namespaces are known.
struct Asks {
    known: Once,
    queue: RateLimitingQueue<KeyId>,
    steps: BoxedSteps,
}

type BoxedSteps = Arc<dyn Fn(Calls) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

impl Debug for Asks {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asks").finish_non_exhaustive()
    }
}

impl Handler<AnyObject> for Asks {
    fn handle(&self, _: &Change<AnyObject>, now: Now) {
        self.known.call_once(|| {
            self.queue.add(KeyId::default(), now.mono_ns);
        });
    }
}

impl AsyncWorkload for Asks {
    fn name(&self, _: usize, _: KeyId) -> ObjectKey {
        ObjectKey {
            namespace: "".into(),
            name: "shop".into(),
        }
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        std::slice::from_ref(&self.queue)
    }

    fn steps(&self, _: usize, _: KeyId, calls: Calls) -> impl Steps {
        let steps = (self.steps)(calls);
        async move {
            steps.await;
            Ok(End::Forget)
        }
    }
}

static ROW: ControllerRow = ControllerRow {
    name: "asks",
    component: "asks",
    kind: Some(Kind::NAMESPACE),
    ..ControllerRow::DEFAULT
};

/// The steps of the next sync.
type Plan = Arc<OnceLock<BoxedSteps>>;

/// Returns a populated cluster whose API calls take `latency`, and the plan of its sync.
fn site(latency: Latency) -> (FaultHarness, Plan) {
    let plan = Plan::default();
    let steps = Arc::clone(&plan);
    let make = move |_: &Setup, informers: &mut Informers| {
        let asks = Arc::new(Asks {
            known: Once::new(),
            queue: RateLimitingQueue::new(),
            steps: steps.get().expect("a plan").clone(),
        });
        informers.store::<AnyObject>(Kind::NAMESPACE, || ());
        informers.add_handler::<AnyObject>(Kind::NAMESPACE, asks.clone());
        asks
    };
    let registry = Registry::upstream().with_row(&ROW, make);
    let mut options = SimOptions::new(EngineKind::Virtual, 1);
    options.latency.api = latency;
    let kinds = [Kind::REPLICA_SET, Kind::NAMESPACE];
    options.services.controllers = Controllers::of_kinds(&registry.rows(), &kinds);
    let mut site = FaultHarness::new(&options, ClusterOptions::default(), Arc::new(NoopObserver));
    site.set_registry(&registry);
    furnish(site.cluster(), site.now());
    (site, plan)
}

/// Runs a sync with these steps to its end.
fn run((site, plan): &mut (FaultHarness, Plan), steps: BoxedSteps) {
    assert!(plan.set(steps).is_ok(), "each site runs one plan");
    site.start_manager();
    assert_eq!(site.advance(60 * SECOND, || false), Stopped::AtEnd);
}

/// Sends all requests in one sync over a worker's transport, half of them as a batch and the others
/// each in its own sequence. `effect` strikes each request. Returns the samples, the answers as
/// text, and the changes.
fn sent(effect: Option<Effect>, latency: Latency) -> (Vec<Sample>, Vec<String>, Vec<String>) {
    let mut site = site(latency);
    let cluster = Arc::clone(site.0.cluster());
    let samples = samples(&cluster);
    let before = state(&cluster);
    if let Some(effect) = effect {
        let times = u32::try_from(samples.len()).expect("a small number");
        for call in Call::ALL {
            site.0
                .network()
                .arm(Armed::new(&[call], effect.clone(), times));
        }
    }
    let answers = Arc::new(Mutex::new(Vec::new()));
    let out = answers.clone();
    let requests: Vec<Request> = samples.iter().map(|it| it.request.clone()).collect();
    let steps = move |calls: Calls| -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (requests, out) = (requests.clone(), out.clone());
        Box::pin(async move {
            let (batch, single) = requests.split_at(requests.len() / 2);
            let single = single.iter().map(|request| calls.request(request.clone()));
            let mut answers = calls.batch(batch.to_vec()).await;
            answers.extend(join_all(single).await);
            *out.lock().expect("no thread panics") = answers;
        })
    };
    run(&mut site, Arc::new(steps));
    let changes = changes(&before, &state(&cluster));
    let answers = answers.lock().expect("no thread panics");
    (samples, answers.iter().map(words).collect(), changes)
}

/// As with upstream's goroutines, a sequence does not wait for a slower concurrent one.
#[test]
fn concurrent_sequences_do_not_wait_for_each_other() {
    let mut site = site(Latency::Constant(10_000_000));
    let slow = Armed::new(&[Call::ReadOther], Effect::Slow { by_ms: 500 }, 1);
    site.0.network().arm(slow);
    let cluster = Arc::clone(site.0.cluster());
    let request = move |info| {
        let samples = samples(&cluster).into_iter();
        let mut found = samples.filter(|it| it.info == info);
        found.next().expect("a sample").request
    };
    let (list, get) = (request("list pods"), request("get configmaps"));
    let times = Arc::new(Mutex::new(Vec::new()));
    let out = times.clone();
    let steps = move |calls: Calls| -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let sequences = [vec![list.clone()], vec![get.clone(); 3]];
        let out = out.clone();
        Box::pin(async move {
            let begun_ns = calls.now().mono_ns;
            let calls = &calls;
            let sequences = sequences.into_iter().map(async |requests| {
                for request in requests {
                    let verb = RequestInfo::from_request(&request).verb;
                    let _answer = calls.request(request).await;
                    let ms = (calls.now().mono_ns - begun_ns) / 1_000_000;
                    out.lock().expect("no thread panics").push((verb, ms));
                }
            });
            join_all(sequences).await;
        })
    };
    run(&mut site, Arc::new(steps));
    let times = times.lock().expect("no thread panics").clone();
    assert_eq!(
        times,
        [("get", 10), ("get", 20), ("get", 30), ("list", 1_010)]
    );
}

fn expected(samples: &[Sample]) -> (Vec<String>, Vec<String>) {
    let answers = samples.iter().map(|it| it.answer.to_owned()).collect();
    let mut effects: Vec<String> = Vec::new();
    for sample in samples {
        effects.extend(sample.effect.iter().map(|&effect| effect.to_owned()));
    }
    effects.sort();
    (answers, effects)
}

#[test]
fn a_worker_sends_requests_with_and_without_latency() {
    let late = Latency::Constant(5_000_000);
    for (effect, latency) in [
        (None, Latency::ZERO),
        (None, late),
        (Some(Effect::Slow { by_ms: 300 }), late),
    ] {
        let (samples, answers, changes) = sent(effect.clone(), latency);
        let (expected_answers, effects) = expected(&samples);
        assert_eq!(answers, expected_answers, "{effect:?}");
        assert_eq!(changes, effects, "{effect:?}");
    }
}

#[test]
fn every_fault_of_the_network_strikes_requests() {
    let late = Latency::Constant(5_000_000);
    let lost = ApiFault::Timeout;
    let unheard = |after_ms| Effect::CommitLate {
        answer: lost,
        after_ms,
    };
    for (effect, answer, is_carried_out) in [
        (
            Effect::Refuse(ApiFault::Unavailable),
            "503 ServiceUnavailable",
            false,
        ),
        (Effect::NeverArrives { after_ms: 500 }, "0 ", false),
        (Effect::LoseAnswer(lost), "0 ", true),
        (unheard(700), "0 ", true),
    ] {
        let (samples, answers, changes) = sent(Some(effect.clone()), late);
        let (_, effects) = expected(&samples);
        assert_eq!(answers, vec![answer; samples.len()], "{effect:?}");
        let effects = if is_carried_out { effects } else { Vec::new() };
        assert_eq!(changes, effects, "{effect:?}");
    }
    // The second execution finds the effect of the first.
    let (samples, answers, changes) = sent(Some(Effect::Twice), late);
    let (once, effects) = expected(&samples);
    assert_eq!(changes, effects);
    for (sample, (answer, once)) in samples.iter().zip(answers.iter().zip(&once)) {
        let again = ["404 NotFound", "409 AlreadyExists", "409 Conflict"];
        let is_right = answer == once || again.contains(&answer.as_str());
        assert!(is_right, "{answer} to {:?}", sample.request);
    }
    // A webhook changes only pods that are created.
    let (samples, answers, changes) = sent(Some(Effect::StripLabels), late);
    assert_eq!((answers, changes), expected(&samples));
}
