//! The kinds of objects, and the paths of requests.

/// A kind.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Resource {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) plural: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespaced: bool,
    /// `true` if the kind has the status subresource.
    pub(super) has_status: bool,
}

const fn resource(
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    namespaced: bool,
    has_status: bool,
) -> Resource {
    Resource { group, version: "v1", plural, kind, namespaced, has_status }
}

const OVN: &str = "k8s.ovn.org";

static RESOURCES: [Resource; 24] = [
    resource("networking.k8s.io", "networkpolicies", "NetworkPolicy", true, false),
    Resource {
        version: "v1beta1",
        ..resource("k8s.cni.cncf.io", "multi-networkpolicies", "MultiNetworkPolicy", true, false)
    },
    resource(OVN, "egressfirewalls", "EgressFirewall", true, true),
    resource(OVN, "routeadvertisements", "RouteAdvertisements", false, true),
    resource(OVN, "vteps", "VTEP", false, true),
    Resource {
        version: "v1alpha1",
        ..resource("k8s.cni.cncf.io", "ipamclaims", "IPAMClaim", true, true)
    },
    resource("", "namespaces", "Namespace", false, true),
    resource("", "nodes", "Node", false, true),
    resource("", "services", "Service", true, true),
    resource("", "pods", "Pod", true, true),
    resource("", "configmaps", "ConfigMap", true, false),
    resource("discovery.k8s.io", "endpointslices", "EndpointSlice", true, false),
    resource("coordination.k8s.io", "leases", "Lease", true, false),
    resource(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        false,
        true,
    ),
    resource("events.k8s.io", "events", "Event", true, false),
    resource("apps", "deployments", "Deployment", true, true),
    resource("apps", "daemonsets", "DaemonSet", true, true),
    resource(
        "admissionregistration.k8s.io",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        false,
        true,
    ),
    resource(
        "admissionregistration.k8s.io",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        false,
        false,
    ),
    resource(OVN, "clusternetworkconnects", "ClusterNetworkConnect", false, true),
    resource(OVN, "clusteruserdefinednetworks", "ClusterUserDefinedNetwork", false, true),
    resource(OVN, "egressips", "EgressIP", false, false),
    resource(OVN, "userdefinednetworks", "UserDefinedNetwork", true, true),
    resource(
        "k8s.cni.cncf.io",
        "network-attachment-definitions",
        "NetworkAttachmentDefinition",
        true,
        false,
    ),
];

impl Resource {
    pub(super) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// The objects that a path names.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) resource: &'static Resource,
    pub(super) namespace: Option<String>,
    /// The object's name. `None`: all objects.
    pub(super) name: Option<String>,
    pub(super) status: bool,
}

impl Target {
    pub(super) fn parse(path: &str) -> Option<Self> {
        let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let group = match *parts.first()? {
            "api" => "",
            "apis" => parts.remove(1),
            _ => return None,
        };
        let version = *parts.get(1)?;
        let of = |plural: &str| {
            RESOURCES
                .iter()
                .find(|one| (one.group, one.version, one.plural) == (group, version, plural))
        };
        let (namespace, rest) = match &parts[2..] {
            ["namespaces", namespace, plural, rest @ ..] if of(plural).is_some() => {
                (Some((*namespace).to_owned()), (*plural, rest))
            }
            [plural, rest @ ..] => (None, (*plural, rest)),
            [] => return None,
        };
        let (plural, rest) = rest;
        let (name, status) = match rest {
            [] => (None, false),
            // Namespaces are deleted at once, without finalization.
            [name] | [name, "finalize"] => (Some((*name).to_owned()), false),
            [name, "status"] => (Some((*name).to_owned()), true),
            _ => return None,
        };
        Some(Self { resource: of(plural)?, namespace, name, status })
    }
}
