//! JSON without a tree. A text is read into a flat [`Tape`]; objects are decoded from the tape and
//! written with a [`Writer`]. Members without a typed field are carried as text in a [`Rest`].

mod block_yaml;
mod quick;
mod rest;
mod tape;
mod value;
mod writer;

pub use rest::Rest;
pub use tape::Tape;
pub(crate) use value::order;
pub use value::{Items, JsonValue, Pairs};
pub use writer::Writer;
