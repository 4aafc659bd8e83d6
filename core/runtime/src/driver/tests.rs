//! Tests of the driver, with a workload that requests two batches.

use podstorm_objects::{ApiError, Kind, Pod};

use super::*;

/// Requests two batches of two requests each.
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

    fn end(&self) -> End {
        assert_eq!(self.batches, 2);
        End::Forget
    }
}

/// The methods of a workload without objects that no test here uses.
macro_rules! of_no_objects {
    () => {
        fn name(&self, _: usize, _: KeyId) -> ObjectKey {
            ObjectKey {
                namespace: "ns".into(),
                name: "a".into(),
            }
        }

        fn pod_changed(&self, _: &PodChange, _: Now) {}
        fn pods_listed(&self, _: &Listed, _: Now) {}
    };
}

impl Workload for Twice {
    of_no_objects!();

    type Sync = State;

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        std::slice::from_ref(&self.0)
    }

    fn begin(&self, _: usize, _: KeyId, sync: &mut State, _: Now) -> Step {
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
}

fn answer() -> Answer {
    Answer::Failed(ApiError::transport("no route"))
}

#[test]
fn an_immediate_transport_drives_a_sync_to_its_end() {
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
fn a_sync_waits_for_answers_that_come_later() {
    struct Slow(Vec<usize>);
    impl Transport for Slow {
        fn send(&mut self, index: usize, _: &Request, _: Now) -> Option<Answer> {
            self.0.push(index);
            (index == 0).then(answer)
        }
    }
    let (workload, now) = (Twice(RateLimitingQueue::new()), Now::default());
    let (mut driver, mut slow) = (Driver::default(), Slow(Vec::new()));
    let begun = driver.begin(&workload, 0, KeyId::default(), &mut slow, now);
    assert_eq!(begun, Progress::Waiting);
    assert_eq!(driver.poll(&workload, &mut slow, now), Progress::Waiting);
    driver.answer(1, answer());
    assert_eq!(driver.poll(&workload, &mut slow, now), Progress::Waiting);
    driver.answer(1, answer());
    assert_eq!(driver.poll(&workload, &mut slow, now), Progress::Finished);
    assert_eq!(slow.0, [0, 1, 0, 1]);
}

/// Makes two sequences of requests side by side.
#[derive(Debug)]
struct SideBySide(RateLimitingQueue<KeyId>);

impl Workload for SideBySide {
    of_no_objects!();

    type Sync = AsyncSync;

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        std::slice::from_ref(&self.0)
    }

    fn begin(&self, _: usize, key: KeyId, sync: &mut AsyncSync, now: Now) -> Step {
        sync.begin(key, now, |calls| async move {
            let sequence = async |length: usize| {
                for _ in 0..length {
                    calls
                        .request(Request::ReadVersion { kind: Kind::POD })
                        .await;
                }
            };
            join_all([sequence(1), sequence(3)]).await;
            Ok(End::Forget)
        })
    }

    fn resume(&self, sync: &mut AsyncSync, now: Now) -> Step {
        sync.resume(now)
    }
}

/// Records the requests that it sends. Answers those with certain indices immediately.
struct Noting {
    at_once: Vec<usize>,
    sent: Vec<usize>,
}

impl Transport for Noting {
    fn send(&mut self, index: usize, _: &Request, _: Now) -> Option<Answer> {
        self.sent.push(index);
        self.at_once.contains(&index).then(answer)
    }
}

#[test]
fn sequences_side_by_side_resume_at_each_answer() {
    let (workload, now) = (SideBySide(RateLimitingQueue::new()), Now::default());
    let key = KeyId::default();
    let mut driver = Driver::default();
    let mut transport = Noting {
        at_once: vec![1],
        sent: Vec::new(),
    };
    for _ in 0..2 {
        // The first round is abandoned in the middle of its requests.
        transport.sent.clear();
        let begun = driver.begin(&workload, 0, key, &mut transport, now);
        assert_eq!(begun, Progress::Waiting);
        assert_eq!(transport.sent, [0, 1, 2], "one is answered immediately");
        let polled = driver.poll(&workload, &mut transport, now);
        assert_eq!(polled, Progress::Waiting, "nothing was answered since");
        driver.answer(2, answer());
        let polled = driver.poll(&workload, &mut transport, now);
        assert_eq!(polled, Progress::Waiting);
        assert_eq!(transport.sent, [0, 1, 2, 3], "each request is sent once");
    }
    driver.answer(3, answer());
    driver.answer(0, answer());
    let polled = driver.poll(&workload, &mut transport, now);
    assert_eq!(polled, Progress::Finished);
}

#[test]
fn an_abandoned_batch_does_not_hold_up_the_next_sync() {
    let (workload, now) = (Twice(RateLimitingQueue::new()), Now::default());
    let mut driver = Driver::default();
    let mut transport = Noting {
        at_once: Vec::new(),
        sent: Vec::new(),
    };
    let begun = driver.begin(&workload, 0, KeyId::default(), &mut transport, now);
    assert_eq!(begun, Progress::Waiting);
    transport.at_once = vec![0, 1];
    let begun = driver.begin(&workload, 0, KeyId::default(), &mut transport, now);
    assert_eq!(begun, Progress::Finished);
}
