//! Commands `cluster/*`, with ovsdb-server's texts. Each database has a cluster whose only member
//! is this server.

use uuid::Uuid;

use crate::server::Server;
use crate::server_database::DatabaseRow;

/// Time without a leader after which ovsdb-server starts an election, in milliseconds.
const ELECTION_TIMER_MS: u32 = 1000;

/// Reads the row of a clustered database in `_Server`.
fn find_row(server: &Server, database: &str) -> Result<DatabaseRow, String> {
    let snapshot = server.databases().server_database().snapshot();
    let rows = snapshot.typed::<DatabaseRow>();
    rows.iter()
        .filter_map(Result::ok)
        .map(|(_, row)| row)
        .find(|row| row.name == database && row.cid.is_some())
        .ok_or_else(|| "unknown cluster".to_owned())
}

/// Executes `cluster/cid`.
///
/// # Errors
/// There is no clustered database of this name.
pub(super) fn cluster_id(server: &Server, database: &str) -> Result<String, String> {
    let row = find_row(server, database)?;
    Ok(row.cid.unwrap_or_default().to_string())
}

/// Executes `cluster/sid`.
///
/// # Errors
/// There is no clustered database of this name.
pub(super) fn server_id(server: &Server, database: &str) -> Result<String, String> {
    let row = find_row(server, database)?;
    Ok(row.sid.unwrap_or_default().to_string())
}

/// Executes `cluster/change-election-timer`: there is nobody to elect.
///
/// # Errors
/// There is no clustered database of this name, or the time is none.
pub(super) fn change_election_timer(server: &Server, arguments: &[&str]) -> Result<String, String> {
    let [database, time] = arguments else {
        return Err("invalid election timer".to_owned());
    };
    find_row(server, database)?;
    match time.parse::<u32>() {
        Ok(1..) => Ok("change of election timer initiated.".to_owned()),
        _ => Err("invalid election timer".to_owned()),
    }
}

/// Executes `cluster/status`.
///
/// # Errors
/// There is no clustered database of this name.
pub(super) fn status(server: &Server, database: &str) -> Result<String, String> {
    let row = find_row(server, database)?;
    let (cluster, own) = (row.cid.unwrap_or_default(), row.sid.unwrap_or_default());
    let (role, leader) = match (row.leader, row.connected) {
        (true, _) => ("leader", "self"),
        (false, true) => ("follower", "other"),
        (false, false) => ("candidate", "unknown"),
    };
    let index = row.index.first().copied().unwrap_or_default();
    let (own_short, cluster_short) = (short(own), short(cluster));
    Ok(format!(
        "{own_short}\n\
         Name: {database}\n\
         Cluster ID: {cluster_short} ({cluster})\n\
         Server ID: {own_short} ({own})\n\
         Address: none\n\
         Status: cluster member\n\
         Role: {role}\n\
         Term: 1\n\
         Leader: {leader}\n\
         Vote: self\n\
         \n\
         Election timer: {ELECTION_TIMER_MS}\n\
         Log: [2, {}]\n\
         Entries not yet committed: 0\n\
         Entries not yet applied: 0\n\
         Connections:\n\
         Disconnections: 0\n\
         Servers:\n    \
         {own_short} ({own_short} at none) (self) next_index={} match_index={index}\n",
        index + 1,
        index + 1,
    ))
}

/// The first four digits of an id, as ovsdb-server abbreviates it.
fn short(id: Uuid) -> String {
    id.to_string().chars().take(4).collect()
}
