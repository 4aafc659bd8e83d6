//! The page at `/` of `loadgen serve` in a real browser: it follows the cluster while it is open,
//! fits on any screen, sends requests only to the server, and reconnects when the server restarts.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::browser::Page;
use crate::served::Server;

const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const UNPULLABLE: &str = "broken";

/// A server, with the folder of its files.
struct Cluster {
    server: Server,
    _folder: TempDir,
}

impl Cluster {
    fn start(listen: &str) -> Cluster {
        let folder = TempDir::new().expect("a folder for temporary files");
        let arguments = ["--pods-per-node", "1000", "--unpullable-image", UNPULLABLE];
        Cluster {
            server: Server::start(folder.path(), listen, &arguments),
            _folder: folder,
        }
    }

    fn connect(&self, method: &str, path: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.server.address).expect("the server listens");
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream
            .write_all(request.as_bytes())
            .expect("the server reads");
        stream
    }

    #[track_caller]
    fn create(&self, name: &str, replicas: u64, image: &str) {
        let labels = json!({"app": name});
        let container = json!({"name": "c", "image": image});
        let set = json!({"metadata": {"name": name}, "spec": {"replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}});
        let mut answer = String::new();
        let mut stream = self.connect("POST", SETS, &set.to_string());
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }
}

/// Returns the sum of red, green and blue of a computed color: 0 is black, 765 white.
fn brightness(colour: &Value) -> u32 {
    let text = colour.as_str().expect("a color as text");
    let numbers = text.split(|c: char| !c.is_ascii_digit());
    numbers
        .filter_map(|number| number.parse::<u32>().ok())
        .take(3)
        .sum()
}

#[test]
#[ignore = "needs a browser: cargo real"]
fn the_page_of_a_cluster_follows_it() {
    let cluster = Cluster::start("127.0.0.1:0");
    let url = format!("http://{}/", cluster.server.address);
    let mut page = Page::new();
    page.resize(1100, 800);
    page.go(&url);
    // The verdict is green only while there is a current sample.
    let colour = "getComputedStyle(document.getElementById('state')).color";
    page.comes_to_say("state", "live");
    let good = page.value(colour);
    page.value("document.getElementById('state').className = 'verdict'");
    assert_ne!(page.value(colour), good, "the color while connecting");
    page.value("document.getElementById('state').className = 'verdict good'");
    for (id, text) in [
        ("desired", "0"),
        ("existing", "0"),
        ("ready", "0"),
        ("nodes", "3"),
    ] {
        page.comes_to_say(id, text);
    }

    // Changes while the page is open.
    cluster.create("web", 1234, "fine");
    for id in ["desired", "existing", "ready"] {
        page.comes_to_say(id, "1,234");
    }
    page.comes_to_say("share", "100 % of desired");
    let rows = page.value(
        "Object.fromEntries([...document.querySelectorAll('#verbs tr, #objects tr')].map((row) => \
         [row.cells[0].textContent, [...row.cells].at(-1).textContent]))",
    );
    for (name, number) in [
        ("create", "1"),
        ("pods", "1,234"),
        ("replicasets.apps", "1"),
    ] {
        assert_eq!(rows[name], number, "{name}: {rows}");
    }
    // The lines rise.
    for (chart, lines) in [("pods", 3), ("requests", 5), ("writes", 5)] {
        let drawn = format!(
            "[...document.querySelectorAll('#{chart} path.line')].map((line) => \
             line.getAttribute('d')).join()"
        );
        let drawn = page.comes_to(&drawn, |paths| paths.contains('V'));
        assert_eq!(drawn.split(',').count(), lines, "{chart}: {drawn}");
        assert!(!drawn.contains("NaN"), "{chart}: {drawn}");
    }

    // A watch, and a ReplicaSet whose pods never become ready.
    let watch = cluster.connect("GET", "/api/v1/pods?watch=true", "");
    page.comes_to_say("watches-now", "1");
    cluster.create("stuck", 2, UNPULLABLE);
    page.comes_to_say("desired", "1,236");
    page.comes_to_say("existing", "1,236");
    page.comes_to_say("ready", "1,234");
    let behind = page.value("document.querySelector('#behind th').textContent");
    assert_eq!(behind, "default/stuck");
    drop(watch);
    page.comes_to_say("watches-now", "0");

    // Light and dark color schemes.
    let colours = "[document.body, document.querySelector('#pods')].flatMap((part) => \
        [getComputedStyle(part).backgroundColor, getComputedStyle(part).color])";
    for (preferred, is_dark) in [("light", false), ("dark", true)] {
        page.prefer(preferred);
        let seen = page.value(colours);
        for (number, colour) in seen.as_array().expect("a list").iter().enumerate() {
            // Backgrounds alternate with texts.
            let is_back = number % 2 == 0;
            let bright = brightness(colour);
            let expected = if is_back == is_dark {
                0..=150
            } else {
                600..=765
            };
            assert!(expected.contains(&bright), "{preferred}: {seen}");
        }
    }

    // On a phone, nothing extends past the right edge of the screen or of its box.
    page.resize(360, 740);
    let wide = page.value(
        "[...document.querySelectorAll('body, body *')].filter((part) => part.getBoundingClientRect().right > 360.5 \
         || getComputedStyle(part).overflowX === 'auto' && part.scrollWidth > part.clientWidth)\
         .map((part) => part.outerHTML.slice(0, 80))",
    );
    assert_eq!(wide, json!([]));
    assert_eq!(page.value("document.documentElement.scrollWidth"), 360);

    assert_eq!(page.complaints(), [&Value::Null; 0]);
    let asked = page.asked();
    assert_eq!(asked, [url.clone(), format!("{url}podstorm/live")]);

    // The server stops, and another starts at the same address.
    let address = cluster.server.address.clone();
    drop(cluster);
    page.comes_to_say("state", "connection lost");
    assert_eq!(page.value("document.getElementById('lost').hidden"), false);
    let cluster = Cluster::start(&address);
    page.comes_to_say("state", "live");
    page.comes_to_say("desired", "0");
    assert_eq!(page.value("document.getElementById('lost').hidden"), true);
    cluster.create("web", 5, "fine");
    page.comes_to_say("ready", "5");
}
