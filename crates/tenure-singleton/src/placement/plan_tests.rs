//! Tests of the pure function that places singletons.

use proptest::prelude::*;

use super::*;

fn places(capacities: &[u64]) -> Vec<Place> {
    capacities.iter().map(|units| Place { capacity: units * 1000, ready: true }).collect()
}

fn name(number: usize) -> Name {
    format!("s{number:04}").parse().unwrap()
}

fn works(count: usize, fit: &[NodeIndex], spot: Spot) -> BTreeMap<Name, Work> {
    let work = || Work { load: 1000, fit: fit.iter().copied().collect(), avoid: BTreeSet::new(), spot };
    (0..count).map(|number| (name(number), work())).collect()
}

/// How many each node bears.
fn counts(places: &[Place], works: &BTreeMap<Name, Work>) -> Vec<usize> {
    let mut counts = vec![0; places.len()];
    works.values().filter_map(|work| work.spot.bearer()).for_each(|node| counts[node] += 1);
    counts
}

/// All that was given or moved has arrived.
fn arrive(works: &mut BTreeMap<Name, Work>) {
    for work in works.values_mut() {
        if let Some(node) = work.spot.bearer() {
            work.spot = Spot::Runs(node);
        }
    }
}

#[test]
fn what_nobody_runs_is_spread_by_capacity() {
    let places = places(&[1, 2, 1]);
    let mut works = works(400, &[0, 1, 2], Spot::Nowhere);
    assert_eq!(plan(&places, &mut works, 0), Plan::default());
    assert_eq!(counts(&places, &works), [100, 200, 100]);
}

#[test]
fn who_runs_stays_when_a_node_dies() {
    let places = places(&[1, 1, 1, 1]);
    let mut works = works(1000, &[0, 1, 2, 3], Spot::Nowhere);
    for (number, work) in works.values_mut().enumerate() {
        // 200 each, and 200 of a node that is gone.
        work.spot = if number % 5 == 4 { Spot::Nowhere } else { Spot::Runs(number % 5) };
    }
    let before = works.clone();
    plan(&places, &mut works, 1000);
    assert_eq!(counts(&places, &works), [250; 4]);
    for (name, work) in &works {
        let same = work.spot == before[name].spot;
        assert!(same || before[name].spot == Spot::Nowhere, "{name} moved");
    }
}

#[test]
fn a_new_node_gets_its_share_in_bounded_steps_each_moved_once() {
    let places = places(&[1, 1, 1]);
    let mut works = works(300, &[0, 1, 2], Spot::Nowhere);
    works.values_mut().enumerate().for_each(|(number, work)| work.spot = Spot::Runs(number % 2));
    let mut moved = BTreeSet::new();
    for step in 0.. {
        assert!(step < 40, "it does not come to an end");
        let Plan { moves, more } = plan(&places, &mut works, 3);
        assert!(moves <= 3);
        for (name, work) in &works {
            if let Spot::Moving(from, to) = work.spot {
                assert!(from < 2 && to == 2 && moved.insert(name.clone()), "{name} moved twice");
            }
        }
        arrive(&mut works);
        if !more {
            break;
        }
    }
    let found = counts(&places, &works);
    assert!(found.iter().all(|count| (90..=110).contains(count)), "{found:?}");
    assert_eq!(plan(&places, &mut works, 1000), Plan::default(), "it rests");
}

#[test]
fn labels_and_refusals_are_respected() {
    let places = places(&[1, 1]);
    let mut works = works(3, &[0], Spot::Nowhere);
    let [first, second, third] = [name(0), name(1), name(2)];
    works.get_mut(&second).unwrap().fit.clear();
    let of_third = works.get_mut(&third).unwrap();
    (of_third.fit, of_third.avoid) = ([0, 1].into(), [1].into());
    plan(&places, &mut works, 10);
    assert_eq!(works[&first].spot, Spot::Given(0));
    assert_eq!(works[&second].spot, Spot::Nowhere);
    assert_eq!(works[&third].spot, Spot::Given(0), "rather more load than one who did not take it");
    // But one who did not take it is better than nobody.
    let of_third = works.get_mut(&third).unwrap();
    (of_third.fit, of_third.spot) = ([1].into(), Spot::Nowhere);
    plan(&places, &mut works, 10);
    assert_eq!(works[&third].spot, Spot::Given(1));
}

#[test]
fn what_runs_on_a_node_that_leaves_moves_beyond_the_bound_and_never_without_a_goal() {
    let places = places(&[1, 1]);
    let mut works = works(20, &[1], Spot::Runs(0));
    works.get_mut(&name(7)).unwrap().fit.clear();
    assert_eq!(plan(&places, &mut works, 0), Plan::default());
    assert_eq!(works[&name(7)].spot, Spot::Runs(0));
    assert_eq!(works.values().filter(|work| work.spot == Spot::Moving(0, 1)).count(), 19);
}

fn situations() -> impl Strategy<Value = (Vec<Place>, BTreeMap<Name, Work>)> {
    (1..6usize).prop_flat_map(|nodes| {
        let places = prop::collection::vec((1..5u64, prop::bool::weighted(0.9)), nodes);
        let spot = (0..5u8, 0..nodes, 0..nodes);
        let fit = prop::collection::btree_set(0..nodes, 0..=nodes);
        let work = (1..4u64, fit.clone(), fit, spot);
        (places, prop::collection::vec(work, 0..60)).prop_map(|(places, works)| {
            let places: Vec<Place> =
                places.into_iter().map(|(units, ready)| Place { capacity: units * 1000, ready }).collect();
            let work = |(load, fit, avoid, (kind, a, b)): (u64, _, _, (u8, usize, usize))| {
                let spot = match kind {
                    0 => Spot::Nowhere,
                    1 => Spot::Given(a),
                    2 if a != b => Spot::Moving(a, b),
                    _ => Spot::Runs(a),
                };
                Work { load: load * 1000, fit, avoid, spot }
            };
            let works = works.into_iter().enumerate().map(|(number, one)| (name(number), work(one)));
            (places, works.collect())
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn plans_keep_their_promises((places, before) in situations(), moves in 0..5usize) {
        let mut works = before.clone();
        let made = plan(&places, &mut works, moves);
        let mut voluntary = 0;
        for (name, work) in &works {
            let was = before[name].spot;
            match (was, work.spot) {
                (was, now) if was == now => {
                    // Only what nobody may run stays nowhere.
                    prop_assert!(now != Spot::Nowhere || work.fit.is_empty());
                }
                (Spot::Nowhere, Spot::Given(node)) => prop_assert!(work.fit.contains(&node)),
                (Spot::Runs(from), Spot::Moving(left, to)) => {
                    prop_assert!(left == from && to != from && work.fit.contains(&to));
                    voluntary += usize::from(work.fit.contains(&from));
                }
                (was, now) => prop_assert!(false, "{} from {:?} to {:?}", name, was, now),
            }
        }
        prop_assert_eq!(voluntary, made.moves);
        prop_assert!(made.moves <= moves);
    }

    #[test]
    fn plans_come_to_rest((places, mut works) in situations(), moves in 1..5usize) {
        for step in 0.. {
            prop_assert!(step < 500, "it does not come to an end");
            arrive(&mut works);
            let before = works.clone();
            plan(&places, &mut works, moves);
            if works.iter().all(|(name, work)| before[name].spot == work.spot) {
                break;
            }
        }
        let before: Vec<Spot> = works.values().map(|work| work.spot).collect();
        plan(&places, &mut works, 100);
        prop_assert!(works.values().map(|work| work.spot).eq(before), "it rests, and then moves again");
    }
}
