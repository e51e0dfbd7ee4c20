//! Names of a source, for completions of shells.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::{Args, Parser};
use patchbay_engine::db::Snapshot;
use patchbay_model::owner::Owner;
use patchbay_resources::manifests::{Inventory, read_manifests_within};

use super::console::Console;
use super::databases::{DatabaseFlags, ZoneDatabase};
use super::failure::Failure;
use super::keys::Keys;
use super::time_limit::TimeLimit;

/// Time after which a shell gets nothing, because its user waits.
const MAX_TIME: Duration = Duration::from_secs(1);
/// Maximum number of names that a shell gets.
const MAX_NAMES: usize = 10_000;
/// Maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 400;
/// Maximum length of manifests, in bytes.
const MAX_MANIFEST_BYTES: u64 = 16 << 20;
/// Flags that name a source, or what it takes to read it.
const SOURCE_FLAGS: [&str; 7] =
    ["--nb", "--file", "--must-gather", "--at", "--private-key", "--certificate", "--ca-cert"];

/// Flags of the hidden command `complete-names`.
#[derive(Debug, Args)]
pub(super) struct CompleteNames {
    /// Word before the one to complete.
    #[arg(allow_hyphen_values = true)]
    previous: String,
    /// The command line up to there.
    #[arg(allow_hyphen_values = true)]
    line: String,
}

/// Sources of a command line.
#[derive(Debug, Parser)]
struct SourceFlags {
    #[command(flatten)]
    databases: DatabaseFlags,
    #[command(flatten)]
    keys: Keys,
    #[command(flatten)]
    limit: TimeLimit,
}

/// What has a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Named {
    Pods,
    /// Pods, and services as `service/NAMESPACE/NAME`.
    Destinations,
    Networks,
    Nodes,
    Switches,
    Routers,
}

/// Prints the names that may follow, one on a line. Without any, or after a second, it prints
/// nothing.
pub(super) fn complete_names(
    arguments: CompleteNames,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let Some(named) = named_after(&arguments.previous) else {
        return Ok(());
    };
    let (sender, receiver) = mpsc::channel();
    // The process ends before a thread that still waits for a server.
    thread::spawn(move || {
        let names = read_names(&arguments.line, named).unwrap_or_default();
        // Nobody receives names that come too late.
        sender.send(names).unwrap_or_default();
    });
    let names = receiver.recv_timeout(MAX_TIME).unwrap_or_default();
    let safe = names.iter().filter(|name| is_safe(name)).take(MAX_NAMES);
    Ok(console.write_long(|output| {
        let mut safe = safe;
        safe.try_for_each(|name| writeln!(output, "{name}"))
    })?)
}

/// `true` for names that no shell reads in another way, and that no terminal obeys.
fn is_safe(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
    !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && !name.starts_with('-')
        && name.bytes().all(is_plain)
}

/// What follows a word.
fn named_after(word: &str) -> Option<Named> {
    Some(match word {
        "--from" | "--pod" | "--path" | "pod" | "pods" | "po" => Named::Pods,
        "--to" => Named::Destinations,
        "--network" | "udn" | "cudn" => Named::Networks,
        "--zone" => Named::Nodes,
        "--switch" => Named::Switches,
        "--router" => Named::Routers,
        _ => return None,
    })
}

/// Names of the sources in a command line. `None`: they cannot be read.
fn read_names(line: &str, named: Named) -> Option<BTreeSet<String>> {
    let words = words(line);
    let mut names = BTreeSet::new();
    let paths = manifest_paths(&words);
    if !paths.is_empty() {
        let inventory = read_manifests_within(&paths, &mut io::empty(), MAX_MANIFEST_BYTES).ok()?;
        add_objects(&mut names, &inventory, named);
    }
    let mut source = vec!["patchbay".to_owned(), "--timeout=1".to_owned()];
    for (place, word) in words.iter().enumerate() {
        if SOURCE_FLAGS.contains(&&**word) {
            let value = words.get(place + 1)?;
            source.push(format!("{word}={value}"));
        } else if word.split_once('=').is_some_and(|(flag, _)| SOURCE_FLAGS.contains(&flag)) {
            source.push(word.clone());
        }
    }
    let SourceFlags { databases, keys, limit } = SourceFlags::try_parse_from(source).ok()?;
    if databases.is_empty() {
        return Some(names);
    }
    let (mut input, mut output, mut errors) = (io::empty(), io::sink(), io::sink());
    let mut console = Console::new(&mut input, &mut output, &mut errors);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let read = runtime.block_on(databases.read_with_objects((&keys, limit), &mut console));
    let (zones, inventory) = read.ok()?;
    add_objects(&mut names, &inventory, named);
    for ZoneDatabase { zone, snapshot } in &zones {
        match named {
            Named::Nodes => {
                names.insert(zone.clone());
            }
            Named::Pods => add_owners(&mut names, snapshot, ("Logical_Switch_Port", "pod"), ""),
            Named::Destinations => {
                add_owners(&mut names, snapshot, ("Logical_Switch_Port", "pod"), "");
                add_owners(&mut names, snapshot, ("Load_Balancer", "Service"), "service/");
            }
            Named::Networks => {
                for table in ["Logical_Switch", "Logical_Router"] {
                    add_owners(&mut names, snapshot, (table, "network"), "");
                }
            }
            Named::Switches => add_rows(&mut names, snapshot, "Logical_Switch"),
            Named::Routers => add_rows(&mut names, snapshot, "Logical_Router"),
        }
    }
    Some(names)
}

/// Adds the names of objects.
fn add_objects(names: &mut BTreeSet<String>, inventory: &Inventory, named: Named) {
    let pods = inventory.pods.iter().map(|(key, _)| key.to_string());
    let services = inventory.services.iter().map(|(key, _)| format!("service/{key}"));
    match named {
        Named::Pods => names.extend(pods),
        Named::Destinations => names.extend(pods.chain(services)),
        Named::Networks => {
            let udns = inventory.user_defined_networks.iter().map(|(key, _)| key.to_string());
            let cudns = inventory.cluster_user_defined_networks.iter();
            names.extend(udns.chain(cudns.map(|(key, _)| key.to_string())));
        }
        Named::Nodes => names.extend(inventory.nodes.iter().map(|(key, _)| key.to_string())),
        Named::Switches | Named::Routers => {}
    }
}

/// Adds the objects of a kind for which rows exist, each behind a prefix.
fn add_owners(
    names: &mut BTreeSet<String>,
    snapshot: &Snapshot,
    (table, kind): (&str, &str),
    prefix: &str,
) {
    for_rows(snapshot, table, |name, owner| {
        let of_kind = owner(name).filter(|owner| owner.kind == kind);
        names.extend(of_kind.map(|owner| format!("{prefix}{}", owner.name)));
    });
}

/// Adds the names of rows.
fn add_rows(names: &mut BTreeSet<String>, snapshot: &Snapshot, table: &str) {
    for_rows(snapshot, table, |name, _| {
        names.insert(name.to_owned());
    });
}

/// Calls a function with the name of each row of a table, and with its owner by that name.
fn for_rows(
    snapshot: &Snapshot,
    table: &str,
    mut call: impl FnMut(&str, &dyn Fn(&str) -> Option<Owner>),
) {
    let Some((id, schema)) = snapshot.schema().table_by_name(table) else {
        return;
    };
    let Some((name, ids)) = schema.column_id("name").zip(schema.column_id("external_ids")) else {
        return;
    };
    for row in snapshot.table(id).iter() {
        let ids = row.get(ids);
        if let Some(name) = row.get(name).as_scalar().and_then(|name| name.as_str()) {
            call(name, &|name| Owner::of(name, |key| ids.as_map()?.get_str(key)));
        }
    }
}

/// Paths of manifests in a command line, without standard input.
fn manifest_paths(words: &[String]) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let mut is_path = false;
    for word in words {
        match word.split_once('=') {
            Some(("--filename" | "-f", path)) => paths.push(path.into()),
            _ if word == "-f" || word == "--filename" => is_path = true,
            _ if word.starts_with('-') => is_path = false,
            _ if is_path => paths.push(word.into()),
            _ => {}
        }
    }
    paths
}

/// Words of a command line, with quotation marks and backslashes as in a shell.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut is_inside, mut quote) = (false, None);
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(mark), character) if character == mark => quote = None,
            (None, '"' | '\'') => {
                quote = Some(character);
                if !is_inside {
                    words.push(String::new());
                    is_inside = true;
                }
            }
            (None, character) if character.is_whitespace() => is_inside = false,
            (_, character) => {
                let is_escape = character == '\\' && quote != Some('\'');
                let plain = if is_escape { characters.next() } else { Some(character) };
                if !is_inside {
                    words.push(String::new());
                    is_inside = true;
                }
                if let Some(word) = words.last_mut() {
                    word.extend(plain);
                }
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        let line = "patchbay reach --file 'a b.db'  --nb=unix:/x\\ y \"q'\" -";
        let expected = ["patchbay", "reach", "--file", "a b.db", "--nb=unix:/x y", "q'", "-"];
        assert_eq!(words(line), expected);
        assert!(words("  ").is_empty());
        let paths = manifest_paths(&words("patchbay explain -f a b --zone n -f - --filename=c"));
        assert_eq!(paths, ["a", "b", "c"].map(PathBuf::from));
    }

    #[test]
    fn only_plain_names_reach_a_shell() {
        assert!(is_safe("shop/web-1.x_y"));
        for name in ["", "-rf", "a b", "$(id)", "`id`", "\u{1b}[31m", "a\nb", "a;b", "\u{e4}", "a*"]
        {
            assert!(!is_safe(name), "{name:?}");
        }
    }
}
