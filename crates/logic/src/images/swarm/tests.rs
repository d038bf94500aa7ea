//! A receiver between peers that are told what to do by hand.

use super::*;
use crate::images::{Held, Piece};

const NOW: Moment = Moment::ZERO;

fn receiver(peers: u32, pieces: u32) -> (Receiver, Vec<LinkId>) {
    let mut receiver = Receiver::new(Rules::default(), 1, Held::default(), pieces);
    receiver.set_peers(&(0..peers).map(PeerId).collect::<Vec<_>>(), NOW);
    let links = dialled(&receiver.next(NOW));
    (receiver, links)
}

fn dialled(actions: &[Action]) -> Vec<LinkId> {
    let dial = |action: &Action| match action {
        Action::Dial { link, .. } => Some(*link),
        _ => None,
    };
    actions.iter().filter_map(dial).collect()
}

fn asks(actions: &[Action]) -> Vec<(LinkId, AskId, Vec<Piece>)> {
    let ask = |action: &Action| match action {
        Action::Ask { link, ask, candidates } => Some((*link, *ask, candidates.clone())),
        _ => None,
    };
    actions.iter().filter_map(ask).collect()
}

#[test]
fn nobody_is_asked_before_it_serves() {
    let (mut receiver, links) = receiver(1, 10);
    receiver.opened(links[0], Held::all(10), NOW);
    let actions = receiver.next(NOW);
    assert_eq!(actions, [Action::Want { link: links[0], wants: true, served_by: 0 }]);
    receiver.turn(links[0], true, NOW);
    assert_eq!(asks(&receiver.next(NOW)).len(), 2);
}

#[test]
fn the_rarest_piece_is_asked_for_first() {
    let (mut receiver, links) = receiver(3, 64);
    receiver.opened(links[0], Held::all(64), NOW);
    receiver.opened(links[1], Held::all(63), NOW);
    receiver.opened(links[2], Held::all(62), NOW);
    receiver.turn(links[0], true, NOW);
    let asked = asks(&receiver.next(NOW));
    assert_eq!(asked[0].2[..2], [Piece(63), Piece(62)]);
}

#[test]
fn two_links_are_never_asked_for_the_same() {
    let (mut receiver, links) = receiver(3, 40);
    for link in &links {
        receiver.opened(*link, Held::all(40), NOW);
        receiver.turn(*link, true, NOW);
    }
    let mut pieces: Vec<Piece> =
        asks(&receiver.next(NOW)).into_iter().flat_map(|(_, _, pieces)| pieces).collect();
    let count = pieces.len();
    pieces.sort();
    pieces.dedup();
    assert_eq!(pieces.len(), count);
}

#[test]
fn what_the_sender_did_not_pick_can_be_asked_for_elsewhere() {
    let (mut receiver, links) = receiver(2, 1);
    for link in &links {
        receiver.opened(*link, Held::all(1), NOW);
        receiver.turn(*link, true, NOW);
    }
    let asked = asks(&receiver.next(NOW));
    assert_eq!(asked.len(), 1);
    let (first, ask, _) = asked[0];
    // It loses its turn before it began: the other one is asked.
    receiver.turn(first, false, NOW);
    let again = asks(&receiver.next(NOW));
    assert_eq!(again.len(), 1);
    assert_ne!(again[0].0, first);
    // A late answer to what was taken back changes nothing.
    receiver.sending(first, ask, Piece(0), NOW);
    assert_eq!(asks(&receiver.next(NOW)), []);
}

#[test]
fn the_links_of_a_dead_peer_are_asked_for_nothing_and_its_pieces_go_to_others() {
    let (mut receiver, links) = receiver(2, 1);
    for link in &links {
        receiver.opened(*link, Held::all(1), NOW);
        receiver.turn(*link, true, NOW);
    }
    let first = asks(&receiver.next(NOW))[0].0;
    receiver.parted(first, Parting::Broken, NOW);
    assert_ne!(asks(&receiver.next(NOW))[0].0, first);
}

#[test]
fn whoever_sends_something_bad_is_left_alone_for_long() {
    let (mut receiver, links) = receiver(2, 4);
    receiver.opened(links[0], Held::all(4), NOW);
    receiver.opened(links[1], Held::all(4), NOW);
    receiver.hang_up(links[0], Parting::Bad, NOW);
    assert!(receiver.next(NOW).contains(&Action::HangUp { link: links[0], why: Parting::Bad }));
    let rules = Rules::default();
    assert_eq!(dialled(&receiver.next(rules.avoid_bad / 2)), []);
    assert_eq!(dialled(&receiver.next(rules.avoid_bad * 2)).len(), 1);
}

#[test]
fn where_nobody_else_has_it_even_a_bad_one_is_asked_again_soon_and_later_each_time() {
    let (mut receiver, mut links) = receiver(2, 4);
    // The other one has nothing of what is missing.
    receiver.opened(links[1], Held::default(), NOW);
    let rules = Rules::default();
    let mut now = NOW;
    for pause in [rules.in_need, rules.in_need * 2, rules.in_need * 4] {
        receiver.opened(links[0], Held::all(4), now);
        receiver.hang_up(links[0], Parting::Bad, now);
        assert_eq!(dialled(&receiver.next(now + pause / 2)), []);
        now += pause * 2;
        assert!(receiver.wake(now).is_some_and(|at| at <= now + rules.late_after));
        links = dialled(&receiver.next(now));
        assert_eq!(links.len(), 1);
    }
}

#[test]
fn a_frozen_peer_is_hung_up_on_even_if_it_still_announces() {
    let (mut receiver, links) = receiver(1, 4);
    receiver.opened(links[0], Held::all(3), NOW);
    receiver.turn(links[0], true, NOW);
    assert!(!asks(&receiver.next(NOW)).is_empty());
    let later = Rules::default().frozen;
    receiver.has(links[0], Piece(3));
    assert!(receiver.next(later).contains(&Action::HangUp { link: links[0], why: Parting::Frozen }));
}

#[test]
fn a_late_piece_is_asked_for_elsewhere_and_the_slower_is_told_not_to_bother() {
    let (mut receiver, links) = receiver(2, 2);
    receiver.opened(links[0], Held::all(2), NOW);
    receiver.turn(links[0], true, NOW);
    for (link, ask, candidates) in asks(&receiver.next(NOW)) {
        receiver.sending(link, ask, candidates[0], NOW);
    }
    let soon = Moment::from_millis(10);
    receiver.sent(links[0], Piece(0), soon);
    receiver.got(Piece(0));
    receiver.opened(links[1], Held::all(2), soon);
    receiver.turn(links[1], true, soon);
    assert_eq!(asks(&receiver.next(soon)), []);
    let late = Moment::from_secs(1);
    let asked = asks(&receiver.next(late));
    assert_eq!((asked[0].0, asked[0].2.clone()), (links[1], vec![Piece(1)]));
    receiver.got(Piece(1));
    let cancel = Action::Cancel { link: links[0], piece: Piece(1) };
    assert!(receiver.next(late).contains(&cancel));
    assert!(receiver.is_whole());
}

#[test]
fn a_growing_list_makes_links_useful_again() {
    let (mut receiver, links) = receiver(1, 1);
    receiver.opened(links[0], Held::all(1), NOW);
    receiver.got(Piece(0));
    assert_eq!(receiver.next(NOW), [Action::Want { link: links[0], wants: false, served_by: 0 }]);
    receiver.has(links[0], Piece(1));
    assert_eq!(receiver.next(NOW), []);
    receiver.listed(2);
    assert_eq!(receiver.next(NOW), [Action::Want { link: links[0], wants: true, served_by: 0 }]);
}

#[test]
fn a_peer_that_is_gone_is_hung_up_on_and_never_called_again() {
    let (mut receiver, links) = receiver(1, 4);
    receiver.set_peers(&[], NOW);
    assert_eq!(receiver.next(NOW), [Action::HangUp { link: links[0], why: Parting::Gone }]);
    assert_eq!(receiver.next(Moment::from_secs(1000)), []);
}

#[test]
fn a_piece_that_was_damaged_here_is_asked_for_again() {
    let (mut receiver, links) = receiver(1, 1);
    receiver.got(Piece(0));
    receiver.opened(links[0], Held::all(1), NOW);
    receiver.turn(links[0], true, NOW);
    assert_eq!(asks(&receiver.next(NOW)), []);
    receiver.lost(Piece(0));
    assert!(!receiver.is_whole());
    assert_eq!(asks(&receiver.next(NOW)).len(), 1);
}
