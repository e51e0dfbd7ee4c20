//! Change of the user: `--user`.

use std::ffi::CString;

use nix::errno::Errno;
use nix::unistd::{Gid, Group, Uid, User, geteuid, getgid, initgroups, setgid, setuid};

/// Error: the process cannot become the user. The texts are ovsdb-server's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UserError {
    #[error("only root can use --user option")]
    NotRoot,
    #[error("user {0} not found, aborting.")]
    UnknownUser(String),
    #[error("group {0} not found, aborting.")]
    UnknownGroup(String),
    #[error("Invalid --user option {option} (user {user} is not in group {group}), aborting.")]
    NotInGroup { option: String, user: String, group: String },
    #[error("failed to drop privileges: {0}")]
    System(#[from] Errno),
}

/// User and group of a process.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    name: String,
    user: Uid,
    group: Gid,
}

/// Makes the process one of the user in `option`: `USER`, `:GROUP` or `USER:GROUP`. Has no effect
/// if it is one already.
///
/// Call this while the process has one thread.
pub(crate) fn become_user(option: &str) -> Result<(), UserError> {
    let identity = identity(option)?;
    let is_same = identity.user == geteuid() && identity.group == getgid();
    if is_same {
        return Ok(());
    }
    if !geteuid().is_root() {
        return Err(UserError::NotRoot);
    }
    let name = CString::new(identity.name.clone())
        .map_err(|_| UserError::UnknownUser(identity.name.clone()))?;
    initgroups(&name, identity.group)?;
    setgid(identity.group)?;
    setuid(identity.user)?;
    Ok(())
}

/// Looks up the user and group of `option`. A missing user is that of the process, a missing group
/// the user's.
fn identity(option: &str) -> Result<Identity, UserError> {
    let (name, group) = option.split_once(':').unwrap_or((option, ""));
    let user = if name.is_empty() { User::from_uid(geteuid())? } else { User::from_name(name)? };
    let user = user.ok_or_else(|| UserError::UnknownUser(name.to_owned()))?;
    let group = if group.is_empty() {
        user.gid
    } else {
        let found =
            Group::from_name(group)?.ok_or_else(|| UserError::UnknownGroup(group.to_owned()))?;
        if found.gid != user.gid && !found.mem.contains(&user.name) {
            return Err(UserError::NotInGroup {
                option: option.to_owned(),
                user: user.name,
                group: found.name,
            });
        }
        found.gid
    };
    Ok(Identity { name: user.name, user: user.uid, group })
}
