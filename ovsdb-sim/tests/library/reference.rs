//! The reference of the control API, made from the API's description of itself.

use std::fmt::Write as _;
use std::path::Path;

use jsonrpsee::core::client::ClientT as _;
use jsonrpsee::http_client::HttpClient;
use jsonrpsee::rpc_params;
use ovsdb_sim::Sim;
use serde_json::Value;

/// Beginning of the document.
const HEAD: &str = "# Control API of ovsdb-sim

JSON-RPC 2.0 by HTTP and WebSocket at the address of `--control`. The tables are made from the answer
to `rpc.discover`, which describes the API in OpenRPC's form.
[The guide](../../ovsdb-sim/README.md#the-control-api) has examples.
";

#[tokio::test]
async fn the_document_lists_methods_and_types_of_the_description() {
    let sim = Sim::builder().build().unwrap();
    let control = sim.serve_control(([127, 0, 0, 1], 0).into()).await.unwrap();
    let http = HttpClient::builder().build(format!("http://{}", control.address())).unwrap();
    let description: Value = http.request("rpc.discover", rpc_params![]).await.unwrap();
    let expected = reference(&description);

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/control-api.md");
    if std::fs::read_to_string(&path).unwrap_or_default() != expected {
        // The file beside it takes its place after a review.
        let new = path.with_extension("md.new");
        std::fs::write(&new, expected).unwrap();
        panic!("docs/reference/control-api.md has other methods; see {}", new.display());
    }
}

/// The document of a description.
fn reference(description: &Value) -> String {
    let mut text = format!("{HEAD}\n## Methods\n\n");
    text += "| method | parameters | result | meaning |\n| --- | --- | --- | --- |\n";
    for method in description["methods"].as_array().unwrap() {
        let params = method["params"].as_array().unwrap();
        let params: Vec<String> = params.iter().map(parameter).collect();
        let result = type_text(&method["result"]["schema"]);
        let [name, summary] = ["name", "summary"].map(|member| method[member].as_str().unwrap());
        writeln!(text, "| `{name}` | {} | {result} | {summary} |", params.join(", ")).unwrap();
    }
    text += "\n## Types\n";
    for (name, schema) in description["components"]["schemas"].as_object().unwrap() {
        write!(text, "\n### {name}\n\n{}\n", meaning(schema)).unwrap();
        text += &members(schema);
    }
    text
}

/// A parameter: its name and type, in brackets if it may be left out.
fn parameter(param: &Value) -> String {
    let name = param["name"].as_str().unwrap();
    let text = format!("`{name}`: {}", type_text(&param["schema"]));
    if param["required"] == true { text } else { format!("[{text}]") }
}

/// The fields of an object, or the values of a choice.
fn members(schema: &Value) -> String {
    let mut rows = String::new();
    if let Some(fields) = schema["properties"].as_object() {
        rows += "\n| field | type | meaning |\n| --- | --- | --- |\n";
        for (name, field) in fields {
            writeln!(rows, "| `{name}` | {} | {} |", type_text(field), meaning(field)).unwrap();
        }
    }
    if let Some(values) = schema["oneOf"].as_array() {
        rows += "\n| value | meaning |\n| --- | --- |\n";
        for value in values {
            writeln!(rows, "| {} | {} |", type_text(value), meaning(value)).unwrap();
        }
    }
    rows
}

/// The description of a schema, in one line and without links into the crate.
fn meaning(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    let prose = text.split("\n\n```").next().unwrap_or_default();
    let line = prose.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace("[`", "`").replace("`]", "`").replace('|', "\\|")
}

/// A type as people write it.
fn type_text(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap();
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(value) = schema.get("const") {
        return format!("`{value}`");
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
        return values.join(" or ");
    }
    let choices = ["anyOf", "oneOf", "allOf"].into_iter().find_map(|of| schema[of].as_array());
    if let Some(choices) = choices {
        return choices.iter().map(type_text).collect::<Vec<_>>().join(" or ");
    }
    if let Some(fields) = schema["properties"].as_object() {
        let fields: Vec<String> =
            fields.iter().map(|(name, of)| format!("`{name}`: {}", type_text(of))).collect();
        return format!("{{{}}}", fields.join(", "));
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => {
            format!("array of {}", type_text(&schema["items"]))
        }
        Value::String(name) if name == "object" => {
            format!("map of {}", type_text(&schema["additionalProperties"]))
        }
        Value::String(name) => name.clone(),
        Value::Array(names) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            names.join(" or ")
        }
        _ => "any value".to_owned(),
    }
}
