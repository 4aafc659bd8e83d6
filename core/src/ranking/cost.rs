//! The annotation that holds the deletion cost of a pod.

/// The key of the annotation.
pub const DELETION_COST_ANNOTATION: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The error for an annotation value that is not a valid cost. Such a value counts as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pod deletion cost is not a decimal 32-bit integer")]
pub struct InvalidDeletionCost;

/// Parses the deletion cost in an annotation; 0 if the annotation is absent.
///
/// # Errors
/// Fails if the value is not a decimal 32-bit integer, begins with `+`, or begins with `0` and has
/// more characters (leading zeros after a minus sign are allowed). Ranking counts the cost of such
/// pods as 0. They are rare, because the API server refuses invalid values.
pub fn deletion_cost(annotation: Option<&str>) -> Result<i32, InvalidDeletionCost> {
    match annotation {
        None | Some("0") => Ok(0),
        Some(text) if text.starts_with(['-', '1', '2', '3', '4', '5', '6', '7', '8', '9']) => {
            text.parse().map_err(|_| InvalidDeletionCost)
        }
        Some(_) => Err(InvalidDeletionCost),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_32_bit_integers_are_valid_costs() {
        for (text, cost) in [
            ("0", 0),
            ("7", 7),
            ("-7", -7),
            ("-0", 0),
            ("-00", 0),
            ("-08", -8),
            ("2147483647", i32::MAX),
            ("-2147483648", i32::MIN),
        ] {
            assert_eq!(deletion_cost(Some(text)), Ok(cost), "{text}");
        }
        assert_eq!(deletion_cost(None), Ok(0));
    }

    #[test]
    fn anything_else_is_invalid_and_never_clamped() {
        for text in [
            "",
            "+5",
            "08",
            "00",
            " 5",
            "5 ",
            "٣",
            "-",
            "--1",
            "-+1",
            "1e3",
            "1_0",
            "0x5",
            "a",
            "2147483648",
            "-2147483649",
            "1.0",
        ] {
            let cost = deletion_cost(Some(text));
            assert_eq!(cost, Err(InvalidDeletionCost), "{text:?}");
        }
    }
}
