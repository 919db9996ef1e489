//! The conformance suite on a cluster of three, with each handle at another member.

mod place;

use tenure_store::testkit::Handles;

async fn open(count: usize) -> Handles {
    let place = place::Place::shared();
    Handles::new(place.handles(count).await, place)
}

tenure_store::conformance!(open);
