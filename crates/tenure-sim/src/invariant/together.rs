//! [`Together`]: what was sent as one is applied as one: all of it, in order, with nothing in between.

use super::{Deed, History, Life};

/// Messages that were sent together.
#[derive(Clone, Debug, Default)]
pub struct Together {
    batches: Vec<Vec<String>>,
}

impl Together {
    /// These are sent together.
    pub fn begin(&mut self, names: Vec<String>) {
        self.batches.push(names);
    }

    /// Looks through the lives of a server. Only priority messages may come in between, and only a deletion may come before the rest.
    ///
    /// # Errors
    /// The first batch that was torn apart.
    pub fn check(&self, history: &History) -> Result<(), String> {
        history.lives.iter().try_for_each(|life| self.check_life(life))
    }

    fn check_life(&self, life: &Life) -> Result<(), String> {
        let others = life.lines.iter().filter(|line| line.deed != Deed::Urgent);
        let names: Vec<&str> = others.map(|line| line.name.as_str()).collect();
        for batch in &self.batches {
            let Some(first) = names.iter().position(|name| batch.iter().any(|its| its == name)) else {
                continue;
            };
            let run = &names[first..names.len().min(first + batch.len())];
            let is_whole = run.len() == batch.len() || life.ended.is_some();
            if !is_whole || !run.iter().zip(batch).all(|(name, its)| name == its) {
                return Err(format!("{batch:?} was sent as one, and is there as {run:?}"));
            }
        }
        Ok(())
    }
}
