//! A served cluster like the recorded one, and a folder in which the commands run in sequence.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use podstorm_tests::command::loadgen;
use serde_json::Value;
use tempfile::TempDir;

/// A command starts when this many checks in a row have found no change, or after the maximum
/// number.
const QUIET_LOOKS: usize = 5;
const LOOKS_MAX: usize = 300;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Interval of checks for the end of a command.
const TICK: Duration = Duration::from_millis(5);

/// Time from the start of a command to that of the concurrent ones, and from their end to its
/// interruption.
const AROUND_MEANWHILE: Duration = Duration::from_millis(700);

/// The properties of the recorded cluster, as flags.
const SETTINGS: &str = "serve --listen=127.0.0.1:0 --tls --token-auth-file=tokens.csv --kubeconfig=config \
    --nodes=0 --pod-startup-latency=0s --node-choice=first --unpullable-image=*broken* --finish-pods --endless-command=sleep \
    --pod-network=192.0.2.0/24 --container-id=c://1 --image-id=sha256:0 --pod-events=false --reach-kubelets=false \
     --disable-admission-plugins=ServiceAccount --filename";

/// The sender of the recorded commands.
const TOKENS: &str = "admintoken,admin,admin-uid,system:masters\n";

/// The output of a command.
pub(super) struct Printed {
    /// `None` if the command was killed.
    pub(super) exit: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

pub(super) struct Session {
    server: Child,
    /// The address of `kubectl proxy`, for requests over plain HTTP, and its process.
    proxy: Child,
    proxied: String,
    folder: TempDir,
}

impl Drop for Session {
    fn drop(&mut self) {
        for process in [&mut self.proxy, &mut self.server] {
            let _ended_before = process.kill();
            let _status = process.wait();
        }
    }
}

impl Session {
    pub(super) fn start(nodes: &Path) -> Session {
        let folder = TempDir::new().expect("a folder for temporary files");
        for name in ["bin", "work", "tmp"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder can be created");
        }
        std::fs::write(folder.path().join("tokens.csv"), TOKENS).expect("a file can be written");
        let kubectl = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/kubectl-1.32");
        let kubectl = kubectl.canonicalize().expect("run .ci/kubectl first");
        std::os::unix::fs::symlink(kubectl, folder.path().join("bin/kubectl"))
            .expect("a link can be created");
        let mut server = Command::new(loadgen())
            .args(SETTINGS.split(' '))
            .arg(nodes)
            .current_dir(&folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        first_line(&mut server, "Serving https://");
        for line in [
            "kubectl config rename-context $(kubectl config current-context) rec",
            "kubectl config set-credentials admin --token=admintoken",
            "kubectl config set-context rec --user=admin",
        ] {
            let status = command(folder.path(), line).stdout(Stdio::null()).status();
            assert!(status.is_ok_and(|status| status.success()), "{line}");
        }
        let mut proxy = command(folder.path(), "exec kubectl proxy --port=0")
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let line = first_line(&mut proxy, "Starting to serve on ");
        let proxied = line["Starting to serve on ".len()..].trim().to_owned();
        Session {
            server,
            proxy,
            proxied,
            folder,
        }
    }

    /// Runs the command of a case once the cluster is idle. The command is killed if it takes too
    /// long.
    pub(super) fn play(&self, case: &Value, within: Duration) -> Printed {
        for (name, text) in case["files"].as_object().into_iter().flatten() {
            let path = self.path("work").join(name);
            std::fs::write(path, text.as_str().unwrap_or("")).expect("a file can be written");
        }
        self.wait_until_quiet();
        let line = case["command"].as_str().expect("a case has a command");
        let mut command = command(self.folder.path(), &format!("exec {line}"));
        for (name, value) in case["env"].as_object().into_iter().flatten() {
            command.env(name, value.as_str().unwrap_or(""));
        }
        let stdin = self.path("stdin");
        std::fs::write(&stdin, case["stdin"].as_str().unwrap_or("")).expect("a writable folder");
        let mut process = command
            .stdin(File::open(stdin).expect("a written file"))
            .stdout(self.create("stdout"))
            .stderr(self.create("stderr"))
            // Its child processes are killed with it.
            .process_group(0)
            .spawn()
            .expect("a shell");
        if let Some(others) = case["meanwhile"].as_array() {
            thread::sleep(AROUND_MEANWHILE);
            for line in others.iter().filter_map(Value::as_str) {
                self.run_beside(line);
            }
            thread::sleep(AROUND_MEANWHILE);
            signal(&process, Signal::SIGINT);
        }
        let exit = wait(&mut process, within);
        let read = |name| {
            let bytes = std::fs::read(self.path(name)).expect("a created file");
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Printed {
            exit,
            stdout: read("stdout"),
            stderr: read("stderr"),
        }
    }

    fn run_beside(&self, line: &str) {
        let mut command = command(self.folder.path(), line);
        let status = command.stdout(Stdio::null()).stdin(Stdio::null()).status();
        assert!(status.is_ok_and(|status| status.success()), "{line}");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn create(&self, name: &str) -> File {
        File::create(self.path(name)).expect("a file can be written")
    }

    /// Waits until the server's version is stable, and until no pod shows `ErrImagePull`, which it
    /// does only for one second.
    fn wait_until_quiet(&self) {
        let (mut version, mut same) = (self.version(), 0);
        for _ in 0..LOOKS_MAX {
            thread::sleep(BETWEEN_LOOKS);
            let now = self.version();
            same = if now == version { same + 1 } else { 0 };
            if same >= QUIET_LOOKS && !self.get("/api/v1/pods").contains("\"ErrImagePull\"") {
                return;
            }
            version = now;
        }
    }

    /// Returns the version of the server's newest write.
    fn version(&self) -> String {
        let answer = self.get("/api/v1/namespaces?limit=1");
        let (_, version) = answer
            .split_once("\"resourceVersion\":\"")
            .expect("a list has a version");
        version.split('"').next().unwrap_or("").to_owned()
    }

    /// Returns the answer to a read of a path.
    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.proxied).expect("the proxy listens");
        let host = &self.proxied;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let sent = stream.write_all(request.as_bytes());
        sent.expect("the proxy reads");
        std::io::read_to_string(stream).expect("the proxy answers")
    }
}

/// Returns the first line of a process that begins with `start`.
fn first_line(process: &mut Child, start: &str) -> String {
    let mut line = String::new();
    let stdout = process.stdout.take().expect("a pipe");
    let read = BufReader::new(stdout).read_line(&mut line);
    read.expect("a line of output");
    assert!(line.starts_with(start), "{line}");
    line
}

fn command(folder: &Path, line: &str) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("sh");
    command
        .args(["-c", line])
        .current_dir(folder.join("work"))
        .env("PATH", format!("{}:{path}", folder.join("bin").display()))
        .env("KUBECONFIG", folder.join("config"))
        .env("HOME", folder)
        .env("TMPDIR", folder.join("tmp"))
        // Each process is short-lived.
        .env("GOGC", "off");
    command
}

fn signal(process: &Child, signal: Signal) {
    let pid = i32::try_from(process.id()).expect("a number of a process");
    // The process may have ended on its own.
    let _gone = kill(Pid::from_raw(-pid), signal);
}

/// Returns the exit code of a process; `None` if it had to be killed or was interrupted.
fn wait(process: &mut Child, within: Duration) -> Option<i32> {
    for _ in 0..within.as_millis() / TICK.as_millis() {
        if let Some(status) = process.try_wait().expect("a child process") {
            return status.code().filter(|_| status.signal().is_none());
        }
        thread::sleep(TICK);
    }
    signal(process, Signal::SIGKILL);
    process.wait().expect("a child process");
    None
}
