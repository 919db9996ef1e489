//! [`List`]: items in an order of their own, each stored under an id that never changes.

mod id;
mod order;
mod parts;

use std::{collections::BTreeMap, fmt};

pub use self::id::ItemId;
use self::order::Order;
pub(super) use self::parts::{NEXT, load_item};
use super::book::Identity;

/// Items in an order of their own, each a part of its own: to change, move, insert or remove an item is one small write, however many there are.
///
/// An item is stored with a label that says where it belongs. Now and then an insertion finds no label left between two items, and gives some
/// items around others: about one for 20 insertions that are all at the same spot, none for those anywhere else. An id that was given is never given again; where the items alone do not show
/// that, since the newest of them was removed, one small write more says so.
///
/// | to | takes |
/// | --- | --- |
/// | find an item by its id or its index | O(log n) |
/// | push at an end | O(log n) |
/// | insert, move, remove | O(log n), and moving 32 bytes for each item on the shorter side |
///
/// ```
/// use tenure_server::state::{List, Stored};
/// use tenure_store::Tuple;
///
/// let mut steps = Stored::new(Tuple::new().text("steps"), 1024, List::<String>::new())?;
/// let knead = steps.get_mut().push_back("knead".into());
/// let bake = steps.get_mut().push_back("bake".into());
/// assert_eq!(steps.changes()?.len(), 2);
/// steps.keep();
///
/// steps.get_mut().insert(1, "wait".into());
/// assert_eq!(steps.changes()?.len(), 1);
/// assert_eq!(steps.get().index_of(bake), Some(2));
/// assert_eq!(steps.get().by_id(knead).map(String::as_str), Some("knead"));
/// # Ok::<(), tenure_server::state::StateError>(())
/// ```
pub struct List<T> {
    items: BTreeMap<ItemId, Slot<T>>,
    order: Order,
    /// The items that changed, with what is stored.
    old: BTreeMap<ItemId, Old<T>>,
    /// The id of the next item that comes.
    next: u64,
    /// What `next` was when nothing counted as changed.
    old_next: u64,
    identity: Identity,
}

/// An item with the label that says where it belongs.
#[derive(Clone)]
pub(super) struct Slot<T> {
    label: u128,
    item: T,
}

/// What is stored of an item that changed.
enum Old<T> {
    /// Nothing.
    Absent,
    /// The same with another label.
    Moved(u128),
    /// This.
    Was(Slot<T>),
}

impl<T> List<T> {
    /// A list without items.
    #[must_use]
    pub fn new() -> Self {
        Self {
            items: BTreeMap::new(),
            order: Order::default(),
            old: BTreeMap::new(),
            next: 0,
            old_next: 0,
            identity: Identity::default(),
        }
    }

    /// How many items there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is no item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The item at an index.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&T> {
        self.by_id(self.id_at(index)?)
    }

    /// The item with an id.
    #[must_use]
    pub fn by_id(&self, id: ItemId) -> Option<&T> {
        self.items.get(&id).map(|slot| &slot.item)
    }

    /// The id of the item at an index.
    #[must_use]
    pub fn id_at(&self, index: usize) -> Option<ItemId> {
        self.order.get(index)
    }

    /// Where the item with an id is.
    #[must_use]
    pub fn index_of(&self, id: ItemId) -> Option<usize> {
        self.order.index(self.items.get(&id)?.label)
    }

    /// The first item.
    #[must_use]
    pub fn first(&self) -> Option<&T> {
        self.get(0)
    }

    /// The last item.
    #[must_use]
    pub fn last(&self) -> Option<&T> {
        self.get(self.len().checked_sub(1)?)
    }

    /// What is stored for a list of these items: ids, each with a label and an item.
    pub(super) fn laid_out(items: impl IntoIterator<Item = T>) -> impl Iterator<Item = (u64, (u128, T))> {
        let mut order = Order::default();
        (0..).zip(items).map(move |(id, item)| (id, (order.insert(usize::MAX, ItemId(id)).0, item)))
    }

    /// All items with their ids, in order.
    #[must_use]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (ItemId, &T)> + ExactSizeIterator {
        self.order.ids().map(|id| (id, &self.items[&id].item))
    }
}

impl<T: Clone> List<T> {
    /// Puts an item behind all others.
    pub fn push_back(&mut self, item: T) -> ItemId {
        self.insert(self.len(), item)
    }

    /// Puts an item in front of all others.
    pub fn push_front(&mut self, item: T) -> ItemId {
        self.insert(0, item)
    }

    /// Puts an item in front of the one at `index`, or behind all others if there is none.
    pub fn insert(&mut self, index: usize, item: T) -> ItemId {
        let id = ItemId(self.next);
        self.next += 1;
        let label = self.seat(index, id);
        self.items.insert(id, Slot { label, item });
        self.old.insert(id, Old::Absent);
        id
    }

    /// The item at an index, to change it.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.by_id_mut(self.id_at(index)?)
    }

    /// The item with an id, to change it.
    pub fn by_id_mut(&mut self, id: ItemId) -> Option<&mut T> {
        let slot = self.items.get_mut(&id)?;
        remember(&mut self.old, id, slot);
        Some(&mut slot.item)
    }

    /// Takes the item at an index out.
    pub fn remove(&mut self, index: usize) -> Option<T> {
        self.remove_id(self.id_at(index)?)
    }

    /// Takes the item with an id out.
    pub fn remove_id(&mut self, id: ItemId) -> Option<T> {
        let slot = self.items.remove(&id)?;
        self.order.remove(slot.label);
        if matches!(self.old.get(&id), Some(Old::Absent)) {
            self.old.remove(&id);
        } else {
            remember(&mut self.old, id, &slot);
        }
        Some(slot.item)
    }

    /// Takes the first item out.
    pub fn pop_front(&mut self) -> Option<T> {
        self.remove(0)
    }

    /// Takes the last item out.
    pub fn pop_back(&mut self) -> Option<T> {
        self.remove(self.len().checked_sub(1)?)
    }

    /// Takes the item with an id to where it is at `index` in the end, or behind all others if there are fewer. Returns whether there is such an item.
    pub fn move_to(&mut self, id: ItemId, index: usize) -> bool {
        let Some(from) = self.index_of(id) else { return false };
        if from == index.min(self.len() - 1) {
            return true;
        }
        let before = self.items[&id].label;
        self.old.entry(id).or_insert(Old::Moved(before));
        self.order.remove(before);
        let label = self.seat(index, id);
        if let Some(slot) = self.items.get_mut(&id) {
            slot.label = label;
        }
        true
    }

    /// Takes all items out, one by one. To empty a large list, put a new one in its place: that is one write, but to undo it the state has to be
    /// loaded again.
    pub fn clear(&mut self) {
        while let Some(id) = self.items.last_key_value().map(|(id, _)| *id) {
            self.remove_id(id);
        }
    }

    /// Gives an item a label, and some others new ones if need be.
    fn seat(&mut self, index: usize, id: ItemId) -> u128 {
        let (label, relabelled) = self.order.insert(index, id);
        for (id, label) in relabelled {
            if let Some(slot) = self.items.get_mut(&id) {
                self.old.entry(id).or_insert(Old::Moved(slot.label));
                slot.label = label;
            }
        }
        label
    }
}

/// Remembers what is stored of an item, before the item itself changes.
fn remember<T: Clone>(old: &mut BTreeMap<ItemId, Old<T>>, id: ItemId, slot: &Slot<T>) {
    let old = old.entry(id).or_insert(Old::Moved(slot.label));
    if let Old::Moved(label) = *old {
        *old = Old::Was(Slot { label, item: slot.item.clone() });
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// The clone is another list with the same ids: where it takes the place of this one, everything is written.
impl<T: Clone> Clone for List<T> {
    fn clone(&self) -> Self {
        let seats = self.items.iter().map(|(id, slot)| (slot.label, *id)).collect();
        Self {
            items: self.items.clone(),
            order: Order::new(seats).expect("the labels of a list are all different"),
            old: self.items.keys().map(|id| (*id, Old::Absent)).collect(),
            next: self.next,
            old_next: 0,
            identity: Identity::default(),
        }
    }
}

/// Lists are equal when their items are, in order. Ids don't matter.
impl<T: PartialEq> PartialEq for List<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self.iter().zip(other.iter()).all(|((_, left), (_, right))| left == right)
    }
}

impl<T: Eq> Eq for List<T> {}

impl<T: fmt::Debug> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(id, item)| (id.0, item))).finish()
    }
}

impl<T: Clone> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut list = Self::new();
        list.extend(items);
        list
    }
}

impl<T: Clone> Extend<T> for List<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        for item in items {
            self.push_back(item);
        }
    }
}
