//! States that are kept in parts, so that a small change is a small write.
//!
//! # What it promises
//! - A change writes only the parts that changed: one changed entry in a map of 100,000 is one small value, and finding it looks at no other
//!   entry.
//! - What [`Stored::changes`] says, committed, makes the store hold the state, all of it and nothing of what it was before.
//! - What was loaded is what was stored, or an error that names the key. No bytes make it panic or fill the memory.
//! - [`Stored::undo`] leads back to what is stored, without asking the store.
//!
//! # What is stored
//! All keys start with the tuple that the state was given as its root. A value is `MessagePack` with the names of fields.
//!
//! | what | key: the root, then | value |
//! | --- | --- | --- |
//! | a state that is one value | `""` | the value |
//! | a field of a struct | its name | the value |
//! | a field of a struct in a struct | the names, the outer one first | the value |
//! | an entry of a [`Map`] | the place of the map, the key as `MessagePack`, in bytes | the value |
//! | an item of a [`List`] | the place of the list, its id | the label by which it is sorted, and the item |
//! | which ids a list has given | the place of the list, `"next"` | the next id; only where the items don't show it |
//! | a piece of a value that is too long | the key of the value, its number from 0 | the piece |
//!
//! Every stored value starts with a byte that says which format it has. Where a value is in pieces, its own key says how many there are.
//!
//! # What is in memory
//! The whole state; the encoding of each single value, to compare it and to go back to it; and of collections, the old values of the entries that
//! changed. Saving encodes every single value, so what is large belongs into a collection.
//!
//! # When the type of a state changes
//! - A new field: it has its type's default until it is first written.
//! - A field that is no longer there: what is stored of it is neither read nor deleted, since a newer release may be the one that added it.
//!   A migration deletes it.
//! - Anything else is for a migration, in code: [`Stored::load_migrated`] lets it change the [`RawParts`] when the state is loaded. What it changed is
//!   written with the next change. Which version is stored, and whether it is one to refuse, is the caller's to know.
//!
//! # What the caller must do
//! Give [`Stored::load`] all keys below the root as of one instant; commit all of [`Stored::changes`] in one commit, with a check that nobody else wrote
//! since; then call [`Stored::keep`], or [`Stored::undo`] if it was not committed. While the outcome of a commit is unknown, it
//! is neither.
//!
//! # What it never does
//! It reads and writes nothing itself, and knows no store. It never writes a value that it knows to be stored already. (A type whose encoding changes by
//! itself, such as a `HashMap`, is written more often than it need be: prefer `BTreeMap`.) It does not find what serde
//! loses: `MessagePack` has one nil, so that `Some(None)` and `Some(())` come back as `None`.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use tenure_server::state::{List, Map, State, Stored};
//! use tenure_store::Tuple;
//!
//! #[derive(Default, State)]
//! struct Shop {
//!     name: String,
//!     #[state(parts)]
//!     stock: Map<String, u32>,
//!     #[state(parts)]
//!     orders: List<Order>,
//! }
//!
//! #[derive(Clone, Serialize, Deserialize)]
//! struct Order {
//!     article: String,
//!     count: u32,
//! }
//!
//! let mut shop = Stored::new(Tuple::new().text("shop"), 64 * 1024, Shop::default())?;
//! shop.get_mut().name = "Corner".into();
//! shop.get_mut().stock.insert("tea".into(), 20);
//! shop.get_mut().orders.push_back(Order { article: "tea".into(), count: 2 });
//! assert_eq!(shop.changes()?.len(), 3);
//! # Ok::<(), tenure_server::state::StateError>(())
//! ```

mod contract;
mod stored;

mod list;
mod map;
mod whole;

mod loader;
mod raw;
mod saver;

mod book;
mod chunks;
mod codec;
mod draft;
mod error;
mod place;

pub use contract::State;
pub use error::StateError;
pub use list::{ItemId, List};
pub use loader::Loader;
pub use map::Map;
pub use raw::RawParts;
pub use saver::Saver;
pub use stored::Stored;
pub use tenure_server_derive::State;
pub use whole::Whole;

/// A field of a state as it is stored under its [key](crate::ServerRef::field_key), if it is short enough to be in one piece: for those who watch it without
/// a part in the server.
///
/// # Errors
/// [`StateError::Corrupt`] when it is something else.
pub fn read_field<T: serde::de::DeserializeOwned>(
    key: &tenure_store::Key,
    value: &tenure_store::Bytes,
) -> Result<T, StateError> {
    let found = chunks::join(key, &[(key.clone(), value.clone())])?;
    codec::decode(&found.map(|found| found.body).unwrap_or_default(), key)
}
