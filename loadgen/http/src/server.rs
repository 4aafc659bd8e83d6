//! The server: its settings, and its state between requests.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use podstorm_apiserver::Cluster;
use podstorm_objects::{ApiError, Now};

use crate::account_tokens::TokenKey;
use crate::catalog::Catalog;
use crate::credentials::Credentials;
use crate::encoded::Encoded;
use crate::faults::{Armed, Asked, Faults, Hold, HoldTime, Struck, Waiting, Watches};
use crate::heavy::Heavy;
use crate::limits::{InFlight, MUTATING_REQUESTS_INFLIGHT, REQUESTS_INFLIGHT};
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::request_log::Log;
use crate::samples::Samples;
use crate::texts::Texts;
use crate::time::{Clock, VirtualTime};
use crate::{unstored, view, web_pages};

/// The default of [`Builder::request_timeout`], the same as in upstream.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A source of metrics, which returns them in Prometheus' text format.
pub type FurtherMetrics = Arc<dyn Fn() -> String + Send + Sync>;

/// An API server. Clones are cheap and share one server.
#[derive(Clone)]
pub struct ApiServer(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) clock: Clock,
    /// The latest catalog. [`ApiServer::catalog`] replaces it when the kinds have changed.
    pub(crate) catalog: RwLock<Arc<Catalog>>,
    pub(crate) settings: Settings,
    /// The requests in flight: first reading requests, then mutating requests.
    pub(crate) in_flight: [Arc<InFlight>; 2],
    pub(crate) heavy: Heavy,
    pub(crate) metrics: Metrics,
    pub(crate) further_metrics: Option<FurtherMetrics>,
    pub(crate) virtual_time: Option<Arc<dyn VirtualTime>>,
    /// The HTML page for browsers at `/`.
    pub(crate) page: Option<Bytes>,
    pub(crate) samples: Samples,
    pub(crate) texts: Texts,
    pub(crate) faults: Armed,
    pub(crate) draining: AtomicBool,
    /// The cluster's version when the server was built. A watch from an older version gets a 410,
    /// as from a restarted upstream server.
    pub(crate) history_begins: u64,
    /// Encoded watch lines, shared by all watches.
    pub(crate) encoded: Encoded,
    /// The open watches and delayed answers. Draining and faults wake them.
    pub(crate) watches: Watches,
}

opaque_debug!(ApiServer, Settings, Builder);

/// The settings of a server that other servers can reuse: all except the cluster, the clock,
/// virtual time, further metrics and the page.
#[derive(Clone)]
pub struct Settings {
    pub(crate) log_line: String,
    pub(crate) reaches_kubelets: bool,
    pub(crate) credentials: Credentials,
    /// The key for service account tokens: the given one, or a new one, created on first use.
    /// Servers with the same settings share it.
    pub(crate) token_key: Arc<OnceLock<TokenKey>>,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) memory: Option<Arc<Memory>>,
    /// Limits on reading requests, then on mutating requests.
    pub(crate) requests_max: [u64; 2],
    pub(crate) request_timeout: Duration,
    pub(crate) log: Option<Arc<dyn Log>>,
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

impl Builder {
    /// Sets the clock for the timestamps in objects. Defaults to the computer's clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Builder {
        self.clock = clock;
        self
    }

    /// Sets the line that is the whole log of a container, unless an annotation of the pod contains
    /// another log.
    #[must_use]
    pub fn log_line(mut self, line: impl Into<String>) -> Builder {
        self.settings.log_line = line.into();
        self
    }

    /// Sets whether the server can reach the kubelets. Defaults to true. If it cannot, requests for
    /// logs and streams fail as they do in Kubernetes.
    #[must_use]
    pub fn reaches_kubelets(mut self, reaches: bool) -> Builder {
        self.settings.reaches_kubelets = reaches;
        self
    }

    /// Sets the accepted credentials. By default, clients need no credential.
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

    /// Sets further host names by which clients of a [listener](crate::listen) may address the
    /// server. A server that requires credentials accepts any name. Other servers accept only
    /// addresses, [`BUILT_IN_HOSTS`](crate::BUILT_IN_HOSTS), names below `localhost`, and these
    /// names.
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

    /// Sets the maximum numbers of concurrent reading and mutating requests; 0 means no limit.
    /// Excess requests get a 429.
    #[must_use]
    pub fn requests_inflight(mut self, reading: u64, mutating: u64) -> Builder {
        self.settings.requests_max = [reading, mutating];
        self
    }

    /// Sets the time limit from the head of a request to the head of its answer. Defaults to one
    /// minute, as in upstream. Watches are exempt.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Builder {
        self.settings.request_timeout = timeout;
        self
    }

    /// Sets the request log, which is called after each request.
    #[must_use]
    pub fn log(mut self, log: Arc<dyn Log>) -> Builder {
        self.settings.log = Some(log);
        self
    }

    /// Replaces the settings that were set before by those of another server.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Builder {
        self.settings = settings;
        self
    }

    /// Makes the cluster's time virtual: it stands still until it is advanced, e.g. by a request
    /// for `/podstorm/clock/advance`.
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

    /// Sets the HTML page that browsers get at `/`. The page may draw the data of `/podstorm/live`.
    /// Other clients get the list of paths at `/`, and so do browsers if there is no page.
    #[must_use]
    pub fn page(mut self, html: impl Into<Bytes>) -> Builder {
        self.page = Some(html.into());
        self
    }

    /// Builds the server. It serves the kinds that the cluster has now, and those that are defined
    /// later. Watches from a version older than the current one get a 410.
    pub fn build(self) -> ApiServer {
        let catalog = catalog_of(&self.cluster, (self.clock)());
        ApiServer(Arc::new(Shared {
            history_begins: self.cluster.resource_version(),
            metrics: Metrics::new(&catalog),
            catalog: RwLock::new(Arc::new(catalog)),
            cluster: self.cluster,
            clock: self.clock,
            in_flight: (self.settings.requests_max).map(|max| Arc::new(InFlight::new(max))),
            heavy: Heavy::new(),
            settings: self.settings,
            further_metrics: self.further_metrics,
            virtual_time: self.virtual_time,
            page: self.page,
            samples: Samples::new(),
            texts: Texts::default(),
            faults: Armed::default(),
            draining: AtomicBool::new(false),
            encoded: Encoded::default(),
            watches: Watches::default(),
        }))
    }
}

fn catalog_of(cluster: &Cluster, now: Now) -> Catalog {
    // Read first: a kind that is defined in the meantime invalidates the catalog.
    let generation = cluster.kinds_generation();
    let stored = cluster.kinds().into_iter();
    let stored = stored.filter(|kind| kind.row().custom.is_none());
    let others = view::kinds().chain(unstored::kinds());
    Catalog::new(
        generation,
        now,
        stored.chain(cluster.custom_kinds()).chain(others),
    )
}

impl ApiServer {
    /// Returns a builder for a server of `cluster`.
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

    /// Returns the current catalog. Clones a reference, or rebuilds the catalog if the kinds have
    /// changed since it was built.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        let known = self.0.catalog.read();
        let known = known.unwrap_or_else(PoisonError::into_inner);
        if self.is_current(&known) {
            return Arc::clone(&known);
        }
        drop(known);
        let mut catalog = catalog_of(&self.0.cluster, self.now());
        let known = self.0.catalog.write();
        let mut known = known.unwrap_or_else(PoisonError::into_inner);
        catalog.keep_openapi_tags(&known);
        let catalog = Arc::new(catalog);
        *known = Arc::clone(&catalog);
        drop(known);
        // Wake all watches, so that those of removed kinds end.
        let open = self.0.watches.lock();
        let watches: Vec<_> = open.iter().filter_map(Weak::upgrade).collect();
        drop(open);
        watches.iter().for_each(|watch| watch.wake());
        catalog
    }

    /// Reports whether the kinds have not changed since the catalog was built. One load, no lock.
    pub(crate) fn is_current(&self, catalog: &Catalog) -> bool {
        catalog.generation == self.0.cluster.kinds_generation()
    }

    /// Ends all open and future watches. Called before the server shuts down.
    pub fn drain(&self) {
        let watches = {
            let mut watches = self.0.watches.lock();
            // Relaxed: the lock orders this store with watches that open concurrently.
            self.0.draining.store(true, Ordering::Relaxed);
            std::mem::take(&mut *watches)
        };
        for watch in watches.iter().filter_map(Weak::upgrade) {
            watch.wake();
        }
    }

    /// Registers a watch, so that draining and faults can wake it. O(1) amortized.
    pub(crate) fn add_watch(&self, watch: &Arc<Waiting>) {
        let mut watches = self.0.watches.lock();
        if watches.len() == watches.capacity() {
            watches.retain(|watch| watch.strong_count() > 0);
            let live = watches.len();
            watches.reserve(live.max(16));
        }
        self.0.faults.watch_opens(|| self.now().mono_ns, watch);
        watches.push(Arc::downgrade(watch));
    }

    pub(crate) fn is_draining(&self) -> bool {
        // Relaxed: as in `drain`; a woken watch checks again.
        self.0.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn credentials(&self) -> &Credentials {
        &self.0.settings.credentials
    }

    /// Checks that the request does not come from a foreign web page and that its host is allowed.
    ///
    /// # Errors
    /// The same as [`web_pages::check`]. Never fails if credentials are required, because a foreign
    /// page does not have any.
    pub(crate) fn check_page<B: http_body::Body>(
        &self,
        request: &Request<B>,
    ) -> Result<(), ApiError> {
        match self.credentials().are_required() {
            true => Ok(()),
            false => web_pages::check(request, &self.0.settings.allowed_hosts),
        }
    }

    pub(crate) fn in_flight(&self, is_mutating: bool) -> &Arc<InFlight> {
        &self.0.in_flight[usize::from(is_mutating)]
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub(crate) fn further_metrics(&self) -> Option<&FurtherMetrics> {
        self.0.further_metrics.as_ref()
    }
}

impl ApiServer {
    /// Returns a handle with which to arm, list and disarm the server's faults.
    pub fn faults(&self) -> Faults<'_> {
        Faults {
            armed: &self.0.faults,
            watches: &self.0.watches,
            clock: &self.0.clock,
        }
    }

    /// Wakes the watches and answers whose holds are over. Must be called after the clock of a
    /// server with [virtual time](Builder::virtual_time) was advanced other than by a request.
    pub fn time_has_moved(&self) {
        self.0.faults.time_has_moved(self.now().mono_ns);
    }

    /// Returns the name and the number of strikes of each effect.
    pub(crate) fn struck_by_effect(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.faults.struck_by_effect()
    }

    /// Lets the armed faults strike a request. Returns the effect, or `None` if no fault strikes.
    pub(crate) fn strike(&self, asked: impl FnOnce() -> Option<Asked>) -> Option<Struck> {
        match self.0.faults.is_armed() {
            false => None,
            true => {
                let asked = asked()?;
                self.0.faults.strike(self.now().mono_ns, &asked)
            }
        }
    }

    /// Returns the current time, by which holds end.
    pub(crate) fn time_of_holds(&self) -> HoldTime {
        HoldTime {
            now_ns: self.now().mono_ns,
            is_virtual: self.0.virtual_time.is_some(),
        }
    }

    /// Waits until the hold is over or the server drains.
    pub(crate) async fn held_back(&self, hold: Arc<Hold>, waiting: Arc<Waiting>) {
        self.add_watch(&waiting);
        let mut look = None;
        poll_fn(|context| {
            waiting.wait(context.waker());
            match self.is_draining() {
                true => Poll::Ready(()),
                false => hold.poll_over(self.time_of_holds(), &mut look, context),
            }
        })
        .await;
    }
}

/// Returns the computer's time. The monotonic time counts from the Unix epoch.
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
