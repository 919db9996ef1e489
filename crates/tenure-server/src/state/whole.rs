//! [`Whole`], and the types that are states as one part without it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{Deref, DerefMut},
};

use serde::{Serialize, de::DeserializeOwned};

use super::{contract::State, error::StateError, loader::Loader, saver::Saver};

/// Any serde type as a state of one part: it is written as a whole whenever its encoding has changed.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use tenure_server::state::{Stored, Whole};
/// use tenure_store::Tuple;
///
/// #[derive(Default, Serialize, Deserialize)]
/// enum Light {
///     #[default]
///     Red,
///     Green,
/// }
///
/// let mut light = Stored::new(Tuple::new().text("light"), 1024, Whole(Light::Red))?;
/// **light.get_mut() = Light::Green;
/// # Ok::<(), tenure_server::state::StateError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Whole<T>(pub T);

impl<T> Deref for Whole<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Whole<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> From<T> for Whole<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T: Default + Serialize + DeserializeOwned + Send + Sync + 'static> State for Whole<T> {
    fn save(&self, at: &mut Saver<'_>) -> Result<(), StateError> {
        at.value(&self.0)
    }

    fn load(at: &mut Loader<'_>) -> Result<Self, StateError> {
        Ok(Self(at.value()?.unwrap_or_default()))
    }

    fn keep(&mut self) {}

    fn undo(&mut self, at: &mut Loader<'_>) -> Result<(), StateError> {
        *self = Self::load(at)?;
        Ok(())
    }

    fn dirty(&self) -> usize {
        0
    }
}

/// Types that are one part.
macro_rules! one_part {
    ($($type:ty $(where $($parameter:ident: $bound:path),+)?;)*) => {$(
        impl$(<$($parameter: $bound + Serialize + DeserializeOwned + Send + Sync + 'static),+>)? State for $type {
            fn save(&self, at: &mut Saver<'_>) -> Result<(), StateError> {
                at.value(self)
            }

            fn load(at: &mut Loader<'_>) -> Result<Self, StateError> {
                Ok(at.value()?.unwrap_or_default())
            }

            fn keep(&mut self) {}

            fn undo(&mut self, at: &mut Loader<'_>) -> Result<(), StateError> {
                *self = Self::load(at)?;
                Ok(())
            }

            fn dirty(&self) -> usize {
                0
            }
        }
    )*};
}

one_part! {
    ();
    bool;
    char;
    String;
    u8;
    u16;
    u32;
    u64;
    u128;
    usize;
    i8;
    i16;
    i32;
    i64;
    i128;
    isize;
    f32;
    f64;
    Option<T> where T: Send;
    Vec<T> where T: Send;
    BTreeSet<T> where T: Ord;
    BTreeMap<K, V> where K: Ord, V: Send;
    (A,) where A: Default;
    (A, B) where A: Default, B: Default;
    (A, B, C) where A: Default, B: Default, C: Default;
    (A, B, C, D) where A: Default, B: Default, C: Default, D: Default;
}
