//! Words for what derives cannot say of a schema.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};

/// Says more about a part of a schema. The parts are named as in the schema: one that is not there is a mistake in
/// this program, which stops it.
pub(super) trait Refine {
    /// The member of an object.
    fn property(&mut self, name: &str) -> &mut JSONSchemaProps;

    /// Each item of a list.
    fn item(&mut self) -> &mut JSONSchemaProps;

    /// Adds a rule in CEL, whose violations name this part.
    fn rule(&mut self, cel: impl Into<String>, message: &str) -> &mut Self;

    /// Adds a rule in CEL that reads several members of this part. Its violations name one member.
    fn rule_at(&mut self, field: &str, cel: impl Into<String>, message: &str) -> &mut Self;

    /// A list that appliers own as a whole.
    fn atomic(&mut self) -> &mut Self;

    /// A list with one item for each value of the member `key`.
    fn keyed_by(&mut self, key: &str) -> &mut Self;

    /// Makes a derived schema one for other readers, here and below. `null` is not allowed: an API server then drops
    /// members that are, which is how these types read them. And descriptions have no links, which go nowhere.
    fn plain(&mut self);
}

impl Refine for JSONSchemaProps {
    fn property(&mut self, name: &str) -> &mut JSONSchemaProps {
        let properties = self.properties.iter_mut().flatten();
        let found = properties
            .filter(|(property, _)| *property == name)
            .map(|(_, schema)| schema)
            .next();
        found.unwrap_or_else(|| panic!("the schema has no property {name}"))
    }

    fn item(&mut self) -> &mut JSONSchemaProps {
        match &mut self.items {
            Some(JSONSchemaPropsOrArray::Schema(items)) => items,
            _ => panic!("the schema is not one of a list"),
        }
    }

    fn rule(&mut self, cel: impl Into<String>, message: &str) -> &mut Self {
        self.x_kubernetes_validations
            .get_or_insert_default()
            .push(ValidationRule {
                rule: cel.into(),
                message: Some(message.to_owned()),
                ..ValidationRule::default()
            });
        self
    }

    fn rule_at(&mut self, field: &str, cel: impl Into<String>, message: &str) -> &mut Self {
        self.x_kubernetes_validations
            .get_or_insert_default()
            .push(ValidationRule {
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

    fn plain(&mut self) {
        self.nullable = None;
        if let Some(description) = &mut self.description {
            *description = description.replace("[`", "`").replace("`]", "`");
        }
        for schema in self
            .properties
            .iter_mut()
            .flatten()
            .map(|(_, schema)| schema)
        {
            schema.plain();
        }
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut self.items {
            items.plain();
        }
        if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut self.additional_properties {
            values.plain();
        }
    }
}
