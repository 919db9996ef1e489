//! Values as `MessagePack`, with the names of their fields.

use rmp_serde::Deserializer;
use serde::{Serialize, de::DeserializeOwned};
use tenure_store::{Key, Reason};

use super::error::StateError;

/// How deep a stored value may nest: far more than what people declare, and little enough that hostile bytes can't exhaust a stack.
const DEPTH_MAX: usize = 128;

/// A value as bytes. `key` is only for the message.
pub(super) fn encode<T: Serialize + ?Sized>(value: &T, key: &Key) -> Result<Vec<u8>, StateError> {
    rmp_serde::to_vec_named(value).map_err(|error| {
        StateError::Encode(Reason::caused(format!("the value for {key} refused it: {error}"), error))
    })
}

/// The value that `body` is, from its first byte to its last. `key` is only for the message.
///
/// No length that hostile bytes claim is believed: serde sets aside at most 1 MiB for each level of nesting before it has seen the elements.
pub(super) fn decode<T: DeserializeOwned>(body: &[u8], key: &Key) -> Result<T, StateError> {
    let mut rest = body;
    let mut decoder = Deserializer::new(&mut rest);
    decoder.set_max_depth(DEPTH_MAX);
    let value = T::deserialize(&mut decoder).map_err(|error| {
        StateError::corrupt(Reason::caused(format!("{key} is not what was expected there: {error}"), error))
    })?;
    if rest.is_empty() {
        Ok(value)
    } else {
        let extra = rest.len();
        Err(StateError::corrupt(format!("{key} has {extra} bytes behind the end of its value")))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn key() -> Key {
        Key::from("some-key")
    }

    #[test]
    fn a_value_comes_back() {
        let value = (7_u128 << 100, Some("text".to_owned()), BTreeMap::from([(1_i64, vec![true])]));
        assert_eq!(
            decode::<(u128, Option<String>, BTreeMap<i64, Vec<bool>>)>(
                &encode(&value, &key()).unwrap(),
                &key()
            )
            .unwrap(),
            value
        );
    }

    #[test]
    fn nothing_may_stand_behind_a_value() {
        let mut body = encode(&7_u64, &key()).unwrap();
        body.push(0);
        let error = decode::<u64>(&body, &key()).unwrap_err();
        assert!(error.to_string().contains("some-key"), "{error}");
    }

    #[test]
    fn claimed_lengths_are_not_believed() {
        // Arrays, maps, texts and bytes of four billion elements, none of which follow.
        for tag in [0xDD, 0xDF, 0xDB, 0xC6] {
            let body = [tag, 0xFF, 0xFF, 0xFF, 0xFF];
            assert!(decode::<Vec<u64>>(&body, &key()).is_err());
            assert!(decode::<BTreeMap<u64, u64>>(&body, &key()).is_err());
            assert!(decode::<String>(&body, &key()).is_err());
        }
    }

    #[test]
    fn a_value_can_not_nest_without_end() {
        #[derive(Debug, serde::Deserialize)]
        struct Tree(#[expect(dead_code, reason = "only its depth matters")] Vec<Tree>);
        assert!(decode::<Tree>(&[0x91; 100_000], &key()).is_err());
        let deep = |depth: usize| [vec![0x91; depth], vec![0x90]].concat();
        assert!(decode::<Tree>(&deep(100), &key()).is_ok());
        assert!(decode::<Tree>(&deep(200), &key()).is_err());
    }
}
