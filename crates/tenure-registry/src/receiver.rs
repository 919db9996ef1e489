//! The receiver: takes what other members say, in order.

use std::sync::{Arc, atomic::Ordering};

use tenure_cluster::peer::Sender;
use tenure_store::Name;

use crate::{
    Owner,
    member::Member,
    message::{Answer, Message, Requests, Stream},
    order::{Order, Source},
    wire::Incoming,
};

/// Runs until its task is ended.
pub(crate) async fn run(member: Arc<Member>, mut incoming: Box<dyn Incoming>) {
    while let Some(message) = incoming.next().await {
        match Message::decode(&message.from.node, &message.body) {
            Ok(said) => take(&member, &message.from, said).await,
            Err(error) => {
                tracing::warn!(name: "registry.not_understood", registry = %member.registry, from = %message.from.node, %error, "a member said something that is not understood");
            }
        }
    }
}

async fn take(member: &Arc<Member>, from: &Sender, message: Message) {
    match message {
        Message::Hello => {
            if let Some(reign) = member.reign.lock().clone() {
                reign.greet(member, &Owner { node: from.node.clone(), session: from.session });
            }
        }
        Message::Stream(stream) => follow(member, stream).await,
        Message::Requests(requests) => take_requests(member, from, requests),
        Message::Answers(answers) => member.outbox.answered(member, answers),
        Message::Ask(call, question) => {
            // In a task of its own: an answer may take a while, and what comes behind it must not wait.
            let (asked, from) = (Arc::clone(member), from.node.clone());
            member.ground.env().spawn(async move {
                let reply = asked.answer(question).await;
                say(&asked, &from, Message::Reply(call, reply));
            });
        }
        Message::Reply(call, reply) => member.replied(call, reply),
    }
}

/// Applies what the leader tells, and reads the store if something is missing.
async fn follow(member: &Arc<Member>, stream: Stream) {
    if stream.epoch < member.seen.borrow().led.epoch {
        // It leads no longer. What it committed is in the store all the same.
        member.outbox.answered(member, stream.answers);
        return;
    }
    *member.heard.lock() = member.ground.env().now();
    member.tail.fetch_max(stream.tail, Ordering::SeqCst);
    let mut complete = true;
    for (position, batch) in &stream.batches {
        match member.apply(*position, batch) {
            Ok(applied) => complete &= applied,
            Err(error) => {
                tracing::warn!(name: "registry.not_understood", registry = %member.registry, %error, "a batch is not understood: it is read from the store");
                complete = false;
            }
        }
    }
    if member.flaws.snapshot_out_of_order && stream.batches.is_empty() {
        member.names.pretend(stream.tail);
    }
    if !complete || stream.tail > member.names.position() || stream.epoch > member.seen.borrow().led.epoch {
        member.meters.gaps.increment(1);
        // If it fails, the next word of the leader tells again what is missing.
        if let Err(error) = member.refresh().await {
            tracing::debug!(name: "registry.not_read", registry = %member.registry, %error, "what is missing can't be read at present");
            member.measure();
        }
    }
    member.outbox.answered(member, stream.answers);
}

fn take_requests(member: &Arc<Member>, from: &Sender, Requests { floor, changes }: Requests) {
    let reign = member.reign.lock().clone().filter(|reign| !reign.has_ended());
    let owner = Owner { node: from.node.clone(), session: from.session };
    let mut refused = Vec::new();
    for (request, change) in changes {
        let (source, owner) = (Source::Peer(from.node.clone()), owner.clone());
        let order = Order { source, request, floor, owner, change };
        match &reign {
            Some(reign) => {
                if !reign.offer(order) {
                    refused.push((request, Answer::NotLeader));
                }
            }
            None => refused.push((request, Answer::NotLeader)),
        }
    }
    if !refused.is_empty() {
        say(member, &from.node, Message::Answers(refused));
    }
}

/// Says something without waiting. If it gets lost, whoever waits for it gives up in time.
fn say(member: &Arc<Member>, to: &Name, message: Message) {
    let (member, to) = (Arc::clone(member), to.clone());
    let env = member.ground.env().clone();
    env.spawn(async move {
        if let Some(wire) = &member.wire {
            let _ = wire.send(&to, &member.topic, message.encode()).await;
        }
    });
}

#[cfg(test)]
mod tests;
