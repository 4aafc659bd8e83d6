//! Tests of when the protection of a volume ends.

use podstorm_objects::{AnyObject, DynamicObject};
use podstorm_runtime::client::{Answer, Request};
use podstorm_runtime::driver::{Driver, sync_all};
use serde_json::json;

use super::*;
use crate::cache::Delta;

#[test]
fn a_volume_is_kept_while_it_is_bound() {
    let deleting = Some("2027-01-15T08:00:00Z");
    for (deleted, held, phase, is_held) in [
        (None, true, "Bound", None),
        (None, false, "Available", Some(true)),
        (deleting, true, "Bound", None),
        (deleting, true, "Released", Some(false)),
        (deleting, true, "Available", Some(false)),
        (deleting, false, "Released", None),
    ] {
        let mut informers = Informers::new(Arc::default());
        let controller = PersistentVolumeProtection::make(&Setup::default(), &mut informers);
        let finalizers: &[&str] = if held {
            &["x.io/other", FINALIZER]
        } else {
            &["x.io/other"]
        };
        let volume = json!({"metadata": {"name": "v", "finalizers": finalizers,
            "deletionTimestamp": deleted}, "status": {"phase": phase}});
        let volume = DynamicObject::from_json(Kind::PERSISTENT_VOLUME, volume).expect("a volume");
        let volume: AnyObject = Arc::new(volume);
        let now = Now {
            mono_ns: 0,
            wall_ns: 0,
        };
        informers
            .take(Kind::PERSISTENT_VOLUME)
            .apply(Delta::Applied(volume), now);
        let mut written = None;
        let mut server = |request: &Request, _: Now| match request {
            Request::Put { object } => {
                let finalizers = object.metadata().finalizers();
                assert_eq!(&*finalizers[0], "x.io/other");
                written = Some(finalizers.len() == 2);
                Answer::Object(object.clone())
            }
            other => panic!("{other:?}"),
        };
        let mut driver = Driver::default();
        sync_all(&*controller, &mut driver, &mut server, now, |_| {});
        assert_eq!(written, is_held, "{deleted:?} {held} {phase}");
    }
}
