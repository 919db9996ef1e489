//! [`Env`]: the one door for time, randomness and tasks.
//!
//! Everything that measures time, sleeps, rolls dice or spawns does it through an `Env` that it was given. So a simulation
//! decides all of it, one seed reproduces a run, and each simulated node can have a clock of its own, be paused and be killed.

use std::{
    fmt,
    future::Future,
    ops::{Range, Sub},
    sync::Arc,
    time::Duration,
};

use nix::time::{ClockId, clock_gettime};
use parking_lot::Mutex;
use rand::{Rng as _, RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::task::JoinHandle;

use crate::Gate;

/// Time, randomness and tasks of one node.
#[derive(Clone)]
pub struct Env {
    clock: Clock,
    /// Shared by all clones. A lock and not a per-thread generator, since a seed must give one sequence.
    random: Arc<Mutex<StdRng>>,
    /// What the tasks of a simulated process stand behind.
    gate: Option<Gate>,
}

#[derive(Clone, Copy, Debug)]
enum Clock {
    /// The machine's boot-time clock: it ticks through suspend, and nobody can step it.
    Boot,
    /// Tokio's clock, which a simulation has paused; time since this instant, at this many hundredths of its speed.
    Simulated(tokio::time::Instant, u32),
}

/// The speed of a clock that is right, in hundredths.
const RIGHT: u32 = 100;

/// What a simulated wall clock shows at the start: some day in 2024.
const SIMULATED_START: Duration = Duration::from_secs(1_720_000_000);

/// An instant on the boot-time clock of one machine. Only differences mean something, and only within one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// When the machine, or the simulation, was started.
    pub const ZERO: Self = Self(Duration::ZERO);

    /// The moment this much later.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }

    /// Time since the machine, or the simulation, was started.
    #[must_use]
    pub fn since_start(self) -> Duration {
        self.0
    }
}

/// The time from one moment to a later one, zero if it is not later.
impl Sub for Moment {
    type Output = Duration;

    fn sub(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// A wait was longer than it might be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it took longer than {0:?}")]
pub struct Elapsed(pub Duration);

impl Env {
    /// Real time and real randomness.
    #[must_use]
    pub fn system() -> Self {
        let mut seed = <StdRng as rand::SeedableRng>::Seed::default();
        rand::rand_core::TryRng::try_fill_bytes(&mut rand::rngs::SysRng, &mut seed)
            .expect("the operating system always has randomness");
        Self::with(Clock::Boot, StdRng::from_seed(seed))
    }

    /// Simulated time and randomness: everything follows from `seed`. To be used on a runtime whose time is paused.
    #[must_use]
    pub fn simulated(seed: u64) -> Self {
        #[allow(clippy::disallowed_methods, reason = "this is the door")]
        let start = tokio::time::Instant::now();
        Self::with(Clock::Simulated(start, RIGHT), StdRng::seed_from_u64(seed))
    }

    fn with(clock: Clock, random: StdRng) -> Self {
        Self { clock, random: Arc::new(Mutex::new(random)), gate: None }
    }

    /// This environment, for a process whose tasks stand behind `gate`: for simulations.
    #[must_use]
    pub fn behind(&self, gate: &Gate) -> Self {
        Self { gate: Some(gate.clone()), ..self.clone() }
    }

    /// This environment with a clock that runs at so many hundredths of the right speed: for simulations, as a real clock can't be changed.
    #[must_use]
    pub fn at_speed(&self, hundredths: u32) -> Self {
        let clock = match self.clock {
            Clock::Boot => Clock::Boot,
            Clock::Simulated(start, _) => Clock::Simulated(start, hundredths.max(1)),
        };
        Self { clock, ..self.clone() }
    }

    /// An environment on the same clock, with randomness of its own that follows from this one's.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { gate: self.gate.clone(), ..Self::with(self.clock, StdRng::seed_from_u64(self.random_u64())) }
    }

    /// Whether time is simulated: then it passes only while all tasks wait.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        matches!(self.clock, Clock::Simulated(..))
    }

    /// What time it is.
    #[must_use]
    pub fn now(&self) -> Moment {
        match self.clock {
            Clock::Boot => {
                let time = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has a boot-time clock");
                Moment(Duration::from(time))
            }
            #[allow(clippy::disallowed_methods, reason = "this is the door")]
            Clock::Simulated(start, speed) => {
                let time = tokio::time::Instant::now().saturating_duration_since(start);
                Moment(if speed == RIGHT { time } else { time * speed / RIGHT })
            }
        }
    }

    /// What the wall clock shows, since 1970: for people to read. Nothing may be decided by it.
    #[must_use]
    pub fn unix_time(&self) -> Duration {
        match self.clock {
            Clock::Boot => {
                let time = clock_gettime(ClockId::CLOCK_REALTIME).expect("Linux has a wall clock");
                Duration::from(time)
            }
            Clock::Simulated(..) => SIMULATED_START + self.now().since_start(),
        }
    }

    /// Runs a task of this process.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        match &self.gate {
            Some(gate) => tokio::spawn(gate.hold(task)),
            None => tokio::spawn(task),
        }
    }

    /// How long something takes by the runtime's clock that takes this long by ours.
    fn real(&self, time: Duration) -> Duration {
        match self.clock {
            Clock::Simulated(_, speed) if speed != RIGHT => time.saturating_mul(RIGHT) / speed,
            _ => time,
        }
    }

    /// Waits this long.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub async fn sleep(&self, time: Duration) {
        #[allow(clippy::disallowed_methods, reason = "this is the door")]
        tokio::time::sleep(self.real(time)).await;
    }

    /// What `future` gives, if it gives it within `time`.
    ///
    /// # Errors
    /// [`Elapsed`] when it took longer; the future is then dropped.
    pub async fn timeout<F: Future>(&self, time: Duration, future: F) -> Result<F::Output, Elapsed> {
        #[allow(clippy::disallowed_methods, reason = "this is the door")]
        tokio::time::timeout(self.real(time), future).await.map_err(|_| Elapsed(time))
    }

    /// A random number.
    #[must_use]
    pub fn random_u64(&self) -> u64 {
        self.random.lock().next_u64()
    }

    /// A random number in a range that is not empty.
    #[must_use]
    pub fn random_in(&self, range: Range<u64>) -> u64 {
        self.random.lock().random_range(range)
    }

    /// `true` with this probability, from 0 to 1.
    #[must_use]
    pub fn chance(&self, probability: f64) -> bool {
        self.random.lock().random_bool(probability)
    }

    /// A random time from nothing up to `most`.
    #[must_use]
    pub fn random_time(&self, most: Duration) -> Duration {
        most.mul_f64(self.random.lock().random::<f64>())
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env").field("clock", &self.clock).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_seed_decides_everything() {
        let draw = |env: &Env| (env.random_u64(), env.fork().random_u64(), env.random_in(0..1000));
        assert_eq!(draw(&Env::simulated(1)), draw(&Env::simulated(1)));
        assert_ne!(draw(&Env::simulated(1)), draw(&Env::simulated(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn simulated_time_passes_only_in_sleep() {
        let env = Env::simulated(1);
        assert!(env.is_simulated() && env.fork().is_simulated() && !Env::system().is_simulated());
        let start = env.now();
        assert_eq!(env.now() - start, Duration::ZERO);
        env.sleep(Duration::from_secs(3600)).await;
        assert_eq!(env.now() - start, Duration::from_secs(3600));
        let never = std::future::pending::<()>();
        assert_eq!(env.timeout(Duration::from_secs(1), never).await, Err(Elapsed(Duration::from_secs(1))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_fast_clock_is_ahead_and_its_sleeps_are_short() {
        let right = Env::simulated(1);
        let fast = right.at_speed(110);
        let (start, fast_start) = (right.now(), fast.now());
        fast.sleep(Duration::from_secs(11)).await;
        assert_eq!(
            (right.now() - start, fast.now() - fast_start),
            (Duration::from_secs(10), Duration::from_secs(11))
        );
    }

    #[test]
    fn system_time_never_goes_back_and_dice_differ() {
        let env = Env::system();
        let first = env.now();
        assert!(env.now() >= first);
        assert_ne!(env.random_u64(), Env::system().random_u64());
    }
}
