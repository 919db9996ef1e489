//! [`Message`]: what registries say to each other.

use bytes::Bytes;
use tenure_store::{
    Key, Name, StoreError,
    record::{Decoder, Encoder, Flaw},
};

use crate::{Entry, batch::Change, entry::Owner, status::Status};

const FORMAT: u8 = 1;

/// What one registry says to another of the same name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    /// A follower is there, and wants to be told.
    Hello,
    /// What the leader tells a follower, in this order: batches, then answers.
    Stream(Stream),
    /// Changes that are asked for.
    Requests(Requests),
    /// Answers to them from a node that does not lead.
    Answers(Vec<(u64, Answer)>),
    /// A question, with a number for its reply.
    Ask(u64, Question),
    /// The reply to it.
    Reply(u64, Reply),
}

/// What the leader tells a follower.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stream {
    /// In which epoch it leads.
    pub(crate) epoch: u64,
    /// Up to which position everything is committed: whoever has less lacks something.
    pub(crate) tail: u64,
    /// Batches with their positions.
    pub(crate) batches: Vec<(u64, Bytes)>,
    /// Answers to the follower's requests.
    pub(crate) answers: Vec<(u64, Answer)>,
}

/// What a node asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Requests {
    /// The least number of a request that it still waits for.
    pub(crate) floor: u64,
    /// Changes, each with the number of the request.
    pub(crate) changes: Vec<(u64, Change)>,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is committed, at this position or before.
    Done(u64),
    /// The name is another's.
    Taken(Owner),
    /// There is no such registration.
    Gone,
    /// The session of whoever asked has ended.
    Ended,
    /// Nothing was decided, and it has to be asked for again: the node that was asked does not lead, or what this rested on did not come about.
    NotLeader,
}

/// A question to one member.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Question {
    /// To the old leader, by the elector: settle what is under way, lead no longer, and say up to where everything is committed.
    TransferSnapshot {
        /// The epoch of whoever leads next.
        epoch: u64,
    },
    /// To the new leader, by the elector.
    AssumeAndDistribute {
        /// Its epoch.
        epoch: u64,
        /// What its names must reach at least.
        position: u64,
        /// All members.
        members: Vec<Owner>,
    },
    /// To the leader: whose is this name?
    Whereis(Name),
    /// To anyone.
    Status,
}

/// The reply to a question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    /// Up to which position the old leader knows everything to be committed.
    Transferred(u64),
    /// The new leader leads.
    Assumed,
    /// Whose a name is, proven.
    Found(Option<Entry>),
    /// How a member is.
    Status(Status),
    /// It can't be answered, and why.
    Refused(String),
}

impl Answer {
    pub(crate) fn encode(&self, encoder: Encoder) -> Encoder {
        match self {
            Self::Done(position) => encoder.byte(0).number(*position),
            Self::Taken(owner) => owner.encode(encoder.byte(1)),
            Self::Gone => encoder.byte(2),
            Self::Ended => encoder.byte(3),
            Self::NotLeader => encoder.byte(4),
        }
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Flaw> {
        match decoder.byte()? {
            0 => Ok(Self::Done(decoder.number()?)),
            1 => Ok(Self::Taken(Owner::decode(decoder)?)),
            2 => Ok(Self::Gone),
            3 => Ok(Self::Ended),
            4 => Ok(Self::NotLeader),
            _ => Err(Flaw::new("an answer that this release does not know")),
        }
    }
}

fn encode_answers(encoder: Encoder, answers: &[(u64, Answer)]) -> Encoder {
    encoder.many(answers.iter(), |encoder, (request, answer)| answer.encode(encoder.number(*request)))
}

fn decode_answers(decoder: &mut Decoder<'_>) -> Result<Vec<(u64, Answer)>, Flaw> {
    decoder.many(|decoder| Ok((decoder.number()?, Answer::decode(decoder)?)))
}

impl Question {
    fn encode(&self, encoder: Encoder) -> Encoder {
        match self {
            Self::TransferSnapshot { epoch } => encoder.byte(0).number(*epoch),
            Self::AssumeAndDistribute { epoch, position, members } => encoder
                .byte(1)
                .number(*epoch)
                .number(*position)
                .many(members.iter(), |encoder, member| member.encode(encoder)),
            Self::Whereis(name) => encoder.byte(2).text(name.as_str()),
            Self::Status => encoder.byte(3),
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Flaw> {
        match decoder.byte()? {
            0 => Ok(Self::TransferSnapshot { epoch: decoder.number()? }),
            1 => Ok(Self::AssumeAndDistribute {
                epoch: decoder.number()?,
                position: decoder.number()?,
                members: decoder.many(Owner::decode)?,
            }),
            2 => Ok(Self::Whereis(decoder.name()?)),
            3 => Ok(Self::Status),
            _ => Err(Flaw::new("a question that this release does not know")),
        }
    }
}

impl Reply {
    fn encode(&self, encoder: Encoder) -> Encoder {
        match self {
            Self::Transferred(position) => encoder.byte(0).number(*position),
            Self::Assumed => encoder.byte(1),
            Self::Found(entry) => {
                encoder.byte(2).optional(entry.as_ref(), |encoder, entry| entry.encode(encoder))
            }
            Self::Status(status) => status.encode(encoder.byte(3)),
            Self::Refused(why) => encoder.byte(4).text(why),
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Flaw> {
        match decoder.byte()? {
            0 => Ok(Self::Transferred(decoder.number()?)),
            1 => Ok(Self::Assumed),
            2 => Ok(Self::Found(decoder.optional(Entry::decode)?)),
            3 => Ok(Self::Status(Status::decode(decoder)?)),
            4 => Ok(Self::Refused(decoder.text()?.to_owned())),
            _ => Err(Flaw::new("a reply that this release does not know")),
        }
    }
}

impl Message {
    /// About how many bytes it takes.
    fn weight(&self) -> usize {
        let most = match self {
            Self::Stream(stream) => {
                let batches = stream.batches.iter().map(|(_, batch)| batch.len() + 12);
                batches.sum::<usize>() + 17 * stream.answers.len()
            }
            Self::Requests(requests) => requests.changes.iter().map(|(_, change)| change.weight()).sum(),
            _ => 0,
        };
        most + 64
    }

    pub(crate) fn encode(&self) -> Bytes {
        let encoder = Encoder::with_room(FORMAT, self.weight());
        match self {
            Self::Hello => encoder.byte(0),
            Self::Stream(stream) => {
                let encoder = encoder
                    .byte(1)
                    .number(stream.epoch)
                    .number(stream.tail)
                    .many(stream.batches.iter(), |encoder, (position, batch)| {
                        encoder.number(*position).bytes(batch)
                    });
                encode_answers(encoder, &stream.answers)
            }
            Self::Requests(Requests { floor, changes }) => encoder
                .byte(2)
                .number(*floor)
                .many(changes.iter(), |encoder, (request, change)| change.encode(encoder.number(*request))),
            Self::Answers(answers) => encode_answers(encoder.byte(3), answers),
            Self::Ask(call, question) => question.encode(encoder.byte(4).number(*call)),
            Self::Reply(call, reply) => reply.encode(encoder.byte(5).number(*call)),
        }
        .finish()
    }

    /// `from` is only for the message.
    pub(crate) fn decode(from: &Name, body: &[u8]) -> Result<Self, StoreError> {
        let key = Key::new(format!("a message from {from}"));
        Decoder::all(&key, body, FORMAT, |decoder| match decoder.byte()? {
            0 => Ok(Self::Hello),
            1 => {
                let (epoch, tail) = (decoder.number()?, decoder.number()?);
                let batches = decoder
                    .many(|decoder| Ok((decoder.number()?, Bytes::copy_from_slice(decoder.bytes()?))))?;
                Ok(Self::Stream(Stream { epoch, tail, batches, answers: decode_answers(decoder)? }))
            }
            2 => {
                let floor = decoder.number()?;
                let changes = decoder.many(|decoder| Ok((decoder.number()?, Change::decode(decoder)?)))?;
                Ok(Self::Requests(Requests { floor, changes }))
            }
            3 => Ok(Self::Answers(decode_answers(decoder)?)),
            4 => Ok(Self::Ask(decoder.number()?, Question::decode(decoder)?)),
            5 => Ok(Self::Reply(decoder.number()?, Reply::decode(decoder)?)),
            _ => Err(Flaw::new("a sort that this release does not know")),
        })
    }
}

#[cfg(test)]
mod tests {
    use tenure_cluster::SessionId;
    use tenure_store::Env;

    use super::*;
    use crate::Metadata;

    #[test]
    fn messages_come_back_and_everything_else_is_refused() {
        let name = |text: &str| text.parse::<Name>().unwrap();
        let owner = Owner { node: name("n"), session: SessionId::random(&Env::system()) };
        let status = Status::unheard(owner.clone());
        let entry = Entry {
            name: "x".into(),
            owner: owner.clone().into(),
            number: 3,
            described: 4,
            metadata: Metadata::new().label("a", "b"),
            since_ms: 1,
            epoch: 2,
            position: 9,
        };
        let answers = vec![
            (1, Answer::Done(4)),
            (2, Answer::Taken(owner.clone())),
            (3, Answer::Gone),
            (4, Answer::Ended),
            (5, Answer::NotLeader),
        ];
        let messages = [
            Message::Hello,
            Message::Stream(Stream {
                epoch: 1,
                tail: 7,
                batches: vec![(7, "b".into())],
                answers: answers.clone(),
            }),
            Message::Requests(Requests {
                floor: 2,
                changes: vec![(3, Change::Unregister { name: name("x"), number: 1 })],
            }),
            Message::Answers(answers),
            Message::Ask(1, Question::TransferSnapshot { epoch: 4 }),
            Message::Ask(1, Question::AssumeAndDistribute { epoch: 4, position: 8, members: vec![owner] }),
            Message::Ask(2, Question::Whereis(name("x"))),
            Message::Ask(3, Question::Status),
            Message::Reply(1, Reply::Transferred(8)),
            Message::Reply(1, Reply::Assumed),
            Message::Reply(2, Reply::Found(Some(entry))),
            Message::Reply(2, Reply::Found(None)),
            Message::Reply(3, Reply::Status(status)),
            Message::Reply(3, Reply::Refused("why".into())),
        ];
        for message in messages {
            let bytes = message.encode();
            assert_eq!(Message::decode(&name("n"), &bytes).unwrap(), message);
            for end in 0..bytes.len() {
                assert!(Message::decode(&name("n"), &bytes[..end]).is_err(), "{message:?} {end}");
            }
        }
    }
}
