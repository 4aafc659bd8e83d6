//! What the API server would refuse, said before the run instead of during it.

use podstorm::object::DecodeError;

use crate::input::InputObject;

pub(super) fn check(_object: &InputObject) -> Result<(), DecodeError> {
    Ok(())
}
