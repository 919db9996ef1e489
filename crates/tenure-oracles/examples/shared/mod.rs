//! What the examples share: their arguments, and how they run and end.

use std::{error::Error, time::Duration};

use tenure_singleton::SingletonBuilder;

/// How long an example runs.
const TIME: Duration = Duration::from_secs(5);

/// The first argument; or the server that `cargo xtask services start` names in this variable, or else one of this machine, with these options.
pub(crate) fn url(kind: &str, variable: &str, otherwise: &str, options: &str) -> String {
    std::env::args().nth(1).unwrap_or_else(|| {
        let server = std::env::var(variable).unwrap_or_else(|_| otherwise.to_owned());
        format!("{kind}+{server}?{options}")
    })
}

/// The second argument, or a name that is made up.
pub(crate) fn node() -> String {
    std::env::args().nth(2).unwrap_or_else(|| format!("example-{}", std::process::id()))
}

/// Runs it for a few seconds or until Ctrl-C, and tells what happens.
pub(crate) async fn run(singleton: SingletonBuilder) -> Result<(), Box<dyn Error>> {
    let env = tenure_store::Env::system();
    let running = singleton.on_event(|event| println!("  {event:?}")).start()?;
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed?,
        () = env.sleep(TIME) => {}
    }
    running.shutdown().await;
    Ok(())
}
