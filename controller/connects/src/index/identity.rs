//! Name, owner and identity of a row.

use patchbay_schemas::datum::Map;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, DatabaseSchema};
use patchbay_schemas::typed::TableRow;

use patchbay_model::external_ids::{OWNER_CONTROLLER, OWNER_TYPE, key};

/// Columns of one table with the name and the owner of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdentityColumns {
    name: Option<ColumnId>,
    external_ids: Option<ColumnId>,
}

impl IdentityColumns {
    pub(crate) fn of<T: TableRow>(schema: &DatabaseSchema) -> Self {
        let table = schema.table_by_name(T::TABLE);
        let column = |name| table.and_then(|(_, table)| table.column_id(name));
        Self {
            name: column("name"),
            external_ids: column("external_ids"),
        }
    }

    pub(crate) fn name(self, row: &Row) -> &str {
        let name = self.name.and_then(|column| row.values.get(column));
        name.and_then(|name| name.as_scalar()?.as_str())
            .unwrap_or_default()
    }

    pub(crate) fn external_id<'r>(self, row: &'r Row, key: &str) -> Option<&'r str> {
        self.external_ids(row)?.get_str(key)
    }

    fn external_ids(self, row: &Row) -> Option<&Map> {
        row.values.get(self.external_ids?)?.as_map()
    }

    /// Identity of a row (`k8s.ovn.org/id`), unique among the connect's rows of the table.
    pub(crate) fn id(self, row: &Row) -> &str {
        self.external_id(row, key::ID).unwrap_or_default()
    }

    /// Connect that owns a row.
    pub(crate) fn owner(self, row: &Row) -> Option<&str> {
        let (owner, []) = self.owner_with(row, [])?;
        Some(owner)
    }

    /// Connect that owns a row, and the values of other external ids, in one pass over them.
    pub(crate) fn owner_with<'r, const N: usize>(
        self,
        row: &'r Row,
        keys: [&str; N],
    ) -> Option<(&'r str, [Option<&'r str>; N])> {
        let (mut controller, mut owner_type, mut name) = (None, None, None);
        let mut values = [None; N];
        for (key, value) in self.external_ids(row)? {
            let place = match key.as_str()? {
                key::OWNER_CONTROLLER => &mut controller,
                key::OWNER_TYPE => &mut owner_type,
                key::NAME => &mut name,
                other => match keys.iter().position(|key| *key == other) {
                    Some(place) => &mut values[place],
                    None => continue,
                },
            };
            *place = value.as_str();
        }
        let is_connect = controller == Some(OWNER_CONTROLLER) && owner_type == Some(OWNER_TYPE);
        Some((name.filter(|_| is_connect)?, values))
    }

    /// True if a row has an owner of any controller.
    pub(crate) fn has_owner(self, row: &Row) -> bool {
        self.external_id(row, key::OWNER_CONTROLLER).is_some()
    }
}
