//! Names as somebody sees them who takes no part.

use std::sync::Arc;

use tenure_cluster::Onlooker;
use tenure_registry::{Query, RegistryView};

use crate::sim::Sim;

#[tokio::test(start_paused = true)]
async fn a_view_shows_what_was_committed_before_each_look() {
    let sim = Sim::new();
    let seats = sim.seats(2).await;
    let look =
        Onlooker::new(Arc::clone(seats[0].cluster.store()), seats[0].cluster.settings().cluster.clone());
    let all = RegistryView::all(&look).await.unwrap();
    assert_eq!(all, [seats[0].registry.name().clone()]);
    let view = RegistryView::new(&look, all[0].clone());
    assert!(view.is_empty());
    let mut held = Vec::new();
    // Enough for the log to be shortened between two looks.
    for round in 0..3 {
        for number in 0..400 {
            held.push(seats[number % 2].register(&format!("r{round}/{number:03}")).await.unwrap());
        }
        let led = view.refresh().await.unwrap();
        assert!(led.leader.is_some());
        assert_eq!(
            (view.len(), view.position()),
            (seats[0].registry.len(), seats[0].registry.status().applied)
        );
        let entry = view.whereis(&format!("r{round}/001")).unwrap();
        assert_eq!(*entry.owner(), seats[1].registry.status().member);
        held.drain(..100).for_each(drop);
        sim.until("they are gone", || seats[0].registry.len() == held.len()).await;
        view.refresh().await.unwrap();
        assert_eq!(view.len(), held.len());
    }
    let page = view.list(&Query::all().named("r2/"), None, 10);
    assert_eq!((page.entries.len(), page.next.is_some()), (10, true));
    assert!(view.whereis("r0/000").is_none());
    assert_eq!(look.members().list().await.unwrap().len(), 2);
}
