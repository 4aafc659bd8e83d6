//! The image of a container: when it is pulled, and how failed pulls are retried.

use podstorm::client::EventType::{Normal, Warning};
use serde_json::Value;

use super::SECOND_NS;
use super::container::{Container, SHOWN_NS, State};
use super::events::{ContainerRef, Notes, PULLED};
use super::restarts::{BACKOFF_MAX_NS, BACKOFF_MIN_NS};
use super::status::go_duration;

/// The delay after which a missing image that may not be pulled is looked for again, ns.
const ABSENT_RETRY_NS: i64 = 10 * SECOND_NS;
/// The size of every simulated image, bytes.
const IMAGE_BYTES: i64 = 10 << 20;

/// The pull policy of a container's image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

impl PullPolicy {
    /// Returns the pull policy of a container in a spec; the default depends on the image's tag.
    pub(super) fn from_container(container: &Value) -> PullPolicy {
        match container["imagePullPolicy"].as_str() {
            Some("Always") => PullPolicy::Always,
            Some("Never") => PullPolicy::Never,
            Some("IfNotPresent") => PullPolicy::IfNotPresent,
            _ => {
                let image = container["image"].as_str().unwrap_or("");
                let name = image.rsplit('/').next().unwrap_or(image);
                let has_tag = name.contains([':', '@']) && !name.ends_with(":latest");
                match has_tag {
                    true => PullPolicy::IfNotPresent,
                    false => PullPolicy::Always,
                }
            }
        }
    }
}

/// Returns the runtime's error for an image that can't be pulled.
fn pull_error(image: &str) -> String {
    format!("failed to pull image \"{image}\": not found")
}

/// Returns the message of `ImagePullBackOff`.
pub(in crate::nodes) fn back_off_pulling(image: &str) -> String {
    let error = pull_error(image);
    format!("Back-off pulling image \"{image}\": ErrImagePull: {error}")
}

impl Container {
    /// Records the Event for the start of a pull, if the image will be pulled and the Event is not
    /// recorded yet.
    pub(super) fn announce_pull(&mut self, at_ns: i64, notes: &mut Notes) {
        let fails = self.is_unpullable || !self.part.pulls(self.failed_pulls);
        let pulls = match self.pull_policy {
            PullPolicy::Always => true,
            PullPolicy::IfNotPresent => fails || !self.is_present,
            PullPolicy::Never => false,
        };
        if pulls && self.pulling_since_ns.is_none() {
            self.pulling_since_ns = Some(at_ns);
            let image = &self.image;
            let of = Some(ContainerRef::new(&self.name, self.role));
            notes.add(of, Normal, "Pulling", || {
                format!("Pulling image \"{image}\"")
            });
        }
    }

    /// Pulls the image. If the pull fails, the error is the container's new state, with the reason,
    /// the message, the time at which the status shows a back-off, and the time of the retry.
    pub(super) fn pull(&mut self, at_ns: i64, notes: &mut Notes) -> Result<(), State> {
        self.announce_pull(at_ns, notes);
        let since_ns = self.pulling_since_ns.take();
        let of = Some(ContainerRef::new(&self.name, self.role));
        let image = &self.image;
        if self.is_unpullable && self.pull_policy == PullPolicy::Never {
            const ABSENT: &str = "ErrImageNeverPull";
            let message =
                format!("Container image \"{image}\" is not present with pull policy of Never");
            notes.add(of, Warning, ABSENT, || message.clone());
            notes.add(of, Warning, "Failed", || format!("Error: {ABSENT}"));
            return Err(State::Refused {
                reason: ABSENT,
                message,
                shown_ns: None,
                retry_ns: Some(at_ns.saturating_add(ABSENT_RETRY_NS)),
            });
        }
        if self.is_unpullable || !self.part.pulls(self.failed_pulls) {
            let doublings = self.failed_pulls.min(6);
            let pause_ns = (BACKOFF_MIN_NS << doublings).min(BACKOFF_MAX_NS);
            self.failed_pulls += 1;
            let message = pull_error(image);
            notes.add(of, Warning, "Failed", || {
                format!("Failed to pull image \"{image}\": {message}")
            });
            notes.add(of, Warning, "Failed", || "Error: ErrImagePull".to_owned());
            return Err(State::Refused {
                reason: "ErrImagePull",
                message,
                shown_ns: Some(at_ns.saturating_add(SHOWN_NS)),
                retry_ns: Some(at_ns.saturating_add(pause_ns)),
            });
        }
        notes.add(of, Normal, PULLED, || match since_ns {
            Some(since_ns) => {
                let took = go_duration(at_ns - since_ns);
                format!(
                    "Successfully pulled image \"{image}\" in {took} ({took} including waiting). \
                     Image size: {IMAGE_BYTES} bytes."
                )
            }
            None => format!(
                "Container image \"{image}\" already present on machine and can be accessed by the pod"
            ),
        });
        self.is_present = true;
        Ok(())
    }
}
