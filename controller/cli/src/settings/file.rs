//! Files with settings.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde_json::Value;
use thiserror::Error;

use super::{CONFIG, Setting};

/// Version and kind of the file.
pub(super) const API_VERSION: &str = "patchbay.io/v1alpha1";
pub(super) const KIND: &str = "RunConfiguration";
/// Maximum length of a file, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Share of the characters that a misspelled name may have wrong: a third.
const SIMILARITY: usize = 3;

/// Failure to read a file with settings.
#[derive(Debug, Error)]
pub(super) enum FileError {
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} has more than {MAX_BYTES} bytes")]
    TooLong { path: PathBuf },
    #[error("{path}: {reason}")]
    Invalid { path: PathBuf, reason: String },
}

/// Settings of a file with their values. A list has several.
pub(super) fn read_settings<'a>(
    path: &Path,
    settings: &'a [Setting],
) -> Result<Vec<(&'a Setting, Vec<String>)>, FileError> {
    let failed = |source| FileError::Read { path: path.to_owned(), source };
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    let length = file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if length as u64 > MAX_BYTES {
        return Err(FileError::TooLong { path: path.to_owned() });
    }
    fields(&text, settings).map_err(|reason| FileError::Invalid { path: path.to_owned(), reason })
}

fn fields<'a>(
    text: &str,
    settings: &'a [Setting],
) -> Result<Vec<(&'a Setting, Vec<String>)>, String> {
    let document = serde_saphyr::from_str::<Value>(text).map_err(|error| {
        let reason = error.to_string();
        reason.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
    })?;
    let Value::Object(members) = document else {
        return Err(format!("expected fields, with apiVersion: {API_VERSION} and kind: {KIND}"));
    };
    for (field, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        if members.get(field).and_then(Value::as_str) != Some(expected) {
            return Err(format!("expected {field}: {expected}"));
        }
    }
    let mut found = Vec::new();
    for (name, value) in &members {
        if ["apiVersion", "kind"].contains(&&**name) {
            continue;
        }
        let mut known = settings.iter().filter(|setting| setting.flag != CONFIG);
        let Some(setting) = known.find(|setting| setting.field() == *name) else {
            return Err(unknown(name, settings));
        };
        let values = values(setting, value).map_err(|reason| format!("{name}: {reason}"))?;
        // A field without a value counts as one that is not there.
        found.extend(values.map(|values| (setting, values)));
    }
    Ok(found)
}

/// The values of a field. `None`: it has none.
fn values(setting: &Setting, value: &Value) -> Result<Option<Vec<String>>, String> {
    let scalar = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is_on) => Some(is_on.to_string()),
        _ => None,
    };
    match value {
        Value::Null => Ok(None),
        Value::Bool(_) if !setting.is_switch() => Err("expected a text or a number".to_owned()),
        Value::Array(elements) if setting.is_list() => {
            let values: Option<Vec<String>> = elements.iter().map(scalar).collect();
            values.map(Some).ok_or_else(|| "expected a list of texts".to_owned())
        }
        other => match scalar(other) {
            Some(text) => Ok(Some(vec![text])),
            None if setting.is_list() => Err("expected a text or a list".to_owned()),
            None => Err("expected a text or a number".to_owned()),
        },
    }
}

/// The error about a field that is no setting.
fn unknown(name: &str, settings: &[Setting]) -> String {
    let plain = |text: &str| text.replace(['-', '_'], "").to_ascii_lowercase();
    let known = settings.iter().filter(|setting| setting.flag != CONFIG).map(Setting::field);
    let near = known.min_by_key(|known| strsim::damerau_levenshtein(&plain(known), &plain(name)));
    let near = near.filter(|known| {
        strsim::damerau_levenshtein(&plain(known), &plain(name)) <= known.len() / SIMILARITY
    });
    match near {
        Some(known) => format!("{name}: unknown field, did you mean {known}?"),
        None => format!("{name}: unknown field; `patchbay config list` prints all"),
    }
}
