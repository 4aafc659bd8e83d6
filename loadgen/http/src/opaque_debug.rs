//! `Debug` for types whose fields mean nothing to a reader, or hold secrets.

/// Implements `Debug` for types: their name, without fields.
macro_rules! opaque_debug {
    ($($name:ident $(<$lifetime:lifetime>)?),+) => {$(
        impl std::fmt::Debug for $name $(<$lifetime>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )+};
}
