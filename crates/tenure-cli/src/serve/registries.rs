//! [`Registries`]: views of registries that were asked for, kept up to date by each look.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tenure::{cluster::Onlooker, registry::RegistryView, store::Name};

/// How many views are kept: each has all names of its registry.
const KEPT: usize = 64;

/// Views by their registries.
#[derive(Debug)]
pub(crate) struct Registries {
    look: Onlooker,
    views: Mutex<BTreeMap<Name, Arc<RegistryView>>>,
}

impl Registries {
    pub(crate) fn new(look: Onlooker) -> Self {
        Self { look, views: Mutex::default() }
    }

    /// The view of a registry, as of whatever look; whoever wants more refreshes it.
    pub(crate) fn view(&self, registry: &Name) -> Arc<RegistryView> {
        let mut views = self.views.lock();
        if let Some(view) = views.get(registry) {
            return Arc::clone(view);
        }
        let view = Arc::new(RegistryView::new(&self.look, registry.clone()));
        // A registry that does not exist has a view, too: they must not add up.
        if views.len() >= KEPT
            && let Some(emptiest) =
                views.values().min_by_key(|view| view.len()).map(|view| view.name().clone())
        {
            views.remove(&emptiest);
        }
        views.insert(registry.clone(), Arc::clone(&view));
        view
    }
}
