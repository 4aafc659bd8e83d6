//! Request pipeline: authentication, limits, body, handler, answer; then metrics and the log.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response};
use podstorm_apiserver::Plugin;
use podstorm_objects::{ApiError, Kind, Reason};
use tokio::time::Instant;

use crate::admission::{ACCOUNT_EVERY, ACCOUNT_LOOKS, AwaitsAccount};
use crate::answer::{self, Body};
use crate::call::Call;
use crate::catalog::Catalog;
use crate::credentials::User;
use crate::faults::{Asked, ConnectionLost, Struck};
use crate::media::{self, Accepted, Form, Offer};
use crate::metrics::Attributes;
use crate::query::Query;
use crate::received::{self, BoxError};
use crate::request_log::Answered;
use crate::route::Route;
use crate::server::ApiServer;
use crate::{clock, dispatch, heavy, indented, live, warnings};

/// The head of a request, with its route and its query parsed.
struct Head<'a> {
    parts: &'a Parts,
    route: Route,
    query: Query<'a>,
    /// The catalog in which the route was resolved.
    catalog: Arc<Catalog>,
    attributes: &'a Attributes,
    /// The arrival time.
    began: Instant,
}

impl ApiServer {
    /// Answers a request. Errors are answers, too: a `Status` with the code of the error.
    ///
    /// # Errors
    /// Fails if an armed [fault](crate::faults) drops the connection before the answer.
    ///
    /// # Panics
    /// Panics outside a tokio runtime with a timer, which the time limits of bodies and watches
    /// need.
    pub async fn answer<B>(&self, request: Request<B>) -> Result<Response<Body>, ConnectionLost>
    where
        B: http_body::Body<Data = Bytes, Error: Into<BoxError>>,
    {
        self.answer_unless(Ok(()), request).await
    }

    /// Like [`answer`](ApiServer::answer), but answers with the error in `refused` if the listener
    /// refused the request.
    pub(crate) async fn answer_unless<B>(
        &self,
        refused: Result<(), ApiError>,
        request: Request<B>,
    ) -> Result<Response<Body>, ConnectionLost>
    where
        B: http_body::Body<Data = Bytes, Error: Into<BoxError>>,
    {
        let began = Instant::now();
        let (head, body) = request.into_parts();
        let catalog = self.catalog();
        let mut route = Route::parse(head.uri.path(), &catalog);
        if route == Route::Root && live::wants_page(self, &head) {
            route = Route::Page;
        }
        let query = Query::parse(head.uri.query());
        let what = Attributes::from_request(&head, &route, &query);
        let is_indented = indented::is_wanted(&head, &route, &query);
        let user = || {
            self.credentials()
                .user_of(&head, &route, |token| self.user_of_token(token))
        };
        let user = refused.and_then(|()| user());
        let struck = match &user {
            Ok(_) => self.strike(|| Asked::from_request(&head, &route, &query)),
            Err(_) => None,
        };
        let answered = match (&user, &struck) {
            (_, Some(Struck::RequestLost)) => return Err(ConnectionLost),
            (_, Some(Struck::Refused(error))) | (Err(error), _) => {
                // Read the whole body first: a client that is still sending would not see the
                // answer.
                received::discard(body).await;
                Err(error.clone())
            }
            (Ok(user), _) => {
                let head = Head {
                    parts: &head,
                    route,
                    query,
                    catalog: Arc::clone(&catalog),
                    attributes: &what,
                    began,
                };
                self.answer_user(head, body, user).await
            }
        };
        let mut response = answered.unwrap_or_else(|error| answer::error(&error, Form::Json));
        if let Some(Struck::AnswerLost(Some(error))) = &struck {
            response = answer::error(error, Form::Json);
        }
        if is_indented {
            answer::indent(&mut response);
        }
        if !self.is_current(&catalog) {
            // Rebuild the catalog, so that the kinds that this request defined are served.
            drop(self.catalog());
        }
        let is_lost = matches!(struck, Some(Struck::AnswerLost(None)));
        if let Some(Struck::Delayed(hold, waiting)) = struck {
            self.held_back(hold, waiting).await;
        }
        let (status, took) = (response.status().as_u16(), began.elapsed());
        self.0.metrics.count(&what, status, took);
        if let Some(log) = &self.0.settings.log {
            let agent = head.headers.get(http::header::USER_AGENT);
            let path = head.uri.path_and_query();
            log.answered(&Answered {
                method: head.method.as_str(),
                path: path.map_or("/", |path| path.as_str()),
                status,
                took,
                user_agent: agent.and_then(|agent| agent.to_str().ok()).unwrap_or(""),
                user: user.as_ref().map_or("", |user| &user.name),
            });
        }
        match is_lost {
            true => Err(ConnectionLost),
            false => Ok(response),
        }
    }

    /// Answers an authenticated request.
    async fn answer_user<B>(
        &self,
        head: Head<'_>,
        body: B,
        user: &Arc<User>,
    ) -> Result<Response<Body>, ApiError>
    where
        B: http_body::Body<Data = Bytes, Error: Into<BoxError>>,
    {
        let Head { parts, route, .. } = head;
        if parts.method == http::Method::CONNECT {
            return Err(answer::method_not_allowed());
        }
        if let Some(memory) = &self.0.settings.memory
            && let Err(refused) = memory.admit(&parts.method, &route, head.attributes)
        {
            // Read the whole body first: a client that is still sending would not see the answer.
            received::discard(body).await;
            return Err(refused);
        }
        let place = match head.attributes.is_long_running || matches!(route, Route::Health(..)) {
            true => None,
            false => Some(self.in_flight(head.attributes.is_mutating).enter()?),
        };
        let body = received::whole(body).await?;
        if route == Route::AdvanceClock {
            return self.advance(&parts.method, &body).await;
        }
        let accepted = accepted(parts, &route);
        let served = match accepted {
            Err(error) => Err(error),
            Ok(accepted) if heavy::is_heavy(self.cluster(), &route, &parts.method, body.len()) => {
                let (server, user) = (self.clone(), Arc::clone(user));
                let (method, headers) = (parts.method.clone(), parts.headers.clone());
                let (uri, form) = (parts.uri.clone(), accepted.form);
                let answer = move || {
                    let call = Call {
                        server: &server,
                        user: &user,
                        method: &method,
                        headers: &headers,
                        query: Query::parse(uri.query()),
                        body,
                        accepted,
                        now: server.now(),
                        catalog: head.catalog,
                    };
                    answered(&call, route)
                };
                let deadline = head.began + self.0.settings.request_timeout;
                let answered = self.0.heavy.answer(deadline, answer).await;
                Ok(answered.unwrap_or_else(|error| answer::error(&error, form)))
            }
            Ok(accepted) => {
                let call = Call {
                    server: self,
                    user,
                    method: &parts.method,
                    headers: &parts.headers,
                    query: head.query,
                    body,
                    accepted,
                    now: self.now(),
                    catalog: head.catalog,
                };
                Ok(self.answer_patiently(call, route).await)
            }
        };
        if let (true, Some(time)) = (head.attributes.is_mutating, &self.0.virtual_time) {
            let time = Arc::clone(time);
            in_background(move || time.rest()).await?;
        }
        let mut response = served?;
        if let Some(place) = place
            && response.body().is_list()
        {
            let place = place.keep();
            response.body_mut().keep(place);
        }
        Ok(response)
    }

    /// Answers a request. The request for a new pod may wait for the service account of its
    /// namespace, which a controller creates.
    async fn answer_patiently(&self, mut call: Call<'_>, route: Route) -> Response<Body> {
        // Waiting is useless with virtual time, which stands still during the wait.
        let waits = matches!(&route, Route::Objects(target) if target.kind == Kind::POD)
            && [Method::POST, Method::PATCH].contains(call.method)
            && self.0.cluster.has_plugin(Plugin::ServiceAccount)
            && self.0.virtual_time.is_none();
        for _ in 0..if waits { ACCOUNT_LOOKS } else { 0 } {
            let response = answered(&call, route.clone());
            if response.extensions().get::<AwaitsAccount>().is_none() {
                return response;
            }
            tokio::time::sleep(ACCOUNT_EVERY).await;
            call.now = self.now();
        }
        answered(&call, route)
    }

    /// Serves `/podstorm/clock/advance`.
    async fn advance(
        &self,
        method: &http::Method,
        body: &Bytes,
    ) -> Result<Response<Body>, ApiError> {
        let time = self.0.virtual_time.clone();
        let by_ns = clock::advance_ns(method, time.is_some(), body)?;
        let advance = move || time.map(|time| time.advance(by_ns));
        let now = in_background(advance).await?;
        self.time_has_moved();
        Ok(clock::document(true, now.unwrap_or_else(|| self.now())))
    }
}

/// Negotiates the representation of the answer.
///
/// # Errors
/// 406 if the client accepts none of the route's representations.
fn accepted(head: &Parts, route: &Route) -> Result<Accepted, ApiError> {
    let offer = match route {
        // These have one representation, regardless of what the client accepts.
        Route::Health(..)
        | Route::Metrics
        | Route::Clock
        | Route::Page
        | Route::Live
        | Route::Faults(_)
        | Route::OpenApi(_)
        | Route::OlderOpenApi => return Ok(Accepted::JSON),
        Route::Objects(target) => {
            let is_collection = target.name.is_empty() || target.watched;
            Offer::Objects {
                kind: target.kind,
                has_tables: !["binding", "eviction", "token"]
                    .contains(&target.subresource.as_str()),
                is_watchable: is_collection && head.method == Method::GET,
            }
        }
        Route::Review(kind, _) => Offer::Objects {
            kind: *kind,
            has_tables: false,
            is_watchable: false,
        },
        // The answer is a 404 in any representation.
        Route::UnknownResource | Route::UnknownPath => {
            let accepted = media::accepted(&head.headers, Offer::Plain);
            return Ok(accepted.unwrap_or(Accepted::JSON));
        }
        Route::CoreVersions => Offer::Versions,
        Route::Groups => Offer::Groups,
        Route::Group(_) => Offer::Group,
        Route::Version => Offer::JsonAlone,
        _ => Offer::Plain,
    };
    media::accepted(&head.headers, offer)
}

/// Answers a call. An error becomes a `Status`, and warnings are attached.
fn answered(call: &Call<'_>, route: Route) -> Response<Body> {
    let warning = warnings::of_request(&route, call.method, &call.query, &call.body);
    let served = dispatch::serve(call, route);
    let mut response = served.unwrap_or_else(|error| {
        let mut response = answer::error(&error, call.accepted.form);
        if call.cluster().awaits_account(&error) {
            response.extensions_mut().insert(AwaitsAccount);
        }
        response
    });
    // Warnings about the request precede those about the object.
    if let Some(warning) = warning {
        answer::warn_first(&mut response, &[warning.to_owned()]);
    }
    response
}

/// Runs a task that may take a long time on a thread where it delays no other request.
///
/// # Errors
/// 500 if the task panics, because the cluster has then stopped.
async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| {
        let why = "the simulated cluster has stopped: a component panicked";
        ApiError::status(500, Reason::InternalError, why)
    })
}

impl<B> tower_service::Service<Request<B>> for ApiServer
where
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
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
