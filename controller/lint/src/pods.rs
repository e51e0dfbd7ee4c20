//! Pods as machines of VPCs.

use patchbay_model::vpc::AttachmentProvider;
use patchbay_resources::conversion::pod;
use patchbay_resources::manifests::Sourced;
use patchbay_resources::object::{Object as _, Pod};

use crate::cluster::{Cluster, SubnetView, name_of};

/// Provider of a pod's own interface.
const DEFAULT_PROVIDER: &str = "ovn";

/// A pod with its ports.
pub(crate) struct PodView<'a> {
    pub(crate) sourced: &'a Sourced<Pod>,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    /// Name of the node. `None`: not scheduled.
    pub(crate) node: Option<&'a str>,
    pub(crate) ports: Vec<PortView>,
}

/// A port of a pod.
pub(crate) struct PortView {
    /// Text before `.kubernetes.io/` in the keys of annotations.
    pub(crate) provider: String,
    /// Name of the interface, if the same definition is used several times.
    interface: Option<String>,
    /// Name of the subnet that an annotation has. `None`: that of the provider.
    pub(crate) named_subnet: Option<String>,
}

impl<'a> PodView<'a> {
    /// The pod with the ports that its annotations name. A pod of the default network has none.
    pub(crate) fn new(sourced: &'a Sourced<Pod>, cluster: &Cluster<'_>) -> Self {
        let object = &sourced.object;
        let read = pod(object);
        let selected = read.selections.iter().flatten().map(|selection| {
            let provider = AttachmentProvider::new(&selection.namespace, &selection.name);
            (provider, selection.interface.clone())
        });
        let mut ports: Vec<PortView> = selected
            .filter(|(provider, _)| cluster.has_provider(provider))
            .map(|(provider, interface)| PortView::new(object, provider.to_string(), interface))
            .collect();
        let own = PortView::new(object, DEFAULT_PROVIDER.to_owned(), None);
        if own.named_subnet.is_some() {
            ports.push(own);
        }
        let spec = object.spec.as_ref();
        Self {
            sourced,
            namespace: object.metadata.namespace.as_deref().unwrap_or_default(),
            name: name_of(sourced),
            node: spec.and_then(|spec| spec.node_name.as_deref()),
            ports,
        }
    }
}

impl PortView {
    fn new(object: &Pod, provider: String, interface: Option<String>) -> Self {
        let mut port = Self { provider, interface, named_subnet: None };
        let named = port.annotation(object, "logical_switch");
        port.named_subnet = named.map(|(_, value)| value.to_owned());
        port
    }

    /// Key and value of an annotation about the port.
    pub(crate) fn annotation<'p>(&self, object: &'p Pod, name: &str) -> Option<(&'p str, &'p str)> {
        let of_interface = self.interface.as_ref().and_then(|interface| {
            let provider = self.provider.strip_suffix(".ovn")?;
            Some(format!("{provider}.kubernetes.io/{name}.{interface}"))
        });
        let of_provider = format!("{}.kubernetes.io/{name}", self.provider);
        let keys = of_interface.into_iter().chain([of_provider]);
        let annotations = object.annotations();
        let mut found = keys.filter_map(|key| annotations.get_key_value(&key));
        found.find_map(|(key, value)| (!value.is_empty()).then_some((&**key, &**value)))
    }

    /// Subnet of the port: the named one, or the first one of the provider.
    pub(crate) fn subnet<'c, 'a>(&self, cluster: &'c Cluster<'a>) -> Option<&'c SubnetView<'a>> {
        match &self.named_subnet {
            Some(name) => cluster.subnet(name),
            None => cluster.with_provider(&self.provider).next(),
        }
    }
}

impl Cluster<'_> {
    /// `true` if Kube-OVN makes the interfaces of an attachment definition.
    fn has_provider(&self, provider: &AttachmentProvider) -> bool {
        let attachment = self.attachment(provider);
        attachment.is_some_and(|one| one.interface_config().is_some())
            || self.with_provider(&provider.to_string()).next().is_some()
    }
}
