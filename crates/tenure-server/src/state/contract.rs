//! [`State`]: the contract of what can be kept in parts.

use super::{error::StateError, loader::Loader, saver::Saver};

/// A state kept in parts.
///
/// Derive it for structs: each field is a part of its own, and fields with `#[state(parts)]` are states themselves: a [`Map`](super::Map),
/// a [`List`](super::List), another struct. It is implemented for numbers, texts and the like as one part. Any other serde type is one part
/// in a [`Whole`](super::Whole).
///
/// # Contract
/// Who implements it by hand must see to this:
/// 1. `save`, `load` and `undo` visit the same places, always all of them. What is no longer visited stays in the store.
/// 2. `load` of what `save` showed is the same state.
/// 3. After `keep`, and after `load`, nothing counts as changed.
/// 4. `undo` leads back to what was at the last `keep` or `load`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a state that can be kept in parts",
    note = "derive `State` for a struct, or put a serde type into `Whole`"
)]
pub trait State: Default + Send + Sync + 'static {
    /// Shows every part to `at`. Collections that know which entries changed show just those.
    ///
    /// # Errors
    /// [`StateError::Encode`] and [`StateError::TooLarge`].
    fn save(&self, at: &mut Saver<'_>) -> Result<(), StateError>;

    /// The state that is stored. A part that is absent is its type's default.
    ///
    /// # Errors
    /// [`StateError::Corrupt`], naming the key.
    fn load(at: &mut Loader<'_>) -> Result<Self, StateError>;

    /// What was saved is in the store now: nothing counts as changed any more.
    fn keep(&mut self);

    /// Goes back to what is stored.
    ///
    /// # Errors
    /// [`StateError::Replaced`] when what was there is gone. The state is then of no use any more, and has to be loaded again.
    fn undo(&mut self, at: &mut Loader<'_>) -> Result<(), StateError>;

    /// How many entries of collections have changed since the last `keep`. Single parts don't count: they are compared when they are saved.
    fn dirty(&self) -> usize;
}
