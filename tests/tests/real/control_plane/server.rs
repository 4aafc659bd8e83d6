//! The real kube-apiserver as a process, with its etcd.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::control_plane::manager::built;
use crate::served::{Served, with_kubeconfig};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Maximum number of checks for a file: 60 s in total.
const LOOKS: usize = 600;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Processes that are killed at the end of the test.
struct Processes(Vec<Child>);

impl Drop for Processes {
    fn drop(&mut self) {
        // Stops the server before its store.
        for process in self.0.iter_mut().rev() {
            let _ended_before = process.kill();
            let _status = process.wait();
        }
    }
}

/// Runs a test with kubectl 1.32 on a real API server without nodes, where a deleted pod disappears
/// immediately.
pub(super) fn with_real_server(test: impl FnOnce(&Served)) {
    let folder = TempDir::new().expect("a folder for temporary files");
    let path = folder.path();
    let [store, peers, server] = [(); 3].map(|()| free_address());
    let etcd = [
        format!("--data-dir={}", path.join("etcd").display()),
        format!("--listen-client-urls=http://{store}"),
        format!("--advertise-client-urls=http://{store}"),
        format!("--listen-peer-urls=http://{peers}"),
        "--unsafe-no-fsync".to_owned(),
    ];
    let mut processes = Processes(vec![start("etcd", &etcd, path)]);
    let key = path.join("key");
    let made = Command::new("openssl")
        // The server accepts only the older format.
        .args(["genrsa", "-traditional", "-out"])
        .args([&key, Path::new("2048")])
        .output()
        .expect("openssl is installed");
    let error = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "openssl: {error}");
    let tokens = path.join("tokens");
    write(&tokens, &format!("{TOKEN},test,test,\"system:masters\"\n"));
    let flags = [
        "--bind-address=127.0.0.1",
        "--authorization-mode=AlwaysAllow",
        "--disable-admission-plugins=ServiceAccount",
        "--endpoint-reconciler-type=none",
        "--service-account-issuer=https://kubernetes.default.svc",
    ];
    let own = [
        format!("--etcd-servers=http://{store}"),
        format!("--secure-port={}", server.port()),
        format!("--cert-dir={}", path.join("certificates").display()),
        format!("--token-auth-file={}", tokens.display()),
        format!("--service-account-signing-key-file={}", key.display()),
        format!("--service-account-key-file={}", key.display()),
    ];
    let flags: Vec<_> = flags.map(str::to_owned).into_iter().chain(own).collect();
    processes.0.push(start("kube-apiserver", &flags, path));
    let certificate = path.join("certificates/apiserver.crt");
    await_file(&certificate);
    let config = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: it\n\
         clusters: [{{name: it, cluster: {{server: 'https://{server}', certificate-authority: {}}}}}]\n\
         users: [{{name: it, user: {{token: {TOKEN}}}}}]\n\
         contexts: [{{name: it, context: {{cluster: it, user: it}}}}]\n",
        certificate.display()
    );
    write(&path.join("config"), &config);
    with_kubeconfig(folder, |served| {
        served.comes("get namespace default");
        test(served);
    });
    drop(processes);
}

fn start(program: &str, flags: &[String], folder: &Path) -> Child {
    let log = folder.join(format!("{program}.log"));
    let output = File::create(log).expect("a file can be written");
    let process = Command::new(built().join(program))
        .args(flags)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(output)
        .spawn();
    process.expect("a built program")
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("a file can be written");
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("the listener is bound")
}

fn await_file(path: &Path) {
    for _ in 0..LOOKS {
        if fs::read_to_string(path).is_ok_and(|text| text.ends_with('\n')) {
            return;
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    panic!("{} was not written", path.display());
}
