//! `loadgen serve` with a kubectl, as a user has them: the very releases that `.ci/kubectl` fetches.

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

/// The releases of kubectl, by the ends of their programs' names.
const RELEASES: [(&str, &str); 2] = [("1.32", "v1.32.3"), ("1.36", "v1.36.3")];

/// What is waited for comes within this many looks, and for longer where a look takes its time: 20 s.
const LOOKS: usize = 200;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// A `loadgen serve`. It is killed when it is dropped.
pub(crate) struct Server {
    process: Child,
    /// Where it listens: `127.0.0.1:8011`.
    pub(crate) address: String,
}

impl Server {
    /// Starts one that keeps its files in a folder, the kubeconfig as `config`.
    pub(crate) fn start(folder: &Path, listen: &str, arguments: &[&str]) -> Server {
        Server::start_program(loadgen(), folder, listen, arguments)
    }

    /// The same of another program with the command `serve`.
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
        read.expect("the server says where it listens");
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

/// A server, and a kubectl to talk to it.
pub(crate) struct Served {
    /// None where the cluster is not ours.
    server: Option<Server>,
    /// The end of kubectl's name.
    release: &'static str,
    folder: TempDir,
}

/// Runs a test with each release of kubectl at a server of its own, both at the same time.
pub(crate) fn with_each(arguments: &[&str], test: impl Fn(&Served) + Sync) {
    let test = &test;
    thread::scope(|scope| {
        for (release, version) in RELEASES {
            scope.spawn(move || test(&Served::start(release, version, arguments)));
        }
    });
}

/// Runs a test with kubectl 1.32 at a server of another program with the command `serve`.
pub(crate) fn with_program(program: &Path, test: impl FnOnce(&Served)) {
    let folder = TempDir::new().expect("a folder for temporary files");
    let server = Server::start_program(program, folder.path(), "127.0.0.1:0", &[]);
    let (release, version) = RELEASES[0];
    test(&Served::of(Some(server), folder, release, version));
}

/// Runs a test with kubectl 1.32 at the cluster of the kubeconfig `config` in a folder.
pub(crate) fn with_kubeconfig(folder: TempDir, test: impl FnOnce(&Served)) {
    let (release, version) = RELEASES[0];
    test(&Served::of(None, folder, release, version));
}

/// Runs a test with kubectl 1.32 alone.
pub(crate) fn with_one(arguments: &[&str], test: impl FnOnce(&Served)) {
    let (release, version) = RELEASES[0];
    test(&Served::start(release, version, arguments));
}

/// A process that goes on beside the test, with its output in a file. It is killed when it is dropped.
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
    /// Waits until its output holds this, and returns the output.
    #[track_caller]
    pub(crate) fn shows(&self, wanted: &str) -> String {
        let read = || std::fs::read_to_string(&self.output).expect("the file was created");
        wait_until(|| squeezed(&read()), |text| text.contains(wanted), wanted)
    }

    /// Waits for its end, which is a success.
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
        Served::of(Some(server), folder, release, version)
    }

    fn of(server: Option<Server>, folder: TempDir, release: &'static str, version: &str) -> Served {
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

    /// Another server for the same kubectl.
    pub(crate) fn another(&self, arguments: &[&str]) -> Served {
        let same = RELEASES
            .iter()
            .find(|(release, _)| *release == self.release);
        let (release, version) = same.expect("it is one of them");
        Served::start(release, version, arguments)
    }

    /// Stops the server, which ends well.
    pub(crate) fn stop(&mut self) {
        let server = self.server.as_mut().expect("the server is ours");
        let process = &mut server.process;
        let pid = i32::try_from(process.id()).expect("a number of a process");
        kill(Pid::from_raw(pid), Signal::SIGTERM).expect("a running process");
        assert!(process.wait().expect("an exit status").success());
    }

    /// The path of a file in the folder that all commands run in.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("the folder takes files");
    }

    /// Writes a manifest and applies it.
    #[track_caller]
    pub(crate) fn apply(&self, manifest: &str) -> String {
        self.file("applied.yaml", manifest);
        self.run("apply -f applied.yaml")
    }

    /// Applies a manifest that is refused.
    #[track_caller]
    pub(crate) fn refuses_manifest(&self, manifest: &str, wanted: &[&str]) {
        self.file("refused.yaml", manifest);
        self.refuses("apply -f refused.yaml", wanted);
    }

    fn command(&self, line: &str) -> Command {
        self.command_of("kubectl", line)
    }

    fn command_of(&self, program: &str, line: &str) -> Command {
        // A shell, as quotes are those of the documentation.
        let mut command = Command::new("sh");
        let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools");
        command
            .args(["-c", &format!("exec \"$PROGRAM\" {line}")])
            .current_dir(&self.folder)
            .env("PROGRAM", tools.join(format!("{program}-{}", self.release)))
            .env("KUBECONFIG", self.path("config"))
            .env("HOME", self.folder.path())
            .env("KUBE_EDITOR", "sh editor.sh")
            // Many run side by side, for a moment each.
            .env("GOMAXPROCS", "1")
            .env("GOGC", "off")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn output(&self, line: &str) -> Output {
        self.command(line).output().expect("a shell")
    }

    /// Starts a command that goes on.
    pub(crate) fn beside(&self, line: &str, output: &str) -> Beside {
        let output = self.path(output);
        let file = File::create(&output).expect("the folder takes files");
        let process = self.command(line).stdout(file).spawn();
        Beside {
            process: process.expect("a shell"),
            output,
        }
    }

    /// Runs a command that succeeds, and returns what it prints, [squeezed].
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

    /// Runs Helm, in the release that comes with the kubectl, and returns what it prints, [squeezed].
    ///
    /// # Errors
    /// What it complains of.
    pub(crate) fn helm(&self, line: &str) -> Result<String, String> {
        let output = self.command_of("helm", line).output();
        let output = output.expect("a shell");
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        match output.status.success() {
            true => Ok(squeezed(&out)),
            false => Err(squeezed(&err)),
        }
    }

    /// Runs commands that succeed.
    #[track_caller]
    pub(crate) fn runs(&self, lines: &[&str]) {
        for line in lines {
            self.run(line);
        }
    }

    /// Runs a command that prints just this.
    #[track_caller]
    pub(crate) fn says(&self, line: &str, wanted: &str) {
        assert_eq!(self.run(line), wanted, "kubectl {} {line}", self.release);
    }

    /// Runs a command whose output holds all this.
    #[track_caller]
    pub(crate) fn shows(&self, line: &str, wanted: &[&str]) {
        self.holds(line, &self.run(line), wanted);
    }

    /// Runs a command that fails, and whose complaint holds all this.
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

    /// Runs a command until it succeeds.
    #[track_caller]
    pub(crate) fn comes(&self, line: &str) {
        let what = format!("kubectl {} {line}", self.release);
        let succeeds = || self.output(line).status.success().to_string();
        wait_until(succeeds, |text| text == "true", &what);
    }

    /// Runs a command until its output is so, and returns the output.
    #[track_caller]
    pub(crate) fn comes_to(&self, line: &str, holds: impl Fn(&str) -> bool) -> String {
        let what = format!("kubectl {} {line}", self.release);
        wait_until(|| self.run(line), holds, &what)
    }

    /// Runs a command until it prints just this.
    #[track_caller]
    pub(crate) fn becomes(&self, line: &str, wanted: &str) {
        let what = format!("kubectl {} {line}: {wanted:?}", self.release);
        wait_until(|| self.run(line), |text| text == wanted, &what);
    }

    /// Runs a command until its output holds all this.
    #[track_caller]
    pub(crate) fn comes_to_show(&self, line: &str, wanted: &[&str]) {
        let what = format!("kubectl {} {line}: {wanted:?}", self.release);
        let all = |text: &str| wanted.iter().all(|wanted| text.contains(wanted));
        wait_until(|| self.run(line), all, &what);
    }

    /// Runs a command until its table, without the last column, which is the age, is this.
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

    /// A request through `kubectl proxy`: status and body of the answer.
    pub(crate) fn rest(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let proxy = self.beside("proxy --port=0", "proxy");
        let told = proxy.shows("Starting to serve on");
        let address = told.rsplit(' ').next().expect("it ends with the address");
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

    /// The words that a command prints: names, mostly.
    #[track_caller]
    pub(crate) fn words(&self, line: &str) -> Vec<String> {
        let text = self.run(line);
        text.split_whitespace().map(str::to_owned).collect()
    }
}

/// The last text, once it is so.
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
    panic!("{what}, at last:\n{last}");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The lines with one space for several, and without what kubectl 1.36 adds to the line of a deletion.
fn squeezed(text: &str) -> String {
    let squeeze = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = text.trim().lines().map(squeeze).collect();
    lines.join("\n").replace(" from default namespace", "")
}
