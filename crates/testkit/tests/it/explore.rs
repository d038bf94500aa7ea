//! The explorer sees every state, finds the nearest violation, and notices where there is no way home.

use std::time::Instant;
use testkit::explore::{World, explore};

/// A jug of five and a jug of three: the riddle of measuring four.
struct Jugs {
    forbidden: Option<(u8, u8)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pour {
    FillFive,
    FillThree,
    EmptyFive,
    EmptyThree,
    FiveIntoThree,
    ThreeIntoFive,
}

impl World for Jugs {
    type State = (u8, u8);
    type Action = Pour;
    fn initial(&self) -> Vec<(u8, u8)> {
        vec![(0, 0)]
    }
    fn next(&self, &(five, three): &(u8, u8), step: &mut dyn FnMut(Pour, (u8, u8))) {
        step(Pour::FillFive, (5, three));
        step(Pour::FillThree, (five, 3));
        step(Pour::EmptyFive, (0, three));
        step(Pour::EmptyThree, (five, 0));
        let poured = five.min(3 - three);
        step(Pour::FiveIntoThree, (five - poured, three + poured));
        let poured = three.min(5 - five);
        step(Pour::ThreeIntoFive, (five + poured, three - poured));
    }
    fn check(&self, state: &(u8, u8)) -> Result<(), String> {
        if self.forbidden == Some(*state) { Err(format!("{state:?} was reached")) } else { Ok(()) }
    }
    fn resting(&self, state: &(u8, u8)) -> bool {
        *state == (0, 0)
    }
}

#[test]
fn a_world_without_fault_is_explored_to_its_end() {
    let explored = explore(&Jugs { forbidden: None }, 1000).unwrap();
    assert_eq!((explored.states, explored.transitions), (16, 96));
    assert_eq!(explored.to_string(), "16 states, 96 transitions, depth 7");
}

#[test]
fn a_violation_is_shown_by_a_shortest_way() {
    let found = explore(&Jugs { forbidden: Some((4, 3)) }, 1000).unwrap_err();
    use Pour::*;
    assert_eq!(found.path, [FillFive, FiveIntoThree, EmptyThree, FiveIntoThree, FillFive, FiveIntoThree]);
    assert_eq!(found.why, "(4, 3) was reached");
    let printed = found.to_string();
    assert!(
        printed.contains("shortest way there, 6 steps:\n   1. FillFive\n   2. FiveIntoThree\n"),
        "{printed}"
    );
    let at_once = explore(&Jugs { forbidden: Some((0, 0)) }, 1000).unwrap_err();
    assert_eq!(at_once.path, []);
}

#[test]
fn a_walk_that_hits_its_limit_is_no_proof() {
    let found = explore(&Jugs { forbidden: None }, 10).unwrap_err();
    assert!(found.why.contains("more than 10 states"), "{}", found.why);
}

/// Counts up to an end; resting is only possible at zero, and from some state on there is no way back.
struct Trap {
    from: u32,
}

impl World for Trap {
    type State = u32;
    type Action = String;
    fn initial(&self) -> Vec<u32> {
        vec![0]
    }
    fn next(&self, state: &u32, step: &mut dyn FnMut(String, u32)) {
        if *state < 20 {
            step(format!("up to {}", state + 1), state + 1);
        } else {
            step("stay".into(), 20);
        }
        if *state < self.from {
            step("home".into(), 0);
        }
    }
    fn check(&self, _: &u32) -> Result<(), String> {
        Ok(())
    }
    fn resting(&self, state: &u32) -> bool {
        *state == 0
    }
}

#[test]
fn a_state_without_a_way_to_rest_is_found_and_the_nearest_is_shown() {
    let found = explore(&Trap { from: 5 }, 1000).unwrap_err();
    assert_eq!(found.why, "no resting state can be reached any more");
    assert_eq!(found.path, ["up to 1", "up to 2", "up to 3", "up to 4", "up to 5"]);
    assert_eq!(explore(&Trap { from: 21 }, 1000).unwrap().depth, 20);
}

/// A grid with a body: as many states as wanted, several ways to each.
struct Grid {
    side: u32,
}

impl World for Grid {
    type State = [u32; 8];
    type Action = usize;
    fn initial(&self) -> Vec<[u32; 8]> {
        vec![[0; 8]]
    }
    fn next(&self, state: &[u32; 8], step: &mut dyn FnMut(usize, [u32; 8])) {
        for axis in 0..3 {
            let mut following = *state;
            following[axis] = (following[axis] + 1) % self.side;
            step(axis, following);
        }
    }
    fn check(&self, _: &[u32; 8]) -> Result<(), String> {
        Ok(())
    }
    fn resting(&self, state: &[u32; 8]) -> bool {
        state[0] == 0
    }
}

#[test]
fn a_million_states_take_seconds_and_little_memory() {
    let begin = Instant::now();
    let explored = explore(&Grid { side: 100 }, 2_000_000).unwrap();
    assert_eq!((explored.states, explored.transitions, explored.depth), (1_000_000, 3_000_000, 297));
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    println!("{explored} in {:?}, peak of this process {peak}", begin.elapsed());
}
