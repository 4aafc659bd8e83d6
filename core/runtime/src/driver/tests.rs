//! Tests of the driver, with a workload that asks for two batches.

use podstorm_objects::{ApiError, Pod};

use super::*;

/// Asks for two batches of two requests.
#[derive(Debug)]
struct Twice(RateLimitingQueue<KeyId>);

#[derive(Debug, Default)]
struct State {
    requests: Vec<Request>,
    answered: Vec<usize>,
    events: Vec<EventIntent>,
    batches: usize,
}

impl SyncState for State {
    fn requests(&self) -> &[Request] {
        &self.requests
    }

    fn answer(&mut self, index: usize, _: Answer) {
        self.answered.push(index);
    }

    fn events(&mut self) -> &mut Vec<EventIntent> {
        &mut self.events
    }

    fn outcome_label(&self) -> &'static str {
        "ok"
    }
}

impl Workload for Twice {
    type Fields = ();
    type Sync = State;

    fn kind(&self) -> Kind {
        Kind::REPLICA_SET
    }

    fn name(&self, _: KeyId) -> ObjectKey {
        ObjectKey {
            namespace: "ns".into(),
            name: "a".into(),
        }
    }

    fn pod_changed(&self, _: &PodChange<()>, _: Now) {}
    fn pods_listed(&self, _: &Listed<()>, _: Now) {}

    fn queue(&self) -> &RateLimitingQueue<KeyId> {
        &self.0
    }

    fn begin(&self, _: KeyId, sync: &mut State, _: Now) -> Step {
        let read = Request::ReadVersion { kind: Kind::POD };
        *sync = State {
            requests: vec![read.clone(), read],
            ..State::default()
        };
        Step::Requests
    }

    fn resume(&self, sync: &mut State, _: Now) -> Step {
        assert_eq!(sync.answered.len(), 2, "both are answered");
        sync.answered.clear();
        sync.batches += 1;
        match sync.batches {
            2 => Step::Finished,
            _ => Step::Requests,
        }
    }

    fn finish(&self, sync: &mut State, now: Now) {
        assert_eq!(sync.batches, 2);
        self.0.done(KeyId::default(), now.mono_ns);
    }
}

fn answer() -> Answer {
    Answer::Failed(ApiError::transport("no route"))
}

#[test]
fn a_transport_that_answers_at_once_brings_a_sync_to_its_end() {
    let (workload, now) = (Twice(RateLimitingQueue::new()), Now::default());
    workload.0.add(KeyId::default(), 0);
    let mut sent = 0;
    let mut transport = |_: &Request, _: Now| {
        sent += 1;
        Answer::Pod(Pod::default().into())
    };
    let mut driver = Driver::default();
    let mut ended = 0;
    let syncs = sync_all(&workload, &mut driver, &mut transport, now, |_| ended += 1);
    assert_eq!((syncs, ended, sent), (1, 1, 4));
    assert_eq!(workload.0.len(), 0);
}

#[test]
fn answers_that_come_later_are_waited_for() {
    struct Slow(Vec<usize>);
    impl Transport for Slow {
        fn send(&mut self, index: usize, _: &Request, _: Now) -> Option<Answer> {
            self.0.push(index);
            (index == 0).then(answer)
        }
    }
    let (workload, now) = (Twice(RateLimitingQueue::new()), Now::default());
    let (mut driver, mut slow) = (Driver::default(), Slow(Vec::new()));
    let begun = driver.begin(&workload, KeyId::default(), &mut slow, now);
    assert_eq!(begun, Progress::Waiting);
    assert_eq!(driver.poll(&workload, &mut slow, now), Progress::Waiting);
    driver.answer(1, answer());
    assert_eq!(driver.poll(&workload, &mut slow, now), Progress::Waiting);
    driver.answer(1, answer());
    assert_eq!(driver.poll(&workload, &mut slow, now), Progress::Finished);
    assert_eq!(slow.0, [0, 1, 0, 1]);
}
