//! The executor: the process that keeps a will, and carries it out.
//!
//! It is a program of its own that has nothing but three pipes: all else that it may have inherited is closed. It does not listen to signals that are meant
//! for the node or for everybody: a service manager's SIGTERM to what a crashed service left behind must not keep it from its one task. It has no
//! thread and no runtime until there is something to do.

use std::{
    fs,
    io::{self, Read, Write},
    process::ExitCode,
    sync::mpsc::{RecvTimeoutError, sync_channel},
    thread,
    time::Duration,
};

use nix::sys::signal::{SigSet, Signal};
use tenure_store::{Env, Moment};

use super::{
    Will,
    message::{self, Message, Unreadable},
};
use crate::Owner;

/// How long it is tried to carry a will out. A ttl is rarely longer: what could not be done by then is done.
const LIMIT: Duration = Duration::from_secs(60);

/// Pauses between tries. The first is short, since a connection that was refused or a conflict passes soon.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Pauses between looks at a node whose pipe has ended. The kernel closes pipes a moment before the process is gone.
const FIRST_LOOK: Duration = Duration::from_micros(200);
const LONGEST_LOOK: Duration = Duration::from_millis(50);

/// Signals that are sent to many at a time, or by terminals: a process that sees to others must not listen to them.
pub const UNHEARD: [Signal; 9] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
];

/// Keeps the will that a node hands over on standard input, and carries it out when the node is dead: calls `carry_out`, again and again until it succeeds
/// or a minute has passed. The program should call this before anything else, and end with what it returns.
///
/// It closes every descriptor behind standard error, and blocks the signals that terminals and service managers send; `carry_out` runs in a thread of its own.
///
/// The code is a success when the will was carried out or revoked. Otherwise nothing was done, or not what was to be done, and standard error says why.
pub fn executor<F>(carry_out: F) -> ExitCode
where
    F: FnMut(&Will) -> Result<(), String> + Send + 'static,
{
    detach();
    let done = match keep(&mut io::stdin().lock(), &mut io::stdout().lock()) {
        Ok(Some(will)) => settle(will, carry_out, LIMIT),
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody may be there to read it.
            let _ = writeln!(io::stderr(), "last will: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Why a will was not carried out.
#[derive(Debug, thiserror::Error)]
enum Unsettled {
    #[error(
        "what came on standard input {0}: nothing is done; let a node of the same release start this program"
    )]
    Unreadable(#[from] Unreadable),
    #[error("standard input ended before there was a will: nothing is done; let a node start this program")]
    NoWill,
    #[error("the pipe of {} was closed, but it lives: its session {} is left alone", .0.owner, .0.session)]
    Alive(Box<Will>),
    #[error("could not end session {} of cluster {}, tried {tries} times: {failure}: it ends by its ttl", .will.session, .will.cluster)]
    Failed { will: Box<Will>, tries: u64, failure: String },
    #[error("to end session {session} took longer than {LIMIT:?}: it ends by its ttl")]
    Stuck { session: crate::SessionId },
    #[error("could not end session {session}, there was a panic: it ends by its ttl")]
    Panicked { session: crate::SessionId },
    #[error("could not end session {session}, there was no thread for it: {source}: it ends by its ttl")]
    NoThread { session: crate::SessionId, source: io::Error },
}

/// Lets go of everything that the node may have left to us, and of the signals that others send it.
fn detach() {
    let unheard: SigSet = UNHEARD.into_iter().collect();
    // If it fails, such a signal ends us: then the ttl ends the session.
    let _ = unheard.thread_block();
    // Listed before they are closed: the list itself has a descriptor, which is gone by then.
    let listed = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let inherited: Vec<i32> = listed
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|&number| number > 2)
        .collect();
    for descriptor in inherited {
        let _ = nix::unistd::close(descriptor);
    }
}

/// Keeps the latest will until the input ends. `None` when it was revoked.
fn keep(input: &mut impl Read, output: &mut impl Write) -> Result<Option<Will>, Unsettled> {
    let mut kept = None;
    while let Some(message) = Message::read(input)? {
        match message {
            Message::Revoke => return Ok(None),
            Message::Keep { number, will } => {
                kept = Some(will);
                // If nobody is there to read it, the input has ended as well.
                let _ = output.write_all(&message::answer(number)).and_then(|()| output.flush());
            }
        }
    }
    kept.map(Some).ok_or(Unsettled::NoWill)
}

/// Carries the will out within `limit`, whatever `carry_out` does.
fn settle<F>(will: Will, carry_out: F, limit: Duration) -> Result<(), Unsettled>
where
    F: FnMut(&Will) -> Result<(), String> + Send + 'static,
{
    let session = will.session;
    let (done, outcome) = sync_channel(1);
    let work = move || {
        let env = Env::system();
        let until = env.now().after(limit);
        let settled =
            await_death(&will, &env, until).and_then(|()| carry_out_until(&will, carry_out, &env, until));
        // Nobody listens when it took too long.
        let _ = done.send(settled);
    };
    // The thread is left behind when it is stuck: it ends with the process.
    let worker = thread::Builder::new().name("last-will".to_owned()).spawn(work);
    worker.map_err(|source| Unsettled::NoThread { session, source })?;
    // A little longer than the thread gives itself: what it says is better than that it was stuck.
    match outcome.recv_timeout(limit + LONGEST_PAUSE) {
        Ok(settled) => settled,
        Err(RecvTimeoutError::Timeout) => Err(Unsettled::Stuck { session }),
        Err(RecvTimeoutError::Disconnected) => Err(Unsettled::Panicked { session }),
    }
}

/// Waits until there is proof that the node is dead, where there can be proof.
fn await_death(will: &Will, env: &Env, until: Moment) -> Result<(), Unsettled> {
    // The node has started us: its machine is ours, whatever it is called.
    let me = Owner::this_process(will.owner.machine());
    if !will.owner.is_neighbour(&me) {
        return Ok(());
    }
    let mut pause = FIRST_LOOK;
    while will.owner.proof(&me).is_none() {
        if (until - env.now()).is_zero() {
            return Err(Unsettled::Alive(Box::new(will.clone())));
        }
        sleep(pause);
        pause = (pause * 2).min(LONGEST_LOOK);
    }
    Ok(())
}

fn carry_out_until<F>(will: &Will, mut carry_out: F, env: &Env, until: Moment) -> Result<(), Unsettled>
where
    F: FnMut(&Will) -> Result<(), String>,
{
    let mut pause = FIRST_PAUSE;
    let mut tries = 0;
    loop {
        let Err(failure) = carry_out(will) else { return Ok(()) };
        tries += 1;
        if until - env.now() <= pause {
            return Err(Unsettled::Failed { will: Box::new(will.clone()), tries, failure });
        }
        // Shortened by chance, so that those who died together do not keep step.
        sleep(pause - env.random_time(pause / 2));
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// This process has no runtime, and is never simulated.
fn sleep(time: Duration) {
    thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use super::{super::message::tests::will, *};

    fn bytes(messages: &[Message]) -> Vec<u8> {
        messages.iter().flat_map(Message::encode).collect()
    }

    fn kept(number: u64, will: &Will) -> Message {
        Message::Keep { number, will: will.clone() }
    }

    /// What is kept at the end of this input, and what was answered.
    fn fed(input: &[u8]) -> (Result<Option<Will>, String>, Vec<u8>) {
        let mut output = Vec::new();
        let kept = keep(&mut &input[..], &mut output).map_err(|error| error.to_string());
        (kept, output)
    }

    /// A node that has died, and one that lives.
    fn dead() -> Owner {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let owner = Owner::of_neighbour(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        owner
    }

    fn alive() -> Owner {
        Owner::this_process(None)
    }

    /// How often a will was carried out that fails so many times first, and what was said.
    fn tried(owner: &Owner, failures: u64, limit: Duration) -> (u64, Result<(), String>) {
        let tries = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&tries);
        let carry_out = move |_: &Will| {
            let before = counted.fetch_add(1, Ordering::SeqCst);
            if before < failures { Err("no connection".to_owned()) } else { Ok(()) }
        };
        let settled = settle(will("sqlite:secret", owner), carry_out, limit);
        (tries.load(Ordering::SeqCst), settled.map_err(|error| error.to_string()))
    }

    #[test]
    fn the_latest_will_is_kept_and_each_is_answered() {
        let (first, second) = (will("sqlite:a", &alive()), will("sqlite:b", &alive()));
        let (kept, answers) = fed(&bytes(&[kept(1, &first), kept(2, &second)]));
        assert_eq!(kept, Ok(Some(second)));
        assert_eq!(answers, [message::answer(1), message::answer(2)].concat());
    }

    #[test]
    fn a_revoked_will_is_forgotten() {
        let (kept, _) = fed(&bytes(&[kept(1, &will("sqlite:a", &alive())), Message::Revoke]));
        assert_eq!(kept, Ok(None));
        assert_eq!(fed(&bytes(&[Message::Revoke])).0, Ok(None));
    }

    #[test]
    fn garbage_makes_the_will_before_it_void() {
        let good = bytes(&[kept(1, &will("sqlite:secret", &alive()))]);
        for garbage in [&b"\xff\xff\xff\xff"[..], b"\0\0\0\x02\x01\x07", b"\0\0"] {
            let error = fed(&[&good, garbage].concat()).0.unwrap_err();
            assert!(error.contains("nothing is done") && !error.contains("secret"), "{error}");
        }
        assert!(fed(b"").0.unwrap_err().contains("before there was a will"));
    }

    #[test]
    fn it_is_tried_until_it_succeeds() {
        assert_eq!(tried(&dead(), 0, LIMIT), (1, Ok(())));
        assert_eq!(tried(&dead(), 3, LIMIT), (4, Ok(())));
    }

    #[test]
    fn it_is_given_up_in_the_end() {
        let env = Env::system();
        let start = env.now();
        let (tries, settled) = tried(&dead(), u64::MAX, Duration::from_millis(300));
        let error = settled.unwrap_err();
        assert!(
            error.contains("no connection") && error.contains(&format!("tried {tries} times")),
            "{error}"
        );
        assert!(!error.contains("secret") && (3..20).contains(&tries), "{tries}: {error}");
        assert!(env.now() - start < Duration::from_secs(5));
    }

    #[test]
    fn a_node_that_lives_is_left_alone() {
        let (tries, settled) = tried(&alive(), 0, Duration::from_millis(300));
        assert_eq!(tries, 0);
        let error = settled.unwrap_err();
        assert!(error.contains("but it lives") && !error.contains("secret"), "{error}");
        let out_of_sight = Owner::unknown();
        assert_eq!(tried(&out_of_sight, 0, LIMIT), (1, Ok(())), "then the pipe decides");
    }

    #[test]
    fn what_hangs_or_panics_comes_to_an_end() {
        let limit = Duration::from_millis(100);
        let hang = |_: &Will| {
            thread::sleep(Duration::from_secs(1000));
            Ok(())
        };
        let stuck = settle(will("sqlite:a", &dead()), hang, limit).unwrap_err().to_string();
        assert!(stuck.contains("took longer"), "{stuck}");
        let panic = |_: &Will| -> Result<(), String> { panic!("on purpose") };
        let panicked = settle(will("sqlite:a", &dead()), panic, limit).unwrap_err().to_string();
        assert!(panicked.contains("panic"), "{panicked}");
    }
}
