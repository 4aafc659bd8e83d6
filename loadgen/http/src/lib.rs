//! The HTTP face of the embedded Kubernetes API server: what `kubectl`, kube-rs and other clients
//! talk to.
//!
//! An [`ApiServer`] is a `tower` service over a [`Cluster`]: requests go in, answers come out, with no
//! socket between, so that a test can have as many servers as it likes in one process. It
//! re-implements nothing: it reads paths, parameters and bodies, calls the [`Cluster`], and writes
//! what comes back in the shape that the client accepts. [`listen`] puts it on a socket.
//!
//! ```
//! use std::sync::Arc;
//!
//! use podstorm_apiserver::{Cluster, ClusterOptions};
//! use podstorm_http::ApiServer;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let cluster = Arc::new(Cluster::new(ClusterOptions { keeps_past: true, ..Default::default() }));
//! let server = ApiServer::builder(cluster).build();
//! let request = http::Request::get("/version").body(http_body_util::Empty::new()).unwrap();
//! let response = server.answer(request).await;
//! assert_eq!(response.status(), 200);
//! # }
//! ```

mod admission;
mod answer;
mod body;
mod catalog;
mod delete;
mod discovery;
mod list;
pub mod listen;
mod media;
mod objects;
mod openapi;
pub mod protobuf;
mod query;
mod route;
mod select;
mod table;
mod view;
mod watch;

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use podstorm_apiserver::{Cluster, errors};
use podstorm_objects::{ApiError, Now, Reason};

pub use answer::Body;

use catalog::Catalog;
use media::{Accepted, Offer};
use query::Query;
use route::Route;
use watch::Waiting;

/// An error of a request's body: a client that went away, say.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What time it is.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;

/// An API server. Cloning is cheap: all clones are one server.
#[derive(Clone)]
pub struct ApiServer(Arc<Shared>);

struct Shared {
    cluster: Arc<Cluster>,
    clock: Clock,
    catalog: Catalog,
    log_line: String,
    draining: AtomicBool,
    /// The open watches, and some that have ended.
    watches: Mutex<Vec<Weak<Waiting>>>,
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").finish_non_exhaustive()
    }
}

/// Makes an [`ApiServer`].
pub struct Builder {
    cluster: Arc<Cluster>,
    clock: Clock,
    log_line: String,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}

impl Builder {
    /// The clock of the server, that of the computer unless given: it stamps what is written.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Builder {
        self.clock = clock;
        self
    }

    /// What the log of every container says, one line.
    #[must_use]
    pub fn log_line(mut self, line: impl Into<String>) -> Builder {
        self.log_line = line.into();
        self
    }

    /// The server. It serves the kinds that the cluster serves now.
    pub fn build(self) -> ApiServer {
        ApiServer(Arc::new(Shared {
            catalog: Catalog::new(self.cluster.kinds().into_iter().chain(view::kinds())),
            cluster: self.cluster,
            clock: self.clock,
            log_line: self.log_line,
            draining: AtomicBool::new(false),
            watches: Mutex::default(),
        }))
    }
}

impl ApiServer {
    /// A server for a cluster. For watches with selectors and for lists of older states the cluster
    /// must [keep them](podstorm_apiserver::ClusterOptions::keeps_past).
    pub fn builder(cluster: Arc<Cluster>) -> Builder {
        Builder {
            cluster,
            clock: Arc::new(system_time),
            log_line: "a simulated container runs here".to_owned(),
        }
    }

    /// The cluster behind it.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.0.cluster
    }

    /// The time on the server's clock.
    pub fn now(&self) -> Now {
        (self.0.clock)()
    }

    /// Ends all watches, now and as they come, for a server that is to go away.
    pub fn drain(&self) {
        let watches = {
            let mut watches = self.lock_watches();
            // Relaxed: the lock orders it against watches that are opened meanwhile.
            self.0.draining.store(true, Ordering::Relaxed);
            std::mem::take(&mut *watches)
        };
        for watch in watches.iter().filter_map(Weak::upgrade) {
            watch.wake();
        }
    }

    /// Remembers a watch, to be woken when the server goes away. O(1) amortised.
    pub(crate) fn add_watch(&self, watch: &Arc<Waiting>) {
        let mut watches = self.lock_watches();
        if watches.len() == watches.capacity() {
            watches.retain(|watch| watch.strong_count() > 0);
            let live = watches.len();
            watches.reserve(live.max(16));
        }
        watches.push(Arc::downgrade(watch));
    }

    fn lock_watches(&self) -> MutexGuard<'_, Vec<Weak<Waiting>>> {
        self.0
            .watches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_draining(&self) -> bool {
        // Relaxed: as in `drain`; a watch looks again after it was woken.
        self.0.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn log_line(&self) -> &str {
        &self.0.log_line
    }

    /// Answers a request. Every error is an answer too: a `Status` with its code.
    ///
    /// # Panics
    /// Outside of a tokio runtime with a timer: bodies and watches have time-outs.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let (head, body) = request.into_parts();
        let collected = Limited::new(body, body::BODY_MAX).collect();
        let Ok(collected) = tokio::time::timeout(body::BODY_WITHIN, collected).await else {
            return answer::error(&body::too_slow());
        };
        let body = match collected {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return answer::error(&body::too_large());
            }
            Err(error) => {
                let why = format!("the body of the request broke off: {error}");
                return answer::error(&errors::bad_request(why));
            }
        };
        self.answer_whole(&head, body)
    }

    fn answer_whole(&self, head: &http::request::Parts, body: Bytes) -> Response<Body> {
        let route = Route::of(head.uri.path(), &self.0.catalog);
        let offer = match route {
            Route::Objects(_) => Offer::Objects,
            Route::CoreVersions | Route::Groups => Offer::Discovery,
            _ => Offer::Plain,
        };
        let served = media::accepted(&head.headers, offer).and_then(|accepted| {
            let call = Call {
                server: self,
                method: &head.method,
                headers: &head.headers,
                query: Query::of(head.uri.query()),
                body,
                accepted,
                now: self.now(),
            };
            call.serve(route)
        });
        served.unwrap_or_else(|error| answer::error(&error))
    }
}

/// A request that is being answered.
pub(crate) struct Call<'a> {
    pub(crate) server: &'a ApiServer,
    pub(crate) method: &'a Method,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) query: Query<'a>,
    pub(crate) body: Bytes,
    pub(crate) accepted: Accepted,
    pub(crate) now: Now,
}

impl Call<'_> {
    pub(crate) fn cluster(&self) -> &Cluster {
        self.server.cluster()
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.server.0.catalog
    }

    fn serve(&self, route: Route) -> Result<Response<Body>, ApiError> {
        match route {
            Route::Objects(target) => objects::serve(self, &target),
            Route::UnknownResource => Err(errors::unknown_resource()),
            Route::UnknownPath => Ok(answer::text(404, "404 page not found\n")),
            Route::Health => Ok(answer::text(200, "ok")),
            other => discovery::serve(self, &other),
        }
    }
}

/// 406: no shape that the client accepts fits.
pub(crate) fn not_acceptable(message: String) -> ApiError {
    ApiError::status(406, Reason::Other("NotAcceptable".into()), message)
}

/// The time of the computer; monotonic time is counted from its epoch.
fn system_time() -> Now {
    let since = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap_or_default();
    let ns = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
    Now {
        mono_ns: ns,
        wall_ns: ns,
    }
}

impl<B> tower_service::Service<Request<B>> for ApiServer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move { Ok(server.answer(request).await) })
    }
}
