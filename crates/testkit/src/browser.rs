//! A headless Chromium, driven through ChromeDriver by the W3C WebDriver protocol: JSON over HTTP.
//! For tests of pages; both programs must be installed.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

/// The field that names an element in answers.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// How long a condition is waited for, in milliseconds of the browser's clock.
const PATIENCE: u64 = 20_000;
/// Without them Chromium does not run as root, asks the network for things, or draws differently.
const ARGUMENTS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
];

/// A browser with one page, which a program's tests share: each has it until it drops it, and the
/// browser ends with the last that has it or waits for it.
pub struct Browser {
    chromium: Arc<Chromium>,
    _turn: MutexGuard<'static, ()>,
}

/// Starting Chromium takes longer than most of the tests.
static CHROMIUM: Mutex<Weak<Chromium>> = Mutex::new(Weak::new());
static TURN: Mutex<()> = Mutex::new(());

impl Browser {
    /// The browser as it began, at an empty page. What pages keep they keep by their origin, and each
    /// test has another.
    pub fn start() -> Self {
        let chromium = Chromium::shared();
        // A test that failed has left nothing that is not put back here.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let browser = Self { chromium, _turn: turn };
        browser.open_url("about:blank");
        browser.devtools("Emulation.clearDeviceMetricsOverride", json!({}));
        browser.devtools("Emulation.setEmulatedMedia", json!({ "features": [] }));
        browser.console();
        browser
    }

    /// Opens a file.
    pub fn open(&self, file: &Path) {
        let url = format!("file://{}", file.canonicalize().unwrap().display());
        self.tell("url", json!({ "url": url }));
    }

    /// Opens an address.
    pub fn open_url(&self, url: &str) {
        self.tell("url", json!({ "url": url }));
    }

    /// Presses keys one after the other, wherever the focus is.
    pub fn press(&self, keys: &[&str]) {
        let press = |key: &&str| {
            ["keyDown", "keyUp"].map(|how| json!({ "type": how, "value": key })).to_vec()
        };
        let actions: Vec<_> = keys.iter().flat_map(press).collect();
        self.act(json!({ "type": "key", "id": "keys", "actions": actions }));
    }

    /// The value of a function's body.
    pub fn run(&self, script: &str) -> Value {
        self.tell("execute/sync", json!({ "script": script, "args": [] }))
    }

    /// Waits until the expression is true, and fails where it never becomes so.
    pub fn wait(&self, expression: &str) {
        let script = format!(
            "const done = arguments[0], end = Date.now() + {PATIENCE};\n\
             (function look() {{\n\
               if ({expression}) return done(true);\n\
               Date.now() < end ? setTimeout(look, 20) : done(false);\n\
             }})();"
        );
        let held = self.tell("execute/async", json!({ "script": script, "args": [] }));
        assert_eq!(held, true, "never true: {expression}");
    }

    /// Clicks the first element that the selector finds.
    pub fn click(&self, selector: &str) {
        let path = format!("element/{}/click", self.find(selector));
        self.tell(&path, json!({}));
    }

    /// Types into the first element that the selector finds.
    pub fn write(&self, selector: &str, text: &str) {
        let path = format!("element/{}/value", self.find(selector));
        self.tell(&path, json!({ "text": text }));
    }

    /// Turns the wheel over the middle of an element; a positive `by` away from its top.
    pub fn wheel(&self, selector: &str, by: i64) {
        let origin = json!({ ELEMENT: self.find(selector) });
        let turn = json!({ "type": "scroll", "origin": origin, "x": 0, "y": 0, "deltaX": 0, "deltaY": by });
        self.act(json!({ "type": "wheel", "id": "wheel", "actions": [turn] }));
    }

    /// Drags an element by its middle, to the right where `by` is positive.
    pub fn drag(&self, selector: &str, by: i64) {
        let origin = json!({ ELEMENT: self.find(selector) });
        let press = json!({ "type": "pointerDown", "button": 0 });
        let start = json!({ "type": "pointerMove", "origin": origin, "x": 0, "y": 0 });
        let moved =
            json!({ "type": "pointerMove", "origin": "pointer", "x": by, "y": 0, "duration": 50 });
        let actions = [start, press, moved, json!({ "type": "pointerUp", "button": 0 })];
        self.act(json!({ "type": "pointer", "id": "mouse", "actions": actions }));
    }

    /// The window's size, as a page sees it.
    pub fn size(&self, width: u32, height: u32) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", size);
    }

    /// The colours that its user prefers: `light` or `dark`.
    pub fn prefer(&self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.devtools("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
    }

    /// The console messages since the last call.
    pub fn console(&self) -> Vec<String> {
        let log = self.tell("se/log", json!({ "type": "browser" }));
        let lines = log.as_array().unwrap().iter();
        lines.map(|line| format!("{}: {}", line["level"], line["message"])).collect()
    }

    fn devtools(&self, name: &str, parameters: Value) {
        self.tell("goog/cdp/execute", json!({ "cmd": name, "params": parameters }));
    }

    fn act(&self, actions: Value) {
        self.tell("actions", json!({ "actions": [actions] }));
    }

    fn find(&self, selector: &str) -> String {
        let by = json!({ "using": "css selector", "value": selector });
        self.tell("element", by)[ELEMENT].as_str().unwrap().to_owned()
    }

    fn tell(&self, what: &str, body: Value) -> Value {
        let path = format!("/session/{}/{what}", self.chromium.session);
        self.chromium
            .driver
            .ask(&Method::POST, &path, &body)
            .unwrap_or_else(|error| panic!("{what}: {error}"))
    }
}

/// A browser with an empty profile, and its driver.
struct Chromium {
    driver: Driver,
    session: String,
}

impl Chromium {
    fn shared() -> Arc<Self> {
        let mut shared = CHROMIUM.lock().unwrap();
        shared.upgrade().unwrap_or_else(|| {
            let started = Arc::new(Self::start());
            *shared = Arc::downgrade(&started);
            started
        })
    }

    fn start() -> Self {
        let driver = Driver::start();
        let mut arguments = ARGUMENTS.map(str::to_owned).to_vec();
        arguments.push(format!("--user-data-dir={}", driver.profile.path().display()));
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
            "timeouts": { "script": PATIENCE + 10_000 },
        } } });
        let opened = driver.ask(&Method::POST, "/session", &wanted).unwrap();
        let session = opened["sessionId"].as_str().unwrap().to_owned();
        Self { driver, session }
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // The driver ends the browser with the session.
        let path = format!("/session/{}", self.session);
        let _ = self.driver.ask(&Method::DELETE, &path, &Value::Null);
    }
}

/// A new ChromeDriver.
struct Driver {
    runtime: Runtime,
    process: Child,
    port: u16,
    profile: TempDir,
    /// Kept open, so that the driver can go on writing.
    _said: BufReader<ChildStdout>,
}

impl Driver {
    fn start() -> Self {
        // The system chooses a port; the driver ends where another program has the same one of IPv6.
        let started = (0..5).find_map(|_| Self::try_start());
        started.unwrap_or_else(|| panic!("chromedriver ended before it was ready, five times"))
    }

    fn try_start() -> Option<Self> {
        let mut command = Command::new("chromedriver");
        let command = command.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap_or_else(|e| panic!("chromedriver: {e}"));
        let mut said = BufReader::new(process.stdout.take().unwrap());
        let port = loop {
            let mut line = String::new();
            if said.read_line(&mut line).unwrap() == 0 {
                process.wait().unwrap();
                return None;
            }
            if let Some(port) = port(&line) {
                break port;
            }
        };
        let runtime = Builder::new_current_thread().enable_io().build().unwrap();
        let profile = tempfile::tempdir().unwrap();
        Some(Self { runtime, process, port, profile, _said: said })
    }

    /// The value of the answer, or what the driver says went wrong.
    fn ask(&self, method: &Method, path: &str, body: &Value) -> Result<Value, String> {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.runtime.block_on(exchange(self.port, method, path, text));
        let answer = answer.map_err(|e| e.to_string())?;
        let answer: Value = serde_json::from_slice(&answer).map_err(|e| e.to_string())?;
        match answer["value"]["error"].as_str() {
            Some(error) => Err(format!("{error}: {}", answer["value"]["message"])),
            None => Ok(answer["value"].clone()),
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The port in "ChromeDriver was started successfully on port 38717."
fn port(line: &str) -> Option<u16> {
    line.strip_prefix("ChromeDriver was started successfully on port ")?
        .trim()
        .trim_end_matches('.')
        .parse()
        .ok()
}

/// Sends one request on a new connection and returns the body of its answer.
async fn exchange(
    port: u16,
    method: &Method,
    path: &str,
    body: String,
) -> Result<Bytes, Box<dyn std::error::Error>> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", format!("127.0.0.1:{port}"))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))?;
    let asked = async {
        let answer = sender.send_request(request).await?;
        Ok::<Bytes, hyper::Error>(answer.into_body().collect().await?.to_bytes())
    };
    tokio::pin!(asked, connection);
    let mut lives = true;
    loop {
        tokio::select! {
            biased;
            answer = &mut asked => return Ok(answer?),
            ended = &mut connection, if lives => {
                ended?;
                lives = false;
            }
        }
    }
}
