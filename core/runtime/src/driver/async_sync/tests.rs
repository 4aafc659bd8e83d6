//! Tests of syncs written as an `async fn`.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};

use podstorm_objects::{ApiError, Cause, Kind, Reason, ResourceVersion};
use proptest::prelude::*;

use super::*;

const READ: Request = Request::ReadVersion { kind: Kind::POD };

fn at(mono_ns: i64) -> Now {
    Now {
        mono_ns,
        wall_ns: 0,
    }
}

async fn two_reads(calls: Calls) -> Result<End, SyncFailure> {
    for _ in 0..2 {
        if let Answer::Failed(error) = calls.request(READ).await {
            return Err(SyncFailure {
                label: "read failed",
                message: error.message,
                is_final: false,
            });
        }
    }
    assert_eq!(calls.now().mono_ns, 3, "the time of the last answer");
    Ok(End::After(7))
}

fn version() -> Answer {
    Answer::Version(ResourceVersion::from(1))
}

#[test]
fn each_request_waits_for_its_answer() {
    let mut sync = AsyncSync::default();
    let key = KeyId::default();
    assert_eq!(sync.begin(key, at(1), two_reads), Step::Requests);
    assert_eq!(sync.requests().len(), 1);
    sync.answer(0, version());
    assert_eq!(sync.resume(at(2)), Step::Requests);
    assert_eq!(
        sync.requests().len(),
        2,
        "the first request keeps its index"
    );
    sync.answer(1, version());
    assert_eq!(sync.resume(at(3)), Step::Finished);
    assert_eq!((sync.outcome_label(), sync.requests().len()), ("ok", 0));
    assert_eq!(sync.end(), End::After(7));
    let nothing = |_| async { Ok(End::Leave) };
    assert_eq!(sync.begin(key, at(1), nothing), Step::Finished);
    assert_eq!(sync.end(), End::Leave);
}

#[test]
fn an_abandoned_sync_leaves_nothing_to_the_next() {
    let mut sync = AsyncSync::default();
    let key = KeyId::default();
    assert_eq!(sync.begin(key, at(1), two_reads), Step::Requests);
    sync.answer(0, version());
    assert_eq!(sync.begin(key, at(1), two_reads), Step::Requests);
    sync.answer(0, Answer::Failed(ApiError::transport("gone")));
    assert_eq!(sync.resume(at(2)), Step::Finished);
    assert_eq!(
        (sync.outcome_label(), sync.end()),
        ("read failed", End::Retry)
    );
    assert_eq!(sync.failure().unwrap().to_string(), "gone");
}

#[test]
#[should_panic(expected = "answered twice")]
fn a_request_has_one_answer() {
    let mut sync = AsyncSync::default();
    let _requests = sync.begin(KeyId::default(), at(1), two_reads);
    sync.answer(0, version());
    sync.answer(0, version());
}

/// Returns a read of the object with this name. The text of the answer contains the name.
fn read(name: impl ToString) -> Request {
    Request::Get {
        kind: Kind::POD,
        namespace: "ns".into(),
        name: name.to_string().as_str().into(),
    }
}

fn name(request: &Request) -> &str {
    match request {
        Request::Get { name, .. } => name,
        other => panic!("unexpected request {other:?}"),
    }
}

fn answer_to(request: &Request) -> Answer {
    Answer::Failed(ApiError::transport(name(request)))
}

fn text(answer: Answer) -> String {
    match answer {
        Answer::Failed(error) => error.message,
        other => panic!("unexpected answer {other:?}"),
    }
}

/// A sync under test, and what its steps have recorded.
#[derive(Default)]
struct Run {
    sync: AsyncSync,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Run {
    fn begin<F>(steps: impl FnOnce(Calls, Arc<Mutex<Vec<String>>>) -> F) -> Run
    where
        F: Future<Output = Result<End, SyncFailure>> + Send + 'static,
    {
        let mut run = Run::default();
        let notes = run.notes.clone();
        let _step = run
            .sync
            .begin(KeyId::default(), at(1), |calls| steps(calls, notes));
        run
    }

    /// Returns the names of all requests so far.
    fn asked(&self) -> Vec<&str> {
        self.sync.requests().iter().map(name).collect()
    }

    fn answer(&mut self, wanted: &str) -> Step {
        let index = self.asked().iter().position(|name| *name == wanted);
        let index = index.expect("the request was made");
        let answer = answer_to(&self.sync.requests()[index]);
        self.sync.answer(index, answer);
        self.sync.resume(at(2))
    }

    fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap().clone()
    }
}

#[test]
fn sequences_side_by_side_do_not_wait_for_each_other() {
    let mut run = Run::begin(|calls, notes| async move {
        let sequence = async |own: &str, length: usize| {
            for number in 0..length {
                let answer = calls.request(read(format!("{own}{number}"))).await;
                notes.lock().unwrap().push(text(answer));
            }
            format!("{own} has ended")
        };
        let ends = join_all([sequence("a", 1), sequence("b", 3)]).await;
        notes.lock().unwrap().extend(ends);
        Ok(End::Forget)
    });
    assert_eq!(run.asked(), ["a0", "b0"], "one batch");
    // The second sequence ends before the first has its only answer.
    for (answered, asked) in [
        ("b0", &["a0", "b0", "b1"][..]),
        ("b1", &["a0", "b0", "b1", "b2"]),
        ("b2", &["a0", "b0", "b1", "b2"]),
    ] {
        assert_eq!(run.answer(answered), Step::Requests);
        assert_eq!(run.asked(), asked);
    }
    assert_eq!(run.answer("a0"), Step::Finished);
    let notes = ["b0", "b1", "b2", "a0", "a has ended", "b has ended"];
    assert_eq!(run.notes(), notes);
}

#[test]
fn a_sequence_is_polled_when_its_own_answer_arrives() {
    let polls = Arc::new(Mutex::new([0; 3]));
    let counts = Arc::clone(&polls);
    let mut run = Run::begin(|calls, _| async move {
        let sequence = |own: usize| {
            let (calls, counts) = (calls.clone(), Arc::clone(&counts));
            let mut steps = Box::pin(async move {
                for number in 0..=own {
                    calls.request(read(format!("{own}.{number}"))).await;
                }
            });
            poll_fn(move |context| {
                counts.lock().unwrap()[own] += 1;
                steps.as_mut().poll(context)
            })
        };
        // A nested join is woken through the outer one.
        let inner = async || drop(join_all([sequence(1), sequence(2)]).await);
        let outer: [Pin<Box<dyn Future<Output = ()> + Send>>; 2] =
            [Box::pin(sequence(0)), Box::pin(inner())];
        join_all(outer).await;
        Ok(End::Forget)
    });
    for wanted in ["2.0", "2.1", "1.0", "0.0", "2.2"] {
        assert_eq!(run.answer(wanted), Step::Requests);
    }
    assert_eq!(run.answer("1.1"), Step::Finished);
    assert_eq!(*polls.lock().unwrap(), [2, 3, 4]);
}

#[test]
fn a_batch_returns_its_answers_in_the_order_of_its_requests() {
    let mut run = Run::begin(|calls, notes| async move {
        assert!(calls.batch([]).await.is_empty());
        // Creating a request may ask for the time.
        let requests = (0..3).map(|number| read(calls.now().mono_ns * 10 + number));
        let answers = calls.batch(requests).await;
        notes.lock().unwrap().extend(answers.into_iter().map(text));
        Ok(End::Forget)
    });
    assert_eq!(run.answer("12"), Step::Requests);
    assert_eq!(run.answer("10"), Step::Requests);
    assert_eq!(run.answer("11"), Step::Finished);
    assert_eq!(run.notes(), ["10", "11", "12"]);
}

/// Runs a slow start of ten calls, some of which are refused. Returns the result in words, and the
/// number of calls made.
fn slow_start(refuse: impl Fn(usize) -> Option<ApiError>) -> (String, usize) {
    let mut run = Run::begin(|calls, notes| async move {
        let started = calls.slow_start(10, read).await;
        assert_eq!(
            started.successes + started.errors().count(),
            started.answers.len()
        );
        let first = started.first_error().map_or("none", |error| &error.message);
        let words = format!("{} {} {first}", started.successes, started.skipped);
        notes.lock().unwrap().push(words);
        Ok(End::Forget)
    });
    let mut answered = 0;
    while answered < run.sync.requests().len() {
        let asked = run.sync.requests().len();
        // The last answer of a batch arrives first.
        for index in (answered..asked).rev() {
            let refused = refuse(index).map(Answer::Failed);
            run.sync.answer(index, refused.unwrap_or_else(version));
            answered += 1;
            let step = run.sync.resume(at(2));
            let more = run.sync.requests().len() > asked;
            assert!(
                !more || answered == asked,
                "a batch starts after the whole previous one"
            );
            if step == Step::Finished {
                return (run.notes().remove(0), answered);
            }
        }
    }
    unreachable!("it ends");
}

#[test]
fn a_slow_start_stops_after_a_batch_with_a_failure() {
    let error = |index: usize| ApiError::transport(format!("no {index}"));
    assert_eq!(slow_start(|_| None), ("10 0 none".to_owned(), 10));
    // Batches of 1, 2 and 4: the third batch is completed. Of two failures, the first to arrive
    // counts.
    let two = slow_start(|index| matches!(index, 3 | 5).then(|| error(index)));
    assert_eq!(two, ("5 3 no 5".to_owned(), 7));
    let first = slow_start(|index| (index == 0).then(|| error(index)));
    assert_eq!(first, ("0 9 no 0".to_owned(), 1));
    let ending = slow_start(|_| {
        let error = ApiError::status(403, Reason::Forbidden, "it is being deleted");
        Some(error.with_cause(Cause {
            reason: "NamespaceTerminating".to_owned(),
            ..Cause::default()
        }))
    });
    assert_eq!(
        ending,
        ("10 0 none".to_owned(), 10),
        "upstream does not treat it as an error either"
    );
}

#[test]
fn the_answer_to_a_dropped_future_is_awaited_and_discarded() {
    let mut run = Run::begin(|calls, notes| async move {
        let mut dropped = Box::pin(calls.request(read("dropped")));
        let unasked = calls.request(read("unasked"));
        let polled = std::future::poll_fn(|context| Poll::Ready(dropped.as_mut().poll(context)));
        assert!(polled.await.is_pending());
        drop((dropped, unasked));
        let kept = text(calls.request(read("kept")).await);
        notes.lock().unwrap().push(kept);
        Ok(End::Forget)
    });
    assert_eq!(
        run.asked(),
        ["dropped", "kept"],
        "a future that was never polled requests nothing"
    );
    assert_eq!(
        run.answer("kept"),
        Step::Requests,
        "a request has no answer"
    );
    assert_eq!(run.notes(), ["kept"]);
    assert_eq!(run.answer("dropped"), Step::Finished);
    assert_eq!(run.notes(), ["kept"]);
    assert_eq!((run.sync.outcome_label(), run.asked().len()), ("ok", 0));
}

#[test]
fn a_sync_abandoned_between_requests_leaves_nothing_to_the_next() {
    let several = |calls: Calls| async move {
        let answers = join_all((0..3).map(|number| calls.request(read(number)))).await;
        assert_eq!(
            answers.into_iter().map(text).collect::<Vec<_>>(),
            ["0", "1", "2"]
        );
        Ok(End::Forget)
    };
    let mut sync = AsyncSync::default();
    for abandoned in [true, false] {
        assert_eq!(sync.begin(KeyId::default(), at(1), several), Step::Requests);
        assert_eq!(sync.requests().len(), 3);
        for index in [1, 2, 0] {
            if abandoned && index == 0 {
                continue;
            }
            let answer = match abandoned {
                true => version(),
                false => answer_to(&sync.requests()[index]),
            };
            sync.answer(index, answer);
        }
    }
    assert_eq!(sync.resume(at(2)), Step::Finished);
    assert_eq!(sync.outcome_label(), "ok");
}

#[test]
fn steps_run_without_a_workload() {
    let mut asked = Vec::new();
    let steps = async |calls: Calls| {
        let both = calls.batch([read("a"), read("b")]).await;
        let last = text(calls.request(read("c")).await);
        assert_eq!(calls.now(), at(1));
        both.into_iter().map(text).chain([last]).collect::<Vec<_>>()
    };
    let mut transport = |request: &Request, _: Now| {
        asked.push(name(request).to_owned());
        answer_to(request)
    };
    assert_eq!(run_steps(steps, &mut transport, at(1)), ["a", "b", "c"]);
    assert_eq!(asked, ["a", "b", "c"]);
}

#[test]
#[should_panic(expected = "only for answers")]
fn a_sync_that_waits_for_something_else_panics() {
    let mut sync = AsyncSync::default();
    let _step = sync.begin(KeyId::default(), at(1), |_| std::future::pending());
}

#[test]
#[should_panic(expected = "ended can't be resumed")]
fn a_sync_that_has_ended_cannot_be_resumed() {
    let mut sync = AsyncSync::default();
    let _step = sync.begin(KeyId::default(), at(1), |_| async { Ok(End::Forget) });
    let _step = sync.resume(at(2));
}

/// Steps that consist of numbered requests.
#[derive(Clone, Debug)]
enum Tree {
    Request,
    Batch(usize),
    Sequence(Vec<Tree>),
    Join(Vec<Tree>),
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![3 => Just(Tree::Request), 1 => (0_usize..4).prop_map(Tree::Batch)];
    leaf.prop_recursive(4, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Tree::Sequence),
            prop::collection::vec(inner, 0..4).prop_map(Tree::Join),
        ]
    })
}

/// Runs the steps of a tree; `path` names its requests.
fn steps<'a>(
    calls: &'a Calls,
    tree: &'a Tree,
    path: String,
) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
    Box::pin(async move {
        let child = |(at, tree)| steps(calls, tree, format!("{path}.{at}"));
        match tree {
            Tree::Request => {
                let answer = calls.request(read(&path)).await;
                assert_eq!(text(answer), path, "the answer of another request");
            }
            Tree::Batch(size) => {
                let names = || (0..*size).map(|number| format!("{path}.{number}"));
                let answers = calls.batch(names().map(read)).await;
                let texts: Vec<String> = answers.into_iter().map(text).collect();
                assert_eq!(texts, names().collect::<Vec<_>>());
            }
            Tree::Sequence(trees) => {
                for tree in trees.iter().enumerate() {
                    child(tree).await;
                }
            }
            Tree::Join(trees) => {
                join_all(trees.iter().enumerate().map(child)).await;
            }
        }
    })
}

/// The plain model: returns the requests of a tree that wait for answers when `answered` have their
/// answers, in the order of the tree. Empty once the tree is done.
fn open(tree: &Tree, path: &str, answered: &[String]) -> Vec<String> {
    let child = |at: usize, tree| open(tree, &format!("{path}.{at}"), answered);
    let is_open = |name: &String| !answered.contains(name);
    match tree {
        Tree::Request => [path.to_owned()].into_iter().filter(is_open).collect(),
        Tree::Batch(size) => {
            let names = (0..*size).map(|number| format!("{path}.{number}"));
            names.filter(is_open).collect()
        }
        Tree::Sequence(trees) => {
            let waiting = trees.iter().enumerate().map(|(at, tree)| child(at, tree));
            waiting
                .into_iter()
                .find(|open| !open.is_empty())
                .unwrap_or_default()
        }
        Tree::Join(trees) => {
            let waiting = trees.iter().enumerate().map(|(at, tree)| child(at, tree));
            waiting.flatten().collect()
        }
    }
}

proptest! {
    #[test]
    fn every_request_gets_its_answer_and_the_next_ones_follow(
        tree in trees(),
        order in prop::collection::vec((any::<prop::sample::Index>(), 1_usize..4), 1..200),
    ) {
        let mut sync = AsyncSync::default();
        let whole = tree.clone();
        let mut step = sync.begin(KeyId::default(), at(1), |calls| async move {
            steps(&calls, &whole, "r".to_owned()).await;
            Ok(End::Forget)
        });
        let (mut answered, mut sent) = (Vec::new(), 0);
        let mut order = order.into_iter().cycle();
        loop {
            let expected = open(&tree, "r", &answered);
            let waiting = |sync: &AsyncSync, answered: &[String]| {
                let names = sync.requests().iter().map(|request| name(request).to_owned());
                let open = names.enumerate().filter(|(_, name)| !answered.contains(name));
                open.collect::<Vec<_>>()
            };
            let mut now: Vec<String> = waiting(&sync, &answered).into_iter().map(|it| it.1).collect();
            // The new requests of this poll follow in the order of the tree.
            let new: Vec<&str> = sync.requests()[sent.min(sync.requests().len())..].iter().map(name).collect();
            let of_new = expected.iter().filter(|name| new.contains(&name.as_str()));
            prop_assert_eq!(of_new.collect::<Vec<_>>(), new);
            now.sort();
            let mut sorted = expected;
            sorted.sort();
            prop_assert_eq!(&now, &sorted);
            if step == Step::Finished {
                prop_assert!(sorted.is_empty());
                break;
            }
            sent = sync.requests().len();
            // One to three answers arrive at this moment.
            let (index, several) = order.next().expect("the order repeats");
            for _ in 0..several {
                let open = waiting(&sync, &answered);
                if open.is_empty() {
                    break;
                }
                let (at, name) = &open[index.index(open.len())];
                let answer = answer_to(&sync.requests()[*at]);
                sync.answer(*at, answer);
                answered.push(name.clone());
            }
            step = sync.resume(at(2));
        }
    }
}
