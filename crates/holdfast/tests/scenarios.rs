//! Every workflow of the source document, and every promise of the design page, replayed through the real binary:
//! one file of `scenarios/` is one story and one test. How a story is written: `scenarios/README.md`.

#[path = "scenarios/expect.rs"]
mod expect;
#[path = "scenarios/story.rs"]
mod story;
#[path = "scenarios/teller.rs"]
mod teller;

datatest_stable::harness! {
    { test = teller::tell, root = "tests/scenarios", pattern = r"\.story$" },
}
