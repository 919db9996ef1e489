//! What `tenure run` and its guardian say to each other: lines of text through two pipes.

use std::time::Duration;

use tenure::store::Moment;

/// What the guardian is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Where the store is. It may contain a password, so it is nobody's argument.
    Store(String),
    /// This session is to be ended when `tenure run` is dead and nothing of the command is left.
    Session { cluster: String, session: String },
    /// The command may run until then.
    Until(Limits),
    /// Start the command, in this term.
    Start { term: Option<u64> },
    /// Send the command's group this signal.
    Signal(i32),
    /// Send it this signal, and kill whatever is left after the grace.
    Stop { signal: i32, grace: Duration },
}

/// Moments, as nanoseconds since the machine was started: the same for every process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// From then on the command is asked to end.
    pub(crate) term: u64,
    /// From then on everything of it is killed.
    pub(crate) kill: u64,
}

impl Limits {
    /// No limits.
    pub(crate) const NEVER: Self = Self { term: u64::MAX, kill: u64::MAX };

    /// What a leadership that ends then allows: the kernel needs a moment to end processes.
    pub(crate) fn before(until: Moment, grace: Duration) -> Self {
        let at = |before: Duration| nanos(until.since_start().saturating_sub(before));
        Self { term: at(grace), kill: at((grace / 2).min(KILL_TIME)) }
    }
}

/// How long before the deadline everything is killed, at most: far more than it takes, also where many others want the processor.
const KILL_TIME: Duration = Duration::from_millis(500);

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What the guardian tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The command runs, as this process.
    Started(i32),
    /// It was not started: its time was over before it began, or it could not be.
    NotStarted(String),
    /// It was asked to end, since its time is nearly over.
    Fading,
    /// It has ended with this code, as a shell would tell it.
    Exited(u8),
    /// Nothing of it is left.
    Gone,
}

impl Order {
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Store(url) => format!("store\t{url}\n"),
            Self::Session { cluster, session } => format!("session\t{cluster}\t{session}\n"),
            Self::Until(Limits { term, kill }) => format!("until\t{term}\t{kill}\n"),
            Self::Start { term } => {
                format!("start\t{}\n", term.map_or(String::new(), |term| term.to_string()))
            }
            Self::Signal(signal) => format!("signal\t{signal}\n"),
            Self::Stop { signal, grace } => format!("stop\t{signal}\t{}\n", nanos(*grace)),
        }
    }

    /// `None` for a line that no `tenure run` of this release writes.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut parts = line.split('\t');
        let order = match (parts.next()?, parts.next()?) {
            ("store", url) => Self::Store(url.to_owned()),
            ("session", cluster) => {
                Self::Session { cluster: cluster.to_owned(), session: parts.next()?.to_owned() }
            }
            ("until", term) => {
                Self::Until(Limits { term: term.parse().ok()?, kill: parts.next()?.parse().ok()? })
            }
            ("start", "") => Self::Start { term: None },
            ("start", term) => Self::Start { term: Some(term.parse().ok()?) },
            ("signal", signal) => Self::Signal(signal.parse().ok()?),
            ("stop", signal) => Self::Stop {
                signal: signal.parse().ok()?,
                grace: Duration::from_nanos(parts.next()?.parse().ok()?),
            },
            _ => return None,
        };
        parts.next().is_none().then_some(order)
    }
}

impl Report {
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Started(id) => format!("started\t{id}\n"),
            Self::NotStarted(why) => format!("not started\t{}\n", why.replace(['\t', '\n'], " ")),
            Self::Exited(code) => format!("exited\t{code}\n"),
            Self::Fading => "fading\t\n".to_owned(),
            Self::Gone => "gone\t\n".to_owned(),
        }
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        match line.split_once('\t')? {
            ("started", id) => Some(Self::Started(id.parse().ok()?)),
            ("not started", why) => Some(Self::NotStarted(why.to_owned())),
            ("exited", code) => Some(Self::Exited(code.parse().ok()?)),
            ("fading", "") => Some(Self::Fading),
            ("gone", "") => Some(Self::Gone),
            _ => None,
        }
    }
}

/// The whole lines at the beginning of a buffer, taken from it.
pub(crate) fn lines(buffer: &mut Vec<u8>) -> Vec<String> {
    let Some(last) = buffer.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
    let whole: Vec<u8> = buffer.drain(..=last).collect();
    String::from_utf8_lossy(&whole).lines().map(ToOwned::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_and_reports_are_read_as_they_were_written() {
        let orders = [
            Order::Store("postgres://u:p@h/d?x=1".into()),
            Order::Session { cluster: "my cluster".into(), session: "0f".into() },
            Order::Until(Limits { term: 1, kill: u64::MAX }),
            Order::Start { term: Some(7) },
            Order::Start { term: None },
            Order::Signal(10),
            Order::Stop { signal: 15, grace: Duration::from_millis(1500) },
        ];
        for order in orders {
            assert_eq!(Order::parse(order.line().trim_end_matches('\n')), Some(order));
        }
        let reports = [
            Report::Started(7),
            Report::NotStarted("no such file".into()),
            Report::Exited(143),
            Report::Fading,
            Report::Gone,
        ];
        for report in reports {
            assert_eq!(Report::parse(report.line().trim_end_matches('\n')), Some(report));
        }
        for line in ["", "start", "until\t1", "until\t1\t2\t3", "stop\tx\t1", "other\t1"] {
            assert_eq!(Order::parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_buffer_gives_whole_lines_and_keeps_the_rest() {
        let mut buffer = b"one\ntwo\nthr".to_vec();
        assert_eq!(lines(&mut buffer), ["one", "two"]);
        assert_eq!(buffer, b"thr");
        assert!(lines(&mut buffer).is_empty());
    }
}
