//! The access of an [`AsyncSync`](super::AsyncSync)'s steps to the driver.

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use podstorm_objects::{ApiError, Now};

use crate::client::{Answer, EventIntent, Request};
use crate::limits::SLOW_START_INITIAL_BATCH;
use crate::primitives::{AtomicBool, Mutex, Ordering, lock};
use crate::slow_start::SlowStart;

/// The access that the steps of a sync have to the time, the API and Events.
///
/// A request is made when its future is first polled. Each request gets a ticket, which identifies
/// its answer, so the futures of several requests can be open and polled in any order. The requests
/// made during one poll of the steps are sent together, in the order in which they were made.
/// Dropping a future does not cancel its request: the request is carried out, its answer is
/// discarded, and the sync waits for the answer before it ends.
#[derive(Clone, Debug, Default)]
pub struct Calls(Arc<Mutex<Exchange>>);

#[derive(Debug, Default)]
struct Exchange {
    now: Now,
    /// The requests made since the last poll.
    asked: Vec<Request>,
    /// The state of each request, by ticket.
    replies: Vec<Reply>,
    /// The waker of the [join](join_all) that waits for each answer, by ticket.
    wakers: Vec<Option<Waker>>,
    /// The number of requests without an answer.
    open: usize,
    /// The number of answers received.
    answered: usize,
    events: Vec<EventIntent>,
}

#[derive(Debug)]
enum Reply {
    Open,
    /// The request has this answer; the number counts the answers that arrived before it.
    Here(Answer, usize),
    Taken,
}

/// The result of a slow start.
#[derive(Clone, Debug)]
pub struct Started {
    /// The answers, in the order of the requests.
    pub answers: Vec<Answer>,
    /// The number of successful calls. Includes calls that were refused because their namespace is
    /// being deleted, which upstream's controllers don't treat as errors.
    pub successes: usize,
    /// The number of calls that were not made because an earlier batch had a failure.
    pub skipped: usize,
    /// The index of the failed answer that arrived first, if any call failed.
    first_failed: Option<usize>,
}

impl Started {
    /// Returns the error of the call that failed first, in the order in which the answers arrived;
    /// `None` if no call failed.
    pub fn first_error(&self) -> Option<&ApiError> {
        failure(self.answers.get(self.first_failed?)?)
    }

    /// Returns the errors of all failed calls, each with the index of the call.
    pub fn errors(&self) -> impl Iterator<Item = (usize, &ApiError)> {
        let numbered = self.answers.iter().enumerate();
        numbered.filter_map(|(at, answer)| failure(answer).map(|error| (at, error)))
    }
}

/// Returns the error of a failed create; `None` for a success or a terminating namespace.
fn failure(answer: &Answer) -> Option<&ApiError> {
    match answer {
        Answer::Failed(error) if !error.has_cause("NamespaceTerminating") => Some(error),
        _ => None,
    }
}

impl Calls {
    /// Creates calls with a fixed time and without a transport, for steps that decide but send no
    /// requests.
    pub fn at(now: Now) -> Calls {
        Calls(Arc::new(Mutex::new(Exchange {
            now,
            ..Exchange::default()
        })))
    }

    /// Returns the time at which the sync began or last resumed after an answer.
    pub fn now(&self) -> Now {
        lock(&self.0).now
    }

    /// Makes an API call and waits for its answer.
    pub async fn request(&self, request: Request) -> Answer {
        let ticket = self.ask(request);
        poll_fn(|context| match lock(&self.0).claim(ticket, context) {
            Some((answer, _)) => Poll::Ready(answer),
            None => Poll::Pending,
        })
        .await
    }

    /// Makes API calls concurrently and waits for all answers. Returns the answers in the order of
    /// the requests. O(requests) in total, regardless of the number of polls.
    pub async fn batch(&self, requests: impl IntoIterator<Item = Request>) -> Vec<Answer> {
        let answers = self.answers(requests).await;
        answers.into_iter().map(|(answer, _)| answer).collect()
    }

    /// Makes `count` API calls in batches of 1, 2, 4, … up to the first batch with a failure.
    /// `request` creates the request with each index below `count`.
    ///
    /// Source: `slowStartBatch` in Kubernetes' `pkg/controller/replicaset`, and its copies in the
    /// controllers of Jobs and DaemonSets.
    pub async fn slow_start(
        &self,
        count: usize,
        mut request: impl FnMut(usize) -> Request,
    ) -> Started {
        let mut batches = SlowStart::new(count, SLOW_START_INITIAL_BATCH);
        let mut answers = Vec::new();
        let mut first_failed = None;
        while let Some(size) = batches.next_batch() {
            let begin = answers.len();
            let requests = (begin..begin + size).map(&mut request);
            for (at, (answer, order)) in self.answers(requests).await.into_iter().enumerate() {
                let failed = failure(&answer).is_some();
                batches.on_result(!failed);
                if failed && first_failed.is_none_or(|(first, _)| order < first) {
                    first_failed = Some((order, begin + at));
                }
                answers.push(answer);
            }
        }
        Started {
            answers,
            successes: batches.successes(),
            skipped: batches.skipped(),
            first_failed: first_failed.map(|(_, at)| at),
        }
    }

    /// Records an Event.
    pub fn event(&self, event: EventIntent) {
        lock(&self.0).events.push(event);
    }

    /// Returns the answers of a batch, each with the number of answers that arrived before it.
    async fn answers(&self, requests: impl IntoIterator<Item = Request>) -> Vec<(Answer, usize)> {
        // The lock is free between requests, because creating one may ask for the time.
        let tickets = requests.into_iter().map(|request| self.ask(request));
        let (mut first, mut count) = (0, 0);
        for ticket in tickets {
            (first, count) = (ticket - count, count + 1);
        }
        let mut answers = Vec::with_capacity(count);
        poll_fn(|context| {
            let mut exchange = lock(&self.0);
            while answers.len() < count {
                match exchange.claim(first + answers.len(), context) {
                    Some(answer) => answers.push(answer),
                    None => return Poll::Pending,
                }
            }
            Poll::Ready(())
        })
        .await;
        answers
    }

    /// Makes a request and returns its ticket.
    fn ask(&self, request: Request) -> usize {
        let exchange = &mut *lock(&self.0);
        exchange.asked.push(request);
        exchange.replies.push(Reply::Open);
        exchange.open += 1;
        exchange.replies.len() - 1
    }

    pub(super) fn reset(&self) {
        let mut exchange = lock(&self.0);
        exchange.asked.clear();
        exchange.replies.clear();
        exchange.wakers.clear();
        exchange.events.clear();
        (exchange.open, exchange.answered) = (0, 0);
    }

    pub(super) fn set_now(&self, now: Now) {
        lock(&self.0).now = now;
    }

    /// Sets the answer to the request with this ticket.
    pub(super) fn answer(&self, ticket: usize, answer: Answer) {
        let mut exchange = lock(&self.0);
        let order = exchange.answered;
        let reply = exchange.replies.get_mut(ticket);
        let reply = reply.unwrap_or_else(|| panic!("no request with ticket {ticket}"));
        let is_open = matches!(reply, Reply::Open);
        assert!(is_open, "request {ticket} was answered twice");
        *reply = Reply::Here(answer, order);
        let woken = exchange.wakers.get_mut(ticket).and_then(Option::take);
        exchange.answered += 1;
        exchange.open -= 1;
        drop(exchange);
        if let Some(woken) = woken {
            woken.wake();
        }
    }

    /// Moves out new requests and Events. Returns whether any request is still without an answer.
    pub(super) fn take(&self, requests: &mut Vec<Request>, events: &mut Vec<EventIntent>) -> bool {
        let mut exchange = lock(&self.0);
        requests.append(&mut exchange.asked);
        events.append(&mut exchange.events);
        exchange.open > 0
    }
}

impl Exchange {
    /// Takes the answer to the request with this ticket, and the number of answers that arrived
    /// before it. If there is no answer yet, returns `None`; the answer will wake the polling task.
    fn claim(&mut self, ticket: usize, context: &Context<'_>) -> Option<(Answer, usize)> {
        let reply = &mut self.replies[ticket];
        if matches!(reply, Reply::Open) {
            // The driver's own waker does nothing: the driver polls after each answer.
            if !context.waker().will_wake(Waker::noop()) {
                self.wake_at(ticket, context.waker());
            }
            return None;
        }
        match mem::replace(reply, Reply::Taken) {
            Reply::Here(answer, order) => Some((answer, order)),
            Reply::Open | Reply::Taken => None,
        }
    }

    fn wake_at(&mut self, ticket: usize, waker: &Waker) {
        if self.wakers.len() <= ticket {
            self.wakers.resize(ticket + 1, None);
        }
        self.wakers[ticket] = Some(waker.clone());
    }
}

/// Polls all futures until each has its output. Returns the outputs in the order of the futures.
/// Polls each future once, in that order, and again when an answer that it waits for has arrived.
/// Allocates once for each future, and once more for each future that has to wait. For requests
/// without further steps, use a [`batch`](Calls::batch).
pub async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let joined = futures.into_iter().map(|future| Joined::Running {
        future: Box::pin(future),
        turn: None,
    });
    let mut joined: Vec<Joined<F>> = joined.collect();
    poll_fn(|context| {
        let mut all_done = true;
        for one in &mut joined {
            all_done &= one.poll(context.waker());
        }
        match all_done {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    let outputs = joined.into_iter().filter_map(|one| match one {
        Joined::Done(output) => Some(output),
        Joined::Running { .. } => None,
    });
    outputs.collect()
}

/// One of several concurrent futures.
enum Joined<F: Future> {
    Running {
        future: Pin<Box<F>>,
        /// When to poll the future again; `None` before its first poll.
        turn: Option<Arc<Turn>>,
    },
    Done(F::Output),
}

/// Records whether a future must be polled again.
struct Turn {
    is_due: AtomicBool,
    /// The waker of the task that polls the futures, from the last poll. Two wakers of one task
    /// can't always be recognized as equal, so a new waker is no reason to poll the future.
    outer: Mutex<Waker>,
}

impl Wake for Turn {
    fn wake(self: Arc<Self>) {
        // Release: pairs with the swap in `poll`, which then sees what this thread has done.
        self.is_due.store(true, Ordering::Release);
        lock(&self.outer).wake_by_ref();
    }
}

impl<F: Future> Joined<F> {
    /// Polls the future if it is due. Returns whether it is done.
    fn poll(&mut self, outer: &Waker) -> bool {
        let Joined::Running { future, turn } = self else {
            return true;
        };
        let turn = match turn {
            Some(turn) => {
                lock(&turn.outer).clone_from(outer);
                if !turn.is_due.swap(false, Ordering::Acquire) {
                    return false;
                }
                turn
            }
            turn => turn.insert(Arc::new(Turn {
                is_due: AtomicBool::new(false),
                outer: Mutex::new(outer.clone()),
            })),
        };
        let waker = Waker::from(Arc::clone(turn));
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => {
                *self = Joined::Done(output);
                true
            }
            Poll::Pending => false,
        }
    }
}
