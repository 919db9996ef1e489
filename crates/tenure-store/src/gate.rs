//! [`Gate`]: a simulated process that can be paused and killed.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;

/// The tasks of one simulated process: all that were spawned through the [`Env`](crate::Env) that has this gate.
///
/// While paused, none of them moves, as if the process had been stopped by a signal; time goes on without it. When killed, all are
/// dropped as they are.
#[derive(Clone, Default)]
pub struct Gate(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    phase: Phase,
    /// Who wanted to move while it was paused.
    waiting: Vec<Waker>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    Paused,
    Dead,
}

impl Gate {
    /// A gate that lets everything pass.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops every task where it is.
    pub fn pause(&self) {
        let mut state = self.0.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Paused;
        }
    }

    /// Lets the tasks go on.
    pub fn resume(&self) {
        self.turn(|phase| if phase == Phase::Paused { Phase::Open } else { phase });
    }

    /// Drops every task, now and in the future.
    pub fn kill(&self) {
        self.turn(|_| Phase::Dead);
    }

    /// Whether it was killed.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.0.lock().phase == Phase::Dead
    }

    fn turn(&self, next: impl FnOnce(Phase) -> Phase) {
        let waiting = {
            let mut state = self.0.lock();
            state.phase = next(state.phase);
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// This future, behind the gate.
    pub(crate) fn hold(&self, future: impl Future<Output = ()> + Send + 'static) -> Held {
        Held { gate: self.clone(), future: Some(Box::pin(future)) }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gate").field(&self.0.lock().phase).finish()
    }
}

/// A task behind a gate.
pub(crate) struct Held {
    gate: Gate,
    future: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Future for Held {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let phase = {
            let mut state = self.gate.0.lock();
            if state.phase != Phase::Dead {
                // Whether it moves or not: a kill must reach it though nothing else would wake it.
                if !state.waiting.iter().any(|waiting| waiting.will_wake(context.waker())) {
                    state.waiting.push(context.waker().clone());
                }
            }
            state.phase
        };
        match phase {
            Phase::Paused => Poll::Pending,
            Phase::Dead => {
                self.future = None;
                Poll::Ready(())
            }
            Phase::Open => {
                let Some(future) = &mut self.future else { return Poll::Ready(()) };
                let polled = future.as_mut().poll(context);
                if polled.is_ready() {
                    self.future = None;
                }
                polled
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::AtomicU64, sync::atomic::Ordering, time::Duration};

    use super::*;
    use crate::Env;

    #[tokio::test(start_paused = true)]
    async fn a_paused_process_stands_still_and_a_killed_one_is_gone() {
        let gate = Gate::new();
        let env = Env::simulated(1).behind(&gate);
        let (count, dropped) = (Arc::new(AtomicU64::new(0)), Arc::new(()));
        let task = {
            let (env, count, dropped) = (env.clone(), Arc::clone(&count), Arc::clone(&dropped));
            env.clone().spawn(async move {
                let _dropped = dropped;
                loop {
                    env.sleep(Duration::from_secs(1)).await;
                    count.fetch_add(1, Ordering::SeqCst);
                }
            })
        };
        let counted = || count.load(Ordering::SeqCst);
        env.sleep(Duration::from_millis(3500)).await;
        assert_eq!(counted(), 3);
        gate.pause();
        env.sleep(Duration::from_secs(60)).await;
        assert_eq!(counted(), 3);
        gate.resume();
        env.sleep(Duration::from_millis(1500)).await;
        assert_eq!(counted(), 5, "the sleep that was over at once, and one more");
        gate.kill();
        task.await.unwrap();
        assert_eq!(Arc::strong_count(&dropped), 1);
        env.spawn(async { unreachable!("a dead process starts nothing") }).await.unwrap();
        assert_eq!(counted(), 5);
    }
}
