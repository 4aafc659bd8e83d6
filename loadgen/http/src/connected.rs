//! The byte stream and the bodies of a connection, which update its [`Activity`]; the task that
//! ends the connection when a deadline passes; and the service that answers its requests.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::answer::Body;
use crate::connections::{Activity, Connection, Stage};
use crate::credentials::User;
use crate::faults::ConnectionLost;
use crate::server::ApiServer;

/// How long an idle HTTP/2 connection stays open after the server announced its end to the client.
const GOODBYE_WITHIN: Duration = Duration::from_secs(5);

/// Serves a connection until it ends, a deadline passes, or another connection needs its slot.
/// When the server stops, the connection ends after the answers in progress.
pub(crate) async fn drive<C: GracefulConnection>(
    http: C,
    connection: &Connection,
    mut stops: watch::Receiver<()>,
) {
    let (activity, limits) = (connection.activity(), connection.limits());
    let deadline = || {
        let latest = Instant::now() + limits.idle;
        // Check the deadline again after the idle limit at the latest, because HTTP/2 finishes
        // answers in tasks of their own.
        let ends_at = activity.ends_at(limits);
        ends_at.map_or(latest, |ends_at| ends_at.min(latest))
    };
    let mut http = pin!(http);
    let mut out = pin!(activity.told_to_go());
    let mut stopped = pin!(async { drop(stops.changed().await) });
    let mut is_leaving = false;
    let mut sleep = pin!(sleep_until(deadline()));
    poll_fn(|context| {
        if !is_leaving && stopped.as_mut().poll(context).is_ready() {
            is_leaving = true;
            http.as_mut().graceful_shutdown();
        }
        // Ignore an I/O error, which ends only this connection.
        if http.as_mut().poll(context).is_ready() || out.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        if let Some(ends_at) = activity.ends_at(limits)
            && ends_at < sleep.deadline()
        {
            sleep.as_mut().reset(ends_at);
        }
        while sleep.as_mut().poll(context).is_ready() {
            let ends_at = activity.ends_at(limits);
            if ends_at.is_none_or(|ends_at| ends_at > Instant::now()) {
                sleep.as_mut().reset(deadline());
                continue;
            }
            if is_leaving || !activity.is_http2() {
                return Poll::Ready(());
            }
            // The client's next request may be in transit: first tell the client that it will not
            // be served here.
            is_leaving = true;
            http.as_mut().graceful_shutdown();
            context.waker().wake_by_ref();
            sleep.as_mut().reset(Instant::now() + GOODBYE_WITHIN);
        }
        Poll::Pending
    })
    .await;
}

/// The byte stream of a connection. If a client closes its sending side, its requests are still
/// answered before the HTTP layer learns that the stream has ended.
#[derive(Debug)]
pub(crate) struct Observed<S> {
    stream: S,
    activity: Arc<Activity>,
    /// Whether the last write was blocked.
    is_full: bool,
}

impl<S> Observed<S> {
    pub(crate) fn new(stream: S, activity: &Arc<Activity>) -> Observed<S> {
        Observed {
            stream,
            activity: Arc::clone(activity),
            is_full: false,
        }
    }

    /// Records the result of a write, and returns it.
    fn wrote(
        &mut self,
        context: &Context<'_>,
        sent: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        self.sent(context, &sent);
        if sent.is_ready() {
            self.activity.has_written();
        }
        sent
    }

    /// Records whether a write or a flush was blocked.
    fn sent<T>(&mut self, context: &Context<'_>, sent: &Poll<io::Result<T>>) {
        self.is_full = sent.is_pending();
        if self.activity.has_ended() && !self.is_full {
            // Wake the task, because nothing else makes the HTTP layer poll for the end.
            context.waker().wake_by_ref();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Observed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let ended = match &read {
            Poll::Ready(Ok(())) => buffer.filled().len() == before,
            // A TLS client may close without `close_notify`.
            Poll::Ready(Err(error)) => error.kind() == io::ErrorKind::UnexpectedEof,
            Poll::Pending => return Poll::Pending,
        };
        if !ended {
            self.activity.has_read();
        } else if self.activity.end(context) || self.is_full {
            // The end of the answer, or of its transmission, makes the HTTP layer read again.
            return Poll::Pending;
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Observed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(context, sent)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.wrote(context, sent)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = Pin::new(&mut self.stream).poll_flush(context);
        self.sent(context, &sent);
        sent
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A request's body that counts as arriving until it is complete.
#[derive(Debug)]
pub(crate) struct Arriving<B> {
    pub(crate) body: B,
    pub(crate) stage: Option<Stage>,
}

impl<B: HttpBody + Unpin> HttpBody for Arriving<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.stage = None;
        } else if let (Poll::Pending, Some(stage)) = (&frame, &self.stage) {
            stage.starve(context);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer's body that counts as being sent until it is complete.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) body: Body,
    pub(crate) stage: Stage,
}

impl HttpBody for Sending {
    type Data = Bytes;
    type Error = ConnectionLost;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ConnectionLost>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if frame.is_ready() {
            self.stage.moves();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Returns the service for the requests of one connection. `user` is the user of the client's
/// certificate, if there is one.
pub(crate) fn service(
    server: &ApiServer,
    user: Option<Arc<User>>,
    connection: &Arc<Connection>,
) -> impl Service<
    Request<Incoming>,
    Response = Response<Sending>,
    Error = ConnectionLost,
    Future: Send + 'static,
> + use<> {
    let (server, connection) = (server.clone(), Arc::clone(connection));
    if user.is_some() {
        connection.prove();
    }
    service_fn(move |mut request: Request<Incoming>| {
        if !connection.is_proven() && server.accepts(request.headers()) {
            connection.prove();
        }
        let refused = server.check_page(&request);
        let activity = connection.activity();
        let (answering, stage) = activity.begin(
            request.version() == Version::HTTP_2,
            !request.body().is_end_stream(),
        );
        if let Some(user) = &user {
            request.extensions_mut().insert(Arc::clone(user));
        }
        let request = request.map(|body| Arriving { body, stage });
        let (server, activity) = (server.clone(), Arc::clone(activity));
        async move {
            // A lost answer closes the connection or resets the stream.
            let response = server.answer_unless(refused, request).await?;
            let stage = activity.send(response.body().is_endless());
            drop(answering);
            Ok(response.map(|body| Sending { body, stage }))
        }
    })
}
