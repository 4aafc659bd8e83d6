//! The HTTP face of the embedded Kubernetes API server: what `kubectl`, kube-rs and other clients
//! talk to.
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

/// An error of a request's body: a client that went away, say.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How long a request may take, as upstream.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// What time it is.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;

/// What writes metrics in Prometheus' text format.
pub type FurtherMetrics = Arc<dyn Fn() -> String + Send + Sync>;

/// An API server. Cloning is cheap: all clones are one server.
#[derive(Clone)]
pub struct ApiServer(Arc<Shared>);

struct Shared {
    cluster: Arc<Cluster>,
    clock: Clock,
    /// What is served.
    catalog: RwLock<Arc<Catalog>>,
    settings: Settings,
    /// Requests that read, and those that write.
    in_flight: [InFlight; 2],
    heavy: Heavy,
    metrics: Metrics,
    further_metrics: Option<FurtherMetrics>,
    virtual_time: Option<Arc<dyn VirtualTime>>,
    /// What browsers get at `/`.
    page: Option<Bytes>,
    live: Live,
    texts: ownership::Texts,
    faults: Armed,
    draining: AtomicBool,
    /// The version of the cluster at which the history of watches begins: what was before was listed, as an
    /// upstream server lists when it starts.
    history_begins: u64,
    /// The lines that watches send.
    encoded: Encoded,
    /// The open watches and delayed answers, and some that have ended.
    watches: Mutex<Vec<Weak<Waiting>>>,
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").finish_non_exhaustive()
    }
}

/// What a server was set up with, but for its cluster and its clock: to set up others alike.
#[derive(Clone)]
pub struct Settings {
    log_line: String,
    reaches_kubelets: bool,
    credentials: Credentials,
    /// Made when it is first needed, unless it is given. Servers that are set up alike share it.
    token_key: Arc<OnceLock<TokenKey>>,
    allowed_hosts: Vec<String>,
    memory: Option<Arc<Memory>>,
    /// Of requests that read, and of those that write.
    requests_max: [u64; 2],
    request_timeout: Duration,
    log: Option<Arc<dyn Log>>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").finish_non_exhaustive()
    }
}

/// Makes an [`ApiServer`].
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
    /// The clock of the server, that of the computer unless given: it stamps what is written.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Builder {
        self.clock = clock;
        self
    }

    /// What the log of every container says, one line.
    #[must_use]
    pub fn log_line(mut self, line: impl Into<String>) -> Builder {
        self.settings.log_line = line.into();
        self
    }

    /// Whether the server reaches the kubelets, as it does unless told otherwise: where it doesn't, logs and
    /// streams fail as they do in Kubernetes.
    #[must_use]
    pub fn reaches_kubelets(mut self, reaches: bool) -> Builder {
        self.settings.reaches_kubelets = reaches;
        self
    }

    /// The clients that the server serves; all unless given.
    #[must_use]
    pub fn credentials(mut self, credentials: Credentials) -> Builder {
        self.settings.credentials = credentials;
        self
    }

    /// The key by which the server signs the tokens of service accounts; one of its own unless given.
    #[must_use]
    pub fn token_key(mut self, key: TokenKey) -> Builder {
        self.settings.token_key = Arc::new(OnceLock::from(key));
        self
    }

    /// Further names of hosts that clients of a [listener](listen) may call the server by. Where the server wants
    /// credentials, any name will do; else only addresses, [`BUILT_IN_HOSTS`], names below `localhost`, and these.
    #[must_use]
    pub fn allowed_hosts(mut self, names: Vec<String>) -> Builder {
        self.settings.allowed_hosts = names;
        self
    }

    /// The memory of the process, above whose limit lists, watches and most writes are refused with 503; without
    /// limit unless given.
    #[must_use]
    pub fn memory(mut self, memory: Arc<Memory>) -> Builder {
        self.settings.memory = Some(memory);
        self
    }

    /// Most requests at once that read, and that write; more are answered 429. 0 is no limit.
    #[must_use]
    pub fn requests_inflight(mut self, reading: u64, mutating: u64) -> Builder {
        self.settings.requests_max = [reading, mutating];
        self
    }

    /// How long a request may take from its head to the head of its answer, a minute unless given, as upstream. Watches
    /// are not bound by it.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Builder {
        self.settings.request_timeout = timeout;
        self
    }

    /// Called after each request, with what was answered.
    #[must_use]
    pub fn log(mut self, log: Arc<dyn Log>) -> Builder {
        self.settings.log = Some(log);
        self
    }

    /// As another server was set up.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Builder {
        self.settings = settings;
        self
    }

    /// The time of a cluster that passes only when it is moved: `/podstorm/clock/advance` does.
    #[must_use]
    pub fn virtual_time(mut self, time: Arc<dyn VirtualTime>) -> Builder {
        self.virtual_time = Some(time);
        self
    }

    /// Metrics of what runs beside the server, e.g. of controllers: each request for `/metrics` reads them, and gets
    /// them behind the server's own. Their names differ from the server's.
    #[must_use]
    pub fn further_metrics(mut self, metrics: FurtherMetrics) -> Builder {
        self.further_metrics = Some(metrics);
        self
    }

    /// A page of HTML for browsers that ask for `/`; others get the list of paths, and so do browsers where
    /// there is no page. It may draw what `/podstorm/live` sends.
    #[must_use]
    pub fn page(mut self, html: impl Into<Bytes>) -> Builder {
        self.page = Some(html.into());
        self
    }

    /// The server. It serves the kinds that the cluster serves now, and those that definitions describe
    /// later. A watch from a version before now is too old.
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
    // First: what is defined meanwhile makes another catalog.
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
    /// A server for a cluster. For watches with selectors, for pages and for lists of older states the
    /// cluster must [keep them](podstorm_apiserver::ClusterOptions::keeps_past). Where clients may read
    /// slowly its history should be [bounded in bytes](podstorm_apiserver::History::SERVED).
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

    /// What it was set up with.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The cluster behind it.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.0.cluster
    }

    /// The time on the server's clock.
    pub fn now(&self) -> Now {
        (self.0.clock)()
    }

    /// What is served now. Clones a reference, unless a definition has changed it.
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
        // Those of kinds that are gone end.
        let watches: Vec<_> = self
            .lock_watches()
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        watches.iter().for_each(|watch| watch.wake());
        catalog
    }

    /// Whether nothing was defined since a catalog was made. One load, no lock.
    pub(crate) fn is_current(&self, catalog: &Catalog) -> bool {
        catalog.generation == self.0.cluster.kinds_generation()
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

    /// Remembers a watch, to be woken when the server goes away and to be struck by faults. O(1) amortised.
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
        // Relaxed: as in `drain`; a watch looks again after it was woken.
        self.0.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn credentials(&self) -> &Credentials {
        &self.0.settings.credentials
    }

    /// Whether a request with these headers has the credential that the server wants.
    pub(crate) fn accepts(&self, headers: &HeaderMap) -> bool {
        let is_good = |token| self.user_of_token(token).is_ok();
        !self.credentials().are_required() || credentials::bearer(headers).is_some_and(is_good)
    }

    /// Whether a request may come from a web page, or from where it comes.
    ///
    /// # Errors
    /// As [`web_pages::check`]; none where the server wants credentials, which no page has.
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

/// A request that is being answered.
pub(crate) struct Call<'a> {
    pub(crate) server: &'a ApiServer,
    /// Who sends it.
    pub(crate) user: &'a User,
    pub(crate) method: &'a Method,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) query: Query<'a>,
    pub(crate) body: Bytes,
    pub(crate) accepted: Accepted,
    pub(crate) now: Now,
    /// What was served when it came.
    pub(crate) catalog: Arc<Catalog>,
}

impl Call<'_> {
    pub(crate) fn cluster(&self) -> &Cluster {
        self.server.cluster()
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Whether no client waits for the end of the answer.
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
