//! Watches of kinds that are known only at run time.

use std::fmt;

use podstorm_objects::{AnyObject, Now, Object, WatchEvent};

use super::{Poll, Watch};
use crate::Strategy;

/// A [`Watch`] of a kind that is known only at run time.
pub struct AnyWatch(Box<dyn Erased>);

/// An event, and the object before it.
#[derive(Debug)]
pub struct Seen {
    /// The event itself.
    pub event: WatchEvent<dyn Object>,
    /// The object before the event; absent if the event added the object, and if the cluster does
    /// not [keep past states](crate::ClusterOptions::keeps_past).
    pub before: Option<AnyObject>,
}

trait Erased: Send {
    fn poll_seen(&mut self, max: usize, now: Now, out: &mut Vec<Seen>) -> Poll;
    fn poll(&mut self, max: usize, now: Now, out: &mut Vec<WatchEvent<dyn Object>>) -> Poll;
    fn request_bookmark(&mut self);
    fn is_ended(&self) -> bool;
}

impl<R: Strategy> Erased for Watch<R> {
    fn poll(&mut self, max: usize, now: Now, out: &mut Vec<WatchEvent<dyn Object>>) -> Poll {
        self.poll_each(max, now, &mut |event, _| out.push(event.erased()))
    }

    fn poll_seen(&mut self, max: usize, now: Now, out: &mut Vec<Seen>) -> Poll {
        self.poll_each(max, now, &mut |event, before| {
            let before = match event {
                WatchEvent::Modified(_) | WatchEvent::Deleted(_) => before.get(),
                _ => None,
            };
            out.push(Seen {
                event: event.erased(),
                before: before.map(|before| before as AnyObject),
            });
        })
    }

    fn request_bookmark(&mut self) {
        Watch::request_bookmark(self);
    }

    fn is_ended(&self) -> bool {
        Watch::is_ended(self)
    }
}

impl AnyWatch {
    pub(crate) fn new<R: Strategy>(watch: Watch<R>) -> AnyWatch {
        AnyWatch(Box::new(watch))
    }

    /// See [`Watch::poll`].
    pub fn poll(&mut self, max: usize, now: Now, out: &mut Vec<WatchEvent<dyn Object>>) -> Poll {
        self.0.poll(max, now, out)
    }

    /// Like [`poll`](AnyWatch::poll), but with the objects before, which watches with a selector
    /// need.
    pub fn poll_seen(&mut self, max: usize, now: Now, out: &mut Vec<Seen>) -> Poll {
        self.0.poll_seen(max, now, out)
    }

    /// See [`Watch::request_bookmark`].
    pub fn request_bookmark(&mut self) {
        self.0.request_bookmark();
    }

    /// See [`Watch::is_ended`].
    pub fn is_ended(&self) -> bool {
        self.0.is_ended()
    }
}

impl fmt::Debug for AnyWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyWatch").finish_non_exhaustive()
    }
}
