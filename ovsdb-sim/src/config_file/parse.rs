//! Text of a configuration file (ovsdb-server(1), `--config-file`).

use std::collections::BTreeMap;
use std::time::Duration;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::Members;

use crate::model::Model;
use crate::target::default_probe_interval;

/// Error: a file is not a configuration.
#[derive(Debug, thiserror::Error)]
pub(super) enum ParseError {
    #[error("config: reading JSON failed ({0})")]
    Json(String),
    #[error("configuration in a file must be a JSON object")]
    NotAnObject,
    #[error("config: '{0}' is not a JSON object")]
    Member(&'static str),
    #[error("{0}: JSON-RPC options are not a JSON object or null")]
    RemoteOptions(String),
    /// The options of a database.
    #[error("{}", .0.with_syntax_first())]
    Options(#[from] OvsdbError),
    #[error("database {0}: relays and backups are not supported")]
    Replica(String),
    #[error("'{0}' configures replication, which is not supported")]
    Replication(&'static str),
}

/// Content of a configuration file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Config {
    /// Probe intervals of clients by the targets of remotes. `None`: clients are not probed.
    pub(super) remotes: BTreeMap<String, Option<Duration>>,
    /// Models of databases by the paths of their files. `None`: that of the file.
    pub(super) databases: BTreeMap<String, Option<Model>>,
}

impl ParseError {
    /// The member of the configuration whose value cannot be read. `None`: the error names it, or
    /// there is none.
    pub(super) fn unread_member(&self) -> Option<&'static str> {
        match self {
            Self::Options(_) | Self::Replica(_) | Self::Member("databases") => Some("databases"),
            Self::RemoteOptions(_) | Self::Member("remotes") => Some("remotes"),
            _ => None,
        }
    }
}

impl Config {
    pub(super) fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let json = Json::parse(text).map_err(|error| ParseError::Json(error.describe_in(text)))?;
        if !json.is_object() {
            return Err(ParseError::NotAnObject);
        }
        for member in ["sync_from", "sync_exclude"] {
            if json.get(member).is_some_and(|value| *value != Json::Null) {
                return Err(ParseError::Replication(member));
            }
        }
        let remotes = members(&json, "remotes")?
            .map(|(target, options)| {
                let probe_interval = probe_interval(&target, options)?;
                Ok((target, probe_interval))
            })
            .collect::<Result<_, ParseError>>()?;
        let databases = members(&json, "databases")?
            .map(|(path, options)| {
                let model = database_model(&path, options)?;
                Ok((path, model))
            })
            .collect::<Result<_, ParseError>>()?;
        Ok(Self { remotes, databases })
    }
}

/// The members of an object in a member, which may be missing or null.
fn members<'j>(
    json: &'j Json,
    name: &'static str,
) -> Result<impl Iterator<Item = (String, &'j Json)>, ParseError> {
    let object = match json.get(name) {
        None | Some(Json::Null) => None,
        Some(Json::Object(object)) => Some(object),
        Some(_) => return Err(ParseError::Member(name)),
    };
    let members = object.into_iter().flatten();
    Ok(members.map(|(name, value)| (String::from_utf8_lossy(name).into_owned(), value)))
}

/// Reads the options of a remote. Those of connections within a data center (`dscp`), of access
/// control and of active remotes have no effect.
fn probe_interval(target: &str, options: &Json) -> Result<Option<Duration>, ParseError> {
    if *options == Json::Null {
        return Ok(default_probe_interval(target));
    }
    if !options.is_object() {
        return Err(ParseError::RemoteOptions(target.to_owned()));
    }
    let mut members = Members::new(options, "JSON-RPC options");
    members.optional("max-backoff", Json::is_integer);
    let probe = members.optional("inactivity-probe", Json::is_integer);
    members.optional("dscp", Json::is_integer);
    members.optional("read-only", Json::is_bool);
    members.optional("role", Json::is_string);
    if let Err(error) = members.finish() {
        // As in ovsdb-server, the options that it knows count.
        tracing::warn!(target: "ovsdb_jsonrpc_server", %error, "options of remote {target}");
    }
    Ok(match probe {
        Some(Json::Integer(milliseconds)) => u64::try_from(*milliseconds)
            .ok()
            .filter(|milliseconds| *milliseconds > 0)
            .map(Duration::from_millis),
        _ => default_probe_interval(target),
    })
}

/// Reads the service model of a database. `None`: it is that of the file.
fn database_model(path: &str, options: &Json) -> Result<Option<Model>, ParseError> {
    if *options == Json::Null {
        return Ok(None);
    }
    let mut members = Members::new(options, format!("database {path}"));
    let name = members.optional("service-model", Json::is_string);
    let mut is_replica = false;
    let model = match name.and_then(Json::as_str) {
        None => None,
        Some("standalone") => Some(Model::Standalone),
        Some("clustered") => Some(Model::Clustered),
        Some("active-backup") => {
            let backup = members.required("backup", Json::is_bool);
            is_replica = backup == Some(&Json::Bool(true));
            members.optional("exclude-tables", Json::is_array);
            members.optional("source", Json::is_object);
            Some(Model::Standalone)
        }
        Some("relay") => {
            members.required("source", Json::is_object);
            is_replica = true;
            None
        }
        Some(other) => {
            tracing::warn!(target: "ovsdb_server", "Unrecognized database service model: '{other}'");
            members.fail(&format!("'{other}' is not a valid service model"));
            None
        }
    };
    members.finish()?;
    if is_replica {
        return Err(ParseError::Replica(path.to_owned()));
    }
    Ok(model)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Config::parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn remotes_and_databases_have_their_options() {
        let config = Config::parse(
            br#"{"remotes": {"punix:a": null, "ptcp:1": {"inactivity-probe": 7, "role": "x"},
                 "ptcp:2": {"inactivity-probe": 0}, "ptcp:3": {"nope": 1}},
                 "databases": {"a": null, "b": {}, "c": {"service-model": "clustered"},
                 "d": {"service-model": "active-backup", "backup": false}}}"#,
        )
        .unwrap();
        let remotes = [
            ("punix:a", None),
            ("ptcp:1", Some(7)),
            ("ptcp:2", None),
            ("ptcp:3", Some(5000)),
        ]
        .map(|(target, probe)| (target.to_owned(), probe.map(Duration::from_millis)));
        assert_eq!(config.remotes, remotes.into());
        let databases = [
            ("a", None),
            ("b", None),
            ("c", Some(Model::Clustered)),
            ("d", Some(Model::Standalone)),
        ]
        .map(|(path, model)| (path.to_owned(), model));
        assert_eq!(config.databases, databases.into());
    }

    #[test]
    fn errors_name_the_member() {
        let texts = [
            (
                "\n{\"remotes\": {}, }",
                "config: reading JSON failed (line 1, column 16, byte 17: syntax error parsing object",
            ),
            ("[]", "configuration in a file must be a JSON object"),
            (
                r#"{"remotes":[]}"#,
                "config: 'remotes' is not a JSON object",
            ),
            (
                r#"{"remotes":{"punix:a":3}}"#,
                "punix:a: JSON-RPC options are not a JSON object or null",
            ),
            (
                r#"{"databases":{"db":{"service-model":"x"}}}"#,
                "syntax \"{\"service-model\":\"x\"}\": syntax error: Parsing database db failed: 'x' is not a valid service model",
            ),
            (
                r#"{"databases":{"db":{"unknown":"x"}}}"#,
                "syntax \"{\"unknown\":\"x\"}\": syntax error: Parsing database db failed: Member 'unknown' is present",
            ),
            (
                r#"{"databases":{"db":{"service-model":"relay"}}}"#,
                "syntax \"{\"service-model\":\"relay\"}\": syntax error: Parsing database db failed: Required 'source' member is missing.",
            ),
            (
                r#"{"databases":{"db":{"service-model":"relay","source":{"unix:s":{}}}}}"#,
                "database db: relays and backups are not supported",
            ),
            (
                r#"{"sync_from":"tcp:1.2.3.4:5"}"#,
                "'sync_from' configures replication, which is not supported",
            ),
        ];
        for (text, expected) in texts {
            let error = error(text);
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
