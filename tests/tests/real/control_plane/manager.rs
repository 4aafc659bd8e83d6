//! The real kube-controller-manager as a process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The controllers to run, by the names of its release. The server's own ones must be off.
pub(super) const CONTROLLERS: &str =
    "replicaset,replicationcontroller,deployment,garbagecollector,namespace";

/// The value of `--controllers` for a server that a [`Manager`] controls.
pub(super) const OURS_OFF: &str =
    "*,-replicaset,-replicationcontroller,-deployment,-garbagecollector,-namespace";

/// The format of its requests' bodies.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bodies {
    Json,
    Protobuf,
}

/// A kube-controller-manager, killed when it is dropped.
#[derive(Debug)]
pub(super) struct Manager {
    process: Child,
    log: PathBuf,
}

impl Manager {
    /// Starts one with [`CONTROLLERS`] on the server of a kubeconfig, with further flags. Its log
    /// goes to a file.
    pub(super) fn start(
        kubeconfig: &Path,
        log: PathBuf,
        bodies: Bodies,
        flags: &[&str],
    ) -> Manager {
        Manager::with(CONTROLLERS, kubeconfig, log, bodies, flags)
    }

    /// Like [`start`](Manager::start), with these controllers.
    pub(super) fn with(
        controllers: &str,
        kubeconfig: &Path,
        log: PathBuf,
        bodies: Bodies,
        flags: &[&str],
    ) -> Manager {
        let bodies = match bodies {
            Bodies::Json => "application/json",
            Bodies::Protobuf => "application/vnd.kubernetes.protobuf",
        };
        let output = File::create(&log).expect("a file can be written");
        let process = Command::new(built().join("kube-controller-manager"))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--kube-api-content-type={bodies}"))
            .args(["--controllers", controllers])
            // Practically without a limit, as for the server's own controllers.
            .args(["--kube-api-qps=5000", "--kube-api-burst=10000"])
            .args([
                "--use-service-account-credentials=false",
                "--leader-elect=false",
            ])
            .args(["--port=0", "--secure-port=0"])
            .args(flags)
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .expect("a built kube-controller-manager");
        Manager { process, log }
    }

    /// Returns its log.
    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("the file was created")
    }

    /// Kills it immediately, as a failing machine would.
    pub(super) fn kill(&mut self) {
        let _ended_before = self.process.kill();
        let _status = self.process.wait();
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the folder of the programs.
///
/// # Panics
/// The programs have not been built.
pub(super) fn built() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("control-plane/build");
    let output = Command::new(script).arg("--where").output();
    let output = output.expect("bash is installed");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}
