//! `loadgen serve` with kubectl, as a user runs them: the same releases that `.ci/kubectl`
//! downloads.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use podstorm_tests::command::loadgen;
use tempfile::TempDir;

/// The releases of kubectl, with the suffixes of their programs' names.
const RELEASES: [(&str, &str); 2] = [("1.32", "v1.32.3"), ("1.36", "v1.36.3")];

/// Maximum number of checks while waiting: 20 s, or longer if a check takes a long time.
const LOOKS: usize = 200;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// A `loadgen serve`, killed when it is dropped.
pub(crate) struct Server {
    process: Child,
    /// The address it listens on: `127.0.0.1:8011`.
    pub(crate) address: String,
}

impl Server {
    /// Starts a server that keeps its files in a folder, the kubeconfig as `config`.
    pub(crate) fn start(folder: &Path, listen: &str, arguments: &[&str]) -> Server {
        Server::start_program(loadgen(), folder, listen, arguments)
    }

    /// Starts another program's `serve` command in the same way.
    fn start_program(program: &Path, folder: &Path, listen: &str, arguments: &[&str]) -> Server {
        let mut process = Command::new(program)
            .args(["serve", "--listen", listen, "--kubeconfig", "config"])
            .args(arguments)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut first = String::new();
        let stdout = process.stdout.take().expect("a pipe");
        let read = BufReader::new(stdout).read_line(&mut first);
        read.expect("a line with the server's address");
        let address = first.split_whitespace().nth(1);
        let address = address.and_then(|url| url.split_once("://"));
        let address = address.map(|(_, address)| address);
        let address = address.unwrap_or_else(|| panic!("{first}")).to_owned();
        Server { process, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended_before = self.process.kill();
        let _status = self.process.wait();
    }
}

/// A server, and a kubectl that uses it.
pub(crate) struct Served {
    /// `None` if the cluster is not ours.
    server: Option<Server>,
    /// The suffix of kubectl's name.
    release: &'static str,
    folder: TempDir,
}

/// Runs a test with each release of kubectl, concurrently and each with its own server.
pub(crate) fn with_each(arguments: &[&str], test: impl Fn(&Served) + Sync) {
    let test = &test;
    thread::scope(|scope| {
        for (release, version) in RELEASES {
            scope.spawn(move || test(&Served::start(release, version, arguments)));
        }
    });
}

/// Runs a test with kubectl 1.32 on a server of another program's `serve` command.
pub(crate) fn with_program(program: &Path, test: impl FnOnce(&Served)) {
    let folder = TempDir::new().expect("a folder for temporary files");
    let server = Server::start_program(program, folder.path(), "127.0.0.1:0", &[]);
    let (release, version) = RELEASES[0];
    test(&Served::new(Some(server), folder, release, version));
}

/// Runs a test with kubectl 1.32 on the cluster of the kubeconfig `config` in a folder.
pub(crate) fn with_kubeconfig(folder: TempDir, test: impl FnOnce(&Served)) {
    let (release, version) = RELEASES[0];
    test(&Served::new(None, folder, release, version));
}

/// Runs a test only with kubectl 1.32.
pub(crate) fn with_one(arguments: &[&str], test: impl FnOnce(&Served)) {
    let (release, version) = RELEASES[0];
    test(&Served::start(release, version, arguments));
}

/// A background process with its output in a file, killed when it is dropped.
pub(crate) struct Beside {
    process: Child,
    output: PathBuf,
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ended_before = self.process.kill();
        let _status = self.process.wait();
    }
}

impl Beside {
    /// Waits until the output contains a string, and returns the output.
    #[track_caller]
    pub(crate) fn shows(&self, wanted: &str) -> String {
        let read = || std::fs::read_to_string(&self.output).expect("the file was created");
        wait_until(|| squeezed(&read()), |text| text.contains(wanted), wanted)
    }

    /// Waits for the end of the process, which must succeed.
    #[track_caller]
    pub(crate) fn ends(mut self) {
        let mut status = None;
        for _ in 0..LOOKS {
            status = self.process.try_wait().expect("a child process");
            if status.is_some() {
                break;
            }
            thread::sleep(BETWEEN_LOOKS);
        }
        assert!(status.is_some_and(|status| status.success()), "{status:?}");
    }
}

impl Served {
    fn start(release: &'static str, version: &str, arguments: &[&str]) -> Served {
        let folder = TempDir::new().expect("a folder for temporary files");
        let server = Server::start(folder.path(), "127.0.0.1:0", arguments);
        Served::new(Some(server), folder, release, version)
    }

    fn new(
        server: Option<Server>,
        folder: TempDir,
        release: &'static str,
        version: &str,
    ) -> Served {
        let served = Served {
            server,
            release,
            folder,
        };
        let client = served.run("version --client");
        let wanted = format!("Client Version: {version}");
        assert!(
            client.contains(&wanted),
            "{wanted}: run .ci/kubectl: {client}"
        );
        served
    }

    /// Starts another server for the same kubectl.
    pub(crate) fn another(&self, arguments: &[&str]) -> Served {
        let same = RELEASES
            .iter()
            .find(|(release, _)| *release == self.release);
        let (release, version) = same.expect("a known release");
        Served::start(release, version, arguments)
    }

    /// Stops the server, which must exit successfully.
    pub(crate) fn stop(&mut self) {
        let server = self.server.as_mut().expect("a server of ours");
        let process = &mut server.process;
        let pid = i32::try_from(process.id()).expect("a process id");
        kill(Pid::from_raw(pid), Signal::SIGTERM).expect("a running process");
        assert!(process.wait().expect("an exit status").success());
    }

    /// Returns the path of a file in the folder in which all commands run.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("a file can be written");
    }

    /// Writes a manifest and applies it.
    #[track_caller]
    pub(crate) fn apply(&self, manifest: &str) -> String {
        self.file("applied.yaml", manifest);
        self.run("apply -f applied.yaml")
    }

    /// Applies a manifest that must be refused.
    #[track_caller]
    pub(crate) fn refuses_manifest(&self, manifest: &str, wanted: &[&str]) {
        self.file("refused.yaml", manifest);
        self.refuses("apply -f refused.yaml", wanted);
    }

    fn command(&self, line: &str) -> Command {
        self.command_of("kubectl", line)
    }

    fn command_of(&self, program: &str, line: &str) -> Command {
        // Run by a shell, since the quotes are those of the documentation.
        let mut command = Command::new("sh");
        let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools");
        command
            .args(["-c", &format!("exec \"$PROGRAM\" {line}")])
            .current_dir(&self.folder)
            .env("PROGRAM", tools.join(format!("{program}-{}", self.release)))
            .env("KUBECONFIG", self.path("config"))
            .env("HOME", self.folder.path())
            .env("KUBE_EDITOR", "sh editor.sh")
            // Many run concurrently for a moment each.
            .env("GOMAXPROCS", "1")
            .env("GOGC", "off")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn output(&self, line: &str) -> Output {
        self.command(line).output().expect("a shell")
    }

    /// Starts a command in the background.
    pub(crate) fn beside(&self, line: &str, output: &str) -> Beside {
        let output = self.path(output);
        let file = File::create(&output).expect("a file can be written");
        let process = self.command(line).stdout(file).spawn();
        Beside {
            process: process.expect("a shell"),
            output,
        }
    }

    /// Runs a command that must succeed, and returns its output, [squeezed].
    #[track_caller]
    pub(crate) fn run(&self, line: &str) -> String {
        let output = self.output(line);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        let release = self.release;
        assert!(
            output.status.success(),
            "kubectl {release} {line}: {err}{out}"
        );
        squeezed(&out)
    }

    /// Runs Helm, in the release that belongs to the kubectl, and returns its output, [squeezed].
    ///
    /// # Errors
    /// The error output.
    pub(crate) fn helm(&self, line: &str) -> Result<String, String> {
        let output = self.command_of("helm", line).output();
        let output = output.expect("a shell");
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        match output.status.success() {
            true => Ok(squeezed(&out)),
            false => Err(squeezed(&err)),
        }
    }

    /// Runs commands that must succeed.
    #[track_caller]
    pub(crate) fn runs(&self, lines: &[&str]) {
        for line in lines {
            self.run(line);
        }
    }

    /// Runs a command that must print exactly this.
    #[track_caller]
    pub(crate) fn says(&self, line: &str, wanted: &str) {
        assert_eq!(self.run(line), wanted, "kubectl {} {line}", self.release);
    }

    /// Runs a command whose output must contain all these texts.
    #[track_caller]
    pub(crate) fn shows(&self, line: &str, wanted: &[&str]) {
        self.holds(line, &self.run(line), wanted);
    }

    /// Runs a command that must fail with an error that contains all these texts.
    #[track_caller]
    pub(crate) fn refuses(&self, line: &str, wanted: &[&str]) {
        let output = self.output(line);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        let release = self.release;
        assert_eq!(
            output.status.code(),
            Some(1),
            "kubectl {release} {line}: {err}{out}"
        );
        self.holds(line, &squeezed(&err), wanted);
    }

    #[track_caller]
    fn holds(&self, line: &str, text: &str, wanted: &[&str]) {
        for wanted in wanted {
            let release = self.release;
            assert!(
                text.contains(wanted),
                "kubectl {release} {line}: {wanted:?} in:\n{text}"
            );
        }
    }

    /// Runs a command repeatedly until it succeeds.
    #[track_caller]
    pub(crate) fn comes(&self, line: &str) {
        let what = format!("kubectl {} {line}", self.release);
        let succeeds = || self.output(line).status.success().to_string();
        wait_until(succeeds, |text| text == "true", &what);
    }

    /// Runs a command repeatedly until its output satisfies the condition, and returns the output.
    #[track_caller]
    pub(crate) fn comes_to(&self, line: &str, holds: impl Fn(&str) -> bool) -> String {
        let what = format!("kubectl {} {line}", self.release);
        wait_until(|| self.run(line), holds, &what)
    }

    /// Runs a command repeatedly until it prints exactly this.
    #[track_caller]
    pub(crate) fn becomes(&self, line: &str, wanted: &str) {
        let what = format!("kubectl {} {line}: {wanted:?}", self.release);
        wait_until(|| self.run(line), |text| text == wanted, &what);
    }

    /// Runs a command repeatedly until its output contains all these texts.
    #[track_caller]
    pub(crate) fn comes_to_show(&self, line: &str, wanted: &[&str]) {
        let what = format!("kubectl {} {line}: {wanted:?}", self.release);
        let all = |text: &str| wanted.iter().all(|wanted| text.contains(wanted));
        wait_until(|| self.run(line), all, &what);
    }

    /// Runs a command repeatedly until its table, without the last column (the age), equals this.
    #[track_caller]
    pub(crate) fn tabulates(&self, line: &str, wanted: &str) {
        let what = format!("kubectl {} {line}: {wanted:?}", self.release);
        let cut = |line: &str| {
            line.rsplit_once(' ')
                .map_or(String::new(), |it| it.0.to_owned())
        };
        let young = |text: &str| text.lines().map(cut).collect::<Vec<_>>().join("\n") == wanted;
        wait_until(|| self.run(line), young, &what);
    }

    /// Sends a request through `kubectl proxy`. Returns the status and the body of the answer.
    pub(crate) fn rest(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let proxy = self.beside("proxy --port=0", "proxy");
        let told = proxy.shows("Starting to serve on");
        let address = told
            .rsplit(' ')
            .next()
            .expect("a line that ends with the address");
        let mut stream = TcpStream::connect(address).expect("the proxy listens");
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        let sent = stream.write_all(request.as_bytes());
        sent.expect("the proxy reads");
        let answer = std::io::read_to_string(stream).expect("the proxy answers");
        let status = answer.split(' ').nth(1).and_then(|it| it.parse().ok());
        (status.expect("an answer of HTTP"), answer)
    }

    /// Returns the words that a command prints, mostly names.
    #[track_caller]
    pub(crate) fn words(&self, line: &str) -> Vec<String> {
        let text = self.run(line);
        text.split_whitespace().map(str::to_owned).collect()
    }
}

/// Returns the last text, once it satisfies the condition.
#[track_caller]
fn wait_until(text: impl Fn() -> String, holds: impl Fn(&str) -> bool, what: &str) -> String {
    let mut last = String::new();
    for _ in 0..LOOKS {
        last = text();
        if holds(&last) {
            return last;
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    panic!("{what}, finally:\n{last}");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Collapses spaces in lines, and removes what kubectl 1.36 adds to messages about deletions.
fn squeezed(text: &str) -> String {
    let squeeze = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = text.trim().lines().map(squeeze).collect();
    lines.join("\n").replace(" from default namespace", "")
}
