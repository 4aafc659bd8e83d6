//! The embedded Kubernetes API server over HTTP, for `kubectl`, kube-rs and other clients.
#![doc = ""]
#![doc = include_str!("../README.md")]

mod account_tokens;
mod account_users;
mod admission;
mod answer;
mod autoscaler;
mod body;
mod catalog;
mod component_status;
mod connected;
mod connections;
mod credentials;
mod decode;
mod delete;
mod discovery;
pub mod documents;
mod encoded;
mod events;
pub mod faults;
mod health;
mod heavy;
mod in_process;
mod indented;
mod json_syntax;
mod kubelet;
mod limits;
mod list;
pub mod listen;
mod live;
mod media;
mod memory;
mod metrics;
#[cfg(any(test, not(feature = "tls")))]
#[doc(hidden)]
pub mod no_tls;
mod objects;
mod openapi;
mod ownership;
mod patched;
pub mod protobuf;
mod query;
mod received;
mod requests;
mod reviews;
mod route;
mod select;
mod table;
mod time;
#[cfg(feature = "tls")]
pub mod tls;
mod token_keys;
mod token_request;
mod view;
mod warnings;
mod watch;
mod web_pages;
mod yaml;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use podstorm_apiserver::{Cluster, errors};
use podstorm_objects::{ApiError, Now, Reason};

pub use account_tokens::TokenKey;
pub use answer::Body;
pub use credentials::{Credentials, User, draw_hash_seed, random_token};
pub use faults::ConnectionLost;
pub use in_process::Application;
pub use limits::{MUTATING_REQUESTS_INFLIGHT, REQUESTS_INFLIGHT};
pub use memory::Memory;
#[cfg(not(feature = "tls"))]
pub use no_tls as tls;
pub use requests::{Answered, Log};
pub use time::VirtualTime;
pub use token_keys::{KeyError, PublicKey};
pub use web_pages::BUILT_IN_HOSTS;

use catalog::Catalog;
use encoded::Encoded;
use faults::{Armed, Waiting};
use heavy::Heavy;
use limits::InFlight;
use live::Live;
use media::Accepted;
use metrics::Metrics;
use query::Query;
use route::Route;

/// An error while reading a request's body, e.g. because the client disconnected.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Default of [`Builder::request_timeout`], the same as upstream.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the current time.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;

/// Returns metrics in Prometheus' text format.
pub type FurtherMetrics = Arc<dyn Fn() -> String + Send + Sync>;

/// An API server. Clones are cheap and share one server.
#[derive(Clone)]
pub struct ApiServer(Arc<Shared>);

struct Shared {
    cluster: Arc<Cluster>,
    clock: Clock,
    /// The kinds that are served now.
    catalog: RwLock<Arc<Catalog>>,
    settings: Settings,
    /// Reading requests, then mutating requests.
    in_flight: [InFlight; 2],
    heavy: Heavy,
    metrics: Metrics,
    further_metrics: Option<FurtherMetrics>,
    virtual_time: Option<Arc<dyn VirtualTime>>,
    /// The HTML page for browsers at `/`.
    page: Option<Bytes>,
    live: Live,
    texts: ownership::Texts,
    faults: Armed,
    draining: AtomicBool,
    /// The cluster's version at which the watch history begins. Older state counts as listed, as an
    /// upstream server lists it when it starts.
    history_begins: u64,
    /// Encoded watch lines, shared by all watches.
    encoded: Encoded,
    /// Open watches and delayed answers. Some entries may have ended.
    watches: Mutex<Vec<Weak<Waiting>>>,
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").finish_non_exhaustive()
    }
}

/// The settings of a server except its cluster and its clock. Reusable for other servers.
#[derive(Clone)]
pub struct Settings {
    log_line: String,
    reaches_kubelets: bool,
    credentials: Credentials,
    /// Created on first use unless it was given. Servers with the same settings share it.
    token_key: Arc<OnceLock<TokenKey>>,
    allowed_hosts: Vec<String>,
    memory: Option<Arc<Memory>>,
    /// Limits on reading requests, then on mutating requests.
    requests_max: [u64; 2],
    request_timeout: Duration,
    log: Option<Arc<dyn Log>>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").finish_non_exhaustive()
    }
}

/// Builds an [`ApiServer`].
pub struct Builder {
    cluster: Arc<Cluster>,
    clock: Clock,
    settings: Settings,
    further_metrics: Option<FurtherMetrics>,
    virtual_time: Option<Arc<dyn VirtualTime>>,
    page: Option<Bytes>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}

impl Builder {
    /// Sets the clock that stamps what is written. Defaults to the computer's clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Builder {
        self.clock = clock;
        self
    }

    /// Sets the one line in the log of every container.
    #[must_use]
    pub fn log_line(mut self, line: impl Into<String>) -> Builder {
        self.settings.log_line = line.into();
        self
    }

    /// Sets whether the server reaches the kubelets. Defaults to true. If it does not, logs and
    /// streams fail as they do in Kubernetes.
    #[must_use]
    pub fn reaches_kubelets(mut self, reaches: bool) -> Builder {
        self.settings.reaches_kubelets = reaches;
        self
    }

    /// Sets which clients are served. Defaults to all.
    #[must_use]
    pub fn credentials(mut self, credentials: Credentials) -> Builder {
        self.settings.credentials = credentials;
        self
    }

    /// Sets the key that signs service account tokens. Defaults to a new key.
    #[must_use]
    pub fn token_key(mut self, key: TokenKey) -> Builder {
        self.settings.token_key = Arc::new(OnceLock::from(key));
        self
    }

    /// Sets further host names by which clients of a [listener](listen) may call the server. If the
    /// server requires credentials, every name is allowed; otherwise only addresses,
    /// [`BUILT_IN_HOSTS`], names below `localhost`, and these.
    #[must_use]
    pub fn allowed_hosts(mut self, names: Vec<String>) -> Builder {
        self.settings.allowed_hosts = names;
        self
    }

    /// Sets the memory monitor of the process. Above its limit, lists, watches and most writes get
    /// a 503. Defaults to no limit.
    #[must_use]
    pub fn memory(mut self, memory: Arc<Memory>) -> Builder {
        self.settings.memory = Some(memory);
        self
    }

    /// Sets the maximum numbers of concurrent reading and mutating requests. Excess requests get a
    /// 429. 0 means no limit.
    #[must_use]
    pub fn requests_inflight(mut self, reading: u64, mutating: u64) -> Builder {
        self.settings.requests_max = [reading, mutating];
        self
    }

    /// Sets the time limit from a request's head to the head of its answer. Defaults to one minute,
    /// as upstream. Watches are exempt.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Builder {
        self.settings.request_timeout = timeout;
        self
    }

    /// Sets the log, which is called after each request.
    #[must_use]
    pub fn log(mut self, log: Arc<dyn Log>) -> Builder {
        self.settings.log = Some(log);
        self
    }

    /// Uses the settings of another server.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Builder {
        self.settings = settings;
        self
    }

    /// Makes the cluster's time virtual: it advances only through `/podstorm/clock/advance`.
    #[must_use]
    pub fn virtual_time(mut self, time: Arc<dyn VirtualTime>) -> Builder {
        self.virtual_time = Some(time);
        self
    }

    /// Sets a source of further metrics, e.g. of controllers. Each request for `/metrics` appends
    /// them to the server's own. Their names must differ from the server's.
    #[must_use]
    pub fn further_metrics(mut self, metrics: FurtherMetrics) -> Builder {
        self.further_metrics = Some(metrics);
        self
    }

    /// Sets the HTML page that browsers get at `/`. It may draw the data of `/podstorm/live`. Other
    /// clients, and browsers if there is no page, get the list of paths.
    #[must_use]
    pub fn page(mut self, html: impl Into<Bytes>) -> Builder {
        self.page = Some(html.into());
        self
    }

    /// Builds the server. It serves the kinds that the cluster serves now and those defined later.
    /// Watches from an older version than the current one get a 410.
    pub fn build(self) -> ApiServer {
        let catalog = catalog_of(&self.cluster, (self.clock)());
        ApiServer(Arc::new(Shared {
            history_begins: self.cluster.resource_version(),
            metrics: Metrics::new(&catalog),
            catalog: RwLock::new(Arc::new(catalog)),
            cluster: self.cluster,
            clock: self.clock,
            in_flight: self.settings.requests_max.map(InFlight::new),
            heavy: Heavy::new(),
            settings: self.settings,
            further_metrics: self.further_metrics,
            virtual_time: self.virtual_time,
            page: self.page,
            live: Live::new(),
            texts: ownership::Texts::default(),
            faults: Armed::default(),
            draining: AtomicBool::new(false),
            encoded: Encoded::default(),
            watches: Mutex::default(),
        }))
    }
}

fn catalog_of(cluster: &Cluster, now: Now) -> Catalog {
    // Read first: a kind that is defined meanwhile invalidates the catalog.
    let generation = cluster.kinds_generation();
    let stored = cluster.kinds().into_iter();
    let stored = stored.filter(|kind| kind.row().custom.is_none());
    let others = view::kinds()
        .chain(reviews::kinds())
        .chain([component_status::kind()]);
    Catalog::new(
        generation,
        now,
        stored.chain(cluster.custom_kinds()).chain(others),
    )
}

impl ApiServer {
    /// Returns a builder of a server for a cluster.
    ///
    /// Watches with selectors, pages and lists of past states need a cluster that [keeps past
    /// states](podstorm_apiserver::ClusterOptions::keeps_past). If clients may read slowly, the
    /// cluster's history should be [bounded in bytes](podstorm_apiserver::History::SERVED).
    pub fn builder(cluster: Arc<Cluster>) -> Builder {
        Builder {
            cluster,
            clock: Arc::new(system_time),
            settings: Settings {
                log_line: "a simulated container runs here".to_owned(),
                reaches_kubelets: true,
                credentials: Credentials::default(),
                token_key: Arc::default(),
                allowed_hosts: Vec::new(),
                memory: None,
                requests_max: [REQUESTS_INFLIGHT, MUTATING_REQUESTS_INFLIGHT],
                request_timeout: REQUEST_TIMEOUT,
                log: None,
            },
            further_metrics: None,
            virtual_time: None,
            page: None,
        }
    }

    /// Returns the server's settings.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Returns the cluster that the server serves.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.0.cluster
    }

    /// Returns the time on the server's clock.
    pub fn now(&self) -> Now {
        (self.0.clock)()
    }

    /// Returns the current catalog. Clones a reference, unless a definition has changed the
    /// catalog.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        let known = self
            .0
            .catalog
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        if self.is_current(&known) {
            return Arc::clone(&known);
        }
        drop(known);
        let mut catalog = catalog_of(&self.0.cluster, self.now());
        let mut known = self
            .0
            .catalog
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        catalog.keep_openapi_tags(&known);
        let catalog = Arc::new(catalog);
        *known = Arc::clone(&catalog);
        drop(known);
        // Watches of removed kinds end.
        let watches: Vec<_> = self
            .lock_watches()
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        watches.iter().for_each(|watch| watch.wake());
        catalog
    }

    /// Reports whether no kind was defined since the catalog was built. One load, no lock.
    pub(crate) fn is_current(&self, catalog: &Catalog) -> bool {
        catalog.generation == self.0.cluster.kinds_generation()
    }

    /// Ends all open and all future watches, before the server shuts down.
    pub fn drain(&self) {
        let watches = {
            let mut watches = self.lock_watches();
            // Relaxed: the lock orders it with watches that open concurrently.
            self.0.draining.store(true, Ordering::Relaxed);
            std::mem::take(&mut *watches)
        };
        for watch in watches.iter().filter_map(Weak::upgrade) {
            watch.wake();
        }
    }

    /// Registers a watch, so that draining and faults can wake it. O(1) amortized.
    pub(crate) fn add_watch(&self, watch: &Arc<Waiting>) {
        let mut watches = self.lock_watches();
        if watches.len() == watches.capacity() {
            watches.retain(|watch| watch.strong_count() > 0);
            let live = watches.len();
            watches.reserve(live.max(16));
        }
        self.0.faults.watch_opens(self, watch);
        watches.push(Arc::downgrade(watch));
    }

    fn lock_watches(&self) -> MutexGuard<'_, Vec<Weak<Waiting>>> {
        self.0
            .watches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_draining(&self) -> bool {
        // Relaxed: as in `drain`; a woken watch checks again.
        self.0.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn credentials(&self) -> &Credentials {
        &self.0.settings.credentials
    }

    /// Reports whether the headers have a valid credential, if one is required.
    pub(crate) fn accepts(&self, headers: &HeaderMap) -> bool {
        let is_good = |token| self.user_of_token(token).is_ok();
        !self.credentials().are_required() || credentials::bearer(headers).is_some_and(is_good)
    }

    /// Checks that the request does not come from a foreign web page and that its host is allowed.
    ///
    /// # Errors
    /// As [`web_pages::check`]. Never fails if credentials are required, because a foreign page has
    /// none.
    pub(crate) fn check_page<B: http_body::Body>(
        &self,
        request: &Request<B>,
    ) -> Result<(), ApiError> {
        match self.credentials().are_required() {
            true => Ok(()),
            false => web_pages::check(request, &self.0.settings.allowed_hosts),
        }
    }

    pub(crate) fn in_flight(&self, is_mutating: bool) -> &InFlight {
        &self.0.in_flight[usize::from(is_mutating)]
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub(crate) fn further_metrics(&self) -> Option<&FurtherMetrics> {
        self.0.further_metrics.as_ref()
    }
}

/// A request in progress.
pub(crate) struct Call<'a> {
    pub(crate) server: &'a ApiServer,
    /// The authenticated sender.
    pub(crate) user: &'a User,
    pub(crate) method: &'a Method,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) query: Query<'a>,
    pub(crate) body: Bytes,
    pub(crate) accepted: Accepted,
    pub(crate) now: Now,
    /// The catalog at the time of the request.
    pub(crate) catalog: Arc<Catalog>,
}

impl Call<'_> {
    pub(crate) fn cluster(&self) -> &Cluster {
        self.server.cluster()
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Reports whether the request is a watch or a stream, which time limits exempt.
    fn is_long_running(&self, route: &Route) -> bool {
        let Route::Objects(target) = route else {
            return false;
        };
        kubelet::PARTS.contains(&target.subresource.as_str())
            || *self.method == Method::GET && target.is_watch(&self.query)
    }

    fn serve(&self, route: Route) -> Result<Response<Body>, ApiError> {
        if !self.is_long_running(&route) {
            self.query.check_timeout()?;
        }
        match route {
            Route::Objects(target) => objects::serve(self, &target),
            Route::UnknownResource => Err(errors::unknown_resource()),
            Route::UnknownPath => Ok(answer::text(404, "404 page not found\n")),
            Route::Health(endpoint, check) => Ok(health::serve(self, &endpoint, check.as_deref())),
            Route::Review(kind, namespace) => reviews::serve(self, kind, &namespace),
            Route::Metrics => Ok(metrics::serve(self.server)),
            Route::Clock => time::show(self),
            Route::Page => Ok(live::page(self.server)),
            Route::Live => live::stream(self),
            Route::Faults(id) => faults::serve(self, id.as_deref()),
            other => discovery::serve(self, &other),
        }
    }
}

/// Returns a 406: the client accepts no available representation.
pub(crate) fn not_acceptable(message: String) -> ApiError {
    ApiError::status(406, Reason::Other("NotAcceptable".into()), message)
}

/// Returns the computer's time. Monotonic time counts from its epoch.
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
    type Error = ConnectionLost;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, ConnectionLost>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectionLost>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move { server.answer(request).await })
    }
}
