//! Text of a configuration file (ovsdb-server(1), `--config-file`).

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::Members;

use crate::remotes::options::RemoteOptions;

use super::database::DatabaseConfig;

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
}

/// Content of a configuration file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Config {
    /// Options by the targets of remotes.
    pub(super) remotes: BTreeMap<String, RemoteOptions>,
    /// Databases by the paths of their files, or by the names of relays.
    pub(super) databases: BTreeMap<String, DatabaseConfig>,
}

impl ParseError {
    /// The member of the configuration whose value cannot be read. `None`: the error names it, or
    /// there is none.
    pub(super) fn unread_member(&self) -> Option<&'static str> {
        match self {
            Self::Options(_) | Self::Member("databases") => Some("databases"),
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
        let remotes = members(&json, "remotes")?
            .map(|(target, options)| {
                let options = remote_options(&target, options)?;
                Ok((target, options))
            })
            .collect::<Result<_, ParseError>>()?;
        let databases = members(&json, "databases")?
            .map(|(path, options)| {
                let config = DatabaseConfig::parse(&path, options)?;
                Ok((path, config))
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

/// Reads the options of a remote. Those of connections within a data center (`dscp`) and of
/// active remotes have no effect.
fn remote_options(target: &str, json: &Json) -> Result<RemoteOptions, ParseError> {
    let mut options = RemoteOptions::of_target(target);
    if *json == Json::Null {
        return Ok(options);
    }
    if !json.is_object() {
        return Err(ParseError::RemoteOptions(target.to_owned()));
    }
    let mut members = Members::new(json, "JSON-RPC options");
    members.optional("max-backoff", Json::is_integer);
    let probe = members.optional("inactivity-probe", Json::is_integer);
    members.optional("dscp", Json::is_integer);
    let read_only = members.optional("read-only", Json::is_bool);
    let role = members.optional("role", Json::is_string);
    if let Err(error) = members.finish() {
        // As in ovsdb-server, the options that it knows count.
        tracing::warn!(target: "ovsdb_jsonrpc_server", "{}", error.with_syntax_first());
    }
    if let Some(Json::Integer(milliseconds)) = probe {
        options = options.with_probe_interval(*milliseconds);
    }
    options.is_read_only = read_only == Some(&Json::Bool(true));
    options.role = role.and_then(Json::as_str).map(Arc::from);
    Ok(options)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::config_file::database::BackupConfig;
    use crate::following::SourceOptions;
    use crate::model::Model;

    use super::*;

    fn error(text: &str) -> String {
        Config::parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn remotes_and_databases_have_their_options() {
        let config = Config::parse(
            br#"{"remotes": {"punix:a": null, "ptcp:1": {"inactivity-probe": 7, "role": "x"},
                 "ptcp:2": {"inactivity-probe": 0, "read-only": true}, "ptcp:3": {"nope": 1}},
                 "databases": {"a": null, "b": {}, "c": {"service-model": "clustered"},
                 "d": {"service-model": "active-backup", "backup": false, "source": {"unix:s": null}},
                 "e": {"service-model": "active-backup", "backup": true, "exclude-tables": ["T"],
                       "source": {"unix:s": {"inactivity-probe": 0, "max-backoff": 9, "role": "x"}}},
                 "f": {"service-model": "relay", "source": {"unix:s,tcp:1": {}}},
                 "g": {"service-model": "active-backup", "backup": true, "source": {"tcp:1": null}}}}"#,
        )
        .unwrap();
        let remotes = [
            ("punix:a", None, false, None),
            ("ptcp:1", Some(7), false, Some("x")),
            ("ptcp:2", None, true, None),
            ("ptcp:3", Some(5000), false, None),
        ]
        .map(|(target, probe, is_read_only, role)| {
            let options = RemoteOptions {
                probe_interval: probe.map(Duration::from_millis),
                is_read_only,
                role: role.map(Arc::from),
            };
            (target.to_owned(), options)
        });
        assert_eq!(config.remotes, remotes.into());
        let source = SourceOptions {
            probe_interval: None,
            max_backoff: Duration::from_millis(9),
            ..SourceOptions::of_relay("unix:s")
        };
        let backup = |source, tables: &[&str]| {
            DatabaseConfig::Backup(BackupConfig {
                source,
                excluded_tables: tables.iter().map(|&table| table.to_owned()).collect(),
            })
        };
        let databases = [
            ("a", DatabaseConfig::File(None)),
            ("b", DatabaseConfig::File(None)),
            ("c", DatabaseConfig::File(Some(Model::Clustered))),
            ("d", backup(None, &[])),
            ("e", backup(Some(source), &["T"])),
            ("f", DatabaseConfig::Relay(SourceOptions::of_relay("unix:s,tcp:1"))),
            ("g", backup(Some(SourceOptions::of_backup("tcp:1")), &[])),
        ]
        .map(|(path, config)| (path.to_owned(), config));
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
            (r#"{"remotes":[]}"#, "config: 'remotes' is not a JSON object"),
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
                r#"{"databases":{"db":{"service-model":"relay","source":{}}}}"#,
                "syntax \"{\"service-model\":\"relay\",\"source\":{}}\": syntax error: Parsing database db failed: 'source' should be an object with exactly one element",
            ),
            (
                r#"{"databases":{"db":{"service-model":"relay","source":{"unix:s":3}}}}"#,
                "syntax \"{\"service-model\":\"relay\",\"source\":{\"unix:s\":3}}\": syntax error: Parsing database db failed: JSON-RPC options is not a JSON object or null",
            ),
            (
                r#"{"databases":{"db":{"service-model":"active-backup","source":{}}}}"#,
                "syntax \"{\"service-model\":\"active-backup\",\"source\":{}}\": syntax error: Parsing database db failed: Required 'backup' member is missing.",
            ),
            (
                r#"{"databases":{"db":{"service-model":"active-backup","backup":false,"exclude-tables":[3]}}}"#,
                "syntax \"{\"backup\":false,\"exclude-tables\":[3],\"service-model\":\"active-backup\"}\": syntax error: Parsing database db failed: 'exclude-tables' must contain strings",
            ),
        ];
        for (text, expected) in texts {
            let error = error(text);
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
