//! What etcd's answers mean when they are errors.
//!
//! etcd tells its errors apart by their words: several have one code, and some versions lose the code on the way. The list is that of
//! `rpctypes/error.go`, and what each says about a transaction was looked up in the code of 3.4 and 3.5. An error that is not
//! listed here may have come after the transaction was proposed: its outcome is unknown.

use std::error::Error;

use tenure_store::{Reason, StoreError};
use tonic::Status;

/// What an error says about the request that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// This member refused it before anything was done. Another may take it.
    Elsewhere,
    /// It was refused since our login is not known, or no longer. Nothing was done.
    Login,
    /// It was refused, and will always be. Nothing was done.
    Invalid,
    /// It is larger than this cluster takes. Nothing was done.
    TooLarge,
    /// The revision that it asks for is gone.
    Compacted,
    /// There is no room. **It may have been done**: the member that applies a transaction finds out that there was no room for it when it
    /// has been applied, and says the same words as for one that was not.
    NoSpace,
    /// The members disagree about what is stored. Nothing was done.
    Corrupt,
    /// It may have been done, or may be yet.
    Lost,
}

/// What a status means.
pub(crate) fn meaning(status: &Status) -> Meaning {
    // Some errors come wrapped: "rpc error: code = ... desc = etcdserver: ...".
    let message = status.message();
    let words =
        message.find("etcdserver: ").map_or(message, |start| &message[start + "etcdserver: ".len()..]);
    match words {
        // From the interceptors, before the request is looked at, or from the check before the proposal.
        "no leader" | "not capable" | "too many requests" | "rpc not supported for learner" => {
            Meaning::Elsewhere
        }
        "invalid auth token" | "revision of auth store is old" | "user name is empty" => Meaning::Login,
        "user name not found"
        | "authentication failed, invalid user ID or password"
        | "authentication is not enabled"
        | "permission denied"
        | "duplicate key given in txn request"
        | "key is not provided"
        | "key not found"
        | "mvcc: required revision is a future revision" => Meaning::Invalid,
        "too many operations in txn request" | "request is too large" => Meaning::TooLarge,
        "mvcc: required revision has been compacted" => Meaning::Compacted,
        "mvcc: database space exceeded" => Meaning::NoSpace,
        "corrupt cluster" => Meaning::Corrupt,
        _ => Meaning::Lost,
    }
}

/// A request that brought no answer.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) meaning: Meaning,
    pub(crate) reason: Reason,
    /// Whether the connection failed, and not etcd.
    pub(crate) broken: bool,
}

impl Failure {
    /// The request never left.
    pub(crate) fn unsent(reason: impl Into<Reason>) -> Self {
        Self { meaning: Meaning::Elsewhere, reason: reason.into(), broken: true }
    }

    /// It left, and nothing came back in time.
    pub(crate) fn unanswered(reason: impl Into<Reason>) -> Self {
        Self { meaning: Meaning::Lost, reason: reason.into(), broken: true }
    }

    /// A member answered this, or its connection did.
    pub(crate) fn answered(doing: &str, member: &str, status: Status) -> Self {
        let words = format!("{doing} at {member}: {}{}", chain(&status), advice(status.message()));
        let mut causes = std::iter::successors(status.source(), |cause| (*cause).source());
        // The connection had broken before, and could not be made anew.
        if causes.any(|cause| cause.is::<tonic::ConnectError>()) {
            return Self::unsent(Reason::caused(words, status));
        }
        let broken = status.source().is_some();
        Self { meaning: meaning(&status), reason: Reason::caused(words, status), broken }
    }
}

/// What a failure is where nothing can have been changed.
impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        let Failure { meaning, reason, .. } = failure;
        match meaning {
            Meaning::Login | Meaning::Invalid => Self::Invalid(reason),
            Meaning::TooLarge => Self::TooLarge(reason),
            Meaning::NoSpace => Self::Full(reason),
            Meaning::Corrupt => Self::Corrupt(reason),
            Meaning::Elsewhere | Meaning::Compacted | Meaning::Lost => Self::Unavailable(reason),
        }
    }
}

/// What to do about an error, if it is not plain.
fn advice(message: &str) -> &'static str {
    let advice = [
        ("user name is empty", ": the cluster asks for a login, write etcd://user:password@host"),
        ("invalid user ID or password", ": check the user and the password"),
        (
            "permission denied",
            ": grant the user a role that may read and write all that begins with the prefix and //",
        ),
        ("too many operations", ": start the members with --max-txn-ops=128 or more"),
        ("request is too large", ": start the members with --max-request-bytes=1572864 or more"),
        ("space exceeded", ": compact and defragment, or raise --quota-backend-bytes, then disarm the alarm"),
    ];
    advice.iter().find(|(words, _)| message.contains(words)).map_or("", |(_, advice)| advice)
}

/// An error and what caused it, in one line: many libraries below say only in the cause what happened.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut words = match error.downcast_ref::<Status>() {
        Some(status) if !status.message().is_empty() => status.message().to_owned(),
        Some(status) => status.code().to_string(),
        None => error.to_string(),
    };
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_words = cause.to_string();
        if !words.contains(&cause_words) {
            words = format!("{words}: {cause_words}");
        }
        source = cause.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn words_count_whatever_their_wrapping_and_their_code() {
        let cases = [
            (Code::Unavailable, "etcdserver: no leader", Meaning::Elsewhere),
            (Code::Unknown, "etcdserver: too many requests", Meaning::Elsewhere),
            (Code::Unauthenticated, "etcdserver: invalid auth token", Meaning::Login),
            (
                Code::Unknown,
                "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token",
                Meaning::Login,
            ),
            (Code::PermissionDenied, "etcdserver: permission denied", Meaning::Invalid),
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded", Meaning::NoSpace),
            (Code::InvalidArgument, "etcdserver: request is too large", Meaning::TooLarge),
        ];
        for (code, words, expected) in cases {
            assert_eq!(meaning(&Status::new(code, words)), expected, "{words}");
        }
    }

    #[test]
    fn what_may_have_been_proposed_is_lost() {
        let cases = [
            (Code::Unavailable, "etcdserver: request timed out"),
            (Code::Unavailable, "etcdserver: request timed out, possibly due to previous leader failure"),
            (Code::Unavailable, "etcdserver: leader changed"),
            (Code::Unavailable, "etcdserver: server stopped"),
            (Code::Unknown, "etcdserver: request cancelled"),
            (Code::Unknown, "raft proposal dropped"),
            (Code::Unavailable, "transport error"),
            (Code::Cancelled, "operation was canceled"),
            (Code::DeadlineExceeded, ""),
            (Code::Internal, "h2 protocol error"),
        ];
        for (code, words) in cases {
            assert_eq!(meaning(&Status::new(code, words)), Meaning::Lost, "{words}");
        }
    }
}
