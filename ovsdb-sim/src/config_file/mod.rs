//! Configuration file with remotes and databases (ovsdb-server(1), `--config-file`, since Open
//! vSwitch 3.3).

mod database;
mod parse;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tokio::sync::Mutex;

use crate::remotes::Remotes;
use crate::remotes::column::{COLUMN_PREFIX, DatabaseColumn};
use crate::server::AddDatabaseError;
use crate::sim::Sim;
use crate::unixctl::add_error;

use database::DatabaseConfig;
use parse::Config;

/// Error: the server is not what a configuration file describes. The log has the reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigFileError {
    /// The file cannot be read or is malformed. Nothing has changed.
    #[error("the configuration file cannot be used")]
    Unusable,
    /// A database or a remote cannot be opened. The others are open.
    #[error("a database or a remote of the configuration file cannot be opened")]
    Incomplete,
}

/// Configuration file that names the remotes and the databases of a simulator.
#[derive(Debug)]
pub struct ConfigFile {
    path: PathBuf,
    /// Folder of database files with a relative path.
    folder: PathBuf,
    sim: Sim,
    remotes: Remotes,
    /// Names of the databases that were opened, by their paths in the file.
    opened: Mutex<BTreeMap<String, String>>,
}

impl ConfigFile {
    /// Describes the configuration file of a simulator. It is not read before
    /// [`load`](Self::load). Relative paths in it are those of `folder`.
    pub fn new(
        path: impl Into<PathBuf>,
        folder: impl Into<PathBuf>,
        sim: &Sim,
        remotes: &Remotes,
    ) -> Self {
        Self {
            path: path.into(),
            folder: folder.into(),
            sim: sim.clone(),
            remotes: remotes.clone(),
            opened: Mutex::default(),
        }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file. Opens databases and remotes that it names and closes those that it does not
    /// name any more. The others stay as they are.
    ///
    /// # Errors
    /// The file cannot be used, or not everything in it can be opened. The reasons are logged.
    pub async fn load(&self) -> Result<(), ConfigFileError> {
        let mut opened = self.opened.lock().await;
        let path = self.path.display();
        let text = std::fs::read(&self.path).map_err(|error| {
            tracing::error!(target: "ovsdb_server", "failed to open configuration file '{path}': {error}");
            ConfigFileError::Unusable
        })?;
        tracing::info!(target: "ovsdb_server", "loading configuration from '{path}'");
        let config = Config::parse(&text).map_err(|error| {
            tracing::warn!(target: "ovsdb_server", "{error}");
            if let Some(member) = error.unread_member() {
                tracing::warn!(target: "ovsdb_server", "config: failed to parse '{member}'");
            }
            tracing::warn!(target: "ovsdb_server", "failed to load configuration from {path}");
            ConfigFileError::Unusable
        })?;
        let has_databases = self.configure_databases(&config, &mut opened);
        if !has_databases {
            tracing::warn!(target: "ovsdb_server", "failed to configure databases");
        }
        let failures = self.configure_remotes(&config).await;
        if !failures.is_empty() {
            let failures = failures.join("\n");
            tracing::warn!(target: "ovsdb_server", "failed to configure remotes: {failures}");
        } else if has_databases {
            return Ok(());
        }
        Err(ConfigFileError::Incomplete)
    }

    /// Returns `false` if a database cannot be opened.
    fn configure_databases(&self, config: &Config, opened: &mut BTreeMap<String, String>) -> bool {
        opened.retain(|path, name| {
            let config = config.databases.get(path);
            let database = self.sim.server().database(name);
            let is_relay = self.sim.server().relay_source(name).is_some();
            let stays = config.is_some_and(|config| {
                let stays_relay = matches!(config, DatabaseConfig::Relay(_)) == is_relay;
                let model = database.as_ref().map(|database| database.model());
                stays_relay && (config.model().is_none() || config.model() == model)
            });
            // Fails only if it has been removed already.
            if !stays && let Err(error) = self.sim.remove_database(name) {
                tracing::info!(target: "ovsdb_server", "{error}");
            }
            stays
        });
        let mut is_complete = true;
        for (path, config) in &config.databases {
            if let Some(name) = opened.get(path) {
                self.configure_following(name, config);
                continue;
            }
            match self.open_database(path, config) {
                Ok(name) => {
                    self.configure_following(&name, config);
                    opened.insert(path.clone(), name);
                }
                Err(problem) => {
                    tracing::warn!(target: "ovsdb_server", "failed to open database '{path}': {problem}");
                    is_complete = false;
                }
            }
        }
        is_complete
    }

    /// Opens the database of a file or a relay, which must have a model if the configuration names
    /// one. Returns its name.
    fn open_database(&self, path: &str, config: &DatabaseConfig) -> Result<String, String> {
        let server = self.sim.server();
        let opened = match config {
            DatabaseConfig::Relay(source) => server.add_relay(path, source.clone()),
            _ => server.open_database(&self.folder.join(path), config.model()),
        };
        let database = opened.map_err(|error| match error {
            AddDatabaseError::OtherModel { found, expected } => {
                let (found, expected) = (found.name(), expected.name());
                format!("ovsdb error: {path}: database is {found} and not {expected}")
            }
            error => add_error(&error),
        })?;
        Ok(database.name().to_owned())
    }

    /// Makes an open database follow its configured source.
    fn configure_following(&self, name: &str, config: &DatabaseConfig) {
        let server = self.sim.server();
        let Some(database) = server.database(name) else {
            return;
        };
        match config {
            DatabaseConfig::Relay(source) => server.set_relay_source(&database, source),
            DatabaseConfig::Backup(backup) => {
                let tables = &backup.excluded_tables;
                server.configure_backup(&database, backup.source.as_ref(), tables);
            }
            DatabaseConfig::File(_) => server.end_backup(&database),
        }
    }

    /// Returns the errors of remotes that cannot be opened.
    async fn configure_remotes(&self, config: &Config) -> Vec<String> {
        for target in self.remotes.targets() {
            if !config.remotes.contains_key(&target) {
                self.remotes.remove(&target);
            }
        }
        let mut failures = Vec::new();
        for (target, options) in &config.remotes {
            if let Err(error) = self.remotes.add_or_retry_with(target, options.clone()).await {
                failures.push(error.to_string());
                continue;
            }
            // A remote stays when its database is removed.
            if target.starts_with(COLUMN_PREFIX)
                && let Err(problem) = DatabaseColumn::find(self.sim.server().databases(), target)
            {
                failures.push(format!("\"{target}\": {problem}"));
            }
        }
        failures
    }
}
