//! The capacity of a node, as a Kubernetes quantity in canonical form.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use podstorm_objects::{Quantity, canonical_quantity, milli_quantity};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::written;

/// A number of cores, greater than zero: `32`, `500m`.
#[derive(Clone, Debug, PartialEq)]
pub struct Cores(String);

/// A number of bytes, greater than zero: `256Gi`, `64G`.
#[derive(Clone, Debug, PartialEq)]
pub struct Bytes(String);

macro_rules! amount {
    ($type:ident) => {
        impl $type {
            /// Returns the value as a quantity.
            pub(crate) fn quantity(&self) -> Quantity {
                self.0.parse().expect("the text was parsed as a quantity")
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

amount!(Cores);
amount!(Bytes);

impl FromStr for Cores {
    type Err = String;

    fn from_str(text: &str) -> Result<Cores, String> {
        let given = milli_quantity(text).zip(text.parse::<Quantity>().ok());
        let (cores, amount) = given.ok_or("expected a number of cores, such as 32 or 500m")?;
        match amount > Quantity::default() {
            true => Ok(Cores(cores)),
            false => Err("must be above 0".to_owned()),
        }
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Bytes, String> {
        let given = canonical_quantity(text).zip(text.parse::<Quantity>().ok());
        let (bytes, amount) = given.ok_or("expected a number of bytes, such as 256Gi or 64G")?;
        match amount {
            amount if amount <= Quantity::default() => Err("must be above 0".to_owned()),
            amount if !amount.is_whole() => Err(
                "is not a whole number of bytes; the suffix m means thousandths, M millions"
                    .to_owned(),
            ),
            _ => Ok(Bytes(bytes)),
        }
    }
}

written!(Cores, "Cores", "a number of cores, as a quantity: 32, 500m", number: true);
written!(Bytes, "Bytes", "a number of bytes, as a quantity: 256Gi, 64G", number: true);
