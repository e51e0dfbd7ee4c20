//! Commands `cluster/*`, with ovsdb-server's texts. Each clustered database has a cluster whose
//! only member is this server.

use std::ops::RangeInclusive;
use std::sync::Arc;

use uuid::Uuid;

use crate::cluster::ClusterMember;
use crate::model::Role;
use crate::served_database::ServedDatabase;
use crate::server::Server;

/// Times without a leader after which a member may start an election, in milliseconds.
const ELECTION_TIMERS_MS: RangeInclusive<u64> = 100..=600_000;

/// Smallest limit of messages that wait for another member.
const MIN_BACKLOG_MESSAGES: u64 = 50;

/// Finds a clustered database.
fn find(server: &Server, database: &str) -> Result<Arc<ServedDatabase>, String> {
    server
        .database(database)
        .filter(|database| database.is_clustered())
        .ok_or_else(|| "unknown cluster".to_owned())
}

fn find_member(server: &Server, database: &str) -> Result<ClusterMember, String> {
    let database = find(server, database)?;
    let state = database.state();
    let cluster = state.cluster().ok_or("unknown cluster")?;
    Ok(cluster.member().clone())
}

/// Executes `cluster/cid`.
///
/// # Errors
/// There is no clustered database of this name.
pub(super) fn cluster_id(server: &Server, database: &str) -> Result<String, String> {
    let member = find_member(server, database)?;
    Ok(member.cluster_id.to_string())
}

/// Executes `cluster/sid`.
///
/// # Errors
/// There is no clustered database of this name.
pub(super) fn server_id(server: &Server, database: &str) -> Result<String, String> {
    let member = find_member(server, database)?;
    Ok(member.server_id.to_string())
}

/// Executes `cluster/change-election-timer`.
///
/// # Errors
/// There is no clustered database of this name, or the time is not allowed.
pub(super) fn change_election_timer(server: &Server, arguments: &[&str]) -> Result<String, String> {
    let [database, time] = arguments else {
        return Err("unknown cluster".to_owned());
    };
    let database = find(server, database)?;
    let (timer, role) = {
        let state = database.state();
        let position = state.cluster().ok_or("unknown cluster")?.position();
        (position.election_timer_ms, state.role())
    };
    if !role.is_leader() {
        return Err("election timer must be changed through leader.".to_owned());
    }
    // As in ovsdb-server, a text that is no number counts as 0.
    let time = time.parse().unwrap_or(0);
    if time == timer {
        return Ok("change election timer to current value.".to_owned());
    }
    if !ELECTION_TIMERS_MS.contains(&time) {
        return Err("election timer must be between 100 and 600000, in msec.".to_owned());
    }
    if time > 2 * timer {
        return Err("election timer increase should not exceed the current value x 2.".to_owned());
    }
    let changed = database.change_election_timer(time);
    changed.map_err(|error| error.to_string())?;
    Ok("change of election timer initiated.".to_owned())
}

/// Executes `cluster/set-backlog-threshold`: there are no members for which messages could wait.
///
/// # Errors
/// There is no clustered database of this name, or a number is not allowed.
pub(super) fn set_backlog_threshold(server: &Server, arguments: &[&str]) -> Result<(), String> {
    let [database, messages, bytes] = arguments else {
        return Err("unknown cluster".to_owned());
    };
    find(server, database)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| "invalid argument");
    let (messages, _) = (number(messages)?, number(bytes)?);
    if messages < MIN_BACKLOG_MESSAGES {
        return Err("values out of range".to_owned());
    }
    Ok(())
}

/// Executes `cluster/status`.
///
/// # Errors
/// There is no clustered database of this name.
pub(super) fn status(server: &Server, database: &str) -> Result<String, String> {
    let served = find(server, database)?;
    let state = served.state();
    let cluster = state.cluster().ok_or("unknown cluster")?;
    let (member, position) = (cluster.member(), cluster.position());
    let (role, leader) = match state.role() {
        Role::Leader => ("leader", "self"),
        Role::Follower => ("follower", "other"),
        Role::Disconnected => ("candidate", "unknown"),
    };
    let (own, id) = (member.server_id, member.cluster_id);
    let (nickname, own_short) = (nickname(member), short(own));
    let address = member.address.as_deref().unwrap_or("none");
    let election = cluster.last_election();
    let since_election = election.time.elapsed().as_millis();
    let (term, timer, next) = (position.term, position.election_timer_ms, position.index + 1);
    Ok(format!(
        "{nickname}\n\
         Name: {database}\n\
         Cluster ID: {} ({id})\n\
         Server ID: {own_short} ({own})\n\
         Address: {address}\n\
         Status: cluster member\n\
         Role: {role}\n\
         Term: {term}\n\
         Leader: {leader}\n\
         Vote: self\n\
         \n\
         Last Election won: {since_election} ms ago\n\
         Election timer: {timer}\n\
         Log: [{}, {next}]\n\
         Entries not yet committed: 0\n\
         Entries not yet applied: 0\n\
         Connections:\n\
         Disconnections: 0\n\
         Servers:\n    \
         {nickname} ({own_short} at {address}) (self) next_index={} match_index={}\n",
        short(id),
        position.start,
        election.index,
        position.index,
    ))
}

/// The name of a member in messages: that of its unix socket, or the beginning of its id.
fn nickname(member: &ClusterMember) -> String {
    let path = member.address.as_deref().and_then(|text| text.strip_prefix("unix:"));
    let file = path.and_then(|path| path.rsplit('/').next());
    let name = file.and_then(|file| file.split('.').next());
    match name {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => short(member.server_id),
    }
}

/// The first four digits of an id, as ovsdb-server abbreviates it.
fn short(id: Uuid) -> String {
    id.to_string().chars().take(4).collect()
}
