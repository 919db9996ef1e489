//! Properties of the encoding of tuples: order, exactness, ranges, and no harm from hostile bytes.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use proptest::{collection::vec, prelude::*};
use tenure_store::{Bytes, Int, Key, Part, StoreError, Tuple};

/// How deep a nested tuple can be decoded.
const DEPTH_MAX: usize = 16;

/// Bytes among which those that the encoding gives a meaning to are frequent.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![
        4 => prop::sample::select(vec![0x00, 0x01, 0x02, 0x10, 0x11, 0x1F, 0x20, 0x21, 0x28, 0x30, 0xFE, 0xFF]),
        1 => any::<u8>(),
    ]
}

fn text() -> impl Strategy<Value = String> {
    let character = prop_oneof![
        4 => prop::sample::select(vec!['\0', '\u{1}', '\u{2}', 'a', 'b', '\u{7F}', '\u{80}', '\u{10FFFF}']),
        1 => any::<char>(),
    ];
    vec(character, 0..5).prop_map(String::from_iter)
}

fn int() -> impl Strategy<Value = Int> {
    // Around each number of bytes that an integer can take.
    let edge = (0_u32..64, -2_i128..=2, any::<bool>()).prop_map(|(bits, nearby, negative)| {
        let value = (1_i128 << bits) + nearby;
        let value = (if negative { -value } else { value }).clamp(i64::MIN.into(), u64::MAX.into());
        i64::try_from(value).map_or_else(|_| Int::from(u64::try_from(value).unwrap()), Int::from)
    });
    let ends = prop::sample::select(vec![
        Int::from(i64::MIN),
        Int::from(i64::MIN + 1),
        Int::from(-1_i64),
        Int::from(0_i64),
        Int::from(i64::MAX),
        Int::from(u64::MAX),
        Int::from(u64::MAX - 1),
    ]);
    prop_oneof![edge, ends, any::<i64>().prop_map(Int::from), any::<u64>().prop_map(Int::from)]
}

fn part() -> impl Strategy<Value = Part> {
    let plain = prop_oneof![
        vec(byte(), 0..5).prop_map(|bytes| Part::Bytes(Bytes::from(bytes))),
        text().prop_map(Part::Text),
        int().prop_map(Part::Int),
    ];
    plain.prop_recursive(4, 24, 4, |inner| vec(inner, 0..4).prop_map(|parts| Part::Tuple(tuple_of(parts))))
}

fn tuple_of(parts: Vec<Part>) -> Tuple {
    parts.into_iter().fold(Tuple::new(), Tuple::part)
}

fn tuple() -> impl Strategy<Value = Tuple> {
    vec(part(), 0..5).prop_map(tuple_of)
}

/// Two tuples that begin alike more often than not.
fn alike() -> impl Strategy<Value = (Tuple, Tuple)> {
    (vec(part(), 0..3), vec(part(), 0..3), vec(part(), 0..3)).prop_map(|(head, left, right)| {
        (tuple_of([head.clone(), left].concat()), tuple_of([head, right].concat()))
    })
}

fn nested(depth: usize) -> Tuple {
    (0..depth).fold(Tuple::new().int(7_u64), |inner, _| Tuple::new().nested(inner))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_keys_is_the_order_of_tuples((left, right) in alike()) {
        prop_assert_eq!(left.cmp(&right), left.key().cmp(&right.key()), "{:?} {:?}", left, right);
    }

    #[test]
    fn the_order_of_integers_is_kept(left in int(), right in int()) {
        let key = |int: Int| Tuple::new().int(int).key();
        prop_assert_eq!(left.cmp(&right), key(left).cmp(&key(right)));
    }

    #[test]
    fn what_was_encoded_is_decoded(tuple in tuple()) {
        prop_assert_eq!(Tuple::decode(&tuple.key()).unwrap(), tuple);
    }

    #[test]
    fn a_range_holds_the_extensions_and_nothing_else((left, right) in alike()) {
        for (stem, other) in [(&left, &right), (&right, &left)] {
            let extends = other.parts().starts_with(stem.parts());
            prop_assert_eq!(stem.range().contains(&other.key()), extends, "{:?} {:?}", stem, other);
        }
    }

    #[test]
    fn a_range_holds_every_extension(stem in tuple(), tail in vec(part(), 0..4)) {
        let longer = tuple_of([stem.parts(), &tail].concat());
        prop_assert!(stem.range().contains(&longer.key()));
    }

    #[test]
    fn no_encoded_tuple_begins_another_but_its_extensions(text in text(), tail in text()) {
        prop_assume!(!tail.is_empty());
        let (short, long) = (Tuple::new().text(&*text), Tuple::new().text(format!("{text}{tail}")));
        prop_assert!(!short.range().contains(&long.key()));
        let (short, long) = (Tuple::new().bytes(text.clone()), Tuple::new().bytes(format!("{text}{tail}")));
        prop_assert!(!short.range().contains(&long.key()));
    }

    #[test]
    fn bytes_that_are_accepted_are_the_only_encoding(bytes in vec(byte(), 0..24)) {
        let key = Key::new(bytes);
        match Tuple::decode(&key) {
            Ok(tuple) => prop_assert_eq!(tuple.key(), key),
            Err(error) => prop_assert!(matches!(error, StoreError::Corrupt(_)), "{:?}", error),
        }
    }

    #[test]
    fn a_damaged_key_is_refused_or_another_tuple(tuple in tuple(), at in any::<prop::sample::Index>(), byte in byte()) {
        let mut bytes = tuple.key().as_bytes().to_vec();
        prop_assume!(!bytes.is_empty());
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != byte);
        bytes[at] = byte;
        let key = Key::new(bytes);
        if let Ok(other) = Tuple::decode(&key) {
            prop_assert_ne!(&other, &tuple);
            prop_assert_eq!(other.key(), key);
        }
    }
}

#[test]
fn a_tuple_cut_short_is_another_tuple_or_an_error() {
    let tuple =
        Tuple::new().text("member").int(70_000_u64).bytes(vec![0, 1]).nested(Tuple::new().int(-1_i64));
    let bytes = tuple.key().to_bytes();
    for length in 0..bytes.len() {
        if let Ok(shorter) = Tuple::decode(&Key::new(bytes.slice(..length))) {
            assert!(tuple.parts().starts_with(shorter.parts()), "{shorter:?}");
        }
    }
}

#[test]
fn a_range_ends_where_the_text_does() {
    let range = Tuple::new().text("mem").range();
    assert!(range.contains(&Tuple::new().text("mem").key()));
    assert!(range.contains(&Tuple::new().text("mem").text("ber").key()));
    assert!(!range.contains(&Tuple::new().text("member").key()));
    assert!(!range.contains(&Tuple::new().text("mem\0").key()));
}

#[test]
fn an_integer_that_fits_no_64_bits_is_refused() {
    let of = |value: u64| Key::new([&[0x18], &value.to_be_bytes()[..]].concat());
    let smallest = i64::MAX.unsigned_abs();
    assert_eq!(Tuple::decode(&of(smallest)).unwrap(), Tuple::new().int(i64::MIN));
    for below in [smallest - 1, 1, 0] {
        assert!(Tuple::decode(&of(below)).is_err(), "{below:x}");
    }
    assert!(Tuple::decode(&Key::new([vec![0x29], vec![1; 9]].concat())).is_err());
}

#[test]
fn tuples_nest_so_deep_and_no_deeper() {
    assert_eq!(Tuple::decode(&nested(DEPTH_MAX).key()).unwrap(), nested(DEPTH_MAX));
    assert!(std::panic::catch_unwind(|| nested(DEPTH_MAX + 1).key()).is_err(), "it is not even written");
    let mut deeper = vec![0x30; DEPTH_MAX + 1];
    deeper.resize(2 * deeper.len(), 0);
    let error = Tuple::decode(&Key::new(deeper)).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)) && error.to_string().contains("deep"), "{error}");
}

#[test]
fn a_flood_of_nesting_is_refused_and_no_stack_overflow() {
    for flood in
        [vec![0x30; 1 << 20], [0x30, 0x00].repeat(1 << 10), [vec![0x30; 1 << 10], vec![0; 1 << 10]].concat()]
    {
        let key = Key::new(flood);
        if let Ok(tuple) = Tuple::decode(&key) {
            assert_eq!(tuple.key(), key);
        }
    }
    assert!(Tuple::decode(&Key::new(vec![0x30; 1 << 20])).is_err());
}
