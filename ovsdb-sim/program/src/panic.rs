//! End of the program after a panic.

use std::panic::PanicHookInfo;
use std::thread;
use std::time::Duration;

/// Time in which the message of a panic is written. A full pipe at standard error must not keep a
/// damaged server alive.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(1);

/// Makes a panic of any thread or task end the process by SIGABRT, after its message.
///
/// Otherwise a server whose accepting task has died would refuse all clients for good, and one that
/// panicked during a commit would serve a state that its journal does not have.
pub(crate) fn abort_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic: &PanicHookInfo<'_>| {
        let limit = thread::Builder::new().spawn(|| {
            thread::sleep(MESSAGE_TIMEOUT);
            std::process::abort();
        });
        if limit.is_ok() {
            print(panic);
        }
        std::process::abort();
    }));
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    use super::*;

    /// Environment variable that makes the test below die.
    const DIES: &str = "OVSDB_SIM_TEST_DIES";
    const SIGABRT: i32 = 6;

    #[test]
    fn a_task_that_dies_takes_the_process_with_it() {
        if std::env::var_os(DIES).is_some() {
            abort_on_panic();
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async {
                // A panic of a task is otherwise kept for those who await it.
                drop(tokio::spawn(async { panic!("the task died") }));
                tokio::time::sleep(Duration::from_secs(60)).await;
            });
            return;
        }
        let name = "panic::tests::a_task_that_dies_takes_the_process_with_it";
        let child = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(DIES, "1")
            .output()
            .unwrap();
        assert_eq!(child.status.signal(), Some(SIGABRT), "{child:?}");
        let message = String::from_utf8(child.stderr).unwrap();
        assert!(message.contains("the task died"), "{message}");
    }
}
