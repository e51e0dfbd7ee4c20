//! Options of a database in a configuration file.

use std::time::Duration;

use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::json::Json;
use patchbay_schemas::schema::Members;

use crate::following::SourceOptions;
use crate::model::Model;

/// Options of a database.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DatabaseConfig {
    /// Database of a file. `None`: its model is that of the file.
    File(Option<Model>),
    /// Database of a file that can be a backup.
    Backup(BackupConfig),
    /// Database of a relay, whose name is the member's.
    Relay(SourceOptions),
}

/// Options of a database that can be a backup.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BackupConfig {
    /// `None`: the database is active.
    pub(super) source: Option<SourceOptions>,
    pub(super) excluded_tables: Vec<String>,
}

impl DatabaseConfig {
    /// Reads the options of the database `name`.
    ///
    /// # Errors
    /// They contradict each other or have other types.
    pub(super) fn parse(name: &str, options: &Json) -> Result<Self, OvsdbError> {
        if *options == Json::Null {
            return Ok(Self::File(None));
        }
        let mut members = Members::new(options, format!("database {name}"));
        let model = members.optional("service-model", Json::is_string);
        let config = match model.and_then(Json::as_str) {
            None => Self::File(None),
            Some("standalone") => Self::File(Some(Model::Standalone)),
            Some("clustered") => Self::File(Some(Model::Clustered)),
            Some("active-backup") => {
                let backup = members.required("backup", Json::is_bool);
                let is_backup = backup == Some(&Json::Bool(true));
                let source = read_source(&mut members, is_backup, SourceOptions::of_backup);
                Self::Backup(BackupConfig {
                    source: source.filter(|_| is_backup),
                    excluded_tables: read_excluded_tables(&mut members),
                })
            }
            Some("relay") => {
                let source = read_source(&mut members, true, SourceOptions::of_relay);
                // Without a source, `members` has the error.
                Self::Relay(source.unwrap_or_else(|| SourceOptions::of_relay("")))
            }
            Some(other) => {
                tracing::warn!(target: "ovsdb_server", "Unrecognized database service model: '{other}'");
                members.fail(&format!("'{other}' is not a valid service model"));
                Self::File(None)
            }
        };
        members.finish()?;
        Ok(config)
    }

    /// The model that the database must have. `None`: any.
    pub(super) fn model(&self) -> Option<Model> {
        match self {
            Self::File(model) => *model,
            Self::Backup(_) => Some(Model::Standalone),
            Self::Relay(_) => None,
        }
    }
}

/// Reads the only member of `source`: remotes, and options of their connections. `with_defaults`
/// makes a source of remotes.
fn read_source(
    members: &mut Members<'_>,
    is_required: bool,
    with_defaults: fn(String) -> SourceOptions,
) -> Option<SourceOptions> {
    let source = if is_required {
        members.required("source", Json::is_object)
    } else {
        members.optional("source", Json::is_object)
    };
    let Json::Object(source) = source? else {
        return None;
    };
    let mut sources = source.iter();
    let (Some((remotes, options)), None) = (sources.next(), sources.next()) else {
        members.fail("'source' should be an object with exactly one element");
        return None;
    };
    if *options != Json::Null && !options.is_object() {
        members.fail("JSON-RPC options is not a JSON object or null");
        return None;
    }
    let mut source = with_defaults(String::from_utf8_lossy(remotes).into_owned());
    if options.is_object() {
        read_source_options(&mut source, options);
    }
    Some(source)
}

fn read_source_options(source: &mut SourceOptions, options: &Json) {
    let mut members = Members::new(options, "JSON-RPC options");
    let max_backoff = members.optional("max-backoff", Json::is_integer);
    let probe = members.optional("inactivity-probe", Json::is_integer);
    members.optional("dscp", Json::is_integer);
    if let Err(error) = members.finish() {
        // As in ovsdb-server, the options that it knows count.
        tracing::warn!(target: "ovsdb_jsonrpc_server", "{}", error.with_syntax_first());
    }
    let duration = |value: &Json| match value {
        Json::Integer(milliseconds) => u64::try_from(*milliseconds).ok().map(Duration::from_millis),
        _ => None,
    };
    if let Some(probe) = probe {
        source.probe_interval = duration(probe).filter(|interval| !interval.is_zero());
    }
    if let Some(max_backoff) = max_backoff.and_then(duration)
        && !max_backoff.is_zero()
    {
        source.max_backoff = max_backoff;
    }
}

fn read_excluded_tables(members: &mut Members<'_>) -> Vec<String> {
    let Some(Json::Array(tables)) = members.optional("exclude-tables", Json::is_array) else {
        return Vec::new();
    };
    let names = tables.iter().map(|table| table.as_str().map(str::to_owned));
    names.collect::<Option<_>>().unwrap_or_else(|| {
        members.fail("'exclude-tables' must contain strings");
        Vec::new()
    })
}
