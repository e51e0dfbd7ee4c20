//! Descriptions of signals in the words of `strsignal`, and of the end of processes, in
//! ovsdb-server's words.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// Describes how a process has ended.
pub(crate) fn describe_status(status: ExitStatus) -> String {
    let how = match (status.signal(), status.code()) {
        (Some(signal), _) => format!("killed ({})", describe_signal(signal)),
        (None, Some(code)) => format!("exit status {code}"),
        (None, None) => status.to_string(),
    };
    let core = if status.core_dumped() { ", core dumped" } else { "" };
    format!("{how}{core}")
}

/// Describes a signal by its number.
pub(crate) fn describe_signal(signal: i32) -> String {
    let text = match signal {
        1 => "Hangup",
        2 => "Interrupt",
        3 => "Quit",
        4 => "Illegal instruction",
        5 => "Trace/breakpoint trap",
        6 => "Aborted",
        7 => "Bus error",
        8 => "Floating point exception",
        9 => "Killed",
        10 => "User defined signal 1",
        11 => "Segmentation fault",
        12 => "User defined signal 2",
        13 => "Broken pipe",
        14 => "Alarm clock",
        15 => "Terminated",
        other => return format!("signal {other}"),
    };
    text.to_owned()
}
