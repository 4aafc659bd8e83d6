//! A headless Chromium under a test's control: its DevTools protocol over a pipe, each message a
//! line of JSON that ends with a zero byte. The environment variable `CHROMIUM` names a browser
//! outside the path.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// Time limit for an answer of the browser.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Maximum number of checks while waiting: 30 s in total.
const LOOKS: usize = 300;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Returns the path of the browser.
///
/// # Panics
/// No browser is installed.
pub(crate) fn browser() -> PathBuf {
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    named
        .into_iter()
        .chain(names.map(PathBuf::from))
        .find(|name| {
            let version = Command::new(name)
                .arg("--version")
                .stdin(Stdio::null())
                .output();
            version.is_ok_and(|output| output.status.success())
        })
        .expect("no Chromium is installed, and CHROMIUM names none")
}

/// A page in a browser of its own, which ends when the page is dropped.
pub(crate) struct Page {
    browser: Child,
    commands: File,
    messages: Receiver<Value>,
    /// The number of the last command.
    last: u64,
    /// The id of the page's session, after it has been attached.
    session: Option<String>,
    /// The events so far.
    events: Vec<Value>,
    _folder: TempDir,
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ended_before = self.browser.kill();
        let _status = self.browser.wait();
    }
}

impl Page {
    /// Opens an empty page.
    pub(crate) fn new() -> Page {
        Page::with("")
    }

    /// Opens an empty page in a browser that is started with an additional argument.
    pub(crate) fn with(argument: &str) -> Page {
        let program = browser();
        let folder = TempDir::new().expect("a folder for temporary files");
        let made = Command::new("mkfifo")
            .args(["commands", "messages"])
            .current_dir(&folder)
            .status();
        assert!(made.is_ok_and(|status| status.success()), "mkfifo");
        // The browser reads commands from descriptor 3 and writes to descriptor 4.
        let line = "exec \"$0\" --headless --disable-gpu --no-first-run --no-sandbox \
            --disable-background-networking --disable-dev-shm-usage --user-data-dir=profile \
            --remote-debugging-pipe ${1:+\"$1\"} about:blank 3<commands 4>messages";
        let browser = Command::new("sh")
            .args(["-c", line])
            .arg(&program)
            .arg(argument)
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        // Opened in the same order as in the shell, since each end waits for the other.
        let commands = File::options()
            .write(true)
            .open(folder.path().join("commands"))
            .expect("a created file");
        let messages = File::open(folder.path().join("messages")).expect("a created file");
        let (sender, receiver) = channel();
        thread::spawn(move || {
            for message in BufReader::new(messages).split(0) {
                let message = message
                    .ok()
                    .and_then(|text| serde_json::from_slice(&text).ok());
                // Ends after the last message, or when the test no longer receives.
                let (Some(message), sender) = (message, &sender) else {
                    return;
                };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut page = Page {
            browser,
            commands,
            messages: receiver,
            last: 0,
            session: None,
            events: Vec::new(),
            _folder: folder,
        };
        let target = page.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = page.call("Target.attachToTarget", &attach);
        page.session = attached["sessionId"].as_str().map(str::to_owned);
        for part in ["Page", "Runtime", "Log", "Network"] {
            page.call(&format!("{part}.enable"), &json!({}));
        }
        page
    }

    /// Executes a command of the protocol.
    #[track_caller]
    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.last += 1;
        let mut command = json!({"id": self.last, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            command["sessionId"] = session.as_str().into();
        }
        let command = format!("{command}\0");
        self.commands
            .write_all(command.as_bytes())
            .expect("the browser reads");
        loop {
            let message = self.messages.recv_timeout(ANSWER_WITHIN);
            let message = message.unwrap_or_else(|why| panic!("{method}: no answer: {why}"));
            if message["id"] == self.last {
                assert_eq!(message["error"], Value::Null, "{method}");
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    /// Navigates to an address.
    #[track_caller]
    pub(crate) fn go(&mut self, url: &str) {
        let went = self.call("Page.navigate", &json!({"url": url}));
        assert_eq!(went["errorText"], Value::Null, "{url}");
    }

    /// Returns the value of a JavaScript expression.
    #[track_caller]
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", &asked);
        assert_eq!(answer["exceptionDetails"], Value::Null, "{expression}");
        answer["result"]["value"].clone()
    }

    /// Waits until the element with an id has this text.
    #[track_caller]
    pub(crate) fn comes_to_say(&mut self, id: &str, wanted: &str) {
        // Empty while the page is loading.
        let expression = format!("(document.getElementById({id:?}) || {{}}).textContent || ''");
        self.comes_to(&expression, |said| said == wanted);
    }

    /// Waits until the text of an expression satisfies the condition, and returns the text.
    #[track_caller]
    pub(crate) fn comes_to(&mut self, expression: &str, wanted: impl Fn(&str) -> bool) -> String {
        let mut seen = Value::Null;
        for _ in 0..LOOKS {
            seen = self.value(expression);
            if let Some(text) = seen.as_str()
                && wanted(text)
            {
                return text.to_owned();
            }
            thread::sleep(BETWEEN_LOOKS);
        }
        panic!("{expression} stays {seen}");
    }

    /// Sets the preferred color scheme, `light` or `dark`.
    pub(crate) fn prefer(&mut self, colours: &str) {
        let feature = json!({"name": "prefers-color-scheme", "value": colours});
        self.call(
            "Emulation.setEmulatedMedia",
            &json!({"features": [feature]}),
        );
    }

    /// Sets the size of the window in CSS pixels.
    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": true});
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Returns the page's problems so far: messages in the console, exceptions, failed loads.
    pub(crate) fn complaints(&self) -> Vec<&Value> {
        let is_complaint = |event: &&Value| {
            let method = event["method"].as_str().unwrap_or("");
            [
                "Runtime.consoleAPICalled",
                "Runtime.exceptionThrown",
                "Log.entryAdded",
                "Network.loadingFailed",
            ]
            .contains(&method)
        };
        self.events.iter().filter(is_complaint).collect()
    }

    /// Returns the addresses that the page has requested so far.
    pub(crate) fn asked(&self) -> Vec<&str> {
        let sent = self.events.iter();
        let sent = sent.filter(|event| event["method"] == "Network.requestWillBeSent");
        sent.filter_map(|event| event["params"]["request"]["url"].as_str())
            .collect()
    }
}
