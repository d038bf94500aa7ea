//! An image on its way to being trusted: brought over bad lines, killed in the middle, judged by real signatures; and everything
//! that must not get through.

mod bringing;
mod judging;
mod stage;
