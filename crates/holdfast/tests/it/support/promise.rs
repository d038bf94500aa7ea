//! The one promise, asked of a device after something went wrong.

use testkit::trace::Call;

use super::{Boot, Device};

/// What must be true after a cut, whatever point it was at.
pub struct Promise {
    /// What a healthy boot has vouched for: one command must bring it back.
    pub vouched: Option<u32>,
    /// These must be somewhere, in the data or in a copy that the list names.
    pub kept: &'static [u32],
    /// What may be in the data after the next boot's `pre-run`; none: nothing.
    pub data: &'static [Option<u32>],
}

/// Temporary names carry the number of the process.
pub fn comparable(calls: &[Call]) -> Vec<String> {
    let plain = |call: &Call| {
        let mut text = String::new();
        let mut rest = call.to_string();
        while let Some(at) = rest.find("tmp-") {
            let (before, after) = rest.split_at(at + 4);
            text.push_str(before);
            let after = after.trim_start_matches("probe-");
            rest = after.trim_start_matches(|c: char| c.is_ascii_digit()).to_owned();
        }
        text + &rest
    };
    calls.iter().map(plain).collect()
}

/// What a device does after the cut, and what must be true then. `again`: the command that was cut runs once more, and
/// leaves this.
pub fn go_on(
    device: &Device,
    next: Boot,
    again: Option<(&[&str], Option<u32>)>,
    promise: &Promise,
) -> Result<(), String> {
    let first = device.pre_run(next);
    if first.code != 0 {
        return Err(format!("pre-run ended with {}: {}", first.code, first.stderr));
    }
    let mut found = device.pristine.generation(&device.data)?;
    if !promise.data.contains(&found) {
        return Err(format!("the data is {found:?}, and may be {:?}: {}", promise.data, first.stderr));
    }
    if let Some((arguments, result)) = again {
        let said = device.guard(next, arguments);
        if said.code != 0 {
            return Err(format!("{arguments:?} again ended with {}: {}", said.code, said.stderr));
        }
        found = device.pristine.generation(&device.data)?;
        if found != result {
            return Err(format!("{arguments:?} again made the data {found:?} instead of {result:?}"));
        }
        // What an administrator puts in place is looked at again before the workload may have it.
        let said = device.pre_run(next);
        let after = device.pristine.generation(&device.data)?;
        if said.code != 0 || after != found {
            return Err(format!(
                "pre-run after it ended with {}, data {after:?}: {}",
                said.code, said.stderr
            ));
        }
    }
    device.tidy(next)?;
    let copies = device.copies(next);
    let mut kept: Vec<u32> = found.into_iter().collect();
    let mut vouched = Vec::new();
    for copy in &copies {
        match device.pristine.generation(&copy.path) {
            Ok(Some(generation)) => {
                kept.push(generation);
                if copy.is_backup && copy.vouched {
                    vouched.push((generation, copy.number));
                }
            }
            // What a migration left half done may be kept for people to look at, and is marked as such.
            _ if copy.tainted => {}
            Ok(None) if promise.data.contains(&None) => {}
            Ok(None) => return Err(format!("copy {} is empty", copy.number)),
            Err(why) => return Err(format!("copy {}: {why}", copy.number)),
        }
    }
    if let Some(missing) = promise.kept.iter().find(|generation| !kept.contains(generation)) {
        return Err(format!("generation {missing} is nowhere: {copies:?}"));
    }
    // It runs, and one command brings back what was vouched for.
    let ran = device.guard(next, &["run", "--", "true"]);
    if ran.code != 0 {
        return Err(format!("run ended with {}: {}", ran.code, ran.stderr));
    }
    let Some(wanted) = promise.vouched else { return Ok(()) };
    let number = vouched.iter().find(|(generation, _)| *generation == wanted);
    match number {
        Some((_, number)) => {
            let said = device.guard(next, &["backups", "restore", &number.to_string()]);
            if said.code != 0 {
                return Err(format!("restore ended with {}: {}", said.code, said.stderr));
            }
            device.pristine.same(&device.data, wanted)
        }
        // Not copied yet, since nothing has happened to it.
        None if found == Some(wanted) => Ok(()),
        None => Err(format!("no vouched backup holds generation {wanted}: {copies:?}")),
    }
}
