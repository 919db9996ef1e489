//! [`Testament`]: what the guardian does for a `tenure run` that died.

use std::{sync::Arc, time::Duration};

use tenure::{
    cluster::{Owner, SessionId, will},
    store::{Env, Retry},
};

/// How long it is tried. A ttl is rarely longer: what could not be done by then is done.
const LIMIT: Duration = Duration::from_secs(60);

/// How long the store has to tell others of it, which PostgreSQL does after the commit: else they would only see it when they look by themselves.
const TELL_TIME: Duration = Duration::from_millis(500);

/// The session to be ended, and where.
#[derive(Debug, Default)]
pub(crate) struct Testament {
    pub(crate) url: Option<String>,
    pub(crate) session: Option<(String, String)>,
}

impl Testament {
    /// Ends the session, so that nobody has to wait for its ttl. Nothing of the command may be left.
    pub(crate) fn carry_out(&self) {
        let Some(will) = self.will() else { return };
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let env = Env::system();
            let mut pauses = Retry { within: LIMIT, ..Retry::default() }.start(&env);
            loop {
                if let Ok(store) = tenure::open(will.url()).await
                    && will::carry_out(&will, Arc::clone(&store)).await.is_ok()
                {
                    env.sleep(TELL_TIME).await;
                    return;
                }
                if !pauses.pause().await {
                    return;
                }
            }
        });
    }

    fn will(&self) -> Option<will::Will> {
        let (cluster, session) = self.session.as_ref()?;
        let program = will::WillProgram::new("", self.url.clone()?).ok()?;
        Some(program.will(&cluster.parse().ok()?, session.parse::<SessionId>().ok()?, &Owner::unknown()))
    }
}
