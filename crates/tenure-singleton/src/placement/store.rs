//! How books are read and written: bounded in time, and many at once.

use tenure_cluster::Ground;
use tenure_store::{Check, Commit, CommitError, Item, Range, Read, Reason, StoreError, Version, Write};

use super::{book::Book, record::Record};

/// One page to be written, and what must hold before.
pub(crate) type Change = (Check, Write);

/// How many ranges are asked for at once.
const RANGES_MAX: usize = 40;

/// Reads these books anew.
pub(crate) async fn read<R: Record>(ground: &Ground, books: Vec<&mut Book<R>>) -> Result<(), StoreError> {
    let ranges = books.iter().map(|book| book.range()).collect();
    for (book, found) in books.into_iter().zip(scan(ground, ranges).await?) {
        book.take(&found)?;
    }
    Ok(())
}

/// All keys in each of these ranges: one instant for as many as fit one answer.
async fn scan(ground: &Ground, ranges: Vec<Range>) -> Result<Vec<Vec<Item>>, StoreError> {
    let limits = ground.store().limits();
    let mut found: Vec<Vec<Item>> = ranges.iter().map(|_| Vec::new()).collect();
    let mut open: Vec<(usize, Range)> = ranges.into_iter().enumerate().collect();
    while !open.is_empty() {
        let rest = open.split_off(open.len().min(RANGES_MAX.min(limits.read_questions)));
        let questions =
            open.iter().map(|(_, range)| Read::Range { range: range.clone(), limit: limits.page_items });
        let asked = ground.store().read(questions.collect());
        let snapshot = bounded(ground, asked).await??;
        let mut next = Vec::new();
        for (question, (index, range)) in open.into_iter().enumerate() {
            let page = snapshot.range(question);
            if let (true, Some(last)) = (page.more, page.items.last()) {
                next.push((index, range.after(&last.key)));
            }
            found[index].extend(page.items.iter().cloned());
        }
        next.extend(rest);
        open = next;
    }
    Ok(found)
}

/// Makes this commit, with these pages.
pub(crate) async fn commit(
    ground: &Ground,
    mut commit: Commit,
    pages: Vec<Change>,
) -> Result<Version, CommitError> {
    for (check, write) in pages {
        commit = commit.check(check).write(write);
    }
    match bounded(ground, ground.store().commit(commit)).await {
        Ok(answer) => answer.map(|receipt| receipt.version),
        Err(error) => Err(CommitError::unknown(Reason::caused(error.to_string(), error))),
    }
}

/// What a request gives within the time that one may take.
pub(crate) async fn bounded<T>(ground: &Ground, request: impl Future<Output = T>) -> Result<T, StoreError> {
    let asked = ground.env().timeout(ground.request_time(), request).await;
    asked.map_err(|elapsed| StoreError::unavailable(format!("place singletons: {elapsed}")))
}
