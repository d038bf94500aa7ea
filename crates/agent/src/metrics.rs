//! What Prometheus is told of the agent.

use std::sync::{Mutex, PoisonError};

use logic::agent::Outcome;
use service::{Counter, Page};

#[derive(Debug, Default)]
pub struct Metrics {
    state: Mutex<&'static str>,
    asked: Counter,
    unanswered: Counter,
    completed: Counter,
    unproven: Counter,
    rolled_back: Counter,
    refused: Counter,
    abandoned: Counter,
    taken_back: Counter,
}

impl Metrics {
    pub(crate) fn state(&self, name: &'static str) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = name;
    }

    pub(crate) fn asked(&self) {
        self.asked.add();
    }

    pub(crate) fn unanswered(&self) {
        self.unanswered.add();
    }

    pub(crate) fn ended(&self, outcome: &Outcome) {
        match outcome {
            Outcome::Completed => &self.completed,
            Outcome::Unproven { .. } => &self.unproven,
            Outcome::RolledBack { .. } => &self.rolled_back,
            Outcome::Refused { .. } => &self.refused,
            Outcome::Abandoned { .. } => &self.abandoned,
            Outcome::TakenBack => &self.taken_back,
        }
        .add();
    }

    pub fn text(&self) -> String {
        let mut page = Page::new("holdfast_agent");
        page.head("state", "gauge", "What the agent does: 1 for the state that it is in.");
        let state = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        page.line("state", &[("state", if state.is_empty() { "starting" } else { state })], 1);
        page.head("questions_total", "counter", "Questions to the graph.");
        page.line("questions_total", &[], self.asked.get());
        page.head("unanswered_total", "counter", "Questions to the graph that were not answered.");
        page.line("unanswered_total", &[], self.unanswered.get());
        page.head("attempts_total", "counter", "Updates and steps back that have ended, by how.");
        let ends = [
            ("completed", &self.completed),
            ("unproven", &self.unproven),
            ("rolled-back", &self.rolled_back),
            ("refused", &self.refused),
            ("abandoned", &self.abandoned),
            ("taken-back", &self.taken_back),
        ];
        for (outcome, counter) in ends {
            page.line("attempts_total", &[("outcome", outcome)], counter.get());
        }
        page.finish()
    }
}
