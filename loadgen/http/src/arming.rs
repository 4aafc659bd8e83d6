//! `/podstorm/faults`: arming, listing and disarming faults as JSON.

use http::{Method, Response};
use podstorm_apiserver::errors;
use podstorm_objects::{ApiError, Cause, Reason};
use serde_json::{Value, json};

use crate::answer::{self, Body};
use crate::call::Call;
use crate::faults::{ArmedFault, FaultId, InvalidFault, read, write};

/// Serves a request for all faults, or for the fault with the number `id`.
pub(crate) fn serve(call: &Call<'_>, id: Option<&str>) -> Result<Response<Body>, ApiError> {
    let faults = call.server.faults();
    let Some(id) = id else {
        return match *call.method {
            Method::GET | Method::HEAD => Ok(list(&faults.all())),
            Method::POST => arm(call),
            Method::DELETE => Ok(list(&faults.disarm_all())),
            _ => Err(answer::method_not_allowed()),
        };
    };
    let unknown = || {
        let why = format!("no fault {id:?} is armed; GET /podstorm/faults lists the armed faults");
        ApiError::status(404, Reason::NotFound, why)
    };
    let id = FaultId(id.parse().map_err(|_| unknown())?);
    let found = match *call.method {
        Method::GET | Method::HEAD => faults.all().into_iter().find(|armed| armed.id == id),
        Method::DELETE => faults.disarm(id),
        _ => return Err(answer::method_not_allowed()),
    };
    let found = found.ok_or_else(unknown)?;
    Ok(answer::json(200, write(&found).to_string()))
}

fn list(faults: &[ArmedFault]) -> Response<Body> {
    let faults: Vec<Value> = faults.iter().map(write).collect();
    answer::json(200, json!({"faults": faults}).to_string())
}

fn arm(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let fault = read(&call.body).map_err(refused)?;
    let served = call.catalog().group_versions();
    let mut served = served.flat_map(|of| call.catalog().kinds(of).unwrap_or_default());
    let is_served = fault.names_one_of(served.by_ref().copied());
    let resource = fault.resource.clone();
    let faults = call.server.faults();
    let id = faults.arm(fault).map_err(refused)?;
    // `None` if another request has disarmed the fault in the meantime.
    let armed = faults.all().into_iter().find(|armed| armed.id == id);
    let document = armed.map_or(json!({"id": id.0}), |armed| write(&armed));
    let mut response = answer::json(201, document.to_string());
    if !is_served {
        let warning = format!(
            "no resource {resource:?} is served now; resources are named as in `pods/status` and \
             `replicasets.apps`"
        );
        answer::warn(&mut response, &[warning]);
    }
    Ok(response)
}

/// Returns a 400 that names the invalid member.
fn refused(problem: InvalidFault) -> ApiError {
    errors::bad_request(problem.to_string()).with_cause(Cause {
        reason: "FieldValueInvalid".to_owned(),
        message: problem.why,
        field: problem.member,
    })
}
