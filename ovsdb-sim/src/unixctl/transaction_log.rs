//! Commands of the log of changed rows: `ovsdb-server/tlog-set` and `ovsdb-server/tlog-list`
//! (ovsdb-server(1)). The texts are those of ovsdb-server.

use std::fmt::Write as _;

use crate::server::Server;

/// Head of the list of tables.
const HEAD: &str = "\
    database        table                       logging\n\
    --------        -----                       -------\n";

/// Switches the log of a table on or off. The arguments are `DB:TABLE` and `on` or `off`.
///
/// # Errors
/// An argument is wrong. The text is for the user.
pub(super) fn set(server: &Server, arguments: &[&str]) -> Result<(), String> {
    let on = match arguments.get(1).map(|word| word.to_ascii_lowercase()) {
        Some(word) if word == "on" => true,
        Some(word) if word == "off" => false,
        _ => return Err("invalid command argument".to_owned()),
    };
    // As `strtok_r` splits it.
    let place = arguments.first().copied().unwrap_or_default();
    let mut names = place.split(':').filter(|name| !name.is_empty());
    let (Some(database), Some(table), None) = (names.next(), names.next(), names.next()) else {
        return Err("invalid DB:TABLE argument".to_owned());
    };
    let database = server.database(database).ok_or("no such database")?;
    if database.state().log_table(table, on) { Ok(()) } else { Err("no such table".to_owned()) }
}

/// Output of `ovsdb-server/tlog-list`: all tables, sorted.
pub(super) fn list(server: &Server) -> String {
    let mut text = HEAD.to_owned();
    for (name, database) in &*server.databases().all() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:<16} ");
        for (table, is_logged) in database.state().logged_tables() {
            let logging = if is_logged { "ON" } else { "OFF" };
            let _ = writeln!(text, "{:16}{table:<27} {logging}", "");
        }
    }
    text
}
