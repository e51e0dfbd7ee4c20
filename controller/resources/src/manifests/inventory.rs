//! All objects of a run, by kind.

use std::collections::BTreeMap;
use std::fmt;

use crate::object::Object;
use crate::object::ObjectMeta;
use crate::object::{Namespace, Node, Service};
use serde::de::DeserializeOwned;

use super::{Place, Problem};
use crate::Violation;
use crate::cnc::ClusterNetworkConnect;
use crate::nad::NetworkAttachmentDefinition;
use crate::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};

/// Name of an object among those of its kind.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ObjectKey {
    /// The namespace; `None` for kinds that have none.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl ObjectKey {
    /// Key of an object of a kind without namespaces.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self {
            namespace: None,
            name: name.into(),
        }
    }

    /// Key of an object in a namespace.
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: Some(namespace.into()),
            name: name.into(),
        }
    }

    /// Key of the object with this metadata.
    pub fn of(meta: &ObjectMeta) -> Self {
        Self {
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

/// Where an object comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Origin {
    /// A manifest, at the line where the object starts.
    Manifest(Place),
    /// What an earlier run has left.
    State(Place),
    /// Made here on behalf of another object, which is named by kind and name.
    Rendered(String),
    /// The API server of a cluster.
    Cluster,
}

impl Origin {
    /// The place in a file, if that is where the object comes from.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Manifest(place) | Self::State(place) => Some(place),
            Self::Rendered(_) | Self::Cluster => None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manifest(place) | Self::State(place) => place.fmt(f),
            Self::Rendered(owner) => write!(f, "rendered for {owner}"),
            Self::Cluster => f.write_str("the cluster"),
        }
    }
}

/// An object and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Sourced<T> {
    /// The object.
    pub object: T,
    /// Where it comes from.
    pub origin: Origin,
    /// Place among all objects of the run, in the order in which they were given. New ids are handed out in it.
    pub position: u64,
}

/// The objects of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Objects<T>(BTreeMap<ObjectKey, Sourced<T>>);

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Kind> Objects<T> {
    /// The object of this key.
    pub fn get(&self, key: &ObjectKey) -> Option<&Sourced<T>> {
        self.0.get(key)
    }

    /// The object of this key, to be changed.
    pub fn get_mut(&mut self, key: &ObjectKey) -> Option<&mut Sourced<T>> {
        self.0.get_mut(key)
    }

    /// The object of this name, of a kind without namespaces.
    pub fn named(&self, name: &str) -> Option<&T> {
        self.0
            .get(&ObjectKey::cluster(name))
            .map(|sourced| &sourced.object)
    }

    /// Puts the object under its own name, in place of one that was there.
    pub fn insert(&mut self, sourced: Sourced<T>) -> Option<Sourced<T>> {
        self.0.insert(ObjectKey::of(sourced.object.meta()), sourced)
    }

    /// Takes the object of this key out.
    pub fn remove(&mut self, key: &ObjectKey) -> Option<Sourced<T>> {
        self.0.remove(key)
    }

    /// All of them, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Sourced<T>)> {
        self.0.iter()
    }

    /// Those of one namespace, by name.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = (&ObjectKey, &Sourced<T>)> {
        let first = ObjectKey::namespaced(namespace, "");
        let objects = self.0.range(&first..);
        objects.take_while(move |(key, _)| key.namespace == first.namespace)
    }

    /// All of them by key, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&ObjectKey, &mut Sourced<T>)> {
        self.0.iter_mut()
    }

    /// All of them, in the order in which they were given.
    pub fn in_order(&self) -> Vec<(&ObjectKey, &Sourced<T>)> {
        let mut all: Vec<_> = self.iter().collect();
        all.sort_by_key(|(_, sourced)| sourced.position);
        all
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// All objects of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inventory {
    /// Namespaces. Each has the label `kubernetes.io/metadata.name`, as in a cluster.
    pub namespaces: Objects<Namespace>,
    /// Nodes.
    pub nodes: Objects<Node>,
    /// Services.
    pub services: Objects<Service>,
    /// Network attachment definitions.
    pub network_attachment_definitions: Objects<NetworkAttachmentDefinition>,
    /// Networks of one namespace.
    pub user_defined_networks: Objects<UserDefinedNetwork>,
    /// Networks of many namespaces.
    pub cluster_user_defined_networks: Objects<ClusterUserDefinedNetwork>,
    /// Connections of networks.
    pub cluster_network_connects: Objects<ClusterNetworkConnect>,
    /// What is odd but not wrong.
    pub warnings: Vec<Problem>,
}

impl Inventory {
    /// The objects of a kind.
    pub fn objects<T: Kind>(&self) -> &Objects<T> {
        T::of(self)
    }

    /// The objects of a kind, to be changed.
    pub fn objects_mut<T: Kind>(&mut self) -> &mut Objects<T> {
        T::of_mut(self)
    }
}

/// A kind that inventories hold.
pub trait Kind: Object + DeserializeOwned {
    /// Everything that an API server would refuse in this object, beyond unknown fields and wrong types.
    fn violations(&self) -> Vec<Violation>;

    /// Where an inventory keeps its objects.
    fn of(inventory: &Inventory) -> &Objects<Self>;

    /// Where an inventory keeps its objects, to be changed.
    fn of_mut(inventory: &mut Inventory) -> &mut Objects<Self>;
}

macro_rules! kinds {
    ($($kind:ty, $field:ident, $violations:expr;)*) => {
        $(impl Kind for $kind {
            fn violations(&self) -> Vec<Violation> {
                let violations: fn(&Self) -> Vec<Violation> = $violations;
                violations(self)
            }

            fn of(inventory: &Inventory) -> &Objects<Self> {
                &inventory.$field
            }

            fn of_mut(inventory: &mut Inventory) -> &mut Objects<Self> {
                &mut inventory.$field
            }
        })*
    };
}

kinds! {
    Namespace, namespaces, |_| Vec::new();
    Node, nodes, |_| Vec::new();
    Service, services, |_| Vec::new();
    NetworkAttachmentDefinition, network_attachment_definitions, |_| Vec::new();
    UserDefinedNetwork, user_defined_networks, |udn| udn.spec.violations();
    ClusterUserDefinedNetwork, cluster_user_defined_networks, |cudn| cudn.spec.violations();
    ClusterNetworkConnect, cluster_network_connects, |cnc| cnc.spec.violations();
}

/// Kind and name of an object, as messages name it: `UserDefinedNetwork blue/net`.
pub fn describe<T: Kind>(object: &T) -> String {
    format!("{} {}", T::KIND, ObjectKey::of(object.meta()))
}
