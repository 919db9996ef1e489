//! Whether JSON is what a schema of the program's own document says: strictly, for the part of JSON Schema that the document uses.

use std::{process::Command, sync::OnceLock};

use serde_json::{Map, Value};

/// What a schema may say. Anything else would go unchecked, and is refused.
const KNOWN: [&str; 16] = [
    "$ref",
    "allOf",
    "anyOf",
    "description",
    "enum",
    "example",
    "format",
    "items",
    "maximum",
    "minimum",
    "oneOf",
    "properties",
    "propertyNames",
    "required",
    "title",
    "type",
];

/// The document, as the program prints it.
pub(crate) fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| {
        let printed = Command::new(env!("CARGO_BIN_EXE_tenure")).args(["schema", "api"]).output().unwrap();
        serde_json::from_slice(&printed.stdout).unwrap()
    })
}

fn named(name: &str) -> &'static Value {
    document()["components"]["schemas"]
        .get(name)
        .unwrap_or_else(|| panic!("the document has no schema {name}"))
}

/// Panics unless this is what the schema says, to the last member.
pub(crate) fn check(schema: &str, value: &Value) {
    if let Err(flaw) = conforms(named(schema), value) {
        panic!("it is no {schema}: {flaw}: {value:#}");
    }
}

fn conforms(schema: &Value, value: &Value) -> Result<(), String> {
    matches(schema, value)?;
    if let Value::Object(members) = value {
        let (known, open) = members_of(schema, value);
        if let Some(other) = members.keys().find(|member| !open && !known.contains(&member.as_str())) {
            return Err(format!("member {other:?} is not in the schema"));
        }
    }
    Ok(())
}

fn rules(schema: &Value) -> &Map<String, Value> {
    let rules = schema.as_object().unwrap();
    for word in rules.keys() {
        let known = KNOWN.contains(&word.as_str()) || word == "additionalProperties";
        assert!(known, "the checker does not know {word:?} of {schema}");
    }
    rules
}

fn target(reference: &Value) -> &'static Value {
    named(reference.as_str().unwrap().strip_prefix("#/components/schemas/").unwrap())
}

/// The members that a schema names for a value, through all its parts; whether it lets others be there.
fn members_of<'a>(schema: &'a Value, value: &Value) -> (Vec<&'a str>, bool) {
    let rules = rules(schema);
    if let Some(reference) = rules.get("$ref") {
        return members_of(target(reference), value);
    }
    let mut names: Vec<&str> = rules
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect();
    let silent = ["properties", "allOf", "oneOf", "anyOf"].iter().all(|word| !rules.contains_key(*word));
    let mut open = rules.contains_key("additionalProperties") || silent;
    for part in rules.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        let (more, also) = members_of(part, value);
        names.extend(more);
        open |= also;
    }
    for word in ["oneOf", "anyOf"] {
        let choices = rules.get(word).and_then(Value::as_array).into_iter().flatten();
        for choice in choices.filter(|choice| matches(choice, value).is_ok()) {
            let (more, also) = members_of(choice, value);
            names.extend(more);
            open |= also;
        }
    }
    (names, open)
}

fn matches(schema: &Value, value: &Value) -> Result<(), String> {
    let rules = rules(schema);
    if let Some(reference) = rules.get("$ref") {
        return conforms(target(reference), value);
    }
    if let Some(wanted) = rules.get("type") {
        let is = |wanted: &Value| is_of_type(wanted.as_str().unwrap(), value);
        let fits = wanted.as_array().map_or_else(|| is(wanted), |types| types.iter().any(is));
        if !fits {
            return Err(format!("{value} is no {wanted}"));
        }
    }
    if rules.get("enum").is_some_and(|choices| !choices.as_array().unwrap().contains(value)) {
        return Err(format!("{value} is none of {}", rules["enum"]));
    }
    let below = |least: &Value| value.as_f64().is_some_and(|value| value < least.as_f64().unwrap());
    if rules.get("minimum").is_some_and(below) {
        return Err(format!("{value} is too small"));
    }
    for part in rules.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        matches(target_of(part), value)?;
    }
    for word in ["oneOf", "anyOf"] {
        if let Some(choices) = rules.get(word) {
            let fitting =
                choices.as_array().unwrap().iter().filter(|choice| conforms(choice, value).is_ok()).count();
            if fitting == 0 || (word == "oneOf" && fitting > 1) {
                return Err(format!("{value} fits {fitting} of {choices}"));
            }
        }
    }
    if let (Some(items), Value::Array(values)) = (rules.get("items"), value) {
        values.iter().try_for_each(|value| conforms(items, value))?;
    }
    let Value::Object(members) = value else { return Ok(()) };
    for name in rules.get("required").and_then(Value::as_array).into_iter().flatten() {
        if !members.contains_key(name.as_str().unwrap()) {
            return Err(format!("member {name} is missing"));
        }
    }
    let properties = rules.get("properties").and_then(Value::as_object);
    for (name, member) in members {
        if let Some(schema) = properties.and_then(|properties| properties.get(name)) {
            conforms(schema, member).map_err(|flaw| format!("{name}: {flaw}"))?;
        } else if let Some(schema) = rules.get("additionalProperties").filter(|schema| schema.is_object()) {
            conforms(schema, member).map_err(|flaw| format!("{name}: {flaw}"))?;
        }
    }
    Ok(())
}

/// A part of a whole may be named; the whole is checked for members that nobody knows.
fn target_of(part: &Value) -> &Value {
    match part.get("$ref") {
        Some(reference) => target(reference),
        None => part,
    }
}

fn is_of_type(wanted: &str, value: &Value) -> bool {
    match wanted {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("the checker does not know the type {other}"),
    }
}

#[test]
fn the_checker_finds_what_is_wrong() {
    let good = serde_json::json!({"leader": null, "name": "x", "term": 1, "ttl_ms": null, "last_seen_ms": 5, "waiting": 0});
    check("Election", &good);
    let change = |name: &str, value: Value| {
        let mut changed = good.clone();
        changed[name] = value;
        changed
    };
    let mut missing = good.clone();
    missing.as_object_mut().unwrap().remove("term");
    let leader = serde_json::json!({"node": "a", "session": "s", "since_ms": 1, "lease": "no"});
    let wrong = [
        change("term", "1".into()),
        change("term", (-1).into()),
        change("other", 1.into()),
        change("leader", leader),
        missing,
    ];
    for value in wrong {
        assert!(conforms(named("Election"), &value).is_err(), "{value}");
    }
}
