//! Row types of large tables: only managed columns, with values that rows share.

use patchbay_schemas::datum::{Datum, Map, Set};
use patchbay_schemas::nb::{Copp, LogicalRouter, LogicalRouterPort, LogicalRouterStaticRoute};
use patchbay_schemas::typed::{self, Column, Ref, TableRow, TypeError};
use smol_str::SmolStr;

macro_rules! table_row {
    (
        $(#[$doc:meta])*
        $row:ident of $table:ty {
            $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub(in crate) struct $row {
            $($(#[$field_doc])* pub(in crate) $field: $type,)*
        }

        impl TableRow for $row {
            const TABLE: &'static str = <$table>::TABLE;
            const COLUMNS: &'static [&'static str] = &[$(stringify!($field)),*];

            fn to_data(&self) -> Vec<Datum> {
                vec![$(self.$field.to_datum()),*]
            }

            fn from_data<'a>(
                mut get: impl FnMut(usize) -> Option<&'a Datum>,
            ) -> Result<Self, TypeError> {
                let mut columns = (0..).zip(Self::COLUMNS.iter().copied());
                let mut next = || columns.next().map_or((None, ""), |(at, name)| (get(at), name));
                Ok(Self {
                    $($field: {
                        let (datum, name) = next();
                        typed::read_column(datum, Self::TABLE, name)?
                    },)*
                })
            }
        }
    };
}

table_row! {
    /// Connect router. The sets are written only when it is inserted.
    RouterRow of LogicalRouter {
        name: SmolStr,
        external_ids: Map,
        options: Map,
        copp: Option<Ref<Copp>>,
        ports: Set,
        policies: Set,
        static_routes: Set,
    }
}

table_row! {
    /// Router port.
    PortRow of LogicalRouterPort {
        name: SmolStr,
        mac: SmolStr,
        networks: Set,
        peer: Option<SmolStr>,
        options: Map,
        external_ids: Map,
    }
}

table_row! {
    /// Static route. Most of its columns are always empty.
    RouteRow of LogicalRouterStaticRoute {
        ip_prefix: SmolStr,
        nexthop: SmolStr,
        policy: Option<SmolStr>,
        output_port: Option<SmolStr>,
        route_table: SmolStr,
        options: Map,
        external_ids: Map,
    }
}
