//! [`Stored`]: a state with what the store holds of it.

use std::{collections::BTreeMap, error::Error, fmt};

use tenure_store::{Bytes, Item, Key, Range, Tuple, Write};

use super::{
    book::Book, chunks::Piece, contract::State, draft::Draft, error::StateError, loader::Loader,
    place::Place, raw::RawParts, saver::Saver,
};

/// A state with what the store holds of it: who has one can change the state, ask for the writes that bring the store up to date, and then either
/// keep the changes or undo them.
///
/// ```text
/// new, load, load_migrated -> get_mut -> changes -> commit -> keep
///                                ^          |        undo <- or not
///                                +----------+
/// ```
///
/// ```
/// use tenure_server::state::Stored;
/// use tenure_store::{Tuple, Write};
///
/// let mut count = Stored::new(Tuple::new().text("count"), 1024, 0_u64)?;
/// *count.get_mut() += 1;
/// let writes = count.changes()?;
/// assert!(matches!(&writes[..], [Write::Set(..)]));
/// // Once they are committed:
/// count.keep();
/// assert!(count.changes()?.is_empty());
/// # Ok::<(), tenure_server::state::StateError>(())
/// ```
pub struct Stored<T> {
    root: Tuple,
    chunk_bytes: usize,
    state: T,
    book: Book,
    /// What the book says to be stored though it is not yet: all of a new state, and what a migration changed.
    owed: BTreeMap<Key, Option<Bytes>>,
    /// The last answer of `changes`, unless the state may have changed since.
    draft: Option<Draft>,
    /// Whether the state may have changed since it was last known to be what the book says.
    touched: bool,
    /// Why the state is of no use any more.
    lost: Option<StateError>,
}

impl<T: State> Stored<T> {
    /// A state that was never stored: the first [`changes`](Stored::changes) writes everything. `root` is what all its keys start
    /// with, `chunk_bytes` the most bytes that a stored value may have: at most what the store's limits allow, and 64 at least.
    ///
    /// # Errors
    /// [`StateError::Encode`] and [`StateError::TooLarge`] when the state can't be stored.
    pub fn new(root: Tuple, chunk_bytes: usize, state: T) -> Result<Self, StateError> {
        let mut new = Self::made_of(root, chunk_bytes, state, Book::default());
        let draft = new.draft()?;
        new.owed = draft.owed();
        new.settle(draft);
        Ok(new)
    }

    /// The state that `items` are: all keys that start with `root`, in order.
    ///
    /// What is stored and has no place in `T`, such as a field that a newer release added, is neither read nor written.
    ///
    /// # Errors
    /// [`StateError::Corrupt`], naming the key, when `items` are not what was ever written for such a state.
    pub fn load(root: Tuple, chunk_bytes: usize, items: Vec<Item>) -> Result<Self, StateError> {
        let pieces = pieces(&root, items)?;
        Self::put_together(root, chunk_bytes, pieces)
    }

    /// As [`load`](Stored::load), but `migrate` first makes of the parts what `T` expects. It is told which version they are of.
    ///
    /// Nothing is written for that: the next [`changes`](Stored::changes) write what the migration changed, with all else. Until these are kept, a
    /// migration may run any number of times, so it should do nothing but change the parts.
    ///
    /// # Errors
    /// [`StateError::Migration`] with what `migrate` says; [`StateError::Corrupt`] when its outcome is no such state.
    pub fn load_migrated(
        root: Tuple,
        chunk_bytes: usize,
        items: Vec<Item>,
        from: u32,
        migrate: impl FnOnce(u32, &mut RawParts<'_>) -> Result<(), Box<dyn Error + Send + Sync>>,
    ) -> Result<Self, StateError> {
        let before: BTreeMap<Key, Bytes> = pieces(&root, items)?.into_iter().collect();
        let mut after = before.clone();
        migrate(from, &mut RawParts::new(Place::root(&root), &mut after, chunk_bytes))
            .map_err(|error| StateError::migration(from, error))?;
        let gone = before.keys().filter(|key| !after.contains_key(key)).map(|key| (key.clone(), None));
        let new = after.iter().filter(|(key, value)| before.get(key) != Some(value));
        let owed = gone.chain(new.map(|(key, value)| (key.clone(), Some(value.clone())))).collect();
        let migrated = Self::put_together(root, chunk_bytes, after.into_iter().collect())?;
        Ok(Self { owed, ..migrated })
    }

    /// The state.
    #[must_use]
    pub fn get(&self) -> &T {
        &self.state
    }

    /// The state, to change it.
    #[must_use]
    pub fn get_mut(&mut self) -> &mut T {
        self.touched = true;
        self.draft = None;
        &mut self.state
    }

    /// The state itself, without what is known of the store.
    #[must_use]
    pub fn into_state(self) -> T {
        self.state
    }

    /// The writes that make the store hold what the state is now, from what it held at the last [`keep`](Stored::keep) or when it was loaded: none
    /// when nothing changed. No two are for the same key.
    ///
    /// All must be in one commit. They are sets and deletions of single keys, and ranges are deleted only where a collection was replaced as a
    /// whole.
    ///
    /// # Errors
    /// [`StateError::Encode`] and [`StateError::TooLarge`] when the state can't be stored as it is: undo what was done to it.
    pub fn changes(&mut self) -> Result<Vec<Write>, StateError> {
        let draft = self.draft()?;
        let writes = draft.writes(&self.owed);
        self.draft = Some(draft);
        Ok(writes)
    }

    /// The last [`changes`](Stored::changes) were committed.
    ///
    /// # Panics
    /// If the state was changed since then: nobody knows any more what was committed.
    pub fn keep(&mut self) {
        let draft = self.draft.take();
        assert!(draft.is_some() || !self.touched, "keep follows changes, with no get_mut in between");
        if let Some(draft) = draft {
            self.owed.clear();
            self.settle(draft);
        }
    }

    /// Goes back to what was at the last [`keep`](Stored::keep), or in the beginning. It takes as long as changing it took, and decodes those parts
    /// that are single values.
    ///
    /// # Errors
    /// [`StateError::Replaced`] when a collection was replaced as a whole, so that what it was can't be known. The state is then of no use
    /// any more, and every [`changes`](Stored::changes) says so: load it again.
    pub fn undo(&mut self) -> Result<(), StateError> {
        self.draft = None;
        let place = Place::root(&self.root);
        let outcome = self.state.undo(&mut Loader::undoing(place, &mut self.book));
        self.touched = outcome.is_err();
        self.lost = outcome.as_ref().err().cloned();
        outcome
    }

    /// How many entries of collections changed since the last [`keep`](Stored::keep).
    #[must_use]
    pub fn dirty(&self) -> usize {
        self.state.dirty()
    }

    /// Roughly how many bytes the state has in the store, which is some measure of what it has in memory. It is counted along, so asking costs nothing.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.book.weight()
    }

    fn made_of(root: Tuple, chunk_bytes: usize, state: T, book: Book) -> Self {
        let owed = BTreeMap::new();
        Self { root, chunk_bytes, state, book, owed, draft: None, touched: false, lost: None }
    }

    fn put_together(root: Tuple, chunk_bytes: usize, pieces: Vec<Piece>) -> Result<Self, StateError> {
        let mut book = Book::default();
        let state = T::load(&mut Loader::new(Place::root(&root), &pieces, &mut book))?;
        Ok(Self::made_of(root, chunk_bytes, state, book))
    }

    fn draft(&self) -> Result<Draft, StateError> {
        if let Some(error) = &self.lost {
            return Err(error.clone());
        }
        let mut draft = Draft::default();
        self.state.save(&mut Saver::new(
            Place::root(&self.root),
            &self.book,
            &mut draft,
            self.chunk_bytes,
        ))?;
        Ok(draft)
    }

    fn settle(&mut self, draft: Draft) {
        draft.enter(&mut self.book);
        self.state.keep();
        self.touched = false;
    }
}

/// Items as pieces, in order.
fn pieces(root: &Tuple, items: Vec<Item>) -> Result<Vec<Piece>, StateError> {
    let range: Range = root.range();
    let mut pieces: Vec<Piece> = items.into_iter().map(|item| (item.key, item.value)).collect();
    pieces.sort_by(|(left, _), (right, _)| left.cmp(right));
    match pieces.iter().find(|(key, _)| !range.contains(key)) {
        Some((key, _)) => {
            Err(StateError::corrupt(format!("{key} is no part of the state below {}", root.key())))
        }
        None => Ok(pieces),
    }
}

impl<T: fmt::Debug> fmt::Debug for Stored<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored").field("root", &self.root).field("state", &self.state).finish_non_exhaustive()
    }
}
