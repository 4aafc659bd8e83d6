//! JSON without a tree. A text is read into a flat [`Tape`]. Objects are decoded from the tape and
//! written with a [`Writer`]. Members without a typed field are carried as text in a [`Rest`].

mod block_yaml;
mod edit;
mod quick;
mod rest;
mod tape;
mod value;
mod writer;

pub use edit::Members;
pub use rest::{Rest, raw_member};
pub use tape::Tape;
pub(crate) use value::order;
pub use value::{Items, JsonValue, Pairs};
pub use writer::{Scalar, Writer};
