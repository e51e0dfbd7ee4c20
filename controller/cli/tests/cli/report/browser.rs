//! A real headless Chromium, driven by the `DevTools` protocol through its pipe.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Limit for each answer of the browser, and for a page to load.
const LIMIT: Duration = Duration::from_secs(120);

/// A page in a browser.
pub(crate) struct Page {
    browser: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    session: String,
    last_id: u64,
    /// Errors and warnings of the page so far.
    pub(crate) complaints: Vec<String>,
}

impl Page {
    /// Opens a file. Its profile is in a folder that the test removes.
    pub(crate) fn open(file: &Path, profile: &Path) -> Self {
        Self::open_url(&format!("file://{}", file.display()), profile)
    }

    /// Opens a page.
    pub(crate) fn open_url(url: &str, profile: &Path) -> Self {
        // The browser has its pipe at the descriptors 3 and 4.
        let mut browser = Command::new("sh")
            .args(["-c", "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh"])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"])
            .args(["--disable-dev-shm-usage", "--no-first-run", "--window-size=1200,900"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = browser.stdin.take().unwrap();
        let output = BufReader::new(browser.stdout.take().unwrap());
        let (sender, messages) = channel();
        thread::spawn(move || {
            for message in output.split(0) {
                let Ok(message) = message else { return };
                if sender.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    return;
                }
            }
        });
        let complaints = Vec::new();
        let session = String::new();
        let mut page = Self { browser, input, messages, session, last_id: 0, complaints };
        let target = page.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attached = json!({"targetId": target["targetId"], "flatten": true});
        let session = page.call("Target.attachToTarget", &attached);
        session["sessionId"].as_str().unwrap().clone_into(&mut page.session);
        for domain in ["Runtime.enable", "Log.enable", "Page.enable"] {
            page.call(domain, &json!({}));
        }
        page.call("Page.navigate", &json!({"url": url}));
        page.wait_for("document.readyState === 'complete' && location.protocol !== 'about:'");
        page
    }

    /// Evaluates an expression in the page.
    #[track_caller]
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let arguments = json!({"expression": expression, "returnByValue": true});
        let result = self.call("Runtime.evaluate", &arguments);
        assert_eq!(result["exceptionDetails"], Value::Null, "{expression}");
        result["result"]["value"].clone()
    }

    /// Waits until a condition holds. Meanwhile the page may load itself again.
    pub(crate) fn wait_for(&mut self, condition: &str) {
        let end = Instant::now() + LIMIT;
        let arguments = json!({"expression": condition, "returnByValue": true});
        while !self
            .answer("Runtime.evaluate", &arguments)
            .is_ok_and(|result| result["result"]["value"] == true)
        {
            assert!(Instant::now() < end, "{condition}");
        }
    }

    /// Calls a method of the `DevTools` protocol, which succeeds.
    #[track_caller]
    fn call(&mut self, method: &str, arguments: &Value) -> Value {
        let answer = self.answer(method, arguments);
        answer.unwrap_or_else(|error| panic!("{method} {arguments}: {error}"))
    }

    /// Calls a method of the `DevTools` protocol. Returns its result or its error.
    fn answer(&mut self, method: &str, arguments: &Value) -> Result<Value, Value> {
        self.last_id += 1;
        let mut call = json!({"id": self.last_id, "method": method, "params": arguments});
        if !self.session.is_empty() {
            call["sessionId"] = self.session.clone().into();
        }
        self.input.write_all(format!("{call}\0").as_bytes()).unwrap();
        loop {
            let message = self.messages.recv_timeout(LIMIT).unwrap();
            if message["id"] == self.last_id {
                return match &message["error"] {
                    Value::Null => Ok(message["result"].clone()),
                    error => Err(error.clone()),
                };
            }
            let complaint = match message["method"].as_str() {
                Some("Runtime.exceptionThrown") => true,
                Some("Runtime.consoleAPICalled") => message["params"]["type"] != "log",
                Some("Log.entryAdded") => message["params"]["entry"]["level"] != "verbose",
                _ => false,
            };
            if complaint {
                self.complaints.push(message["params"].to_string());
            }
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}
