//! Prints the name of the ReplicaSet for a Deployment's template, whose last part is also a label
//! of its pods: `kubectl get deployment web -o json | cargo run --example replica_set_name`.

use std::error::Error;
use std::io::{self, Read, Write as _};
use std::process::ExitCode;

use podstorm::object::{Deployment, Resource as _};
use podstorm::template::{pod_template_hash, replica_set_name};

fn main() -> ExitCode {
    let (text, exit_code) = match name(io::stdin().lock()) {
        Ok(name) => (name, ExitCode::SUCCESS),
        Err(error) => (format!("not a Deployment: {error}"), ExitCode::FAILURE),
    };
    match writeln!(io::stdout(), "{text}") {
        Ok(()) => exit_code,
        Err(_) => ExitCode::FAILURE,
    }
}

fn name(input: impl Read) -> Result<String, Box<dyn Error>> {
    let deployment = Deployment::from_json(serde_json::from_reader(input)?)?;
    let collisions = deployment.status.collision_count;
    let hash = pod_template_hash(&deployment.spec.template, collisions);
    Ok(replica_set_name(&deployment.metadata.name, &hash).into())
}

#[test]
fn a_deployment_has_a_name_for_its_template() {
    let web = r#"{"metadata": {"name": "web"}, "spec": {"template": {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "nginx:1.27"}]}}}}"#;
    assert_eq!(name(web.as_bytes()).ok().as_deref(), Some("web-5547cb94"));
    assert!(name("{".as_bytes()).is_err());
}
