//! CNI configuration of Kube-OVN's plugin in an attachment definition.

use serde::Deserialize;
use serde::de::Error as _;
use serde_json::{Map, Value};
use thiserror::Error;

/// Name of Kube-OVN's CNI plugin, the value of `type`.
pub const KUBE_OVN_PLUGIN: &str = "kube-ovn";

/// CNI configuration of Kube-OVN's plugin.
///
/// ```
/// use patchbay_model::vpc::KubeOvnConfig;
///
/// let text = r#"{"type": "kube-ovn", "provider": "net.alpha.ovn"}"#;
/// let config = KubeOvnConfig::from_json(text).unwrap().unwrap();
/// assert_eq!(config.provider.as_deref(), Some("net.alpha.ovn"));
/// assert_eq!(KubeOvnConfig::from_json(r#"{"type": "macvlan"}"#).unwrap(), None);
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct KubeOvnConfig {
    /// `provider`: the key by which the plugin finds a pod's annotations. `None`: absent.
    pub provider: Option<String>,
    /// `server_socket`: the socket of Kube-OVN's node daemon. `None`: absent.
    pub server_socket: Option<String>,
    /// `true` if another plugin makes the interface, and Kube-OVN manages its addresses only.
    pub is_ipam_only: bool,
}

/// Reason why a CNI configuration cannot be read.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct KubeOvnConfigError(#[from] serde_json::Error);

impl KubeOvnConfig {
    /// Reads a configuration: one plugin, or a list of plugins. `None`: none of them is Kube-OVN's.
    ///
    /// # Errors
    /// The text is not a JSON object, or a field of Kube-OVN's plugin has another type.
    pub fn from_json(text: &str) -> Result<Option<Self>, KubeOvnConfigError> {
        let fields: Map<String, Value> = serde_json::from_str(text)?;
        let Some(plugins) = fields.get("plugins").and_then(Value::as_array) else {
            return Self::of_plugin(&fields);
        };
        let plugins = plugins.iter().filter_map(Value::as_object);
        let mut found = plugins.map(Self::of_plugin);
        let first = found.find(|config| !matches!(config, Ok(None)));
        first.unwrap_or(Ok(None))
    }

    /// Configuration of one plugin. Fields of other plugins may have other types.
    fn of_plugin(fields: &Map<String, Value>) -> Result<Option<Self>, KubeOvnConfigError> {
        let is_of_kube_ovn =
            |fields: &Map<String, Value>| fields.get("type") == Some(&KUBE_OVN_PLUGIN.into());
        let ipam = fields.get("ipam").and_then(Value::as_object);
        let ipam = ipam.filter(|ipam| is_of_kube_ovn(ipam));
        let (fields, is_ipam_only) = match ipam {
            _ if is_of_kube_ovn(fields) => (fields, false),
            Some(ipam) => (ipam, true),
            None => return Ok(None),
        };
        Ok(Some(Self {
            provider: text(fields, "provider")?,
            server_socket: text(fields, "server_socket")?,
            is_ipam_only,
        }))
    }
}

/// Text of a field. `None`: the field is absent or empty.
fn text(fields: &Map<String, Value>, field: &str) -> Result<Option<String>, KubeOvnConfigError> {
    let value = fields.get(field).unwrap_or(&Value::Null);
    let text = Option::<String>::deserialize(value).map_err(|error| {
        KubeOvnConfigError(serde_json::Error::custom(format!("{field}: {error}")))
    })?;
    Ok(text.filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<KubeOvnConfig> {
        KubeOvnConfig::from_json(text).unwrap()
    }

    #[test]
    fn a_plugin_is_found_alone_and_in_a_list() {
        let socket = r#""server_socket": "/run/d.sock""#;
        let expected = KubeOvnConfig {
            provider: Some("net.alpha.ovn".to_owned()),
            server_socket: Some("/run/d.sock".to_owned()),
            is_ipam_only: false,
        };
        let plugin = format!(r#"{{"type": "kube-ovn", "provider": "net.alpha.ovn", {socket}}}"#);
        assert_eq!(read(&plugin), Some(expected.clone()));
        let list = format!(r#"{{"plugins": [{{"type": "tuning", "mtu": "x"}}, {plugin}]}}"#);
        assert_eq!(read(&list), Some(expected.clone()));
        let ipam = format!(r#"{{"type": "macvlan", "provider": 5, "ipam": {plugin}}}"#);
        let managed = KubeOvnConfig { is_ipam_only: true, ..expected };
        assert_eq!(read(&ipam), Some(managed));
    }

    #[test]
    fn other_plugins_have_no_configuration_and_texts_that_are_not_json_are_errors() {
        assert_eq!(read(r#"{"type": "ovn-k8s-cni-overlay"}"#), None);
        assert_eq!(read(r#"{"type": 5, "provider": 6}"#), None);
        assert_eq!(read(r#"{"plugins": []}"#), None);
        let empty = read(r#"{"type": "kube-ovn", "provider": ""}"#).unwrap();
        assert_eq!(empty.provider, None);
        for text in ["", "kube-ovn", "[]", r#"{"type": "kube-ovn", "provider": 1}"#] {
            assert!(KubeOvnConfig::from_json(text).is_err(), "{text}");
        }
    }
}
