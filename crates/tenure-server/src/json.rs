//! [`Json`]: a message or an answer of a server whose types this program does not have.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};

/// Any message. As a message it is what the same JSON would be, had it been read by the server's own type: enums by the names of their variants, structs by those of their fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Json(pub Value);

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// What JSON can't say is said as nearly as it can: bytes as numbers, keys as texts, numbers that are none as null.
impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Anything).map(Json)
    }
}

struct Anything;

impl<'de> Visitor<'de> for Anything {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Json(value)) = parts.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some((Json(key), Json(value))) = entries.next_entry()? {
            let key = match key {
                Value::String(text) => text,
                other => other.to_string(),
            };
            values.insert(key, value);
        }
        Ok(Value::Object(values))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::parcel::{pack, unpack};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Order {
        Cancel,
        Add(u64),
        Move { from: String, to: Option<String>, share: f64 },
    }

    #[test]
    fn json_is_read_by_the_servers_own_types() {
        let orders = [
            (json!("Cancel"), Order::Cancel),
            (json!({"Add": 7}), Order::Add(7)),
            (
                json!({"Move": {"from": "a", "to": null, "share": 0.5}}),
                Order::Move { from: "a".into(), to: None, share: 0.5 },
            ),
        ];
        for (said, meant) in orders {
            assert_eq!(unpack::<Order>(&pack(&Json(said.clone())).unwrap()).unwrap(), meant);
            assert_eq!(unpack::<Json>(&pack(&meant).unwrap()).unwrap(), Json(said));
        }
    }

    #[test]
    fn what_json_can_not_say_is_said_as_nearly_as_it_can() {
        let numbered: BTreeMap<u8, f64> = [(1, f64::NAN), (2, -2.0)].into();
        assert_eq!(unpack::<Json>(&pack(&numbered).unwrap()).unwrap().0, json!({"1": null, "2": -2.0}));
        let bytes = rmp_serde::to_vec(&Bytes(vec![1, 2])).unwrap();
        assert_eq!(unpack::<Json>(&bytes).unwrap().0, json!([1, 2]));
    }

    struct Bytes(Vec<u8>);

    impl Serialize for Bytes {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(&self.0)
        }
    }
}
