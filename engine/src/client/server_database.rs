//! The server's `_Server` database, and the conditions under which a server qualifies.

use std::fmt;
use std::sync::{Arc, LazyLock};

use patchbay_schemas::datum::Datum;
use patchbay_schemas::json::{Reader, write};
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{DatabaseSchema, TableSchema};
use patchbay_schemas::wire::{MonitorRequests, MonitorTable, MonitorVersion, UpdateError};
use uuid::Uuid;

use super::config::Config;
use super::error::SessionError;
use super::replica::{Replica, TableUpdates};

/// Name of the database.
pub(super) const SERVER_DATABASE_NAME: &str = "_Server";

/// Id of the monitor of `_Server`. It contains a dot, so that it cannot be the name of a database.
pub(super) const SERVER_MONITOR_ID: &str = "_Server.Database";

/// Monitor method for `_Server`, which every server with this database supports.
pub(super) const SERVER_MONITOR_VERSION: MonitorVersion = MonitorVersion::V2;

/// The columns of `_Server` that the client reads. Servers have more.
static SERVER_SCHEMA: LazyLock<Arc<DatabaseSchema>> = LazyLock::new(|| {
    let text = br#"{"name":"_Server","version":"1.2.0","tables":{"Database":{"columns":{
        "name":{"type":"string"},"model":{"type":"string"},"connected":{"type":"boolean"},"leader":{"type":"boolean"},
        "cid":{"type":{"key":"uuid","min":0}},"sid":{"type":{"key":"uuid","min":0}},
        "index":{"type":{"key":"integer","min":0}}}}}}"#;
    Arc::new(DatabaseSchema::parse(text).expect("the schema is valid"))
});

/// Status of a database, from its row in the table `Database` of `_Server`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatabaseStatus {
    /// Service model of the database.
    pub model: DatabaseModel,
    /// `true` if the server is connected to a majority of its cluster, or, as a relay, to its
    /// source.
    pub connected: bool,
    /// `true` if the server leads its cluster, or is standalone.
    pub leader: bool,
    /// Cluster id.
    pub cluster: Option<Uuid>,
    /// Server id in the cluster.
    pub server: Option<Uuid>,
    /// Index of the last entry of the cluster's log that the server has applied.
    pub index: Option<i64>,
}

/// Service model of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DatabaseModel {
    /// Standalone server.
    Standalone,
    /// Member of a RAFT cluster.
    Clustered,
    /// Relay of another server.
    Relay,
}

/// A position in a cluster's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogPosition {
    cluster: Option<Uuid>,
    index: i64,
}

/// Replica of the server's `_Server` database.
#[derive(Debug)]
pub(super) struct ServerDatabase(Replica);

impl ServerDatabase {
    /// Appends the parameters of the monitor request.
    pub(super) fn write_params(out: &mut Vec<u8>) {
        let mut requests = MonitorRequests::default();
        for table in SERVER_SCHEMA.table_ids() {
            let columns = SERVER_SCHEMA.table(table).column_ids();
            requests.tables.insert(table, MonitorTable::all_rows(columns));
        }
        out.push(b'[');
        write::string(out, SERVER_DATABASE_NAME.as_bytes());
        out.push(b',');
        write::string(out, SERVER_MONITOR_ID.as_bytes());
        out.push(b',');
        requests.write_json(&SERVER_SCHEMA, SERVER_MONITOR_VERSION, out);
        out.push(b']');
    }

    /// Reads the reply to the monitor request.
    pub(super) fn decode(contents: Reader<'_>) -> Result<Self, UpdateError> {
        let mut replica = Replica::new(SERVER_SCHEMA.clone(), &[]);
        replica.replace(&SERVER_SCHEMA, TableUpdates::whole(contents, SERVER_MONITOR_VERSION))?;
        Ok(Self(replica))
    }

    /// Applies an update.
    pub(super) fn apply(&mut self, updates: Reader<'_>) -> Result<(), UpdateError> {
        self.0.apply(TableUpdates::whole(updates, SERVER_MONITOR_VERSION))?;
        // This replica has no subscriptions.
        self.0.take_events();
        Ok(())
    }

    /// Returns the status of the configured database.
    ///
    /// `log_position` is the highest position that any server has reported; it is updated.
    ///
    /// # Errors
    /// The server does not qualify: it lacks the database, belongs to another cluster, is
    /// disconnected, is not the leader, or is behind.
    pub(super) fn check(
        &self,
        config: &Config,
        log_position: &mut Option<LogPosition>,
    ) -> Result<DatabaseStatus, SessionError> {
        let status = self.status(&config.database)?;
        if let Some(wanted) = config.remotes.cluster()
            && status.cluster != Some(wanted)
        {
            return Err(SessionError::OtherCluster { wanted, found: status.cluster });
        }
        if status.model != DatabaseModel::Standalone && !status.connected {
            return Err(SessionError::NotConnected);
        }
        if config.leader_only && (!status.leader || status.model == DatabaseModel::Relay) {
            return Err(SessionError::NotLeader);
        }
        if let Some(index) = status.index {
            let cluster = status.cluster;
            match *log_position {
                Some(seen) if seen.cluster == cluster && seen.index > index => {
                    return Err(SessionError::Stale { index, seen: seen.index });
                }
                _ => *log_position = Some(LogPosition { cluster, index }),
            }
        }
        Ok(status)
    }

    fn status(&self, database: &str) -> Result<DatabaseStatus, SessionError> {
        let mut present = Vec::new();
        for (table, row) in self.rows() {
            let row = ServerRow { table, row };
            let name = row.text("name");
            if name == database {
                return row.status();
            }
            present.push(name);
        }
        present.sort();
        Err(SessionError::NoDatabase { wanted: database.to_owned(), present })
    }

    fn rows(&self) -> impl Iterator<Item = (&TableSchema, &Arc<Row>)> {
        let snapshot = self.0.snapshot();
        SERVER_SCHEMA.table_ids().flat_map(move |id| {
            let rows = snapshot.table(id).iter();
            rows.map(move |row| (SERVER_SCHEMA.table(id), row))
        })
    }
}

/// A row of table `Database`.
struct ServerRow<'a> {
    table: &'a TableSchema,
    row: &'a Row,
}

impl ServerRow<'_> {
    fn status(&self) -> Result<DatabaseStatus, SessionError> {
        let model = match self.text("model").as_str() {
            "standalone" => DatabaseModel::Standalone,
            "clustered" => DatabaseModel::Clustered,
            "relay" => DatabaseModel::Relay,
            _ => {
                return Err(SessionError::Unexpected {
                    method: "_Server",
                    problem: "the database has an unknown model",
                });
            }
        };
        Ok(DatabaseStatus {
            model,
            connected: self.boolean("connected"),
            leader: self.boolean("leader"),
            cluster: self.uuid("cid"),
            server: self.uuid("sid"),
            index: self.get("index", |datum| datum.as_scalar()?.as_integer()),
        })
    }

    fn text(&self, column: &str) -> String {
        self.get(column, |datum| Some(datum.as_scalar()?.as_str()?.to_owned())).unwrap_or_default()
    }

    fn boolean(&self, column: &str) -> bool {
        self.get(column, |datum| datum.as_scalar()?.as_boolean()).unwrap_or_default()
    }

    fn uuid(&self, column: &str) -> Option<Uuid> {
        self.get(column, |datum| datum.as_scalar()?.as_uuid())
    }

    fn get<T>(&self, column: &str, read: impl FnOnce(&Datum) -> Option<T>) -> Option<T> {
        read(&self.row.get(self.table.column_id(column)?))
    }
}

impl fmt::Display for DatabaseModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standalone => "standalone",
            Self::Clustered => "clustered",
            Self::Relay => "relay",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: &str = "b4cba05d-0d54-4e26-bdf2-aa506f69cfa0";
    const OTHER: &str = "c4cba05d-0d54-4e26-bdf2-aa506f69cfa0";

    fn server(row: &str) -> ServerDatabase {
        let contents = format!(
            r#"{{"Database":{{"00000000-0000-4000-8000-000000000001":{{"initial":{{"name":"D",{row}}}}}}}}}"#
        );
        let text = patchbay_schemas::json::TextBuf::parse(contents.into_bytes()).unwrap();
        ServerDatabase::decode(Reader::new(text.as_text())).unwrap()
    }

    fn config(remotes: &str) -> Config {
        Config::new(remotes.parse().unwrap(), "D")
    }

    fn member(connected: bool, leader: bool, index: i64) -> ServerDatabase {
        server(&format!(
            r#""model":"clustered","connected":{connected},"leader":{leader},"cid":["uuid","{CLUSTER}"],"index":{index}"#
        ))
    }

    #[test]
    fn a_standalone_server_always_qualifies() {
        let status = server(r#""model":"standalone","connected":true,"leader":true"#)
            .check(&config("unix:x"), &mut None)
            .unwrap();
        assert_eq!(status.model, DatabaseModel::Standalone);
        assert_eq!((status.cluster, status.server, status.index), (None, None, None));
    }

    #[test]
    fn members_must_be_connected_leaders_and_not_behind() {
        let strict = config("unix:x");
        let mut lenient = config("unix:x");
        lenient.leader_only = false;
        let mut seen = None;
        assert!(member(true, true, 7).check(&strict, &mut seen).is_ok());
        for (server, config, error) in [
            (member(false, true, 9), &strict, "the server is not connected to its cluster"),
            (member(true, false, 9), &strict, "the server does not lead its cluster"),
            (
                member(true, true, 6),
                &strict,
                "the server is behind: at index 6 of the cluster's log, another was at 7",
            ),
        ] {
            assert_eq!(server.check(config, &mut seen).unwrap_err().to_string(), error);
        }
        assert!(member(true, false, 7).check(&lenient, &mut seen).is_ok());
        let relay = server(r#""model":"relay","connected":true,"leader":true"#);
        assert!(relay.check(&strict, &mut seen).is_err());
        assert!(relay.check(&lenient, &mut seen).is_ok());
    }

    #[test]
    fn only_the_named_cluster_is_accepted() {
        let error = member(true, true, 1).check(&config(&format!("unix:x,cid:{OTHER}")), &mut None);
        assert_eq!(
            error.unwrap_err().to_string(),
            format!("the server belongs to cluster {CLUSTER}, not {OTHER}")
        );
        let named = config(&format!("unix:x,cid:{CLUSTER}"));
        assert!(member(true, true, 1).check(&named, &mut None).is_ok());
        let error = server(r#""model":"standalone","connected":true,"leader":true"#)
            .check(&named, &mut None);
        assert_eq!(
            error.unwrap_err().to_string(),
            format!("the server belongs to no cluster, not {CLUSTER}")
        );
    }

    #[test]
    fn a_new_cluster_begins_its_log_again() {
        let mut seen = Some(LogPosition { cluster: Some(OTHER.parse().unwrap()), index: 100 });
        assert!(member(true, true, 1).check(&config("unix:x"), &mut seen).is_ok());
    }

    #[test]
    fn a_missing_database_is_reported_with_the_existing_ones() {
        let mut config = config("unix:x");
        config.database = "E".into();
        let error = member(true, true, 1).check(&config, &mut None).unwrap_err();
        assert_eq!(error.to_string(), "no database E: the server has D");
    }
}
