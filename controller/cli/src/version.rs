//! `patchbay version`: the version of the command.

use clap::Args;
use patchbay_schemas::nb;
use serde::Serialize;

use super::args::Format;
use super::console::Console;
use super::failure::Failure;

#[derive(Debug, Args)]
pub(super) struct Version {
    /// Output format.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Text)]
    output: Format,
}

/// Versions of the command and of the schema that its rows are made for.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    version: &'static str,
    northbound_schema: String,
}

/// Prints the versions.
pub(super) fn version(arguments: &Version, console: &mut Console<'_>) -> Result<(), Failure> {
    let schema = nb::schema();
    let versions =
        Versions { version: env!("CARGO_PKG_VERSION"), northbound_schema: schema.version.clone() };
    match arguments.output {
        Format::Text => {
            writeln!(console.output, "patchbay {}", versions.version)?;
            Ok(writeln!(console.output, "OVN_Northbound schema {}", versions.northbound_schema)?)
        }
        format => console.document(&versions, format),
    }
}
