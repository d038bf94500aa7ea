//! Tells a story: does what each line says to a device, compares, and after every line checks what must always hold.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use testkit::device::{Boot, Contents, Device, Ended, Facts, contents};
use testkit::trace::Trace;

use super::expect::{check, read_json};
use super::story::{Act, Code, parse, render};

type Told<T = ()> = Result<T, String>;

pub fn tell(path: &Path) {
    // As a panic, the message keeps its lines.
    replay(path).unwrap_or_else(|why| panic!("{why}"));
}

fn replay(path: &Path) -> Told {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut lines = parse(&text).map_err(|why| format!("{}: {why}", path.display()))?;
    let update = std::env::var_os("UPDATE").is_some();
    let mut teller = Teller::new();
    for line in &mut lines {
        let place = format!("{}:{}: {}", path.display(), line.number, line.text);
        let recorded = teller.act(&line.act).map_err(|why| format!("{place}\n{why}"))?;
        if update {
            line.recorded = recorded;
        } else if line.recorded != recorded {
            let (old, new) = (line.recorded.join("\n  "), recorded.join("\n  "));
            return Err(format!("{place}\nrecorded:\n  {old}\nnow:\n  {new}\n(UPDATE=1 records anew)"));
        }
        teller.check_always(&line.act).map_err(|why| format!("{place}\n{why}"))?;
    }
    if update {
        fs::write(path, render(&lines)).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

struct Teller {
    device: Device,
    /// What the last command printed.
    said: String,
    /// The data that a healthy boot has vouched for last.
    vouched: Option<Contents>,
    ran_in_this_boot: bool,
    vouched_in_this_boot: bool,
}

impl Teller {
    fn new() -> Self {
        Self {
            device: Device::new(Path::new(env!("CARGO_BIN_EXE_holdfast"))),
            said: String::new(),
            vouched: None,
            ran_in_this_boot: false,
            vouched_in_this_boot: false,
        }
    }

    fn act(&mut self, act: &Act) -> Told<Vec<String>> {
        match act {
            Act::Nothing => {}
            Act::Boot { soft, words } => self.boot(*soft, words)?,
            Act::Set { key, value } => self.device.set(key, value.as_deref()),
            Act::SmallDisk(size) => self.device.mount_small_backups(size),
            Act::Shell(line) => {
                let ended = self.device.shell(line);
                if ended.code != Some(0) {
                    return Err(format!("the shell says {:?}: {}", ended.code, ended.stderr));
                }
                self.said = ended.stdout;
            }
            Act::Cut { call, text } => self.cut(call, text)?,
            Act::Expect { what, rest } => check(&self.device, what, rest, &self.said)?,
            Act::Command { words, code, branch } => return self.command(words, *code, branch.as_deref()),
        }
        Ok(vec![])
    }

    fn boot(&mut self, soft: bool, words: &[String]) -> Told {
        let [deployment, version, rest @ ..] = words else {
            return Err("a deployment and a version".to_owned());
        };
        let mut boot = Boot { deployment: deployment.clone(), version: version.clone(), ..Boot::default() };
        let mut list = None;
        for word in rest {
            match (word.as_str(), list) {
                ("unlisted", _) => boot.unlisted = true,
                ("beside" | "pinned", _) => list = Some(word.as_str()),
                (_, Some("beside")) => boot.beside.push(word.clone()),
                (_, Some("pinned")) => boot.pinned.push(word.clone()),
                _ => return Err(format!("what is {word:?}?")),
            }
        }
        self.device.boot(boot, soft);
        (self.ran_in_this_boot, self.vouched_in_this_boot) = (false, false);
        Ok(())
    }

    fn command(&mut self, words: &[String], code: Code, branch: Option<&str>) -> Told<Vec<String>> {
        let (verb, rest) = words.split_first().ok_or("a command")?;
        match verb.as_str() {
            "pre-run" => self.pre_run(code, branch),
            "run" => self.run(rest, code),
            "healthcheck" => self.healthcheck(rest.first().is_some_and(|word| word == "good"), code),
            "system" => self.system(rest.first().is_some_and(|word| word == "healthy"), code),
            "green" => self.verdicts(true, true),
            "red" => self.verdicts(false, false),
            "red-elsewhere" => self.verdicts(true, false),
            "guard" => {
                let mut args = vec!["guard".to_owned()];
                args.extend_from_slice(rest);
                self.other(Facts::Flags, &args, code)
            }
            _ => self.other(Facts::Environment, rest, code),
        }
    }

    fn verdicts(&mut self, workload: bool, system: bool) -> Told<Vec<String>> {
        let code = if workload { Code::Exit(0) } else { Code::Exit(12) };
        let mut recorded = self.healthcheck(workload, code)?;
        recorded.extend(self.system(system, Code::Exit(0))?);
        Ok(recorded)
    }

    /// Runs a command, holds it to its exit code, and a refusal to its form.
    fn invoke(&mut self, facts: Facts, args: &[String], code: Code) -> Told<Ended> {
        let ended = self.device.run(facts, args);
        self.said = format!("{}{}", ended.stdout, ended.stderr);
        self.hold_to_code(&ended, code)?;
        // A check that fails is an answer, and a wrong command line gets its usage; every refusal says what to do.
        let is_answer = ended.code == Some(12)
            || args.iter().any(|arg| arg == "verify")
            || ended.stderr.lines().any(|line| line.starts_with("Usage: "));
        if !is_answer && ended.code.is_some_and(|code| code != 0) {
            for form in ["error: ", "hint: "] {
                if !ended.stderr.lines().any(|line| line.starts_with(form)) {
                    return Err(format!("a refusal without {form:?}:\n{}", self.said));
                }
            }
        }
        Ok(ended)
    }

    fn hold_to_code(&self, ended: &Ended, code: Code) -> Told {
        let got = ended.code.map_or(Code::Killed, Code::Exit);
        match got == code {
            true => Ok(()),
            false => Err(format!("expected {code}, ended with {got}:\n{}{}", ended.stdout, ended.stderr)),
        }
    }

    fn pre_run(&mut self, code: Code, branch: Option<&str>) -> Told<Vec<String>> {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        let before = self.device.fingerprint();
        let dry = self.device.run(Facts::Flags, &words("guard pre-run --dry-run -o json"));
        if self.device.fingerprint() != before {
            return Err("the dry run has changed something".to_owned());
        }
        let real = self.invoke(Facts::Flags, &words("guard pre-run -o json"), code)?;
        let mut recorded = Vec::new();
        if !real.stdout.is_empty() {
            let (planned, done) = (document(&dry.stdout)?, document(&real.stdout)?);
            if planned["dry_run"] != true || done["dry_run"] != false {
                return Err(format!("which of them was dry?\n{}\n{}", dry.stdout, real.stdout));
            }
            let without = |mut plan: Value| {
                plan.as_object_mut().map(|map| map.remove("dry_run"));
                plan
            };
            let (planned, done) = (without(planned), without(done));
            if planned != done {
                return Err(format!("the dry run said\n{planned}\nand this was done\n{done}"));
            }
            if branch.is_some_and(|branch| done["branch"] != branch) {
                return Err(format!("expected {branch:?}, took {}: {}", done["branch"], done["reason"]));
            }
            recorded.extend(describe(&done).iter().map(|line| steady(line)));
        }
        recorded.extend(self.complaints(&real));
        if code == Code::Exit(0) {
            let again =
                document(&self.device.run(Facts::Flags, &words("guard pre-run --dry-run -o json")).stdout)?;
            if again["branch"] != "already-prepared" || again["steps"] != Value::Array(vec![]) {
                return Err(format!("prepared, and still something to do: {again}"));
            }
            let backups = self.device.backups();
            let [first, second] =
                ["health.json", ".health.json.second"].map(|name| fs::read(backups.join(name)).ok());
            if first != second {
                return Err("health.json and its second copy differ".to_owned());
            }
        }
        Ok(recorded)
    }

    fn complaints(&self, ended: &Ended) -> Vec<String> {
        let forms = ["error: ", "cause: ", "hint: "];
        let said = self.device.by_name(&ended.stderr);
        let lines = said.lines().filter(|line| forms.iter().any(|form| line.starts_with(form)));
        lines.map(steady).collect()
    }

    fn run(&mut self, writes: &[String], code: Code) -> Told<Vec<String>> {
        let mut script = "cd \"$0\"".to_owned();
        for write in writes {
            let (file, text) = write.split_once('=').ok_or("K=V")?;
            script.push_str(&format!("; mkdir -p \"$(dirname {file})\"; echo {text} > {file}"));
        }
        let data = self.device.data().display().to_string();
        let args = ["guard", "run", "--", "/bin/sh", "-euc", &script, &data].map(str::to_owned);
        let ended = self.invoke(Facts::Flags, &args, code)?;
        if code == Code::Exit(0) {
            self.ran_in_this_boot = true;
            if self.vouched_in_this_boot {
                self.vouched = contents(&self.device.data());
            }
        }
        Ok(self.complaints(&ended))
    }

    fn healthcheck(&mut self, good: bool, code: Code) -> Told<Vec<String>> {
        let script = self.device.checks().join("40_workload.sh");
        let text = format!("#!/bin/sh\nexit {}\n", i32::from(!good));
        let written = fs::write(&script, text)
            .and_then(|()| fs::set_permissions(&script, fs::Permissions::from_mode(0o755)));
        written.map_err(|error| error.to_string())?;
        let ended = self.invoke(Facts::Flags, &["guard", "healthcheck"].map(str::to_owned), code)?;
        Ok(self.complaints(&ended))
    }

    fn system(&mut self, healthy: bool, code: Code) -> Told<Vec<String>> {
        let verdict = if healthy { "--healthy" } else { "--unhealthy" };
        let args = ["guard", "persist-system-health", verdict].map(str::to_owned);
        let ended = self.invoke(Facts::Flags, &args, code)?;
        if healthy && code == Code::Exit(0) && self.ran_in_this_boot {
            self.vouched = contents(&self.device.data());
            self.vouched_in_this_boot = true;
        }
        Ok(self.complaints(&ended))
    }

    fn other(&mut self, facts: Facts, args: &[String], code: Code) -> Told<Vec<String>> {
        let ended = self.invoke(facts, args, code)?;
        if args.iter().any(|arg| arg == "mark-deploy-as-healthy") && code == Code::Exit(0) {
            let owner = read_json(&self.device.data().join("version.json"))?.unwrap_or_default();
            let named = |word: &String| owner["deployment"].as_str() == Some(word);
            let booted = self.device.booted().deployment.clone();
            if args.iter().any(named) || named(&booted) {
                self.vouched = contents(&self.device.data());
            }
        }
        let mut recorded = Vec::new();
        if args.windows(2).any(|pair| pair[0] == "-o" && pair[1] == "json") && !ended.stdout.is_empty() {
            recorded.push(document(&ended.stdout)?["kind"].as_str().unwrap_or_default().to_owned());
        } else {
            recorded.extend(self.device.by_name(&ended.stdout).lines().map(steady));
        }
        recorded.extend(self.complaints(&ended));
        Ok(recorded)
    }

    /// Finds the call on a twin of the device, then ends everything right after it on the device itself.
    fn cut(&mut self, call: &str, text: &str) -> Told {
        self.device.set("copy-threads", Some("1"));
        let args = ["guard", "pre-run"].map(str::to_owned);
        let twin = self.device.twin();
        let calls = Trace::run(twin.command(Facts::Flags, &args), &[twin.root()]).calls;
        let found = calls.iter().find(|made| made.name.contains(call) && made.what.contains(text));
        let Some(found) = found else {
            let list: Vec<_> = calls.iter().map(ToString::to_string).collect();
            return Err(format!("no such call among\n{}", list.join("\n")));
        };
        let command = self.device.command(Facts::Flags, &args);
        let killed = Trace::kill_after(command, &[self.device.root()], found.n);
        let killed = killed.map_err(|traced| format!("it ended by itself: {}", traced.stderr))?;
        self.said = format!("{}{}", killed.stdout, killed.stderr);
        Ok(())
    }

    fn check_always(&mut self, act: &Act) -> Told {
        let is_there = |vouched: &Contents| self.device.all_trees().contains(vouched);
        if !self.vouched.as_ref().is_none_or(is_there) {
            let own_hands = matches!(act, Act::Shell(_));
            if !own_hands {
                return Err(format!("the promise is broken: {:?} is nowhere", self.vouched));
            }
            self.vouched = None;
        }
        if !matches!(act, Act::Command { code: Code::Exit(0), .. }) {
            return Ok(());
        }
        let log = fs::read_to_string(self.device.backups().join("actions.log")).unwrap_or_default();
        for line in log.lines() {
            let action: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
            for key in ["when", "boot", "deployment", "step", "reason", "outcome"] {
                if !action[key].is_string() {
                    return Err(format!("actions.log: no {key} in {line}"));
                }
            }
        }
        Ok(())
    }
}

fn document(text: &str) -> Told<Value> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("{error}:\n{text}"))?;
    match value["apiVersion"] == "holdfast/v1" && value["kind"].is_string() {
        true => Ok(value),
        false => Err(format!("no apiVersion or no kind:\n{text}")),
    }
}

/// The plan in a few lines. That every boot is recorded first goes without saying.
fn describe(plan: &Value) -> Vec<String> {
    let reason = plan["reason"].as_str().unwrap_or_default();
    let mut lines = vec![reason.to_owned()];
    for step in plan["steps"].as_array().into_iter().flatten() {
        let name = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let does = name(&step["do"]);
        if does == "record-boot" {
            continue;
        }
        let mut line = match name(&step["operation"]) {
            operation if !operation.is_empty() => operation,
            _ => does,
        };
        for (key, arrow) in [("from", "from"), ("copy", "as"), ("displaced", "after moving the data to")] {
            let place = match &step[key] {
                copy @ Value::Object(map) if map.contains_key("place") => place(&copy["place"]),
                other => place(other),
            };
            line.push_str(&place.map_or_else(String::new, |place| format!(" {arrow} {place}")));
        }
        line.push_str(&place(&step["place"]).map_or_else(String::new, |place| format!(" {place}")));
        let why = name(&step["reason"]);
        if why != reason {
            line.push_str(&format!(": {why}"));
        }
        lines.push(format!("- {line}"));
    }
    lines
}

fn place(value: &Value) -> Option<String> {
    let (kind, name) = value.as_object()?.iter().next()?;
    Some(match (kind.as_str(), name) {
        ("generation", Value::Array(parts)) => {
            let number = parts.get(1).map(ToString::to_string).unwrap_or_default();
            format!(".generations/{}/{number}", parts.first().and_then(Value::as_str).unwrap_or_default())
        }
        ("last-healthy", name) => format!("last_healthy__{}", name.as_str().unwrap_or_default()),
        (_, name) => name.as_str().unwrap_or_default().to_owned(),
    })
}

/// A line without what differs from run to run and from disk to disk: moments, sizes, and the numbers that copies and
/// boots happen to have.
fn steady(line: &str) -> String {
    const MOMENT: &str = "0000-00-00 00:00:00";
    let mut out = String::new();
    let mut rest = line;
    while let Some(next) = rest.chars().next() {
        let head = rest.get(..MOMENT.len()).unwrap_or_default();
        let shape: String = head.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        let after_digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let (said, skip) = if shape == MOMENT {
            ("<time>", MOMENT.len())
        } else if after_digits.len() < rest.len() {
            let digits = rest.len() - after_digits.len();
            let is_serial = ["copy ", "backup ", "boot "].iter().any(|word| out.ends_with(word));
            let is_size = after_digits.starts_with(" bytes");
            let said = if is_size || is_serial { "<n>" } else { &rest[..digits] };
            (said, digits)
        } else {
            (&rest[..next.len_utf8()], next.len_utf8())
        };
        out.push_str(said);
        rest = &rest[skip..];
    }
    out.trim_end().to_owned()
}
