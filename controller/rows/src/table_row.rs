//! Row types with some of a table's columns.

/// Defines a row type with the columns that a capability manages. Columns that are not named stay
/// as others write them. Values may be of types that rows share, such as
/// [`SmolStr`](smol_str::SmolStr).
///
/// ```
/// use patchbay_schemas::nb::LogicalSwitchPort;
/// use patchbay_schemas::typed::TableRow;
///
/// patchbay_rows::table_row! {
///     /// Port whose VLAN is managed, and cleared if there is none.
///     pub struct TaggedPort of LogicalSwitchPort {
///         /// Name.
///         name: String,
///         /// VLAN.
///         tag_request: Option<i64>,
///     }
/// }
///
/// assert_eq!(TaggedPort::TABLE, "Logical_Switch_Port");
/// assert_eq!(TaggedPort::COLUMNS, ["name", "tag_request"]);
/// ```
#[macro_export]
macro_rules! table_row {
    (
        $(#[$doc:meta])*
        $visibility:vis struct $row:ident of $table:ty {
            $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        $visibility struct $row {
            $($(#[$field_doc])* $visibility $field: $type,)*
        }

        impl $crate::typed::TableRow for $row {
            const TABLE: &'static str = <$table as $crate::typed::TableRow>::TABLE;
            const COLUMNS: &'static [&'static str] = &[
                $($crate::column_name(stringify!($field))),*
            ];

            fn to_data(&self) -> Vec<$crate::Datum> {
                vec![$($crate::typed::Column::to_datum(&self.$field)),*]
            }

            fn from_data<'a>(
                mut get: impl FnMut(usize) -> Option<&'a $crate::Datum>,
            ) -> Result<Self, $crate::typed::TypeError> {
                let mut columns = (0..).zip(Self::COLUMNS.iter().copied());
                let mut next = || columns.next().map_or((None, ""), |(at, name)| (get(at), name));
                Ok(Self {
                    $($field: {
                        let (datum, name) = next();
                        $crate::typed::read_column(datum, Self::TABLE, name)?
                    },)*
                })
            }
        }
    };
}

/// Name of the column of a field, which may be a raw identifier.
#[doc(hidden)]
pub const fn column_name(field: &'static str) -> &'static str {
    match field.as_bytes() {
        [b'r', b'#', name @ ..] => match std::str::from_utf8(name) {
            Ok(name) => name,
            Err(_) => field,
        },
        _ => field,
    }
}
