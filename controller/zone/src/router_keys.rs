//! Tunnel keys of connect routers.

use imbl::OrdMap;
use patchbay_model::{ConnectInput, DatapathKey};
use smol_str::SmolStr;

/// Tunnel keys of connect routers. Clones share what is equal.
///
/// A router keeps its key for the life of the CNC, even if the annotation changes, because other
/// zones route to it. A CNC with another UID is another object, even under the same name.
#[derive(Clone, Debug, Default)]
pub(crate) struct RouterKeys(OrdMap<SmolStr, DatapathKey>);

impl RouterKeys {
    /// Follows a connect. `former`: the version before.
    pub(crate) fn put(
        &mut self,
        name: &SmolStr,
        former: Option<&ConnectInput>,
        input: &ConnectInput,
    ) {
        if former.is_some_and(|former| former.uid != input.uid) {
            self.0.remove(name);
        }
        let key = input.connect.as_ref().ok();
        if let Some(key) = key.and_then(|connect| connect.tunnel_key) {
            self.0.entry(name.clone()).or_insert(key);
        }
    }

    /// Takes over the key that a connect has had.
    pub(crate) fn keep(&mut self, name: &SmolStr, earlier: &Self) {
        if let Some(key) = earlier.0.get(name) {
            self.0.insert(name.clone(), *key);
        }
    }

    /// Forgets a connect.
    pub(crate) fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Tunnel key of a connect's router. `None`: not allocated yet.
    pub(crate) fn get(&self, connect: &str) -> Option<DatapathKey> {
        self.0.get(connect).copied()
    }
}

#[cfg(test)]
mod tests {
    use patchbay_model::Connect;

    use super::*;

    #[test]
    fn a_router_keeps_its_key_for_the_life_of_its_connect() {
        let input = |uid: &str, key: i64| {
            let connect =
                Connect { tunnel_key: DatapathKey::try_new(key).ok(), ..Connect::default() };
            ConnectInput { uid: Some(uid.to_owned()), refusal: None, connect: Ok(connect) }
        };
        let mut keys = RouterKeys::default();
        let mut former = None;
        let mut after = |current: Option<ConnectInput>| {
            match &current {
                Some(current) => keys.put(&"a".into(), former.as_ref(), current),
                None => keys.remove("a"),
            }
            former = current;
            keys.get("a").map(DatapathKey::get)
        };
        assert_eq!(after(Some(input("1", 0))), None);
        assert_eq!(after(Some(input("1", 7))), Some(7));
        assert_eq!(after(Some(input("1", 8))), Some(7));
        assert_eq!(after(Some(input("2", 9))), Some(9));
        assert_eq!(after(None), None);
        assert_eq!(after(Some(input("2", 10))), Some(10));
    }
}
