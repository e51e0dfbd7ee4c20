//! Custom resources: metadata, a specification and, for most, a status.

use std::fmt;
use std::marker::PhantomData;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Object;

/// `apiVersion` of a kind: written by every object, not read.
pub struct ApiVersion<T>(PhantomData<fn() -> T>);

/// `kind` of a kind: written by every object, not read.
pub struct KindName<T>(PhantomData<fn() -> T>);

macro_rules! marker {
    ($marker:ident, $text:expr) => {
        impl<T> Clone for $marker<T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $marker<T> {}

        impl<T> Default for $marker<T> {
            fn default() -> Self {
                Self(PhantomData)
            }
        }

        impl<T> PartialEq for $marker<T> {
            fn eq(&self, _: &Self) -> bool {
                true
            }
        }

        impl<T> Eq for $marker<T> {}

        impl<T: Object> fmt::Debug for $marker<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let text: fn() -> String = $text;
                f.write_str(&text())
            }
        }

        impl<T: Object> Serialize for $marker<T> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let text: fn() -> String = $text;
                serializer.serialize_str(&text())
            }
        }

        impl<'de, T> Deserialize<'de> for $marker<T> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                IgnoredAny::deserialize(deserializer).map(|_| Self(PhantomData))
            }
        }
    };
}

marker!(ApiVersion, T::api_version);
marker!(KindName, || T::KIND.to_owned());

/// Defines the object of a custom resource: `apiVersion`, `kind`, `metadata`, `spec` and, if it has
/// one, `status`.
#[macro_export]
macro_rules! custom_resource {
    (
        $(#[$attribute:meta])*
        $name:ident, $(#[$spec_attribute:meta])* $spec:ty $(, status: $status:ty)?;
        $group:literal, $version:literal, $plural:literal, namespaced: $namespaced:literal
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
        pub struct $name {
            /// `apiVersion`.
            #[serde(rename = "apiVersion", default)]
            pub api_version: $crate::object::ApiVersion<Self>,
            /// `kind`.
            #[serde(default)]
            pub kind: $crate::object::KindName<Self>,
            /// Metadata.
            pub metadata: $crate::object::ObjectMeta,
            /// Specification.
            $(#[$spec_attribute])*
            pub spec: $spec,
            $(
                /// Status.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub status: Option<$status>,
            )?
        }

        impl $name {
            /// An object of this name.
            pub fn new(name: &str, spec: $spec) -> Self {
                Self {
                    api_version: $crate::object::ApiVersion::default(),
                    kind: $crate::object::KindName::default(),
                    metadata: $crate::object::ObjectMeta {
                        name: Some(name.to_owned()),
                        ..Default::default()
                    },
                    spec,
                    $(status: None::<$status>,)?
                }
            }
        }

        impl $crate::object::Object for $name {
            const GROUP: &'static str = $group;
            const VERSION: &'static str = $version;
            const KIND: &'static str = stringify!($name);
            const PLURAL: &'static str = $plural;
            const NAMESPACED: bool = $namespaced;

            fn meta(&self) -> &$crate::object::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut $crate::object::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
