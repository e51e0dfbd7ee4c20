//! Rights of the user who installs.

use std::fmt;

use crate::check::facts::Facts;
use crate::check::result::{Check, CheckGroup, listed};

/// A right of a user.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Right {
    /// Verb, such as `create`.
    pub verb: String,
    /// Group of the API; empty: the core group.
    pub group: String,
    /// Plural name of the resource.
    pub resource: String,
    /// Subresource; empty: the object itself.
    pub subresource: String,
    /// Name of the object; empty: any.
    pub name: String,
    /// Namespace; empty: all, or none.
    pub namespace: String,
    /// `true` if the user needs it only to grant it to an account.
    pub is_granted: bool,
}

impl Right {
    /// The right to do everything.
    pub(crate) fn everything() -> Self {
        Self::of("*", "*", "*")
    }

    /// A right about roles, or about those of the cluster.
    pub(crate) fn about_roles(verb: &str, resource: &str) -> Self {
        Self::of(verb, "rbac.authorization.k8s.io", resource)
    }

    fn of(verb: &str, group: &str, resource: &str) -> Self {
        Self {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: String::new(),
            name: String::new(),
            namespace: String::new(),
            is_granted: false,
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        for (mark, part) in [("/", &self.subresource), (".", &self.group), (" ", &self.name)] {
            if !part.is_empty() {
                write!(f, "{mark}{part}")?;
            }
        }
        if !self.namespace.is_empty() {
            write!(f, " in {}", self.namespace)?;
        }
        Ok(())
    }
}

pub(crate) fn check(facts: &Facts) -> CheckGroup {
    let of = |name, what: &str, is_granted: bool, remedy| {
        Check::of(name, what, &facts.missing_rights, |missing| {
            let missing: Vec<String> = missing
                .iter()
                .filter(|right| right.is_granted == is_granted)
                .map(ToString::to_string)
                .collect();
            if missing.is_empty() {
                return Check::ok(name, format!("this user has {what}"));
            }
            Check::failed(name, format!("this user lacks {what}: {}", listed(&missing)), remedy)
        })
    };
    CheckGroup {
        name: "rights",
        checks: vec![
            of(
                "install",
                "the rights to create and change the objects of an installation",
                false,
                "Install as an administrator of the cluster, or with a role that has these rights.",
            ),
            of(
                "grant",
                "the rights that an installation grants to its accounts",
                true,
                "Install as a user who has them, or who may escalate and bind roles.",
            ),
        ],
    }
}
