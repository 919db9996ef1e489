//! How the items of a [`List`] are stored, loaded and undone.

use serde::{Serialize, de::DeserializeOwned};
use tenure_store::{Key, Part};

use super::{ItemId, List, Old, Slot, order::Order};
use crate::state::{
    codec::{decode, encode},
    contract::State,
    error::StateError,
    loader::Loader,
    place::Place,
    saver::Saver,
};

/// The field below a list's place that says which ids were given, where its items do not show it.
pub(in crate::state) const NEXT: &str = "next";

/// More ids than any list will ever give. What claims more is damaged.
const ID_MAX: u64 = 1 << 63;

/// From this many changed items on, undoing sorts anew instead of moving each.
const SORT_FROM: usize = 32;

impl<T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static> State for List<T> {
    fn save(&self, at: &mut Saver<'_>) -> Result<(), StateError> {
        if at.collection(&self.identity) {
            for (id, slot) in &self.items {
                let place = at.place().item(id.0);
                at.entry(&place, Some(&slot.encode(&place)?), None)?;
            }
        } else {
            self.old.iter().try_for_each(|(id, old)| self.save_changed(at, *id, old))?;
        }
        let mut next = at.field(NEXT);
        if self.top().max(next.stored()?.unwrap_or_default()) != self.next {
            next.value(&self.next)?;
        }
        Ok(())
    }

    fn load(at: &mut Loader<'_>) -> Result<Self, StateError> {
        let mut list = Self::new();
        at.collection(&list.identity);
        let next = at.field(NEXT).value::<u64>()?.unwrap_or_default();
        let mut seats = Vec::new();
        for entry in at.entries(Some(NEXT))? {
            let at = &entry.key;
            let (id, slot) = load_item(&entry.name, &entry.body, at)?;
            seats.push((slot.label, id));
            list.items.insert(id, slot);
        }
        list.order = Order::new(seats).map_err(|id| {
            let key = at.place().item(id.0).key();
            StateError::corrupt(format!("{key} has a label that another item of the list has too"))
        })?;
        list.next = list.top().max(next);
        list.old_next = list.next;
        if list.next > ID_MAX {
            let place = at.place().prefix();
            return Err(StateError::corrupt(format!(
                "the list below {place} claims to have given {next} ids"
            )));
        }
        Ok(list)
    }

    fn keep(&mut self) {
        self.old.clear();
        self.old_next = self.next;
    }

    fn undo(&mut self, at: &mut Loader<'_>) -> Result<(), StateError> {
        at.owned(&self.identity)?;
        self.next = self.old_next;
        let old = std::mem::take(&mut self.old);
        let sort = old.len() >= SORT_FROM;
        // First all changed ones leave, then the old ones come: a label may have passed from one item to another.
        let mut back = Vec::with_capacity(old.len());
        for (id, old) in old {
            let now = self.items.remove(&id);
            if let (Some(now), false) = (&now, sort) {
                self.order.remove(now.label);
            }
            back.extend(match (old, now) {
                (Old::Was(slot), _) => Some((id, slot)),
                (Old::Moved(label), Some(now)) => Some((id, Slot { label, item: now.item })),
                (Old::Absent, _) | (Old::Moved(_), None) => None,
            });
        }
        for (id, slot) in back {
            if !sort {
                self.order.put(slot.label, id);
            }
            self.items.insert(id, slot);
        }
        if sort {
            let seats = self.items.iter().map(|(id, slot)| (slot.label, *id)).collect();
            self.order = Order::new(seats).expect("the labels of a list were all different before");
        }
        Ok(())
    }

    fn dirty(&self) -> usize {
        self.old.len()
    }
}

impl<T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static> List<T> {
    /// The id behind all that the items show to have been given.
    fn top(&self) -> u64 {
        self.items.last_key_value().map_or(0, |(id, _)| id.0 + 1)
    }

    fn save_changed(&self, at: &mut Saver<'_>, id: ItemId, old: &Old<T>) -> Result<(), StateError> {
        let place = at.place().item(id.0);
        let now = self.items.get(&id);
        let new = now.map(|slot| slot.encode(&place)).transpose()?;
        let old = match (old, now) {
            (Old::Was(slot), _) => Some(slot.encode(&place)?),
            (Old::Moved(label), Some(now)) => Some(encode(&(label, &now.item), place.prefix())?),
            (Old::Absent, _) | (Old::Moved(_), None) => None,
        };
        at.entry(&place, new.as_deref(), old.as_deref())
    }
}

impl<T> Slot<T> {
    pub(in crate::state) fn label(&self) -> u128 {
        self.label
    }

    pub(in crate::state) fn into_item(self) -> T {
        self.item
    }
}

impl<T: Serialize> Slot<T> {
    fn encode(&self, at: &Place) -> Result<Vec<u8>, StateError> {
        encode(&(self.label, &self.item), at.prefix())
    }
}

/// An item with its label, by what is stored.
pub(in crate::state) fn load_item<T: DeserializeOwned>(
    name: &Part,
    body: &[u8],
    at: &Key,
) -> Result<(ItemId, Slot<T>), StateError> {
    let Part::Int(number) = name else {
        return Err(StateError::corrupt(format!("{at} is not an item of a list")));
    };
    let Some(id) = u64::try_from(*number).ok().filter(|id| *id < ID_MAX) else {
        return Err(StateError::corrupt(format!("{at} has an id that no list gives")));
    };
    let (label, item) = decode(body, at)?;
    Ok((ItemId(id), Slot { label, item }))
}
