//! What a server says of the databases that it serves, in its database `_Server`, and whether that is enough.

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
use super::replica::{Replica, Updates};

/// The name of the database.
const NAME: &str = "_Server";

/// The name of our monitor of it: no id, so that it cannot be the name of a database.
pub(super) const MONITOR: &str = "_Server.Database";

/// How it is monitored: every server that has this database knows this.
pub(super) const VERSION: MonitorVersion = MonitorVersion::V2;

/// What we need of the database's schema. Each server has a longer one.
static SCHEMA: LazyLock<Arc<DatabaseSchema>> = LazyLock::new(|| {
    let text = br#"{"name":"_Server","version":"1.2.0","tables":{"Database":{"columns":{
        "name":{"type":"string"},"model":{"type":"string"},"connected":{"type":"boolean"},"leader":{"type":"boolean"},
        "cid":{"type":{"key":"uuid","min":0}},"sid":{"type":{"key":"uuid","min":0}},
        "index":{"type":{"key":"integer","min":0}}}}}}"#;
    Arc::new(DatabaseSchema::parse(text).expect("the schema is valid"))
});

/// How a server serves a database, as its row in `_Server`'s table `Database` says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatabaseStatus {
    /// Whether the server has others beside it that serve the same.
    pub model: DatabaseModel,
    /// Whether it is in contact with a majority of its cluster; a relay, with its source.
    pub connected: bool,
    /// Whether it leads its cluster; so does a server that is alone.
    pub leader: bool,
    /// The cluster.
    pub cluster: Option<Uuid>,
    /// This server in the cluster.
    pub server: Option<Uuid>,
    /// How far this server has come in the cluster's log.
    pub index: Option<i64>,
}

/// Whether a server has others beside it that serve the same database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DatabaseModel {
    /// It is alone.
    Standalone,
    /// It is a member of a RAFT cluster.
    Clustered,
    /// It passes on what another server serves.
    Relay,
}

/// How far into a cluster's log a client has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    cluster: Option<Uuid>,
    index: i64,
}

/// A copy of the server's `_Server` database.
#[derive(Debug)]
pub(super) struct ServerDatabase(Replica);

impl ServerDatabase {
    /// Appends the parameters of the request to monitor it.
    pub(super) fn write_params(out: &mut Vec<u8>) {
        let mut requests = MonitorRequests::default();
        for table in SCHEMA.table_ids() {
            let columns = SCHEMA.table(table).column_ids();
            requests
                .tables
                .insert(table, MonitorTable::all_rows(columns));
        }
        out.push(b'[');
        write::string(out, NAME.as_bytes());
        out.push(b',');
        write::string(out, MONITOR.as_bytes());
        out.push(b',');
        requests.write_json(&SCHEMA, VERSION, out);
        out.push(b']');
    }

    /// Reads the contents in the answer to that request.
    pub(super) fn decode(contents: Reader<'_>) -> Result<Self, UpdateError> {
        let mut replica = Replica::new(SCHEMA.clone(), &[]);
        replica.replace(&SCHEMA, Updates::whole(contents, VERSION))?;
        Ok(Self(replica))
    }

    /// Applies the contents of an update.
    pub(super) fn apply(&mut self, updates: Reader<'_>) -> Result<(), UpdateError> {
        self.0.apply(Updates::whole(updates, VERSION))?;
        // Nobody follows this replica.
        self.0.take_news();
        Ok(())
    }

    /// How the server serves the configured database, if that is good enough. `seen` is how far the client has seen into
    /// the cluster's log, and is brought up to date.
    pub(super) fn check(
        &self,
        config: &Config,
        seen: &mut Option<Seen>,
    ) -> Result<DatabaseStatus, SessionError> {
        let status = self.status(&config.database)?;
        if let Some(wanted) = config.remotes.cluster()
            && status.cluster != Some(wanted)
        {
            return Err(SessionError::OtherCluster {
                wanted,
                found: status.cluster,
            });
        }
        if status.model != DatabaseModel::Standalone && !status.connected {
            return Err(SessionError::NotConnected);
        }
        if config.leader_only && (!status.leader || status.model == DatabaseModel::Relay) {
            return Err(SessionError::NotLeader);
        }
        if let Some(index) = status.index {
            let cluster = status.cluster;
            match *seen {
                Some(seen) if seen.cluster == cluster && seen.index > index => {
                    return Err(SessionError::Stale {
                        index,
                        seen: seen.index,
                    });
                }
                _ => *seen = Some(Seen { cluster, index }),
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
        Err(SessionError::NoDatabase {
            wanted: database.to_owned(),
            present,
        })
    }

    fn rows(&self) -> impl Iterator<Item = (&TableSchema, &Arc<Row>)> {
        let snapshot = self.0.snapshot();
        SCHEMA.table_ids().flat_map(move |id| {
            let rows = snapshot.table(id).iter();
            rows.map(move |row| (SCHEMA.table(id), row))
        })
    }
}

/// A row of the table `Database`.
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
                    problem: "the database is of an unknown model",
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
        self.get(column, |datum| {
            Some(datum.as_scalar()?.as_str()?.to_owned())
        })
        .unwrap_or_default()
    }

    fn boolean(&self, column: &str) -> bool {
        self.get(column, |datum| datum.as_scalar()?.as_boolean())
            .unwrap_or_default()
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
    fn a_server_alone_is_always_good_enough() {
        let status = server(r#""model":"standalone","connected":true,"leader":true"#)
            .check(&config("unix:x"), &mut None)
            .unwrap();
        assert_eq!(status.model, DatabaseModel::Standalone);
        assert_eq!(
            (status.cluster, status.server, status.index),
            (None, None, None)
        );
    }

    #[test]
    fn members_must_be_connected_and_lead_and_have_come_as_far_as_others() {
        let strict = config("unix:x");
        let mut lenient = config("unix:x");
        lenient.leader_only = false;
        let mut seen = None;
        assert!(member(true, true, 7).check(&strict, &mut seen).is_ok());
        for (server, config, error) in [
            (
                member(false, true, 9),
                &strict,
                "the server is not connected to its cluster",
            ),
            (
                member(true, false, 9),
                &strict,
                "the server does not lead its cluster",
            ),
            (
                member(true, true, 6),
                &strict,
                "the server is behind: at index 6 of the cluster's log, another was at 7",
            ),
        ] {
            assert_eq!(
                server.check(config, &mut seen).unwrap_err().to_string(),
                error
            );
        }
        assert!(member(true, false, 7).check(&lenient, &mut seen).is_ok());
        let relay = server(r#""model":"relay","connected":true,"leader":true"#);
        assert!(relay.check(&strict, &mut seen).is_err());
        assert!(relay.check(&lenient, &mut seen).is_ok());
    }

    #[test]
    fn another_cluster_is_not_accepted_in_the_place_of_the_named() {
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
    fn a_cluster_that_was_made_anew_begins_its_log_anew() {
        let mut seen = Some(Seen {
            cluster: Some(OTHER.parse().unwrap()),
            index: 100,
        });
        assert!(
            member(true, true, 1)
                .check(&config("unix:x"), &mut seen)
                .is_ok()
        );
    }

    #[test]
    fn a_database_that_is_not_there_is_told_with_those_that_are() {
        let mut config = config("unix:x");
        config.database = "E".into();
        let error = member(true, true, 1).check(&config, &mut None).unwrap_err();
        assert_eq!(error.to_string(), "no database E: the server has D");
    }
}
