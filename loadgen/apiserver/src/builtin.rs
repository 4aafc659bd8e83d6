//! The kinds without a type of their own that every cluster serves, a row each.

use podstorm_objects::{Kind, ResourceType};

static ROWS: [ResourceType; 0] = [];

/// All of them.
pub(crate) fn kinds() -> impl Iterator<Item = Kind> {
    ROWS.iter().map(Kind::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_sound() {
        for row in &ROWS {
            assert!(row.is_sound(), "{}", row.kind);
        }
    }
}
