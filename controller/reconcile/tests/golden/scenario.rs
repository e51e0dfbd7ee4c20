//! Form of a scenario file that all controllers share.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Controllers that a scenario judges.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Half {
    Cluster,
    Zone,
    /// Networks: the zone controller.
    #[serde(rename = "udn-zone")]
    UdnZone,
    /// Networks: the cluster manager.
    #[serde(rename = "udn-cluster")]
    UdnCluster,
    /// Networks: both together.
    #[serde(rename = "udn-full")]
    UdnFull,
}

impl Half {
    /// Returns `true` for scenarios of networks, `false` for those of connects.
    pub(crate) fn is_of_networks(self) -> bool {
        matches!(self, Self::UdnZone | Self::UdnCluster | Self::UdnFull)
    }
}

/// One file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    #[serde(rename = "description")]
    _description: String,
    pub(crate) half: Half,
    pub(crate) quirk: Option<String>,
    /// `all`: all rows of the database are judged.
    #[serde(default, rename = "scope")]
    _scope: Option<String>,
    /// Read by the tests of the controllers that it is for.
    pub(crate) input: Value,
    /// Read by the tests of the controllers that it is for.
    pub(crate) expected: Value,
}

/// Ops that are applied one after the other. `expected` has the state after the last of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step<Op> {
    pub(crate) name: String,
    pub(crate) ops: Vec<Op>,
    /// Nothing wakes the controller up: the state is reached by a retry of its own.
    #[serde(default)]
    pub(crate) by_retry: bool,
}

/// Way in which the controllers of a zone get to the end of a step.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Pace {
    /// They come to rest after all ops, as when the states were recorded.
    #[default]
    Steady,
    /// They come to rest after each op, and new ones follow them after each transaction.
    Interrupted,
}

/// Operation of a scenario of networks.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum ObjectOp {
    StartController,
    StopController,
    Settle,
    Create {
        object: Value,
    },
    Patch {
        kind: String,
        #[serde(default)]
        namespace: String,
        name: String,
        patch: Value,
    },
    Delete {
        kind: String,
        #[serde(default)]
        namespace: String,
        name: String,
    },
}

/// The `expected` member.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected<Step> {
    pub(crate) steps: Vec<Step>,
}

impl Scenario {
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let scenario: Self = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        if scenario.name == stem {
            Ok(scenario)
        } else {
            Err(format!("the scenario calls itself {:?}", scenario.name))
        }
    }

    /// Input and expected states in the form of one kind of controllers.
    pub(crate) fn parts<I: DeserializeOwned, E: DeserializeOwned>(
        &self,
    ) -> Result<(I, Expected<E>), String> {
        let input = serde_json::from_value(self.input.clone())
            .map_err(|error| format!("input: {error}"))?;
        let expected = serde_json::from_value(self.expected.clone())
            .map_err(|error| format!("expected: {error}"))?;
        Ok((input, expected))
    }
}
