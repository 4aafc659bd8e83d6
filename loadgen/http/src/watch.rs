//! `GET` with `watch`: events as lines of JSON, for as long as the client listens. A line is
//! encoded when the client's connection takes it, never ahead of time. The events for a slow client
//! stay in the history, which is bounded.
//!
//! Source: `endpoints/handlers/watch.go` and the watch cache of Kubernetes' apiserver.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use podstorm_apiserver::{AnyWatch, Seen, WatchFrom, WatchOptions, errors};
use podstorm_objects::json::Writer;
use podstorm_objects::{
    AnyObject, ApiError, DynamicObject, Kind, Now, Object, ResourceVersion, WatchEvent,
};
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep};

use crate::answer::{self, Bits, Body, NextPart};
use crate::call::Call;
use crate::catalog::GroupVersion;
use crate::encoded::Shows;
use crate::faults::{Asked, ConnectionLost, Waiting, WatchFault};
use crate::media::{Form, Shape, WATCHED, not_acceptable};
use crate::query::{Query, options_invalid, version_number};
use crate::route::Target;
use crate::select::Selection;
use crate::server::ApiServer;
use crate::table::Include;
use crate::{protobuf, table, view};

/// The interval of bookmarks, if the client requested them. The same as in upstream.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The time between the last bookmark and the end of a watch, as in upstream.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// The default duration of a watch. Upstream picks a random one between 30 and 60 minutes.
const TIMEOUT: Duration = Duration::from_secs(45 * 60);

pub(crate) fn watch(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    let query = &call.query;
    if call.accepted.form == Form::Yaml {
        let message = format!("only the following media types are accepted: {WATCHED}");
        return Err(not_acceptable(message));
    }
    let (timeout, _) = query.of_collection()?;
    let selection = Selection::from_query(target, query)?;
    let begin = Beginning::from_query(query, call.cluster().resource_version())?;
    let waiting = Arc::new(Waiting::watch(Asked::of_target(
        call.method,
        call.headers,
        target,
        query,
    )));
    let wakes = Arc::clone(&waiting);
    let options = WatchOptions {
        waker: Some(Arc::new(move || wakes.wake())),
        ..WatchOptions::default()
    };
    let api = call.api(target.kind);
    let history_begins = call.server.0.history_begins;
    let watched = match begin.from {
        WatchFrom::Version(version) if version < history_begins => {
            Err(errors::expired(version, history_begins))
        }
        from => api.watch(from, options),
    };
    let (events, failed) = match watched {
        Ok(events) => (Some(events), None),
        // Upstream answers 200 before it checks its history, so this error is sent as an event.
        Err(error) if error.code == 410 => (None, Some(error)),
        Err(error) => return Err(error),
    };
    let timeout = match timeout {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs()),
        _ => TIMEOUT,
    };
    let end = Instant::now() + timeout.min(TIMEOUT * 1000);
    let include = Include::from_query(query)?;
    // Nothing fails below this line, so a fault strikes only watches that open.
    call.server.add_watch(&waiting);
    let body = WatchBody {
        _counted: OpenWatch::new(call.server, target.kind),
        server: call.server.clone(),
        lines: Lines {
            form: call.accepted.form,
            kind: target.kind,
            shape: call.accepted.shape,
            include,
            selection,
            columns_sent: false,
        },
        followed: call.catalog().generation,
        events,
        failed,
        waiting,
        seen: Vec::new(),
        bookmarks: query.flag("allowWatchBookmarks"),
        initial_end: begin.marks_end,
        end: Box::pin(tokio::time::sleep_until(end)),
        bookmark: Box::pin(tokio::time::sleep_until(next_bookmark(Instant::now(), end))),
        last_bookmark_sent: false,
        ended: false,
        look: None,
    };
    Ok(answer::watch(call.accepted.form, body))
}

/// The start of a watch, and whether a bookmark marks the end of the initial state.
struct Beginning {
    from: WatchFrom,
    marks_end: bool,
}

impl Beginning {
    fn from_query(query: &Query<'_>, current: u64) -> Result<Beginning, ApiError> {
        let forbidden = |why: &str| {
            let cause = errors::forbidden_field("resourceVersionMatch", why);
            Err(options_invalid("ListOptions", cause))
        };
        let matching = query.text("resourceVersionMatch");
        let initial = query.has("sendInitialEvents");
        if initial && matching != "NotOlderThan" {
            return forbidden(
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            );
        }
        if !initial && !matching.is_empty() {
            return forbidden(
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            );
        }
        let wanted = match query.resource_version() {
            ResourceVersion::Unset => 0,
            ResourceVersion::Number(number) => number,
            ResourceVersion::Opaque(text) => version_number(text.as_str())?,
        };
        if wanted > current {
            return Err(errors::version_too_large(wanted, current));
        }
        let all = query.flag("sendInitialEvents");
        // Without a version, the watch begins with the initial state, unless the client declined
        // it.
        let from_state = all || wanted == 0 && !initial;
        Ok(Beginning {
            from: match (from_state, wanted) {
                (true, _) => WatchFrom::Initial,
                (false, 0) => WatchFrom::Version(current),
                (false, version) => WatchFrom::Version(version),
            },
            marks_end: all,
        })
    }
}

fn next_bookmark(now: Instant, end: Instant) -> Instant {
    let last = end.checked_sub(LAST_BOOKMARK).unwrap_or(now).max(now);
    (now + BOOKMARK_EVERY).min(last)
}

/// The body of an open watch.
#[derive(Debug)]
struct WatchBody {
    server: ApiServer,
    /// Counts the watch as open while it exists.
    _counted: OpenWatch,
    lines: Lines,
    /// The generation of the catalog from which `lines.kind` was taken.
    followed: u64,
    /// `None` if the watch could not begin.
    events: Option<AnyWatch>,
    /// The error that ends the watch immediately.
    failed: Option<ApiError>,
    waiting: Arc<Waiting>,
    /// Scratch buffer for polled events.
    seen: Vec<Seen>,
    bookmarks: bool,
    initial_end: bool,
    end: Pin<Box<Sleep>>,
    bookmark: Pin<Box<Sleep>>,
    last_bookmark_sent: bool,
    ended: bool,
    /// The timer after which a watch that is held by a fault checks the clock again.
    look: Option<Pin<Box<Sleep>>>,
}

impl Bits for WatchBody {
    /// Returns the next line, or `None` at the end of the watch.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<NextPart> {
        if self.ended {
            return Poll::Ready(Ok(None));
        }
        // Register the waker before checking for events and the end, so that neither is missed.
        let met = self.waiting.wait(context.waker());
        if self.server.is_draining() {
            return Poll::Ready(Ok(None));
        }
        match met {
            None => {}
            Some(WatchFault::Held(hold)) => {
                let time = self.server.time_of_holds();
                let over = hold.poll_over(time, &mut self.look, context);
                if over.is_pending() {
                    return self.poll_end(context);
                }
            }
            Some(WatchFault::Expire) => {
                let current = self.server.cluster().resource_version();
                self.failed = Some(errors::expired(current, current + 1));
            }
            Some(WatchFault::End) => {
                self.ended = true;
                return Poll::Ready(Ok(None));
            }
            Some(WatchFault::Cut) => {
                self.ended = true;
                return Poll::Ready(Err(ConnectionLost));
            }
        }
        if let Some(error) = self.failed.take() {
            self.ended = true;
            let line = self.lines.error(&error);
            return Poll::Ready(Ok(Some(line.into())));
        }
        let mut out = self.next_event();
        if self.bookmark.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            let next = next_bookmark(now, self.end.deadline());
            let is_last = self.last_bookmark_sent;
            self.last_bookmark_sent = next <= now;
            self.bookmark.as_mut().reset(match self.last_bookmark_sent {
                true => self.end.deadline() + BOOKMARK_EVERY,
                false => next,
            });
            if self.bookmarks && !is_last && out.is_none() {
                let current = self.server.cluster().resource_version();
                let version = ResourceVersion::Number(current);
                out = Some(self.lines.bookmark(&version, false).into());
            }
            context.waker().wake_by_ref();
        }
        if out.is_some() {
            return Poll::Ready(Ok(out));
        }
        self.poll_end(context)
    }
}

impl WatchBody {
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<NextPart> {
        if self.ended || self.is_undefined() || self.end.as_mut().poll(context).is_ready() {
            self.ended = true;
            return Poll::Ready(Ok(None));
        }
        Poll::Pending
    }

    /// Updates the kind to its current definition. Reports whether the definition was deleted.
    fn is_undefined(&mut self) -> bool {
        let kind = self.lines.kind;
        if kind.row().custom.is_none() {
            return false;
        }
        let catalog = self.server.catalog();
        if self.followed != catalog.generation {
            let of = GroupVersion::parse(kind.api_version());
            let Some(kind) = catalog.find(&of, kind.resource()) else {
                return true;
            };
            (self.lines.kind, self.followed) = (kind, catalog.generation);
        }
        false
    }

    /// Returns the line of the next pending event; `None` if no event is pending.
    fn next_event(&mut self) -> Option<Bytes> {
        // Events that precede the end are still sent, so ignore the result.
        let _is_undefined = self.is_undefined();
        let events = self.events.as_mut()?;
        let now = self.server.now();
        let lines = &mut self.lines;
        loop {
            let poll = events.poll_seen(1, now, &mut self.seen);
            let line = self.seen.pop().and_then(|seen| match seen.event {
                WatchEvent::Bookmark {
                    version,
                    initial_events_end,
                } => (initial_events_end && self.initial_end && self.bookmarks)
                    .then(|| lines.bookmark(&version, true).into()),
                WatchEvent::Error(error) => {
                    self.ended = true;
                    Some(lines.error(&error).into())
                }
                WatchEvent::Added(object) => lines.change(&self.server, "ADDED", &object, None),
                WatchEvent::Modified(object) => {
                    lines.change(&self.server, "MODIFIED", &object, seen.before.as_ref())
                }
                WatchEvent::Deleted(object) => {
                    lines.change(&self.server, "DELETED", &object, seen.before.as_ref())
                }
            });
            if line.is_some() {
                self.server.metrics().watch_sends(lines.kind, 1);
            }
            if line.is_some() || !poll.more {
                return line;
            }
        }
    }
}

/// The encoding of a watch's events as lines.
#[derive(Debug)]
struct Lines {
    form: Form,
    kind: Kind,
    shape: Shape,
    include: Include,
    selection: Selection,
    columns_sent: bool,
}

impl Lines {
    /// Encodes a change as the selection sees it: an object that begins to match is added, and one
    /// that no longer matches is deleted.
    fn change(
        &mut self,
        server: &ApiServer,
        what: &'static str,
        object: &AnyObject,
        before: Option<&AnyObject>,
    ) -> Option<Bytes> {
        let is = self.selection.matches(&**object);
        let was = before.is_none_or(|before| self.selection.matches(&**before));
        let what = match (what, was, is) {
            ("ADDED", _, true) | ("DELETED", true, _) | ("MODIFIED", true, true) => what,
            ("MODIFIED", false, true) => "ADDED",
            // Send the object as it last matched, with the version of the change.
            ("MODIFIED", true, false) => {
                let mut last = before?.to_json();
                let version = object.metadata().resource_version.to_string();
                last["metadata"]["resourceVersion"] = version.into();
                let stored = view::stored_kind(self.kind);
                let last = DynamicObject::from_json(stored, last).ok()?;
                let line = match view::shown(self.kind, Arc::new(last)) {
                    Ok(last) => self.put_object("DELETED", &*last, server.now()),
                    Err(error) => self.error(&error),
                };
                return Some(line.into());
            }
            _ => return None,
        };
        let shown = match view::shown(self.kind, Arc::clone(object)) {
            Ok(shown) => shown,
            Err(error) => return Some(self.error(&error).into()),
        };
        let version = object.metadata().resource_version.number();
        match (self.shape, version) {
            // The object is sent as it is stored, so all watches share the line.
            (Shape::Object | Shape::Discovery, Some(version)) if Arc::ptr_eq(&shown, object) => {
                let shows = Shows {
                    version,
                    what,
                    form: self.form,
                };
                let encode = || self.put_object(what, &*shown, Now::default());
                Some(server.0.encoded.line(shows, encode))
            }
            _ => Some(self.put_object(what, &*shown, server.now()).into()),
        }
    }

    fn put_object(&mut self, what: &str, object: &dyn Object, now: Now) -> Vec<u8> {
        let text = match self.shape {
            Shape::Object | Shape::Discovery => {
                let mut text = Writer::new();
                object.write_json(&mut text);
                text.into_string()
            }
            Shape::Metadata(version) | Shape::MetadataList(version) => {
                table::partial(object, version).to_string()
            }
            Shape::Table(version) => {
                let mut table = table::row_alone(self.kind, object, version, self.include, now);
                if !std::mem::replace(&mut self.columns_sent, true) {
                    table["columnDefinitions"] = table::columns(self.kind);
                }
                table.to_string()
            }
        };
        self.put(what, &text)
    }

    fn bookmark(&self, version: &ResourceVersion, end_of_initial: bool) -> Vec<u8> {
        let (kind, shape) = (self.kind, self.shape);
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if end_of_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        // Upstream keeps this number in an internal field and converts it to an annotation even in
        // a bookmark.
        if kind.name() == "DaemonSet" && matches!(shape, Shape::Object | Shape::Discovery) {
            metadata["annotations"]["deprecated.daemonset.template.generation"] = "0".into();
        }
        let object: Value = match shape {
            Shape::Object | Shape::Discovery => {
                json!({"kind": kind.name(), "apiVersion": kind.api_version(), "metadata": metadata})
            }
            Shape::Metadata(meta) | Shape::MetadataList(meta) => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": meta, "metadata": metadata})
            }
            Shape::Table(meta) => {
                let object = json!({"kind": "PartialObjectMetadata", "apiVersion": meta,
                    "metadata": metadata});
                json!({"kind": "Table", "apiVersion": meta,
                    "metadata": {"resourceVersion": version.to_string()},
                    "columnDefinitions": null, "rows": [{"cells": [], "object": object}]})
            }
        };
        self.put("BOOKMARK", &object.to_string())
    }

    fn error(&self, error: &ApiError) -> Vec<u8> {
        self.put("ERROR", &error.to_json().to_string())
    }

    fn put(&self, what: &str, object: &str) -> Vec<u8> {
        if self.form == Form::Protobuf {
            // The text is this server's own JSON, so it always parses.
            let object = serde_json::from_str(object).unwrap_or_default();
            let mut out = Vec::new();
            protobuf::put_event(&mut out, what, &object);
            return out;
        }
        let parts = ["{\"type\":\"", what, "\",\"object\":", object, "}\n"];
        parts.concat().into_bytes()
    }
}

/// An open watch, counted until it is dropped.
#[derive(Debug)]
struct OpenWatch {
    server: ApiServer,
    kind: Kind,
}

impl OpenWatch {
    fn new(server: &ApiServer, kind: Kind) -> OpenWatch {
        server.metrics().watch_opens(kind);
        OpenWatch {
            server: server.clone(),
            kind,
        }
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.server.metrics().watch_ends(self.kind);
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Empty};
    use podstorm_apiserver::{Cluster, ClusterOptions};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_idle_watch_ends_when_the_server_shuts_down() {
        let cluster = Arc::new(Cluster::new(ClusterOptions::default()));
        let server = ApiServer::builder(cluster).build();
        let open = || {
            let request = http::Request::get("/api/v1/pods?watch=true");
            request.body(Empty::<Bytes>::new()).unwrap()
        };
        let body = server.answer(open()).await.unwrap().into_body();
        let waiting = tokio::spawn(body.collect());
        let began = Instant::now();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!waiting.is_finished());
        server.drain();
        waiting.await.unwrap().unwrap();
        let body = server.answer(open()).await.unwrap().into_body();
        body.collect().await.unwrap();
        assert_eq!(began.elapsed(), Duration::from_secs(1));
    }
}
