//! Custom resources as types for `kube`'s requests.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use patchbay_resources::object::Object;
use patchbay_resources::{cnc, nad, udn};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::Error as _};
use serde_json::{Value, json};

/// An object of a custom resource, with the metadata of `k8s-openapi`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stored<T> {
    pub(crate) metadata: ObjectMeta,
    object: T,
}

pub(crate) type ClusterNetworkConnect = Stored<cnc::ClusterNetworkConnect>;
pub(crate) type NetworkAttachmentDefinition = Stored<nad::NetworkAttachmentDefinition>;
pub(crate) type ClusterUserDefinedNetwork = Stored<udn::ClusterUserDefinedNetwork>;

/// The object as another type for the same resource.
pub(crate) fn converted<K: DeserializeOwned>(object: &impl Serialize) -> K {
    serde_json::from_value(json!(object)).unwrap()
}

impl<T> Deref for Stored<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

impl<T> DerefMut for Stored<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.object
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Stored<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(deserializer)?;
        Ok(Self {
            metadata: ObjectMeta::deserialize(&object["metadata"]).map_err(D::Error::custom)?,
            object: T::deserialize(object).map_err(D::Error::custom)?,
        })
    }
}

impl<T: Serialize> Serialize for Stored<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serde_json::to_value(&self.object).map_err(S::Error::custom)?;
        object["metadata"] = json!(self.metadata);
        object.serialize(serializer)
    }
}

macro_rules! resource {
    ($type:ty, $scope:ty) => {
        impl kube::Resource for Stored<$type> {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> Cow<'_, str> {
                <$type>::KIND.into()
            }

            fn group((): &()) -> Cow<'_, str> {
                <$type>::GROUP.into()
            }

            fn version((): &()) -> Cow<'_, str> {
                <$type>::VERSION.into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                <$type>::PLURAL.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

resource!(cnc::ClusterNetworkConnect, ClusterResourceScope);
resource!(udn::ClusterUserDefinedNetwork, ClusterResourceScope);
resource!(nad::NetworkAttachmentDefinition, NamespaceResourceScope);
