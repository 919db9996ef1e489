//! The spans of [`Measured`]. Alone in their file: whether a span is recorded is decided for the whole process, when it is first met.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{fmt, sync::Arc};

use parking_lot::Mutex;
use tenure_store::{Check, Commit, Env, Key, Measured, MemoryStore, Range, Store, StoreExt as _};
use tracing::{Event, Metadata, Subscriber, field, span};

const SECRET: &str = "secret";

/// Keeps every span with its fields, as text.
#[derive(Clone, Debug, Default)]
struct Spans(Arc<Mutex<Vec<String>>>);

impl Spans {
    fn note(&self, id: usize, record: impl FnOnce(&mut dyn field::Visit)) {
        record(&mut Fields(&mut self.0.lock()[id - 1]));
    }
}

/// Writes fields behind the name of their span.
struct Fields<'a>(&'a mut String);

impl field::Visit for Fields<'_> {
    fn record_str(&mut self, field: &field::Field, value: &str) {
        self.0.push_str(&format!(" {field}={value}"));
    }

    fn record_debug(&mut self, field: &field::Field, value: &dyn fmt::Debug) {
        self.0.push_str(&format!(" {field}={value:?}"));
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tenure_store")
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let metadata = attributes.metadata();
        let id = {
            let mut spans = self.0.lock();
            spans.push(format!("{} {}", metadata.level(), metadata.name()));
            spans.len()
        };
        self.note(id, |visit| attributes.record(visit));
        span::Id::from_u64(id as u64)
    }

    fn record(&self, id: &span::Id, values: &span::Record<'_>) {
        self.note(usize::try_from(id.into_u64()).unwrap(), |visit| values.record(visit));
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        panic!("{event:?}");
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// A good and a bad end of each request, with secrets everywhere.
async fn use_it(store: &impl Store) {
    let key = Key::from(SECRET);
    store.commit(Commit::new().set(key.clone(), SECRET).append(key.clone(), SECRET)).await.unwrap();
    store.commit(Commit::new().check(Check::Absent(key.clone()))).await.unwrap_err();
    store.commit(Commit::new().set(Key::from(""), SECRET)).await.unwrap_err();
    store.get(&key).await.unwrap();
    store.scan(&Range::Prefix(key), 0).await.unwrap_err();
}

#[test]
fn spans_tell_the_store_and_the_outcome_and_no_more() {
    let spans = Spans::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tracing::subscriber::with_default(spans.clone(), || {
        runtime.block_on(use_it(&Measured::new(MemoryStore::new(), Env::system())));
    });
    let expected = [
        "DEBUG store.commit store=memory outcome=ok",
        "DEBUG store.commit store=memory outcome=conflict",
        "DEBUG store.commit store=memory outcome=invalid",
        "DEBUG store.read store=memory outcome=ok",
        "DEBUG store.read store=memory outcome=invalid",
    ];
    assert_eq!(*spans.0.lock(), expected);
}
