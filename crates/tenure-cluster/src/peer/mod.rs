//! Peer links and broadcast: messages from node to node, without a detour through the store.
//!
//! # What it promises
//! - **A message is from one session to one session.** It is never delivered to a later incarnation of the node that it was for, and nothing from an
//!   earlier incarnation of a sender is delivered once the receiver's membership shows a later one.
//! - **Order.** Messages from one session to another on one topic are received in the order in which they were sent, whatever breaks in between.
//! - **Once.** What was delivered is not delivered again, as long as its id is remembered: for [`LinkSettings::duplicates_window`], and among the last 65,536.
//! - **Confirmation.** A message counts as delivered when it is in the inbox of a subscription at the peer, and the sender is told for each peer what came of it.
//! - **Nobody waits for another.** Each peer has a link, a queue and a deadline of its own; one that hangs or is dead delays no message to any other.
//! - **Bounded memory.** Every queue has a limit in messages and in bytes; what does not fit is refused, and whoever sent it is told.
//! - **Only peers.** Who opens a link and who listens prove to each other that they know the cluster's secret, or have certificates of its authority, before
//!   anything else is said, and every message is sealed. [`LinkSettings`] tells what that is worth.
//!
//! # What is durable, what is local
//! Nothing is durable. A message that was delivered is gone with the process that has it in an inbox. Whatever must not get lost belongs into the store; links
//! tell others to look there.
//!
//! # Life cycle
//! [`BoundLinks::bind`] takes an address, which the node then joins with; [`BoundLinks::start`] serves peers. Links are opened when there is something to
//! send, and closed after [`LinkSettings::idle`]. [`Links::shutdown`] ends everything, and so does dropping the last handle.
//!
//! # Safety and liveness
//! Whether a message is delivered is decided at the receiver, under one lock, against its own [`Directory`]: the session it is for must be the receiver's, the
//! session it is from must be the one that the membership shows for the sender, and the link it came by must be the newest from there. Since the
//! directory never goes back, nothing old comes after something new. A sender whose session the receiver has not heard of yet is told so, and tries again
//! until its deadline. That is all that is relied on: no clock is compared, and no order of session ids.
//!
//! A link that breaks is opened again after 20 ms to 1 s. A message is tried three times, or until its deadline if the peer merely asks for patience.
//!
//! # A broadcast, step by step
//! 1. The sender draws an id, and puts the message into the queue of each live member but itself. A queue that is full says so at once.
//! 2. Links that are not open are opened, all at the same time; see `wire` for what is said.
//! 3. Each peer checks the letter's seal, then whom it is for, whom it is from, whether it was here before. It puts it into the inboxes of all who subscribe to the
//!    topic, and answers with a sealed receipt.
//! 4. If a link breaks before the receipt, the message is sent again with the same id. A peer that has it says "duplicate".
//! 5. By the deadline, the sender has an [`Outcome`] for each member.
//!
//! # What the caller must do
//! Give a [`Directory`] that keeps to its obligations. Receive from subscriptions, or drop them: an inbox that is full takes no more. Look at outcomes, or
//! don't rely on delivery.
//!
//! # What it never does
//! It never retries behind the deadline, never stores a message, never delivers to a session that it was not sent to, never prints a secret or a body.
//!
//! # Metrics
//!
//! | metric | kind | labels | what it counts |
//! | --- | --- | --- | --- |
//! | `tenure_peer_messages_total` | counter | `outcome` | messages to one peer each, by how they ended |
//! | `tenure_peer_broadcasts_total` | counter | `outcome` | those of them that were part of a broadcast |
//! | `tenure_peer_received_total` | counter | `outcome` | messages that came, by what was answered |
//! | `tenure_peer_duplicates_total` | counter | | messages that came again and were not delivered again |
//! | `tenure_peer_dropped_total` | counter | `reason` | messages that one subscription did not get: `inbox_full`, `wrong_session` |
//! | `tenure_peer_links` | gauge | `direction` | links that are open: `out`, `in` |
//! | `tenure_peer_handshakes_total` | counter | `side`, `outcome` | links that were opened, or refused, on the side of the `opener` or `listener` |
//!
//! `outcome` is that of [`Outcome::kind`] where messages are sent, and `accepted`, `duplicate`, `no_subscriber`, `full`, `wrong_session`, `not_known`, `superseded`
//! where they come; of handshakes `accepted`, `refused`, `busy`, or the kind of outcome.
//!
//! Events are `peer.link_opened`, `peer.link_closed`, `peer.link_failed`, `peer.link_refused`, `peer.broadcast` at debug level, `peer.refused` at warn level for whoever could not
//! prove to be a peer, `peer.accept_failed`, `peer.serving_failed`.

mod links;

mod directory;
mod error;
mod message;
mod outcome;
mod settings;
mod subscription;

mod handshake;
mod seal;
mod tls;
mod wire;

mod door;
mod inboxes;
mod incoming;
mod recent;

mod link;
mod opener;
mod outgoing;

mod measures;
mod tasks;

pub use self::{
    directory::Directory,
    error::{LinkError, SendError},
    links::{BoundLinks, Links},
    message::{Message, MessageId, Peer, Sender},
    outcome::{Outcome, Outcomes},
    settings::{LinkSettings, LinkTls},
    subscription::Subscription,
};
