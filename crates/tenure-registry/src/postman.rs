//! [`Postman`]: brings messages to mailboxes, on this node or another, and answers back.
//!
//! All that waits for one node goes as one message: so many small ones cost little more than one.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use tenure_cluster::{Ground, SessionId};
use tenure_store::{
    Key, Name, StoreError,
    record::{Decoder, Encoder, Flaw},
};
use tokio::{sync::Notify, task::JoinHandle};

use crate::{
    Owner, RegistryError, Undelivered, Wire,
    calls::Calls,
    mailroom::Mailroom,
    member::Numbers,
    wire::{Incoming, Undelivered as Lost},
};

const FORMAT: u8 = 1;

/// How many bytes wait to be sent to one node.
const WAITING_BYTES_MAX: usize = 16 * 1024 * 1024;

/// After how long without work a sender ends.
const IDLE: Duration = Duration::from_secs(60);

/// What is brought.
#[derive(Clone, Debug, PartialEq)]
enum Item {
    /// A message for a mailbox.
    Letter {
        /// The sender's number of it.
        call: u64,
        /// Which session of the owner it is for.
        session: SessionId,
        /// The registration.
        number: u64,
        /// Whether an answer is waited for, or only that it was delivered.
        wants_reply: bool,
        body: Bytes,
    },
    /// It is in the mailbox.
    Delivered(u64),
    /// It is not.
    Refused(u64, Undelivered),
    /// The answer to it.
    Answer(u64, Bytes),
    /// There will be no answer.
    Dropped(u64),
}

/// What comes of a message.
#[derive(Debug)]
pub(crate) enum Outcome {
    Delivered,
    Answer(Bytes),
    /// There will be no answer.
    Dropped,
    Refused(Undelivered),
}

/// Brings messages.
#[derive(Clone)]
pub(crate) struct Postman(Arc<Inner>);

struct Inner {
    ground: Ground,
    wire: Option<Arc<dyn Wire>>,
    topic: Name,
    mailroom: Arc<Mailroom>,
    calls: Calls<Outcome>,
    numbers: Numbers,
    ways: Mutex<BTreeMap<Name, Way>>,
}

/// What waits for one node.
struct Way {
    queue: Arc<Queue>,
    task: JoinHandle<()>,
}

impl Drop for Way {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Default)]
struct Queue {
    items: Mutex<(VecDeque<Item>, usize)>,
    told: Notify,
}

/// The way back from a mailbox to whoever sent a message and waits.
pub(crate) struct Back {
    postman: Postman,
    /// Who; nobody if it was sent on this node.
    to: Option<Name>,
    call: u64,
    answered: bool,
}

impl Back {
    /// Says nothing: whoever waits is told otherwise.
    pub(crate) fn forget(back: Option<Self>) {
        if let Some(mut back) = back {
            back.answered = true;
        }
    }

    /// Whoever waits for an answer that is too large for a link is told that there will be none.
    pub(crate) fn answer(mut self, body: Bytes) -> Result<(), RegistryError> {
        let call = self.call;
        match &self.to {
            Some(to) => {
                let item = Item::Answer(call, body);
                self.postman
                    .admit(&item)
                    .map_err(|why| RegistryError::Invalid(format!("the answer: {why}")))?;
                self.postman.bring(to, item);
            }
            None => self.postman.end(call, Outcome::Answer(body)),
        }
        self.answered = true;
        Ok(())
    }
}

impl Drop for Back {
    fn drop(&mut self) {
        if !self.answered {
            match &self.to {
                Some(to) => self.postman.bring(to, Item::Dropped(self.call)),
                None => self.postman.end(self.call, Outcome::Dropped),
            }
        }
    }
}

impl Postman {
    pub(crate) fn new(
        ground: Ground,
        wire: Option<Arc<dyn Wire>>,
        topic: Name,
        mailroom: Arc<Mailroom>,
        numbers: Numbers,
    ) -> Self {
        Self(Arc::new(Inner {
            ground,
            wire,
            topic,
            mailroom,
            calls: Calls::default(),
            numbers,
            ways: Mutex::default(),
        }))
    }

    pub(crate) fn topic(&self) -> &Name {
        &self.0.topic
    }

    /// Brings a message to a registration, and returns what comes of it; nothing, if that takes longer.
    pub(crate) async fn send(
        &self,
        owner: &Owner,
        number: u64,
        body: Bytes,
        wants_reply: bool,
        time: Duration,
    ) -> Option<Outcome> {
        let inner = &self.0;
        let call = inner.numbers.next();
        let mut waiting = inner.calls.begin(call);
        let me = inner.ground.session().id();
        if owner.node == inner.ground.settings().node {
            let back = wants_reply.then(|| Back { postman: self.clone(), to: None, call, answered: false });
            let delivered = inner.mailroom.deliver((owner.session, me), number, &body, back);
            match delivered {
                Ok(()) if !wants_reply => self.end(call, Outcome::Delivered),
                Ok(()) => {}
                Err(why) => self.end(call, Outcome::Refused(why)),
            }
        } else {
            let session = owner.session;
            self.bring(&owner.node, Item::Letter { call, session, number, wants_reply, body });
        }
        inner.ground.env().timeout(time, waiting.answer()).await.ok().flatten()
    }

    /// Ends a call of this node.
    fn end(&self, call: u64, result: Outcome) {
        self.0.calls.end(call, result);
    }

    /// Refuses what no link takes.
    fn admit(&self, item: &Item) -> Result<(), Undelivered> {
        let most = self.0.wire.as_ref().map_or(usize::MAX, |wire| wire.message_bytes_max());
        let bytes = item.weight();
        if bytes <= most {
            return Ok(());
        }
        Err(Undelivered::TooLarge { bytes: bytes as u64, most: most as u64 })
    }

    /// Has something brought to another node.
    fn bring(&self, to: &Name, item: Item) {
        if let Err(why) = self.admit(&item) {
            self.failed(&item, &why);
            return;
        }
        let inner = &self.0;
        let Some(wire) = &inner.wire else {
            self.failed(&item, &Undelivered::NoWay("this node has no links".into()));
            return;
        };
        let mut ways = inner.ways.lock();
        ways.retain(|_, way| !way.task.is_finished());
        let way = ways.entry(to.clone()).or_insert_with(|| {
            let queue = Arc::new(Queue::default());
            let sending = carry(self.clone(), Arc::clone(wire), Arc::clone(&queue), to.clone());
            Way { task: inner.ground.env().spawn(sending), queue }
        });
        let mut items = way.queue.items.lock();
        if items.1 > WAITING_BYTES_MAX {
            drop(items);
            drop(ways);
            self.failed(&item, &Undelivered::Full);
            return;
        }
        items.1 += item.weight();
        items.0.push_back(item);
        drop(items);
        way.queue.told.notify_one();
    }

    /// Something was not brought.
    fn failed(&self, item: &Item, why: &Undelivered) {
        // Answers that get lost are missed by whoever waits for them.
        if let Item::Letter { call, .. } = item {
            self.end(*call, Outcome::Refused(why.clone()));
        }
    }

    /// Takes what comes from other nodes, until the task is ended.
    pub(crate) async fn receive(self, mut incoming: Box<dyn Incoming>) {
        while let Some(message) = incoming.next().await {
            let from = message.from.node;
            match decode(&from, &message.body) {
                Ok(items) => items.into_iter().for_each(|item| self.take(&from, item)),
                Err(error) => {
                    tracing::warn!(name: "registry.not_understood", %from, %error, "mail is not understood");
                }
            }
        }
    }

    fn take(&self, from: &Name, item: Item) {
        match item {
            Item::Letter { call, session, number, wants_reply, body } => {
                let back = wants_reply.then(|| Back {
                    postman: self.clone(),
                    to: Some(from.clone()),
                    call,
                    answered: false,
                });
                let me = self.0.ground.session().id();
                let delivered = self.0.mailroom.deliver((session, me), number, &body, back);
                match delivered {
                    Ok(()) if wants_reply => {}
                    Ok(()) => self.bring(from, Item::Delivered(call)),
                    Err(why) => self.bring(from, Item::Refused(call, why)),
                }
            }
            Item::Delivered(call) => self.end(call, Outcome::Delivered),
            Item::Refused(call, why) => self.end(call, Outcome::Refused(why)),
            Item::Answer(call, body) => self.end(call, Outcome::Answer(body)),
            Item::Dropped(call) => self.end(call, Outcome::Dropped),
        }
    }
}

/// Carries what waits for one node, until there has been nothing for a while.
async fn carry(postman: Postman, wire: Arc<dyn Wire>, queue: Arc<Queue>, to: Name) {
    let env = postman.0.ground.env().clone();
    let bytes_max = wire.message_bytes_max() / 2;
    loop {
        if queue.items.lock().0.is_empty() && env.timeout(IDLE, queue.told.notified()).await.is_err() {
            // Under the lock that adds to queues: what comes later gets a new one.
            let mut ways = postman.0.ways.lock();
            if queue.items.lock().0.is_empty() {
                if ways.get(&to).is_some_and(|way| Arc::ptr_eq(&way.queue, &queue)) {
                    ways.remove(&to);
                }
                return;
            }
        }
        let items = queue.take(bytes_max);
        if items.is_empty() {
            continue;
        }
        if let Err(error) = wire.send(&to, &postman.0.topic, encode(&items)).await {
            let why = match error {
                Lost::Never(words) => Undelivered::NoWay(words),
                Lost::Refused(words) | Lost::Unknown(words) => Undelivered::Unreachable(words),
            };
            items.iter().for_each(|item| postman.failed(item, &why));
        }
    }
}

impl Queue {
    fn take(&self, bytes_max: usize) -> Vec<Item> {
        let mut items = self.items.lock();
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(item) = items.0.front() {
            bytes += item.weight();
            if bytes > bytes_max && !taken.is_empty() {
                break;
            }
            items.1 -= item.weight();
            taken.extend(items.0.pop_front());
        }
        taken
    }
}

impl Item {
    fn weight(&self) -> usize {
        match self {
            Self::Letter { body, .. } | Self::Answer(_, body) => body.len() + 64,
            _ => 64,
        }
    }

    fn encode(&self, encoder: Encoder) -> Encoder {
        match self {
            Self::Letter { call, session, number, wants_reply, body } => encoder
                .byte(0)
                .number(*call)
                .array(session.to_bytes())
                .number(*number)
                .byte((*wants_reply).into())
                .bytes(body),
            Self::Delivered(call) => encoder.byte(1).number(*call),
            Self::Refused(call, why) => {
                let encoder = encoder.byte(2).number(*call);
                match why {
                    Undelivered::Full => encoder.byte(0),
                    Undelivered::Closed => encoder.byte(1),
                    Undelivered::NotUnderstood(words) => encoder.byte(2).text(words),
                    Undelivered::NoWay(words) => encoder.byte(3).text(words),
                    Undelivered::Unreachable(words) => encoder.byte(4).text(words),
                    Undelivered::TooLarge { bytes, most } => encoder.byte(5).number(*bytes).number(*most),
                }
            }
            Self::Answer(call, body) => encoder.byte(3).number(*call).bytes(body),
            Self::Dropped(call) => encoder.byte(4).number(*call),
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Flaw> {
        match decoder.byte()? {
            0 => Ok(Self::Letter {
                call: decoder.number()?,
                session: SessionId::from_bytes(decoder.array()?),
                number: decoder.number()?,
                wants_reply: decoder.byte()? == 1,
                body: Bytes::copy_from_slice(decoder.bytes()?),
            }),
            1 => Ok(Self::Delivered(decoder.number()?)),
            2 => {
                let call = decoder.number()?;
                let why = match decoder.byte()? {
                    0 => Undelivered::Full,
                    1 => Undelivered::Closed,
                    2 => Undelivered::NotUnderstood(decoder.text()?.to_owned()),
                    3 => Undelivered::NoWay(decoder.text()?.to_owned()),
                    4 => Undelivered::Unreachable(decoder.text()?.to_owned()),
                    5 => Undelivered::TooLarge { bytes: decoder.number()?, most: decoder.number()? },
                    _ => return Err(Flaw::new("a refusal that this release does not know")),
                };
                Ok(Self::Refused(call, why))
            }
            3 => Ok(Self::Answer(decoder.number()?, Bytes::copy_from_slice(decoder.bytes()?))),
            4 => Ok(Self::Dropped(decoder.number()?)),
            _ => Err(Flaw::new("mail of a sort that this release does not know")),
        }
    }
}

fn encode(items: &[Item]) -> Bytes {
    Encoder::new(FORMAT).many(items.iter(), |encoder, item| item.encode(encoder)).finish()
}

fn decode(from: &Name, body: &[u8]) -> Result<Vec<Item>, StoreError> {
    let key = Key::new(format!("mail from {from}"));
    Decoder::all(&key, body, FORMAT, |decoder| decoder.many(Item::decode))
}

impl fmt::Debug for Postman {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postman").field("topic", &self.0.topic).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tenure_store::Env;

    use super::*;

    #[test]
    fn mail_comes_back_and_everything_else_is_refused() {
        let session = SessionId::random(&Env::system());
        let whys = [
            Undelivered::Full,
            Undelivered::Closed,
            Undelivered::NotUnderstood("x".into()),
            Undelivered::NoWay("y".into()),
            Undelivered::Unreachable("z".into()),
            Undelivered::TooLarge { bytes: 2, most: 1 },
        ];
        let mut items = vec![
            Item::Letter { call: 1, session, number: 2, wants_reply: true, body: "b".into() },
            Item::Delivered(3),
            Item::Answer(4, "c".into()),
            Item::Dropped(5),
        ];
        items.extend(whys.map(|why| Item::Refused(6, why)));
        let (from, bytes) = ("n".parse().unwrap(), encode(&items));
        assert_eq!(decode(&from, &bytes).unwrap(), items);
        for end in 0..bytes.len() {
            assert!(decode(&from, &bytes[..end]).is_err(), "{end}");
        }
    }
}
