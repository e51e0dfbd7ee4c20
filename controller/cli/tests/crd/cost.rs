//! What rules may cost. An API server estimates each rule at its worst, by the limits in the schema, and refuses
//! definitions above a budget. This is its arithmetic, for as much of CEL as the definitions use: what is not known
//! here has no limit, and so fails.

use kube_cel::cel::Program;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, operators,
};
use serde_json::Value;

use crate::definition::Definition;
use crate::structure::walk;

/// The budget of a rule, at all places where its part of the schema can stand in one object.
const RULE: u64 = 10_000_000;
/// The budget of all rules of a definition.
const DEFINITION: u64 = 100_000_000;
/// Nothing limits it.
const ENDLESS: u64 = u64::MAX;
/// A text that nothing limits but the size of a request.
const REQUEST: u64 = 3 * 1024 * 1024 - 2;

/// What is known of a value before there is one.
#[derive(Clone, Copy)]
enum Known<'a> {
    /// A part of the object.
    Part(&'a Value),
    /// A text of at most so many bytes.
    Text(u64),
    /// The parts of a text of at most so many bytes: at most as many, and each at most as long.
    Texts(u64),
    /// A list of so many numbers.
    Numbers(u64),
    /// A list of so many addresses or CIDRs.
    Addresses(u64),
    /// A number or a truth.
    Scalar,
    /// An address or a CIDR.
    Address,
}

impl Known<'_> {
    fn size(self) -> u64 {
        match self {
            Self::Text(size) | Self::Texts(size) | Self::Numbers(size) | Self::Addresses(size) => {
                size
            }
            Self::Scalar => 1,
            Self::Address => ENDLESS,
            Self::Part(schema) => {
                match (schema["type"].as_str().unwrap(), schema["enum"].as_array()) {
                    ("array", _) => schema["maxItems"].as_u64().unwrap_or(ENDLESS),
                    ("object", _) => schema["properties"]
                        .as_object()
                        .map_or(ENDLESS, |members| members.len() as u64),
                    // A character has up to four bytes.
                    ("string", Some(values)) => values
                        .iter()
                        .map(|value| value.to_string().len() as u64 * 4)
                        .max()
                        .unwrap(),
                    ("string", None) => schema["maxLength"]
                        .as_u64()
                        .map_or(REQUEST, |length| length * 4),
                    _ => 1,
                }
            }
        }
    }

    fn item(self) -> Self {
        match self {
            Self::Part(schema) => Self::Part(&schema["items"]),
            Self::Texts(parts) => Self::Text(parts),
            Self::Addresses(_) => Self::Address,
            _ => Self::Scalar,
        }
    }

    fn member(self, name: &str) -> Self {
        let Self::Part(schema) = self else {
            panic!("only parts of objects have members, such as {name}")
        };
        let property = &schema["properties"][name];
        assert!(property.is_object(), "no property {name}");
        Self::Part(property)
    }
}

/// The cost of going through something, with this much for each unit of size.
fn traverse(size: u64, each: f64) -> u64 {
    if size == ENDLESS {
        ENDLESS
    } else {
        (size as f64 * each).ceil() as u64
    }
}

/// The cost of an address where a text may stand in its place.
fn read(known: Known<'_>) -> u64 {
    match known {
        Known::Address => 0,
        text => traverse(text.size(), 0.1),
    }
}

/// Variables in scope, innermost last.
struct Estimate<'a>(Vec<(String, Known<'a>)>);

impl<'a> Estimate<'a> {
    fn of(&mut self, expression: &IdedExpr) -> (u64, Known<'a>) {
        match &expression.expr {
            Expr::Literal(LiteralValue::String(text)) => {
                (0, Known::Text(text.inner().len() as u64))
            }
            Expr::Literal(_) => (0, Known::Scalar),
            Expr::Ident(name) => {
                let known = self.0.iter().rev().find(|(variable, _)| variable == name);
                (1, known.unwrap_or_else(|| panic!("no variable {name}")).1)
            }
            Expr::Select(select) => {
                let (cost, operand) = self.of(&select.operand);
                let member = operand.member(&select.field);
                if select.test {
                    (cost, Known::Scalar)
                } else {
                    (cost.saturating_add(1), member)
                }
            }
            Expr::List(list) => {
                let items: Vec<_> = list.elements.iter().map(|item| self.of(item)).collect();
                let (cost, count) = (
                    items.iter().map(|item| item.0).sum::<u64>(),
                    items.len() as u64,
                );
                let list = match items.first() {
                    Some((_, Known::Address)) => Known::Addresses(count),
                    Some((_, Known::Scalar)) => Known::Numbers(count),
                    _ => Known::Texts(count),
                };
                (cost + 10, list)
            }
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(all) => (self.comprehension(all), Known::Scalar),
            other => panic!("{other:?} is not used in these definitions"),
        }
    }

    fn comprehension(&mut self, each: &ComprehensionExpr) -> u64 {
        let (range_cost, range) = self.of(&each.iter_range);
        let (init, _) = self.of(&each.accu_init);
        self.0.push((each.accu_var.clone(), Known::Scalar));
        let (result, _) = self.of(&each.result);
        self.0.push((each.iter_var.clone(), range.item()));
        let step = self
            .of(&each.loop_cond)
            .0
            .saturating_add(self.of(&each.loop_step).0);
        self.0.truncate(self.0.len() - 2);
        let rounds = range.size().saturating_mul(step);
        [range_cost, init, result]
            .into_iter()
            .fold(rounds, u64::saturating_add)
    }

    fn call(&mut self, call: &CallExpr) -> (u64, Known<'a>) {
        let operands = call.target.iter().map(AsRef::as_ref).chain(&call.args);
        let (costs, known): (Vec<_>, Vec<_>) = operands.map(|operand| self.of(operand)).unzip();
        let sum = costs.iter().copied().fold(0, u64::saturating_add);
        let (cost, result) = match (call.func_name.as_str(), &known[..]) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, _) => (0, Known::Scalar),
            (operators::CONDITIONAL, [_, yes, _]) => {
                return (costs[0] + costs[1].max(costs[2]), *yes);
            }
            (operators::EQUALS, [Known::Address, Known::Address]) => (1, Known::Scalar),
            (operators::EQUALS | operators::NOT_EQUALS, [left, right]) => {
                (traverse(left.size().min(right.size()), 0.1), Known::Scalar)
            }
            (operators::INDEX, [list, _]) => (1, list.item()),
            (operators::IN, [_, list]) => (list.size(), Known::Scalar),
            ("cidr" | "ip", [text @ (Known::Part(_) | Known::Text(_))]) => {
                (traverse(text.size(), 0.1), Known::Address)
            }
            ("isCIDR" | "isIP", [text]) => (traverse(text.size(), 0.1), Known::Scalar),
            ("ip" | "masked", [Known::Address]) => (1, Known::Address),
            ("containsIP", [Known::Address, other]) => (4 + read(*other), Known::Scalar),
            ("containsCIDR", [Known::Address, other]) => (7 + read(*other), Known::Scalar),
            ("split", [text, _]) => (traverse(text.size(), 0.2), Known::Texts(text.size())),
            ("matches", [text, pattern]) => {
                let text = traverse(text.size().saturating_add(1), 0.1);
                (
                    text.saturating_mul(traverse(pattern.size(), 0.25)),
                    Known::Scalar,
                )
            }
            (
                operators::LOGICAL_NOT
                | operators::NOT_STRICTLY_FALSE
                | operators::NEGATE
                | operators::SUBSTRACT
                | operators::ADD
                | operators::GREATER
                | operators::GREATER_EQUALS
                | operators::LESS
                | operators::LESS_EQUALS
                | "size"
                | "int"
                | "family"
                | "prefixLength",
                _,
            ) => (1, Known::Scalar),
            (name, _) => panic!("the cost of {name} on these operands is not known"),
        };
        (sum.saturating_add(cost), result)
    }
}

fn estimate(schema: &Value, rule: &str) -> u64 {
    let program = Program::compile(rule).unwrap();
    let variables = ["self", "oldSelf"].map(|name| (name.to_owned(), Known::Part(schema)));
    Estimate(variables.into()).of(program.expression()).0
}

#[test]
fn every_definition_is_within_its_budget() {
    for definition in [
        Definition::connect(),
        Definition::network(),
        Definition::cluster_network(),
    ] {
        let mut total: u64 = 0;
        walk(&definition.schema, &mut |part| {
            for rule in part.schema["x-kubernetes-validations"]
                .as_array()
                .into_iter()
                .flatten()
            {
                let rule = rule["rule"].as_str().unwrap();
                let cost = estimate(part.schema, rule).saturating_mul(part.count);
                assert!(cost <= RULE, "{}: {cost}: {rule}", part.path);
                total = total.saturating_add(cost);
            }
        });
        assert!(total <= DEFINITION, "{total}");
        assert!(total > 0);
    }
}

#[test]
fn a_rule_over_an_unlimited_list_is_over_budget() {
    let endless = serde_json::json!({"type": "array", "items": {"type": "string"}});
    assert!(estimate(&endless, "self.all(a, self.all(b, a == b))") > RULE);
    let limited = serde_json::json!({"type": "array", "maxItems": 400, "items": {"type": "string", "maxLength": 43}});
    let pairs = estimate(&limited, "self.all(a, self.all(b, a == b))");
    assert!((160_000 * 20..160_000 * 30).contains(&pairs), "{pairs}");
}

/// What Kubernetes 1.33 has said about a rule like these.
#[test]
fn costs_are_those_of_an_api_server() {
    let subnets = serde_json::json!({"type": "array", "maxItems": 400, "items": {"type": "object", "properties": {
        "cidr": {"type": "string", "maxLength": 43}, "hostSubnet": {"type": "integer"},
    }}});
    let host_subnet = |item: &str| format!("(has({item}.hostSubnet) ? {item}.hostSubnet : -1)");
    let rule = format!(
        "self.all(a, !isCIDR(a.cidr) || self.all(b, !isCIDR(b.cidr) || cidr(a.cidr).ip().family() != \
         cidr(b.cidr).ip().family() || {} == {}))",
        host_subnet("a"),
        host_subnet("b")
    );
    // "estimated rule cost exceeds budget by factor of 1.217040x"
    let factor = estimate(&subnets, &rule) as f64 / RULE as f64;
    assert_eq!(format!("{factor:.6}"), "1.217040");
}
