//! Rows of which there are many, as far as connects decide about them: of the table's columns only some, with values of
//! which several rows share parts.

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
    /// A connect router. The sets are decided about only when it is made.
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
    /// A port.
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
    /// A route. Most of its columns are decided to be empty.
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
