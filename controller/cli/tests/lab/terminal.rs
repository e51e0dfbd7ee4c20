//! The prompt on a terminal, which the program `script` of util-linux provides.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::{EXAMPLE, children, ovn};

/// Maximum time until the terminal shows a text, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Interval between two looks at a folder.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Terminal on which a shell runs `patchbay lab`, and then prints the mode of the terminal.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    output: Receiver<Vec<u8>>,
    /// Text that the terminal has shown.
    shown: String,
    /// Length of the part of `shown` that was waited for.
    seen: usize,
}

impl Terminal {
    /// `None`: there is no `script`; standard error has the reason.
    fn start(
        ovn: &Path,
        manifests: &Path,
        folder: &Path,
        variables: &[(&str, &str)],
    ) -> Option<Self> {
        let program = env!("CARGO_BIN_EXE_patchbay");
        let (ovn, manifests) = (ovn.display(), manifests.display());
        let line =
            format!("'{program}' lab -f '{manifests}' --ovn '{ovn}'; echo status $?; stty -a");
        let mut command = Command::new("script");
        command
            .args(["-q", "-c", &line, "/dev/null"])
            .env("SHELL", "/bin/sh")
            .env("TERM", "xterm")
            .env("TMPDIR", folder)
            .env_remove("NO_COLOR")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                eprintln!("skipped: script of util-linux cannot be started: {error}");
                return None;
            }
        };
        let keys = child.stdin.take().unwrap();
        let mut stream = child.stdout.take().unwrap();
        let (sender, output) = channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Some(Self { child, keys, output, shown: String::new(), seen: 0 })
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the terminal shows a text that was not waited for yet. Returns what it has shown
    /// before the text.
    fn wait_for(&mut self, text: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let new = &self.shown[self.seen..];
            if let Some(at) = new.find(text) {
                let before = new[..at].to_owned();
                self.seen += at + text.len();
                return before;
            }
            let rest = end.saturating_duration_since(Instant::now());
            let Ok(bytes) = self.output.recv_timeout(rest) else {
                panic!("{text:?} is not shown: {:?}", self.shown);
            };
            self.shown += &String::from_utf8(bytes).unwrap();
        }
    }

    /// Waits for the end of the lab. Its exit status is 0, and the terminal is in its mode of
    /// before.
    fn wait_for_end(&mut self) -> &str {
        self.wait_for("status 0\r\n");
        self.wait_for(" icanon");
        self.wait_for(" echo ");
        let status = patchbay_ovn_programs::testing::wait(&mut self.child);
        assert!(status.success(), "{status}");
        &self.shown
    }

    /// The process of the lab, which the shell of the terminal runs.
    fn lab(&self) -> u32 {
        let shell = children(self.child.id())[0];
        children(shell)[0]
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // After a failed test. The lab notices that its terminal is gone.
        self.child.kill().unwrap_or_default();
        self.child.wait().unwrap();
    }
}

#[test]
fn a_prompt_keeps_its_line_and_remembers_commands() {
    let Some(ovn) = ovn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let [manifests, temporary] = ["manifests", "tmp"].map(|name| {
        let path = folder.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    });
    for file in fs::read_dir(EXAMPLE).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), manifests.join(file.file_name())).unwrap();
    }
    let started = Terminal::start(&ovn, &manifests, &temporary, &[]);
    let Some(mut terminal) = started else { return };
    let prompt = "> ";
    terminal.wait_for(prompt);
    terminal.press("ping blue-1 green-3\r");
    terminal.wait_for("104.104.1.3: \u{1b}[32mreached through 3 routers\u{1b}[0m, ");

    // Messages stand above the line that is edited.
    terminal.wait_for(prompt);
    terminal.press("half a li");
    terminal.wait_for("half a li");
    fs::remove_file(manifests.join("3-connect.yaml")).unwrap();
    terminal.wait_for("closed: cluster_udn_blue-network -> cluster_udn_green-network: 9 pairs");
    terminal.wait_for(&format!("{prompt}half a li"));
    terminal.wait_for("applied\r\n");
    terminal.wait_for(&format!("{prompt}half a li"));
    // Deletes the line, and shows the last command but one.
    terminal.press("\u{15}ping blue-1 blue-9\r");
    terminal.wait_for("\u{1b}[31merror:\u{1b}[0m pod blue-9 not found; did you mean blue/blue-1");
    terminal.wait_for(prompt);
    terminal.press("\u{1b}[A\u{1b}[A");
    terminal.wait_for("ping blue-1 green-3");
    // Ctrl-C while a line is edited.
    terminal.press("\u{3}");
    terminal.wait_for_end();
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
}

#[test]
fn a_terminated_lab_restores_the_mode_of_the_terminal() {
    let Some(ovn) = ovn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let started = Terminal::start(&ovn, EXAMPLE.as_ref(), folder.path(), &[("NO_COLOR", "1")]);
    let Some(mut terminal) = started else { return };
    terminal.wait_for("> ");
    terminal.press("half a li");
    terminal.wait_for("half a li");
    let lab = terminal.lab().to_string();
    let sent = Command::new("kill").args(["-TERM", &lab]).status().unwrap();
    assert!(sent.success());
    let shown = terminal.wait_for_end();
    assert!(!shown.contains("\u{1b}[1m") && !shown.contains("\u{1b}[3"), "{shown:?}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_lab_ends_with_its_terminal() {
    let Some(ovn) = ovn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let started = Terminal::start(&ovn, EXAMPLE.as_ref(), folder.path(), &[]);
    let Some(mut terminal) = started else { return };
    terminal.wait_for("6 pods on 3 nodes");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    drop(terminal);
    let end = Instant::now() + PATIENCE;
    while fs::read_dir(folder.path()).unwrap().count() > 0 {
        assert!(Instant::now() < end, "the folder of the lab is still there");
        thread::sleep(LOOK_INTERVAL);
    }
}

#[test]
fn a_dumb_terminal_is_like_a_pipe() {
    let Some(ovn) = ovn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let started = Terminal::start(&ovn, EXAMPLE.as_ref(), folder.path(), &[("TERM", "dumb")]);
    let Some(mut terminal) = started else { return };
    terminal.wait_for("6 pods on 3 nodes");
    terminal.press("ping blue-1 green-3\n");
    terminal.wait_for("104.104.1.3: reached through 3 routers, ");
    // Ctrl-D.
    terminal.press("\u{4}");
    let shown = terminal.wait_for_end();
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
}
