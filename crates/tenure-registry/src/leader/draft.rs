//! [`Draft`]: a batch that is to be committed.

use bytes::Bytes;
use tenure_cluster::SessionId;

use crate::{
    batch::{Batch, Change},
    log::Base,
    message::Answer,
    order::Source,
    pages::PageWrite,
};

/// A batch that is to be committed, and who waits for it.
pub(super) struct Draft {
    pub(super) position: u64,
    pub(super) batch: Batch,
    pub(super) bytes: Bytes,
    pub(super) decided: Vec<Decided>,
    pub(super) pages: Vec<PageWrite>,
    /// Where the log is shortened to, and what all owners have told until then.
    pub(super) base: Option<(Base, Bytes)>,
}

/// A request that was decided.
pub(super) struct Decided {
    pub(super) source: Source,
    pub(super) request: u64,
    pub(super) session: SessionId,
    pub(super) answer: Answer,
}

impl Decided {
    /// Whether it came through the store.
    pub(super) fn is_posted(&self) -> bool {
        matches!(self.source, Source::Post(_))
    }
}

impl Draft {
    /// The sessions that must exist: those that get names, and those that get answers through the store.
    pub(super) fn sessions(&self) -> Vec<SessionId> {
        let mut sessions = Vec::new();
        let registering = self.batch.iter().filter(|(_, change)| matches!(change, Change::Register { .. }));
        let posting =
            self.decided.iter().filter(|decided| decided.is_posted() && decided.answer != Answer::Ended);
        let all = registering.map(|(owner, _)| owner.session).chain(posting.map(|decided| decided.session));
        for session in all {
            if !sessions.contains(&session) {
                sessions.push(session);
            }
        }
        sessions
    }

    /// Takes out what was asked for in the name of a session that has ended.
    pub(super) fn drop_session(&mut self, session: SessionId) {
        self.batch = self.batch.without(session);
        self.bytes = self.batch.encode(self.bytes.len());
        for Decided { source, session: asking, answer, .. } in &mut self.decided {
            if *asking == session && *source != Source::Nobody {
                *answer = Answer::Ended;
            } else if matches!(answer, Answer::Taken(by) if by.session == session) {
                // It was taken by what is not registered now: whoever asked has to ask again.
                *answer = Answer::NotLeader;
            }
        }
    }
}
