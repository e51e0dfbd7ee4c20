//! Tunnel keys of connect routers.

use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use patchbay_model::{ConnectInput, DatapathKey};

/// Connects by name.
type Connects = OrdMap<String, Arc<ConnectInput>>;

/// Tunnel keys of connect routers. Clones share what is equal.
///
/// A router keeps its key for the life of the CNC, even if the annotation changes, because other
/// zones route to it. A CNC with another UID is another object, even under the same name.
#[derive(Clone, Debug, Default)]
pub(super) struct RouterKeys(OrdMap<String, DatapathKey>);

impl RouterKeys {
    /// Remembers the keys of new connects and forgets those of connects that are gone.
    pub(super) fn follow(&mut self, earlier: &Connects, connects: &Connects) {
        for item in earlier.diff(connects) {
            let (name, input) = match item {
                DiffItem::Add(name, input) => (name, input),
                DiffItem::Remove(name, _) => {
                    self.0.remove(name);
                    continue;
                }
                DiffItem::Update { old, new } => {
                    if old.1.uid != new.1.uid {
                        self.0.remove(new.0);
                    }
                    new
                }
            };
            let key = input.connect.as_ref().ok();
            if let Some(key) = key.and_then(|connect| connect.tunnel_key)
                && !self.0.contains_key(name)
            {
                self.0.insert(name.clone(), key);
            }
        }
    }

    /// Tunnel key of a connect's router. `None`: not allocated yet.
    pub(super) fn get(&self, connect: &str) -> Option<DatapathKey> {
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
            let connect = Connect {
                tunnel_key: DatapathKey::try_new(key).ok(),
                ..Connect::default()
            };
            let input = ConnectInput {
                uid: Some(uid.to_owned()),
                refusal: None,
                connect: Ok(connect),
            };
            OrdMap::unit("a".to_owned(), Arc::new(input))
        };
        let mut keys = RouterKeys::default();
        let mut earlier = OrdMap::new();
        let mut after = |connects: Connects| {
            keys.follow(&earlier, &connects);
            earlier = connects;
            keys.get("a").map(DatapathKey::get)
        };
        assert_eq!(after(input("1", 0)), None);
        assert_eq!(after(input("1", 7)), Some(7));
        assert_eq!(after(input("1", 8)), Some(7));
        assert_eq!(after(input("2", 9)), Some(9));
        assert_eq!(after(OrdMap::new()), None);
        assert_eq!(after(input("2", 10)), Some(10));
    }
}
