//! Worst-case cost of the rules.
//!
//! An API server estimates the cost of each rule from the limits in the schema, and rejects
//! definitions above a budget. This is its arithmetic for the part of CEL that the definitions use.
//! Other operations fail the tests.

use kube_cel::cel::Program;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, operators,
};
use serde_json::Value;

use crate::definition::Definition;
use crate::structure::walk;

/// Cost budget of a rule, for all values to which it applies in one object.
const RULE_BUDGET: u64 = 10_000_000;
/// Cost budget of all rules of a definition.
const DEFINITION_BUDGET: u64 = 100_000_000;
/// Size of a value without a limit.
const UNBOUNDED: u64 = u64::MAX;
/// Largest size of a text without a limit, in bytes: the size of a request.
const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024 - 2;

/// Type and largest size of a value.
#[derive(Clone, Copy)]
enum Bound<'a> {
    /// A part of the object.
    Part(&'a Value),
    /// Text, with the largest number of bytes.
    Text(u64),
    /// Parts of a text, with the largest number of bytes of the text. It limits the number of parts
    /// and the length of each part.
    Texts(u64),
    /// List of numbers, with the largest length.
    Numbers(u64),
    /// List of addresses or CIDRs, with the largest length.
    Addresses(u64),
    /// Number or truth value.
    Scalar,
    /// Address or CIDR.
    Address,
}

impl Bound<'_> {
    fn size(self) -> u64 {
        match self {
            Self::Text(size) | Self::Texts(size) | Self::Numbers(size) | Self::Addresses(size) => {
                size
            }
            Self::Scalar => 1,
            Self::Address => UNBOUNDED,
            Self::Part(schema) => {
                match (schema["type"].as_str().unwrap(), schema["enum"].as_array()) {
                    ("array", _) => schema["maxItems"].as_u64().unwrap_or(UNBOUNDED),
                    ("object", _) => schema["properties"]
                        .as_object()
                        .map_or(UNBOUNDED, |members| members.len() as u64),
                    // A character has up to four bytes.
                    ("string", Some(values)) => {
                        values.iter().map(|value| value.to_string().len() as u64 * 4).max().unwrap()
                    }
                    ("string", None) => {
                        schema["maxLength"].as_u64().map_or(MAX_REQUEST_BYTES, |length| length * 4)
                    }
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

/// Cost of a traversal with a cost per unit of size.
fn traverse(size: u64, unit_cost: f64) -> u64 {
    if size == UNBOUNDED { UNBOUNDED } else { (size as f64 * unit_cost).ceil() as u64 }
}

/// Cost of reading an operand that is an address or its text.
fn read(operand: Bound<'_>) -> u64 {
    match operand {
        Bound::Address => 0,
        text => traverse(text.size(), 0.1),
    }
}

/// Estimation of a rule: the variables in scope, innermost last.
struct Estimate<'a>(Vec<(String, Bound<'a>)>);

impl<'a> Estimate<'a> {
    fn cost_and_bound(&mut self, expression: &IdedExpr) -> (u64, Bound<'a>) {
        match &expression.expr {
            Expr::Literal(LiteralValue::String(text)) => {
                (0, Bound::Text(text.inner().len() as u64))
            }
            Expr::Literal(_) => (0, Bound::Scalar),
            Expr::Ident(name) => {
                let bound = self.0.iter().rev().find(|(variable, _)| variable == name);
                (1, bound.unwrap_or_else(|| panic!("no variable {name}")).1)
            }
            Expr::Select(select) => {
                let (cost, operand) = self.cost_and_bound(&select.operand);
                let member = operand.member(&select.field);
                if select.test { (cost, Bound::Scalar) } else { (cost.saturating_add(1), member) }
            }
            Expr::List(list) => {
                let items: Vec<_> =
                    list.elements.iter().map(|item| self.cost_and_bound(item)).collect();
                let (cost, count) =
                    (items.iter().map(|item| item.0).sum::<u64>(), items.len() as u64);
                let list = match items.first() {
                    Some((_, Bound::Address)) => Bound::Addresses(count),
                    Some((_, Bound::Scalar)) => Bound::Numbers(count),
                    _ => Bound::Texts(count),
                };
                (cost + 10, list)
            }
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(all) => (self.comprehension(all), Bound::Scalar),
            other => panic!("{other:?} is not used in these definitions"),
        }
    }

    fn comprehension(&mut self, each: &ComprehensionExpr) -> u64 {
        let (range_cost, range) = self.cost_and_bound(&each.iter_range);
        let (init, _) = self.cost_and_bound(&each.accu_init);
        self.0.push((each.accu_var.clone(), Bound::Scalar));
        let (result, _) = self.cost_and_bound(&each.result);
        self.0.push((each.iter_var.clone(), range.item()));
        let step = self
            .cost_and_bound(&each.loop_cond)
            .0
            .saturating_add(self.cost_and_bound(&each.loop_step).0);
        self.0.truncate(self.0.len() - 2);
        let rounds = range.size().saturating_mul(step);
        [range_cost, init, result].into_iter().fold(rounds, u64::saturating_add)
    }

    fn call(&mut self, call: &CallExpr) -> (u64, Bound<'a>) {
        let operands = call.target.iter().map(AsRef::as_ref).chain(&call.args);
        let (costs, bounds): (Vec<_>, Vec<_>) =
            operands.map(|operand| self.cost_and_bound(operand)).unzip();
        let sum = costs.iter().copied().fold(0, u64::saturating_add);
        let (cost, result) = match (call.func_name.as_str(), &bounds[..]) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, _) => (0, Bound::Scalar),
            (operators::CONDITIONAL, [_, yes, _]) => {
                return (costs[0] + costs[1].max(costs[2]), *yes);
            }
            (operators::EQUALS, [Bound::Address, Bound::Address]) => (1, Bound::Scalar),
            (operators::EQUALS | operators::NOT_EQUALS, [left, right]) => {
                (traverse(left.size().min(right.size()), 0.1), Bound::Scalar)
            }
            (operators::INDEX, [list, _]) => (1, list.item()),
            (operators::IN, [_, list]) => (list.size(), Bound::Scalar),
            ("cidr" | "ip", [text @ (Bound::Part(_) | Bound::Text(_))]) => {
                (traverse(text.size(), 0.1), Bound::Address)
            }
            ("isCIDR" | "isIP", [text]) => (traverse(text.size(), 0.1), Bound::Scalar),
            ("ip" | "masked", [Bound::Address]) => (1, Bound::Address),
            ("containsIP", [Bound::Address, other]) => (4 + read(*other), Bound::Scalar),
            ("containsCIDR", [Bound::Address, other]) => (7 + read(*other), Bound::Scalar),
            ("split", [text, _]) => (traverse(text.size(), 0.2), Bound::Texts(text.size())),
            ("matches", [text, pattern]) => {
                let text = traverse(text.size().saturating_add(1), 0.1);
                (text.saturating_mul(traverse(pattern.size(), 0.25)), Bound::Scalar)
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
            ) => (1, Bound::Scalar),
            (name, _) => panic!("the cost of {name} on these operands is not known"),
        };
        (sum.saturating_add(cost), result)
    }
}

fn estimate(schema: &Value, rule: &str) -> u64 {
    let program = Program::compile(rule).unwrap();
    let variables = ["self", "oldSelf"].map(|name| (name.to_owned(), Bound::Part(schema)));
    Estimate(variables.into()).cost_and_bound(program.expression()).0
}

#[test]
fn every_definition_is_within_its_budget() {
    for definition in [Definition::connect(), Definition::network(), Definition::cluster_network()]
    {
        let mut total: u64 = 0;
        walk(&definition.schema, &mut |part| {
            for rule in part.schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
                let rule = rule["rule"].as_str().unwrap();
                let cost = estimate(part.schema, rule).saturating_mul(part.count);
                assert!(cost <= RULE_BUDGET, "{}: {cost}: {rule}", part.path);
                total = total.saturating_add(cost);
            }
        });
        assert!(total <= DEFINITION_BUDGET, "{total}");
        assert!(total > 0);
    }
}

#[test]
fn a_rule_over_an_unlimited_list_is_over_budget() {
    let unlimited = serde_json::json!({"type": "array", "items": {"type": "string"}});
    assert!(estimate(&unlimited, "self.all(a, self.all(b, a == b))") > RULE_BUDGET);
    let limited = serde_json::json!({"type": "array", "maxItems": 400, "items": {"type": "string", "maxLength": 43}});
    let pairs = estimate(&limited, "self.all(a, self.all(b, a == b))");
    assert!((160_000 * 20..160_000 * 30).contains(&pairs), "{pairs}");
}

/// Factor by which a rule like these exceeds the budget, as Kubernetes 1.33 reports it.
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
    let factor = estimate(&subnets, &rule) as f64 / RULE_BUDGET as f64;
    assert_eq!(format!("{factor:.6}"), "1.217040");
}
