//! The option `--user` beside the real server. Only root may use it, so other users skip the tests.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

use super::daemon::Bed;

fn is_root() -> bool {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root {
        eprintln!("skipped: only root may use --user");
    }
    is_root
}

/// Ids of the user and the group of a process.
fn identity(process: &str) -> Vec<String> {
    let status = fs::read_to_string(format!("/proc/{}/status", process.trim())).unwrap();
    let ids = status
        .lines()
        .filter(|line| line.contains("id:\t"))
        .filter(|line| line.starts_with("Uid") || line.starts_with("Gid"));
    ids.map(str::to_owned).collect()
}

#[test]
fn a_server_and_its_monitor_run_as_the_user() {
    if !is_root() {
        return;
    }
    for monitor in [&[][..], &["--monitor"]] {
        let [real, sim] = Bed::both().map(|bed| {
            fs::set_permissions(bed.path(""), Permissions::from_mode(0o777)).unwrap();
            // The id of user nobody.
            let user = 65_534;
            for file in ["db", ".db.~lock~"] {
                chown(bed.path(file), Some(user), None).unwrap();
            }
            let options = ["--user=nobody", "--detach", "--no-chdir", "--pidfile"];
            let options = [&options[..], monitor, &["--remote=punix:db.sock", "db"]].concat();
            let started = bed.server(&options);
            assert!(started.status.success(), "{started:?}");
            let process = bed.wait_for_process(|process| !process.is_empty());
            let identity = identity(&process);
            assert_eq!(fs::metadata(bed.path("db.sock")).unwrap().uid(), user);
            assert_eq!(bed.appctl("exit"), (String::new(), true));
            bed.wait_for_process(str::is_empty);
            identity
        });
        assert_eq!(real, sim);
        assert!(sim[0].starts_with("Uid:\t65534\t65534"), "{sim:?}");
    }
}

#[test]
fn unknown_users_and_groups_are_refused_with_the_same_texts() {
    if !is_root() {
        return;
    }
    for option in ["--user=nosuch", "--user=nobody:nosuch", "--user=:nogroup"] {
        let [real, sim] = Bed::both().map(|bed| {
            let refused = bed.server(&[option, "db"]);
            let error = String::from_utf8(refused.stderr).unwrap();
            // The real server names a pidfile that there is not.
            (error.replace("(null): ", ""), refused.status.code())
        });
        assert_eq!(real, sim);
    }
}
