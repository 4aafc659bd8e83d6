//! Cases of `expectations`: operations on one store, and the state after each operation.
//!
//! Every case runs on both stores: the dense store with numeric keys, and the store with string
//! keys.

use podstorm::expectations::{Expectations, ExpectedCounts, NamedExpectations};
use podstorm::intern::StrTable;
use serde_json::{Value, json};

use super::{Fields, expect_eq};

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let mut stores = Stores::default();
    case.each("ops", |op| stores.step(op))
}

#[derive(Default)]
struct Stores {
    ids: StrTable,
    dense: Expectations<u32, String>,
    named: NamedExpectations<String>,
    now_ns: i64,
}

impl Stores {
    fn step(&mut self, op: &mut Fields) -> Result<(), String> {
        let name = op.text("op")?;
        let now_ns = self.now_ns;
        if matches!(&*name, "Advance" | "Check") {
            self.now_ns += op.int("nanos")?;
        } else {
            let key = &*op.text("key")?;
            let id = self.ids.intern(key);
            match &*name {
                "ExpectCreations" => {
                    let add = op.int("add")?;
                    self.dense.expect_creations(id, add, now_ns);
                    self.named.expect_creations(key, add, now_ns);
                }
                "ExpectDeletions" => {
                    let pods = op.texts("pods")?;
                    self.dense.expect_deletions(id, pods.clone(), now_ns);
                    self.named.expect_deletions(key, pods, now_ns);
                }
                "CreationObserved" => {
                    self.dense.creation_observed(id);
                    self.named.creation_observed(key);
                }
                "DeletionObserved" => {
                    let pod = &*op.text("pod")?;
                    let counted = self.dense.deletion_observed(id, pod);
                    let counted_too = self.named.deletion_observed(key, pod);
                    expect_eq(
                        "counted by the store with text keys",
                        &counted_too,
                        &counted,
                    )?;
                }
                "DeleteExpectations" => {
                    self.dense.delete(id);
                    self.named.delete(key);
                }
                "SetExpectations" | "RaiseExpectations" | "LowerExpectations" => {
                    let (add, del) = (op.int("add")?, op.int("del")?);
                    match &*name {
                        "SetExpectations" => {
                            self.dense.set_expectations(id, add, del, now_ns);
                            self.named.set_expectations(key, add, del, now_ns);
                        }
                        "RaiseExpectations" => {
                            self.dense.raise(id, add, del);
                            self.named.raise(key, add, del);
                        }
                        _ => {
                            self.dense.lower(id, add, del);
                            self.named.lower(key, add, del);
                        }
                    }
                }
                other => return Err(format!("unknown op {other:?}")),
            }
        }
        op.each("states", |state| self.compare(state))
    }

    fn compare(&self, state: &mut Fields) -> Result<(), String> {
        let key = &*state.text("key")?;
        let recorded = State {
            exists: state.flag("exists")?,
            add: state.int("add")?,
            del: state.int("del")?,
            uids: match state.take("uids") {
                None | Some(Value::Null) => None,
                Some(uids) => {
                    let mut named = Fields::new(json!({"uids": uids}), "state")?;
                    Some(named.texts("uids")?)
                }
            },
            satisfied: state.flag("satisfied")?,
        };
        let id = self.ids.intern(key);
        let ours = State::new(
            self.dense.counts(id),
            self.dense.pending_deletions(id),
            self.dense.satisfied(id, self.now_ns),
        );
        expect_eq(&format!("{key}, dense"), &ours, &recorded)?;
        let ours = State::new(
            self.named.counts(key),
            self.named.pending_deletions(key),
            self.named.satisfied(key, self.now_ns),
        );
        expect_eq(&format!("{key}, textual"), &ours, &recorded)
    }
}

#[derive(Debug, PartialEq)]
struct State {
    exists: bool,
    add: i64,
    del: i64,
    /// The pending deletions, sorted.
    uids: Option<Vec<String>>,
    satisfied: bool,
}

impl State {
    fn new(counts: Option<ExpectedCounts>, uids: Option<Vec<String>>, satisfied: bool) -> State {
        State {
            exists: counts.is_some(),
            add: counts.map_or(0, |counts| counts.add),
            del: counts.map_or(0, |counts| counts.del),
            uids: uids.map(|mut uids| {
                uids.sort_unstable();
                uids
            }),
            satisfied,
        }
    }
}
