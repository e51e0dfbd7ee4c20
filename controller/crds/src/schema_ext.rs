//! Extension of schemas: rules in CEL, list types, and access to members.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};

/// Access to the parts of a schema, and additions to them.
///
/// # Panics
/// Methods panic if the schema lacks the named part, because then the Rust type and its rules
/// disagree.
pub(super) trait SchemaExt {
    /// Returns the schema of an object's member.
    fn property(&mut self, name: &str) -> &mut JSONSchemaProps;

    /// Returns the schema of a list's items.
    fn item(&mut self) -> &mut JSONSchemaProps;

    /// Adds a rule in CEL, whose violations name this part.
    fn rule(&mut self, cel: impl Into<String>, message: &str) -> &mut Self;

    /// Adds a rule in CEL that reads several members of this part. Its violations name one member.
    fn rule_at(&mut self, field: &str, cel: impl Into<String>, message: &str) -> &mut Self;

    /// Marks a list that server-side apply replaces as a whole.
    fn atomic(&mut self) -> &mut Self;

    /// Marks a list that server-side apply merges by the member `key` of its items.
    fn keyed_by(&mut self, key: &str) -> &mut Self;

    /// Removes `nullable` and links in descriptions from the schema and all its parts. An API
    /// server then drops members that are `null`, as the Rust types do.
    fn remove_nullable_and_links(&mut self);
}

impl SchemaExt for JSONSchemaProps {
    fn property(&mut self, name: &str) -> &mut JSONSchemaProps {
        let properties = self.properties.iter_mut().flatten();
        let found =
            properties.filter(|(property, _)| *property == name).map(|(_, schema)| schema).next();
        found.unwrap_or_else(|| panic!("the schema has no property {name}"))
    }

    fn item(&mut self) -> &mut JSONSchemaProps {
        match &mut self.items {
            Some(JSONSchemaPropsOrArray::Schema(items)) => items,
            _ => panic!("the schema is not one of a list"),
        }
    }

    fn rule(&mut self, cel: impl Into<String>, message: &str) -> &mut Self {
        self.x_kubernetes_validations.get_or_insert_default().push(ValidationRule {
            rule: cel.into(),
            message: Some(message.to_owned()),
            ..ValidationRule::default()
        });
        self
    }

    fn rule_at(&mut self, field: &str, cel: impl Into<String>, message: &str) -> &mut Self {
        self.x_kubernetes_validations.get_or_insert_default().push(ValidationRule {
            rule: cel.into(),
            message: Some(message.to_owned()),
            field_path: Some(format!(".{field}")),
            ..ValidationRule::default()
        });
        self
    }

    fn atomic(&mut self) -> &mut Self {
        self.x_kubernetes_list_type = Some("atomic".to_owned());
        self
    }

    fn keyed_by(&mut self, key: &str) -> &mut Self {
        self.x_kubernetes_list_type = Some("map".to_owned());
        self.x_kubernetes_list_map_keys = Some(vec![key.to_owned()]);
        self
    }

    fn remove_nullable_and_links(&mut self) {
        self.nullable = None;
        if let Some(description) = &mut self.description {
            *description = description.replace("[`", "`").replace("`]", "`");
        }
        for schema in self.properties.iter_mut().flatten().map(|(_, schema)| schema) {
            schema.remove_nullable_and_links();
        }
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut self.items {
            items.remove_nullable_and_links();
        }
        if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut self.additional_properties {
            values.remove_nullable_and_links();
        }
    }
}
