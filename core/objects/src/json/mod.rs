//! JSON without a tree: a text is read into a flat [`Tape`], objects are decoded from it and written
//! back with a [`Writer`], and members that nobody reads are carried as text in a [`Rest`].

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
