//! Temporary: until the codecs are there.
use super::*;
macro_rules! seam { ($($t:ident),*) => {$(
impl Resource for $t {
    const KIND: Kind = Kind::$t;
    fn metadata(&self) -> &ObjectMeta { &self.metadata }
    fn metadata_mut(&mut self) -> &mut ObjectMeta { &mut self.metadata }
    fn from_json(_: serde_json::Value) -> Result<Self, DecodeError> { Err(DecodeError { path: FieldPath::default(), problem: "being written".into() }) }
    fn to_json(&self) -> serde_json::Value { serde_json::Value::Null }
})*}}
seam!(Pod, ReplicaSet, ReplicationController, Node, Namespace, Event);
