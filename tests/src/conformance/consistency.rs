//! Cases of `consistency`: the read-your-writes store.

use podstorm::consistency::ConsistencyStore;
use podstorm::object::{Kind, ResourceType, ResourceVersion, Uid};
use serde_json::{Value, json};

use super::Fields;

/// A resource whose writes are recorded, but whose store reports no versions.
static OTHER: ResourceType = ResourceType {
    kind: "Other",
    resource: "other",
    ..ResourceType::DEFAULT
};

const KINDS: [Kind; 3] = [Kind::POD, Kind::REPLICA_SET, Kind::from_row(&OTHER)];

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let store = ConsistencyStore::<String, 3>::new(KINDS);
    let mut reached: [ResourceVersion; 3] = Default::default();
    case.each("ops", |op| run_op(op, &store, &mut reached))
}

fn run_op(
    op: &mut Fields,
    store: &ConsistencyStore<String, 3>,
    reached: &mut [ResourceVersion; 3],
) -> Result<(), String> {
    match op.text("op")?.as_str() {
        "WroteAt" => {
            let (owner, uid) = (op.text("owner")?, Uid::new(&op.text("uid")?));
            let place = place(op)?;
            let version = ResourceVersion::new(&op.text("resourceVersion")?);
            store.wrote_at(owner, &uid, KINDS[place], &version);
        }
        "Clear" => {
            let owner = op.text("owner")?;
            let uid = op.text("uid")?;
            let uid = (!uid.is_empty()).then(|| Uid::new(&uid));
            store.clear(&owner, uid.as_ref());
        }
        "StoreAt" => {
            let place = place(op)?;
            let version = ResourceVersion::new(&op.text("resourceVersion")?);
            if KINDS[place] != Kind::from_row(&OTHER) {
                reached[place] = version;
            }
        }
        "EnsureReady" => {
            let owner = op.text("owner")?;
            let recorded = op.flag("ready")?;
            let reasons = op.list("staleOneOf")?;
            let ours = store.ensure_ready(&owner, reached);
            compare(recorded, &reasons, ours)?;
            if recorded && store.record(&owner).is_some() {
                return Err("the record still exists after the owner was ready".into());
            }
        }
        other => return Err(format!("unknown op {other:?}")),
    }
    Ok(())
}

fn place(op: &mut Fields) -> Result<usize, String> {
    let name = op.text("resource")?;
    let place = KINDS.iter().position(|kind| kind.group_resource() == name);
    place.ok_or_else(|| format!("unknown resource {name:?}"))
}

fn compare(
    recorded: bool,
    reasons: &[Value],
    ours: Result<(), podstorm::consistency::Stale>,
) -> Result<(), String> {
    let stale = match (recorded, ours) {
        (true, Ok(())) if reasons.is_empty() => return Ok(()),
        (false, Err(stale)) => stale,
        (_, ours) => return Err(format!("ready: got {ours:?}, recorded {recorded}")),
    };
    let ours = json!({
        "resource": stale.kind.group_resource(), "wrote": stale.wrote.to_string(),
        "read": stale.store.to_string(), "message": stale.to_string(),
    });
    match reasons.contains(&ours) {
        true => Ok(()),
        false => Err(format!("reason: got {ours}, recorded {reasons:?}")),
    }
}
