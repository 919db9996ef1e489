//! Many at once, and how long each took.

use std::time::Duration;

use tenure_bench::figures::quantile;
use tenure_registry::RegistryError;
use tenure_store::Env;

use crate::task::Work;

/// So many ask, one question after another, for so long. What they have begun they finish. Returns what each question brought, too.
pub(crate) async fn at_work<T: Send + 'static, Asking>(
    flights: u64,
    seconds: f64,
    ask: impl Fn(u64, u64) -> Asking + Clone + Send + 'static,
) -> (Work, Vec<T>)
where
    Asking: Future<Output = Result<T, RegistryError>> + Send + 'static,
{
    let env = Env::system();
    let start = env.now();
    let end = start.after(Duration::from_secs_f64(seconds));
    let working: Vec<_> = (0..flights)
        .map(|flight| {
            let (env, ask) = (env.clone(), ask.clone());
            tokio::spawn(async move {
                let (mut times, mut brought, mut error) = (Vec::new(), Vec::new(), None);
                for turn in 0.. {
                    let asked = env.now();
                    if asked >= end {
                        break;
                    }
                    match ask(flight, turn).await {
                        Ok(got) => {
                            times.push((env.now() - asked).as_secs_f64() * 1e3);
                            brought.push(got);
                        }
                        Err(met) => {
                            error = Some(met.to_string());
                            break;
                        }
                    }
                }
                (times, brought, error)
            })
        })
        .collect();
    let (mut times, mut all, mut work) = (Vec::new(), Vec::new(), Work::default());
    for one in working {
        let (took, brought, error) = one.await.unwrap();
        times.extend(took);
        all.extend(brought);
        work.error = work.error.or(error);
    }
    work.seconds = (env.now() - start).as_secs_f64();
    work.count = times.len() as u64;
    if !times.is_empty() {
        work.p50_p99 = Some((quantile(&mut times, 0.5), quantile(&mut times, 0.99)));
    }
    (work, all)
}
