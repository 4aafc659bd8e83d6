//! The servers to measure, as processes, and the resources that they use.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use crate::Programs;

/// The token that every server with TLS accepts.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// The unit of the CPU times that Linux reports.
const TICK: Duration = Duration::from_millis(10);

/// A running program, which is killed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    /// Starts a program that writes its output to a file.
    pub(crate) fn start(
        program: &Path,
        arguments: &[String],
        log: &Path,
    ) -> anyhow::Result<Process> {
        let output = fs::File::create(log).with_context(|| log.display().to_string())?;
        let errors = output.try_clone()?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn();
        let child = child.with_context(|| program.display().to_string())?;
        Ok(Process(child))
    }

    /// Returns the CPU time used so far, user and system.
    pub(crate) fn cpu(&self) -> Duration {
        let text = self.proc("stat");
        // The program's name, in parentheses, may contain spaces.
        let after = text.rsplit_once(')').map_or("", |it| it.1);
        let ticks = after.split_ascii_whitespace().skip(11).take(2);
        let ticks = ticks.filter_map(|word| word.parse::<u32>().ok());
        TICK * ticks.sum()
    }

    /// Returns the current resident memory, in bytes.
    pub(crate) fn resident(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// Returns the maximum resident memory since [`forget_peak`](Process::forget_peak), in bytes.
    pub(crate) fn peak(&self) -> u64 {
        self.status("VmHWM:")
    }

    pub(crate) fn forget_peak(&self) -> anyhow::Result<()> {
        let path = format!("/proc/{}/clear_refs", self.0.id());
        fs::write(&path, "5").context(path)
    }

    fn status(&self, member: &str) -> u64 {
        let text = self.proc("status");
        let line = text.lines().find_map(|line| line.strip_prefix(member));
        let words = line.and_then(|line| line.split_ascii_whitespace().next());
        words.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0) * 1024
    }

    fn proc(&self, file: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{file}", self.0.id())).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ended_before = self.0.kill();
        let _status = self.0.wait();
    }
}

/// A running server, with its store and its clients' configuration.
pub(crate) struct Server {
    pub(crate) api: Process,
    /// The store of the server's objects, if it is a separate process.
    pub(crate) store: Option<Process>,
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<TlsConnector>,
    pub(crate) token: Option<&'static str>,
    /// The kubeconfig for other clients.
    pub(crate) kubeconfig: PathBuf,
    /// The time at which the server was started.
    pub(crate) began: Instant,
}

impl Server {
    /// Starts our server without nodes. The server may not be listening yet.
    pub(crate) fn ours(programs: &Programs<'_>, tls: bool) -> anyhow::Result<Server> {
        let arguments = words(
            "serve --nodes 0 --controllers=-garbagecollector --disable-admission-plugins=ServiceAccount \
             --max-requests-inflight 0 --max-mutating-requests-inflight 0",
        );
        Server::served(programs.loadgen, programs.folder, arguments, tls)
    }

    /// Starts our server with these arguments of `loadgen`. The server may not be listening yet.
    pub(crate) fn served(
        loadgen: &Path,
        folder: &Path,
        mut arguments: Vec<String>,
        tls: bool,
    ) -> anyhow::Result<Server> {
        let (began, address) = (Instant::now(), free_address()?);
        let kubeconfig = folder.join(format!("ours-{}.kubeconfig", address.port()));
        arguments.push(format!("--listen={address}"));
        arguments.push(format!("--kubeconfig={}", kubeconfig.display()));
        if tls {
            let tokens = folder.join("tokens");
            fs::write(&tokens, format!("{TOKEN},bench,bench\n"))?;
            arguments.push("--tls".to_owned());
            arguments.push(format!("--token-auth-file={}", tokens.display()));
        }
        let log = folder.join(format!("ours-{}.log", address.port()));
        let api = Process::start(loadgen, &arguments, &log)?;
        let mut server = Server {
            api,
            store: None,
            address,
            tls: None,
            token: tls.then_some(TOKEN),
            kubeconfig,
            began,
        };
        if tls {
            let config = when_written(&server.kubeconfig)?;
            let authority = config.split_once("certificate-authority-data: ");
            let authority = authority
                .context("the kubeconfig has no certificate authority")?
                .1;
            let authority = authority.lines().next().unwrap_or_default();
            let pem = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, authority)?;
            server.tls = Some(connector(&pem)?);
        }
        Ok(server)
    }

    /// Starts a real kube-apiserver with etcd. The server may not be listening yet.
    pub(crate) fn real(programs: &Programs<'_>) -> anyhow::Result<Server> {
        let folder = tempfile::TempDir::new_in(programs.folder)?.keep();
        let (clients, peers, address) = (free_address()?, free_address()?, free_address()?);
        let etcd = [
            format!("--data-dir={}", folder.join("etcd").display()),
            format!("--listen-client-urls=http://{clients}"),
            format!("--advertise-client-urls=http://{clients}"),
            format!("--listen-peer-urls=http://{peers}"),
            // The subject is the server, not this machine's disk.
            "--unsafe-no-fsync".to_owned(),
        ];
        let program = |name: &str| programs.control_plane.join(name);
        let began = Instant::now();
        let store = Process::start(&program("etcd"), &etcd, &folder.join("etcd.log"))?;
        let key = folder.join("key");
        // The traditional form is the only one that this kube-apiserver accepts.
        let made = Command::new("openssl")
            .args(["genrsa", "-traditional", "-out"])
            .arg(&key)
            .arg("2048")
            .output()
            .context("openssl")?;
        ensure!(
            made.status.success(),
            "openssl: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        let tokens = folder.join("tokens");
        fs::write(&tokens, format!("{TOKEN},bench,bench,\"system:masters\"\n"))?;
        let certificates = folder.join("certificates");
        let mut api = words(
            "--bind-address=127.0.0.1 --authorization-mode=AlwaysAllow --disable-admission-plugins=ServiceAccount \
             --endpoint-reconciler-type=none --service-account-issuer=https://kubernetes.default.svc \
             --max-requests-inflight=0 --max-mutating-requests-inflight=0 --enable-priority-and-fairness=false",
        );
        api.extend([
            format!("--etcd-servers=http://{clients}"),
            format!("--secure-port={}", address.port()),
            format!("--cert-dir={}", certificates.display()),
            format!("--token-auth-file={}", tokens.display()),
            format!("--service-account-signing-key-file={}", key.display()),
            format!("--service-account-key-file={}", key.display()),
        ]);
        let log = folder.join("apiserver.log");
        let api = Process::start(&program("kube-apiserver"), &api, &log)?;
        let certificate = certificates.join("apiserver.crt");
        let pem = when_written(&certificate)?;
        let kubeconfig = folder.join("kubeconfig");
        let config = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: it\nclusters:\n- name: it\n  cluster:\n    server: https://{address}\n    \
             certificate-authority: {}\nusers:\n- name: it\n  user: {{token: {TOKEN}}}\ncontexts:\n- name: it\n  context: {{cluster: it, user: it}}\n",
            certificate.display()
        );
        fs::write(&kubeconfig, config)?;
        Ok(Server {
            api,
            store: Some(store),
            address,
            tls: Some(connector(pem.as_bytes())?),
            token: Some(TOKEN),
            kubeconfig,
            began,
        })
    }

    /// Returns the CPU times of the server and of its store so far.
    pub(crate) fn cpu(&self) -> [Duration; 2] {
        let store = self.store.as_ref().map(Process::cpu);
        [self.api.cpu(), store.unwrap_or_default()]
    }
}

pub(crate) fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port")?;
    Ok(listener.local_addr()?)
}

/// Waits until a program has written a file, and returns the content.
fn when_written(path: &Path) -> anyhow::Result<String> {
    for _ in 0..2000 {
        match fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return Ok(text),
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    bail!("{} was not written", path.display())
}

/// Creates a connector that trusts the certificates in this PEM.
fn connector(pem: &[u8]) -> anyhow::Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate.context("a certificate")?)?;
    }
    ensure!(!roots.is_empty(), "no certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
