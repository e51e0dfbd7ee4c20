//! CNI configurations of user-defined networks in attachment definitions.

use patchbay_model::CniConfig;
use patchbay_resources::nad::NetworkAttachmentDefinition;

/// Reads the configuration in an attachment definition. `None`: there is none, or it is not that
/// of a user-defined network.
///
/// # Errors
/// The text is not a CNI configuration.
pub(super) fn user_defined_config(
    nad: &NetworkAttachmentDefinition,
) -> Result<Option<CniConfig>, serde_json::Error> {
    let Some(text) = &nad.spec.config else {
        return Ok(None);
    };
    Ok(CniConfig::from_json(text)?.filter(CniConfig::is_user_defined))
}
