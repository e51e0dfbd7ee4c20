//! Scripts in the place of programs.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Creates an executable script, such as `"#!/bin/sh\nexit 1\n"`.
///
/// A child writes it, because a file that is open for writing cannot be executed (`ETXTBSY`). If
/// this process wrote it, a child that another thread starts meanwhile would have it open, too, until
/// that child executes its program.
///
/// # Panics
///
/// If the file cannot be written.
pub fn create_script(path: &Path, text: &str) {
    let mut child = Command::new("install")
        .args(["-m", "755", "/dev/stdin"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("install of coreutils runs");
    let written = child.stdin.take().map(|mut input| input.write_all(text.as_bytes()));
    assert!(written.is_some_and(|written| written.is_ok()), "{}", path.display());
    let status = child.wait();
    assert!(status.is_ok_and(|status| status.success()), "{}", path.display());
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn scripts_run_while_other_threads_start_programs() {
        let folder = tempfile::tempdir().unwrap();
        let run = |thread: usize| {
            for number in 0..50 {
                let path = folder.path().join(format!("{thread}-{number}"));
                create_script(&path, "#!/bin/sh\nexit 3\n");
                let status = Command::new(&path).status().unwrap();
                assert_eq!(status.code(), Some(3));
            }
        };
        thread::scope(|scope| {
            for thread in 0..16 {
                scope.spawn(move || run(thread));
            }
        });
    }
}
