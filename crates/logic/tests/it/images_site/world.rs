//! The world that the walk goes through: the stored objects, the processes, and the files on two disks.

use std::collections::{BTreeMap, BTreeSet};

use logic::images::*;

pub const DISKS: usize = 2;
const NEW: usize = 0;
const OLD: usize = 1;

#[derive(Debug, Clone, Copy)]
pub struct Cast {
    /// The second disk is on another node.
    pub remote: bool,
    /// The first disk begins with an old manager.
    pub old: bool,
    pub volume: bool,
    /// How often people do something: clean up, spread, remove, make a volume.
    pub acts: u8,
    /// How much bad luck there is.
    pub troubles: u8,
}

pub struct World {
    pub cast: Cast,
    pub mistake: Option<Mistake>,
}

/// Rules to break on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// What the spec says to remove is removed, whatever happened since.
    DeleteWithoutAsking,
    /// Whoever is told to fetch pulls.
    EverybodyPulls,
    /// Old managers are told what default ones are.
    OldOnesFetch,
    /// An image is removed though something stands on it.
    RemoveInUse,
    /// A manager that failed is never asked again.
    NeverAgain,
}

impl Mistake {
    pub const ALL: [Self; 5] = [
        Self::DeleteWithoutAsking,
        Self::EverybodyPulls,
        Self::OldOnesFetch,
        Self::RemoveInUse,
        Self::NeverAgain,
    ];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum File {
    Part,
    Syncing,
    Pulling,
    Failed,
    Whole,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum On {
    Nothing,
    Part,
    Whole,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Manager {
    wants: bool,
    removed: bool,
    marked: bool,
    /// As it is stored.
    state: u8,
    file: Option<File>,
    /// The process, as it is.
    up: bool,
    /// Nothing is heard of it, though it runs.
    cut_off: bool,
    /// For longer than is waited for.
    for_long: bool,
    listed: bool,
    holds: Option<File>,
    /// It failed not long ago.
    rests: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Image {
    None,
    Alive,
    Marked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Vol {
    None,
    Waiting,
    Ready,
    Leaving,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Moment {
    image: Image,
    uuid: bool,
    wanted: u8,
    sealed: bool,
    lease: Option<(u8, bool)>,
    shown: [Option<FileState>; DISKS],
    unused: u8,
    managers: [[Option<Manager>; 2]; DISKS],
    ready: [bool; DISKS],
    on: [On; DISKS],
    volume: Vol,
    late: bool,
    /// Who was told to pull in the term in force.
    told: Option<u8>,
    troubles: u8,
    acts: u8,
    broken: Option<&'static str>,
}

#[derive(Debug)]
#[allow(dead_code, reason = "shown in a counter-example")]
pub enum Action {
    Writes(String),
    Calls(String),
    HandOverBreaks,
    ServiceRestarts,
    Listed { disk: usize, program: usize },
    Dies { disk: usize, program: usize },
    CutOff { disk: usize },
    TooLong { disk: usize },
    Returns { disk: usize },
    FetchDone { disk: usize, program: usize },
    FetchFails { disk: usize, program: usize },
    CopyGoesBad { disk: usize },
    Rested { disk: usize },
    TimePasses,
    Wanted { disk: usize },
    CleanedUp { disk: usize },
    Removed,
    VolumeMade,
    VolumeRemoved,
}

fn disk(number: usize) -> DiskId {
    DiskId::parse(&format!("{number:08x}-0000-4000-8000-000000000000")).unwrap()
}

fn image_id() -> ImageId {
    ImageId::parse("aaaaaaaa-0000-4000-8000-000000000000").unwrap()
}

fn image_name() -> ImageName {
    ImageName::parse("image").unwrap()
}

fn program(number: usize) -> Program {
    Program { path: "/holdfast".to_owned(), version: ["2", "1"][number].to_owned() }
}

fn number_of(id: &DiskId) -> usize {
    (0..DISKS).find(|number| disk(*number) == *id).unwrap()
}

fn seal() -> Seal {
    Seal { size: 1, root: Hash::of(b"x"), sha256: "sha256:".to_owned() + &"0".repeat(64), sha512: None }
}

fn status(file: File) -> FileStatus {
    let state = match file {
        File::Part => FileState::Pending,
        File::Syncing | File::Pulling => FileState::Downloading,
        File::Failed => FileState::Failed,
        File::Whole => FileState::Downloaded,
    };
    let mut status = FileStatus::new(image_id(), state, "");
    status.pulling = file == File::Pulling;
    status.seal = (file == File::Whole).then(seal);
    status
}

const STATES: [ManagerState; 5] = ManagerState::ALL;

fn state_number(state: ManagerState) -> u8 {
    u8::try_from(STATES.iter().position(|it| *it == state).unwrap()).unwrap()
}

impl Manager {
    fn new(wants: bool, removed: bool) -> Self {
        Self {
            wants,
            removed,
            marked: false,
            state: 0,
            file: None,
            up: false,
            cut_off: false,
            for_long: false,
            listed: false,
            holds: None,
            rests: false,
        }
    }

    fn answers(&self) -> bool {
        self.up && !self.cut_off
    }
}

impl World {
    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn is_remote(&self, number: usize) -> bool {
        self.cast.remote && number == 1
    }

    fn node(&self, number: usize) -> NodeName {
        NodeName::parse(if self.is_remote(number) { "there" } else { "here" }).unwrap()
    }

    fn rules(&self) -> Rules {
        Rules {
            node: NodeName::parse("here").unwrap(),
            program: program(NEW),
            api: (1, 2),
            cleanup_after: Some(1000),
            patience: 100,
        }
    }

    /// The moment in the shipped words.
    fn site(&self, now: &Moment) -> Site {
        let mut site = Site { now: if now.late { 10_000 } else { 500 }, ..Site::default() };
        if now.image != Image::None {
            let source = Source::Url { url: "https://example.com".to_owned() };
            let disks = (0..DISKS).filter(|at| now.wanted & 1 << at != 0).map(disk).collect();
            let mut image =
                BackingImage::new("image", ImageSpec { source, format: None, checksum: None, disks });
            image.metadata.deletion_timestamp = (now.image == Image::Marked).then(String::new);
            let status = &mut image.status;
            status.uuid = now.uuid.then(image_id);
            if now.sealed {
                (status.seal, status.real_size, status.virtual_size) = (Some(seal()), Some(0), None);
            }
            status.puller =
                now.lease.map(|(at, term)| Puller { disk: disk(at.into()), term: 1 + u64::from(term) });
            status.last_use =
                (0..DISKS).filter(|at| now.unused & 1 << at != 0).map(|at| (disk(at), 500)).collect();
            for (at, shown) in now.shown.iter().enumerate() {
                if let Some(state) = shown {
                    status.disks.insert(disk(at), on_disk(*state));
                }
            }
            site.images.insert(image_name(), image);
        }
        for at in 0..DISKS {
            let mut object =
                Disk::new(disk(at).as_str(), DiskSpec { node: self.node(at), path: "/d".to_owned() });
            object.status.ready = now.ready[at];
            object.status.reason = if now.ready[at] { String::new() } else { "away".to_owned() };
            site.disks.insert(disk(at), object);
            if !self.is_remote(at) {
                site.probes.insert(disk(at), Ok(()));
            }
            for number in [NEW, OLD] {
                if let Some(manager) = now.managers[at][number] {
                    self.put_manager(&mut site, at, number, &manager);
                }
            }
        }
        if now.volume != Vol::None {
            let spec = VolumeSpec { backing_image: image_name(), disk: disk(0), size: None, upload: false };
            let mut volume = Volume::new("volume", spec);
            volume.metadata.deletion_timestamp = (now.volume == Vol::Leaving).then(String::new);
            if now.volume == Vol::Ready {
                volume.status.state = VolumeState::Ready;
                volume.status.image_uuid = Some(image_id());
            }
            site.volumes.insert(ImageName::parse("volume").unwrap(), volume);
        }
        site
    }

    fn put_manager(&self, site: &mut Site, at: usize, number: usize, manager: &Manager) {
        let name = manager_name(&disk(at), &program(number));
        let mut spec = ManagerSpec {
            disk: disk(at),
            path: "/d".to_owned(),
            node: self.node(at),
            program: program(number),
            images: BTreeMap::new(),
            removed: BTreeMap::new(),
        };
        if manager.wants {
            spec.images.insert(image_name(), image_id());
        }
        if manager.removed {
            spec.removed.insert(image_id(), image_name());
        }
        let mut object = BackingImageManager::new(&name, spec);
        object.metadata.deletion_timestamp = manager.marked.then(String::new);
        object.status.state = STATES[usize::from(manager.state)];
        object.status.api_version = 2;
        object.status.api_min_version = 1;
        object.status.address = Some(name.clone());
        if let Some(file) = manager.file {
            let mut file = status(file);
            file.seal = None;
            if object.status.state == ManagerState::Unknown {
                file.state = FileState::Unknown;
            }
            object.status.files.insert(image_name(), file);
        }
        let files = manager.listed.then(|| {
            manager.holds.iter().map(|file| (image_name(), status(*file))).collect::<BTreeMap<_, _>>()
        });
        let process = match (self.is_remote(at), manager.up) {
            (true, _) => Process::Elsewhere,
            (false, true) => Process::Runs,
            (false, false) => Process::Ended { why: String::new(), wait: false },
        };
        let heard = if manager.for_long { 0 } else { site.now };
        let report = Report {
            process,
            heard,
            address: Some(name.clone()),
            api_version: 2,
            api_min_version: 1,
            files,
            disk_problem: None,
            space: None,
            told: BTreeMap::from([(image_name(), Vec::new())]),
        };
        site.reports.insert(name.clone(), report);
        if manager.rests {
            site.backoff.insert((name.clone(), image_name()));
        }
        site.managers.insert(name, object);
    }

    /// The first write that the loop would make, or all the calls that it would begin. A write that changes only words that
    /// this world leaves out is made on the way.
    fn decide(&self, now: &Moment, site: &mut Site) -> Result<Step, Vec<Step>> {
        for _ in 0..20 {
            match self.look(site) {
                Ok(write) if self.changes_words_only(now, &write) => absorb(site, write),
                looked => return looked,
            }
        }
        panic!("the site does not settle: {:?}", self.look(site));
    }

    fn changes_words_only(&self, now: &Moment, write: &Step) -> bool {
        let words = matches!(
            write,
            Step::SetImageStatus(..)
                | Step::SetManagerStatus(..)
                | Step::SetDiskStatus(..)
                | Step::SetVolumeStatus(..)
        );
        let mut then = now.clone();
        words && {
            self.write(&mut then, write);
            then == *now
        }
    }

    fn look(&self, site: &Site) -> Result<Step, Vec<Step>> {
        let rules = self.rules();
        let mut calls = Vec::new();
        for id in site.disks.keys() {
            if let Some(step) = disk_next(site, &rules, id).or_else(|| missing_manager(site, &rules, id)) {
                return Ok(step);
            }
        }
        for name in site.managers.keys() {
            for step in manager_next(site, &rules, name) {
                if step.is_write() {
                    return Ok(step);
                }
                calls.push(step);
            }
        }
        for name in site.images.keys() {
            if let Some(step) = image_next(site, &rules, name) {
                return Ok(step);
            }
        }
        for name in site.volumes.keys() {
            match volume_next(site, &rules, name) {
                None => {}
                Some(step) if step.is_write() => return Ok(step),
                Some(step) => calls.push(step),
            }
        }
        // Who else has it changes nothing that is judged here.
        calls.retain(|step| !matches!(step, Step::Call { call: Call::Peers { .. }, .. }));
        self.mislead(site, &mut calls);
        Err(calls)
    }

    fn mislead(&self, site: &Site, calls: &mut Vec<Step>) {
        for (name, manager) in &site.managers {
            let old = self.rules().role(manager) == Role::Old;
            let running = manager.status.state == ManagerState::Running;
            let has = |uuid: &ImageId| site.file(name, &image_name(), uuid).is_some();
            let (image, uuid) = (image_name(), image_id());
            if self.is(Mistake::DeleteWithoutAsking)
                && !old
                && running
                && manager.spec.removed.keys().any(has)
            {
                calls.push(Step::Call { manager: name.clone(), call: Call::Delete { image, uuid } });
            } else if self.is(Mistake::OldOnesFetch) && old && running && !manager.spec.images.is_empty() {
                let call = Call::Sync { image, uuid, seal: None, peers: Vec::new() };
                calls.push(Step::Call { manager: name.clone(), call });
            } else if self.is(Mistake::EverybodyPulls) && running && !manager.spec.images.is_empty() {
                let call = Call::Pull { image, uuid, term: 1, seal: None, peers: Vec::new() };
                calls.push(Step::Call { manager: name.clone(), call });
            }
        }
    }

    fn place(name: &str) -> (usize, usize) {
        for at in 0..DISKS {
            for number in [NEW, OLD] {
                if manager_name(&disk(at), &program(number)) == name {
                    return (at, number);
                }
            }
        }
        panic!("{name} is nobody");
    }

    fn write(&self, then: &mut Moment, step: &Step) {
        match step {
            Step::GiveUuid(_) => then.uuid = true,
            Step::SetImageStatus(_, status) => {
                then.sealed = status.seal.is_some();
                let lease = status
                    .puller
                    .as_ref()
                    .map(|it| (u8::try_from(number_of(&it.disk)).unwrap(), it.term % 2 == 0));
                if lease != then.lease {
                    if lease.map(|it| it.1) == then.lease.map(|it| it.1) {
                        then.broken = Some("the lease changed hands within a term");
                    }
                    then.told = None;
                }
                then.lease = lease;
                then.shown = std::array::from_fn(|at| status.disks.get(&disk(at)).map(|it| it.state));
                then.unused = (0..DISKS)
                    .filter(|at| status.last_use.contains_key(&disk(*at)))
                    .fold(0, |all, at| all | 1 << at);
            }
            Step::SetImageDisks(_, disks) => {
                then.wanted = disks.iter().fold(0, |all, id| all | 1 << number_of(id));
            }
            Step::RemoveImage(_) => {
                if then.volume != Vol::None {
                    then.broken = Some("an image was removed though a volume stands on it");
                }
                forget_image(then);
            }
            Step::CreateManager(spec) => {
                let at = number_of(&spec.disk);
                then.managers[at][NEW] =
                    Some(Manager::new(!spec.images.is_empty(), !spec.removed.is_empty()));
            }
            Step::SetManagerSpec(name, spec) => {
                let (at, number) = Self::place(name);
                if let Some(manager) = &mut then.managers[at][number] {
                    manager.wants = !spec.images.is_empty();
                    manager.removed = !spec.removed.is_empty();
                }
            }
            Step::SetManagerStatus(name, status) => {
                let (at, number) = Self::place(name);
                if let Some(manager) = &mut then.managers[at][number] {
                    manager.state = state_number(status.state);
                    manager.file = match status.files.get(&image_name()) {
                        None => None,
                        // What it was last, said to be unknown.
                        Some(file) if file.state == FileState::Unknown => manager.file.or(manager.holds),
                        Some(_) => manager.holds.filter(|_| manager.listed).or(manager.file),
                    };
                }
            }
            Step::MarkManager(name) => {
                let (at, number) = Self::place(name);
                if let Some(manager) = &mut then.managers[at][number] {
                    manager.marked = true;
                }
            }
            Step::RemoveManager(name) => {
                let (at, number) = Self::place(name);
                then.managers[at][number] = None;
            }
            Step::SetDiskStatus(id, status) => then.ready[number_of(id)] = status.ready,
            Step::SetVolumeStatus(..) => {}
            Step::RemoveVolume(_) => then.volume = Vol::None,
            other => panic!("{other:?} is no write of this world"),
        }
    }

    fn call(&self, now: &Moment, step: &Step, then: &mut Moment) {
        match step {
            Step::Start(name) => {
                let (at, number) = Self::place(name);
                let on = then.on[at];
                if let Some(manager) = &mut then.managers[at][number] {
                    (manager.up, manager.listed) = (true, false);
                    manager.holds = taken_up(on);
                }
            }
            Step::Stop(name) => {
                let (at, number) = Self::place(name);
                die(then, at, number);
            }
            Step::HandOver { from, to } => {
                let (from, to) = (Self::place(from), Self::place(to));
                let given = then.managers[from.0][from.1].and_then(|old| old.holds);
                if let (Some(new), Some(File::Part | File::Failed | File::Whole)) =
                    (&mut then.managers[to.0][to.1], given)
                {
                    new.holds = given;
                    if let Some(old) = &mut then.managers[from.0][from.1] {
                        old.holds = None;
                    }
                }
            }
            Step::Call { manager, call } => {
                let (at, number) = Self::place(manager);
                if number == OLD {
                    then.broken = Some("an old manager was told to do something");
                }
                match call {
                    Call::Pull { .. } => {
                        let me = u8::try_from(at).unwrap();
                        match now.lease {
                            Some((disk, _)) if disk == me && now.told.is_none_or(|told| told == me) => {}
                            _ => then.broken = Some("somebody pulls whose lease it is not"),
                        }
                        then.told = Some(me);
                        if let Some(it) = &mut then.managers[at][number]
                            && it.holds != Some(File::Whole)
                        {
                            it.holds = Some(File::Pulling);
                        }
                        self.partly(then, at);
                    }
                    Call::Sync { .. } => {
                        if let Some(it) = &mut then.managers[at][number]
                            && it.holds != Some(File::Whole)
                        {
                            it.holds = Some(File::Syncing);
                        }
                        self.partly(then, at);
                    }
                    Call::Delete { .. } => self.delete(now, then, at, number),
                    Call::VolumeCreate { .. } => {
                        if now.on[0] != On::Whole {
                            then.broken = Some("a volume was made on an image that is not there");
                        }
                        then.volume = Vol::Ready;
                    }
                    Call::VolumeDelete { .. } => then.volume = Vol::None,
                    Call::Peers { .. } => {}
                }
            }
            other => panic!("{other:?} is no call"),
        }
    }

    fn partly(&self, then: &mut Moment, at: usize) {
        if then.on[at] == On::Nothing {
            then.on[at] = On::Part;
        }
    }

    fn delete(&self, now: &Moment, then: &mut Moment, at: usize, number: usize) {
        let others = (0..DISKS).filter(|other| *other != at && now.on[*other] == On::Whole).count();
        let alive = now.image == Image::Alive;
        if alive && now.on[at] == On::Whole && others == 0 {
            then.broken = Some("the last verified copy was removed");
        }
        if at == 0 && !matches!(now.volume, Vol::None) && now.on[at] == On::Whole {
            then.broken = Some("an image was removed from under a volume");
        }
        if now.managers[at][1 - number].is_some_and(|other| other.answers() && other.holds.is_some()) {
            then.broken = Some("a file was removed that another manager works with");
        }
        then.on[at] = On::Nothing;
        if let Some(it) = &mut then.managers[at][number] {
            it.holds = None;
        }
    }

    fn environment(&self, now: &Moment, step: &mut dyn FnMut(Action, Moment)) {
        for at in 0..DISKS {
            for number in [NEW, OLD] {
                let Some(manager) = now.managers[at][number] else { continue };
                let mut change = |action: Action, trouble: bool, change: &dyn Fn(&mut Moment)| {
                    if trouble && now.troubles >= self.cast.troubles {
                        return;
                    }
                    let mut then = now.clone();
                    then.troubles += u8::from(trouble);
                    change(&mut then);
                    step(action, then);
                };
                if manager.rests {
                    change(Action::Rested { disk: at }, false, &|then| {
                        with(then, at, number, |it| it.rests = false)
                    });
                }
                if manager.answers() && !manager.listed {
                    change(Action::Listed { disk: at, program: number }, false, &|then| {
                        with(then, at, number, |it| it.listed = true);
                    });
                }
                if manager.up && !self.is_remote(at) {
                    change(Action::Dies { disk: at, program: number }, true, &|then| die(then, at, number));
                }
                if self.is_remote(at) && manager.up && !manager.cut_off {
                    change(Action::CutOff { disk: at }, true, &|then| {
                        with(then, at, number, |it| it.cut_off = true)
                    });
                }
                if manager.cut_off && !manager.for_long {
                    change(Action::TooLong { disk: at }, false, &|then| {
                        with(then, at, number, |it| (it.for_long, it.listed) = (true, false));
                    });
                }
                if manager.cut_off {
                    change(Action::Returns { disk: at }, false, &|then| {
                        with(then, at, number, |it| {
                            (it.cut_off, it.for_long, it.listed) = (false, false, false)
                        });
                    });
                }
                let source = (0..DISKS).any(|other| {
                    other != at
                        && now.managers[other]
                            .iter()
                            .flatten()
                            .any(|it| it.answers() && matches!(it.holds, Some(File::Whole | File::Pulling)))
                });
                let done = match manager.holds {
                    Some(File::Pulling) => true,
                    // It follows a list that grows to its end only with a whole copy or a puller at work.
                    Some(File::Syncing) => source && manager.answers() && is_whole_elsewhere(now, at),
                    _ => false,
                };
                if done && manager.up {
                    change(Action::FetchDone { disk: at, program: number }, false, &|then| {
                        then.on[at] = On::Whole;
                        with(then, at, number, |it| it.holds = Some(File::Whole));
                    });
                }
                if matches!(manager.holds, Some(File::Pulling | File::Syncing)) && manager.up {
                    change(Action::FetchFails { disk: at, program: number }, true, &|then| {
                        with(then, at, number, |it| (it.holds, it.rests) = (Some(File::Failed), true));
                    });
                }
            }
            if now.on[at] == On::Whole
                && now.troubles < self.cast.troubles
                && !(at == 0 && now.volume == Vol::Ready)
            {
                let mut then = now.clone();
                then.troubles += 1;
                then.on[at] = On::Part;
                for manager in then.managers[at].iter_mut().flatten() {
                    if manager.holds.is_some() {
                        (manager.holds, manager.rests) = (Some(File::Failed), true);
                    }
                }
                step(Action::CopyGoesBad { disk: at }, then);
            }
        }
        if !now.late {
            let mut then = now.clone();
            then.late = true;
            step(Action::TimePasses, then);
        }
    }

    fn people(&self, now: &Moment, step: &mut dyn FnMut(Action, Moment)) {
        // What was begun is ended in any case: a volume can be removed.
        let step = &mut |action: Action, mut then: Moment| {
            let ends = matches!(action, Action::VolumeRemoved);
            if ends || then.acts < self.cast.acts {
                then.acts += u8::from(!ends);
                step(action, then);
            }
        };
        if now.image == Image::Alive {
            for at in (0..DISKS).filter(|at| now.wanted & 1 << at == 0) {
                let mut then = now.clone();
                then.wanted |= 1 << at;
                step(Action::Wanted { disk: at }, then);
            }
            if now.volume == Vol::None {
                let mut then = now.clone();
                then.image = Image::Marked;
                step(Action::Removed, then);
            }
            if now.acts < self.cast.acts {
                let site = self.site(now);
                let image = &site.images[&image_name()];
                for at in 0..DISKS {
                    let disks = BTreeSet::from([disk(at)]);
                    if may_clean_up(&site, &self.rules(), &image_name(), image, &disks).is_ok() {
                        let mut then = now.clone();
                        then.wanted &= !(1 << at);
                        step(Action::CleanedUp { disk: at }, then);
                    }
                }
            }
            if self.cast.volume && now.volume == Vol::None {
                let mut then = now.clone();
                then.volume = Vol::Waiting;
                step(Action::VolumeMade, then);
            }
        }
        if self.is(Mistake::RemoveInUse) && now.image == Image::Alive && now.volume != Vol::None {
            let mut then = now.clone();
            forget_image(&mut then);
            then.broken = Some("an image was removed though a volume stands on it");
            step(Action::Removed, then);
        }
        if matches!(now.volume, Vol::Waiting | Vol::Ready) {
            let mut then = now.clone();
            then.volume = Vol::Leaving;
            step(Action::VolumeRemoved, then);
        }
    }

    fn service(&self, now: &Moment, step: &mut dyn FnMut(Action, Moment)) {
        let mut site = self.site(now);
        match self.decide(now, &mut site) {
            Ok(write) => {
                let mut then = now.clone();
                self.write(&mut then, &write);
                step(Action::Writes(format!("{write:?}").chars().take(160).collect()), then);
            }
            Err(calls) => {
                for call in calls {
                    if self.is(Mistake::NeverAgain) && is_after_failure(now, &call) {
                        continue;
                    }
                    let mut then = now.clone();
                    self.call(now, &call, &mut then);
                    step(Action::Calls(format!("{call:?}").chars().take(160).collect()), then);
                    if let Step::HandOver { from, to } = &call
                        && now.troubles < self.cast.troubles
                    {
                        // The new one has taken it on, and the old one was not told.
                        let (from, to) = (Self::place(from), Self::place(to));
                        let mut then = now.clone();
                        then.troubles += 1;
                        let given = then.managers[from.0][from.1].and_then(|old| old.holds);
                        with(&mut then, to.0, to.1, |it| it.holds = given.or(it.holds));
                        step(Action::HandOverBreaks, then);
                    }
                }
            }
        }
        if now.troubles < self.cast.troubles {
            let mut then = now.clone();
            then.troubles += 1;
            for at in 0..DISKS {
                for number in [NEW, OLD] {
                    match self.is_remote(at) {
                        true => with(&mut then, at, number, |it| it.listed = false),
                        false => die(&mut then, at, number),
                    }
                }
            }
            step(Action::ServiceRestarts, then);
        }
    }
}

fn absorb(site: &mut Site, write: Step) {
    match write {
        Step::SetImageStatus(name, status) => {
            if let Some(image) = site.images.get_mut(&name) {
                image.status = *status;
            }
        }
        Step::SetManagerStatus(name, status) => {
            if let Some(manager) = site.managers.get_mut(&name) {
                manager.status = *status;
            }
        }
        Step::SetDiskStatus(id, status) => {
            if let Some(disk) = site.disks.get_mut(&id) {
                disk.status = status;
            }
        }
        Step::SetVolumeStatus(name, status) => {
            if let Some(volume) = site.volumes.get_mut(&name) {
                volume.status = *status;
            }
        }
        other => panic!("{other:?} is more than words"),
    }
}

fn is_after_failure(now: &Moment, step: &Step) -> bool {
    let Step::Call { manager, call: Call::Pull { .. } | Call::Sync { .. } } = step else { return false };
    let (at, number) = World::place(manager);
    now.managers[at][number].is_some_and(|it| it.holds == Some(File::Failed))
}

fn is_whole_elsewhere(now: &Moment, at: usize) -> bool {
    (0..DISKS).any(|other| {
        other != at
            && now.managers[other].iter().flatten().any(|it| it.answers() && it.holds == Some(File::Whole))
    })
}

fn with(then: &mut Moment, at: usize, number: usize, change: impl FnOnce(&mut Manager)) {
    if let Some(manager) = &mut then.managers[at][number] {
        change(manager);
    }
}

fn die(then: &mut Moment, at: usize, number: usize) {
    with(then, at, number, |it| (it.up, it.listed, it.holds, it.rests) = (false, false, None, false));
}

fn taken_up(on: On) -> Option<File> {
    match on {
        On::Nothing => None,
        On::Part => Some(File::Part),
        On::Whole => Some(File::Whole),
    }
}

fn forget_image(then: &mut Moment) {
    then.image = Image::None;
    (then.uuid, then.wanted, then.sealed, then.lease, then.unused) = (false, 0, false, None, 0);
    then.shown = [None; DISKS];
    then.told = None;
}

fn on_disk(state: FileState) -> OnDisk {
    OnDisk {
        state,
        reason: String::new(),
        lasting: false,
        progress: 0,
        bytes: 0,
        rate: 0,
        remaining_seconds: None,
        sources: Vec::new(),
    }
}

impl testkit::explore::World for World {
    type State = Moment;
    type Action = Action;

    fn initial(&self) -> Vec<Moment> {
        let mut start = Moment {
            image: Image::Alive,
            uuid: false,
            wanted: 0b11,
            sealed: false,
            lease: None,
            shown: [None; DISKS],
            unused: 0,
            managers: [[None; 2]; DISKS],
            ready: [true; DISKS],
            on: [On::Nothing; DISKS],
            volume: Vol::None,
            late: false,
            told: None,
            troubles: 0,
            acts: 0,
            broken: None,
        };
        if self.cast.remote {
            // It registered.
            start.managers[1][NEW] = Some(Manager { up: true, ..Manager::new(false, false) });
        }
        if !self.cast.old {
            return vec![start];
        }
        let with_old = |on: On, holds: Option<File>, removed: bool| {
            let mut start = start.clone();
            (start.uuid, start.on[0]) = (true, on);
            if removed {
                start.wanted = 0b10;
            }
            start.sealed = holds == Some(File::Whole);
            start.lease = Some((0, false));
            let running = state_number(ManagerState::Running);
            let old =
                Manager { up: true, listed: true, holds, state: running, ..Manager::new(!removed, removed) };
            start.managers[0][OLD] = Some(old);
            start
        };
        vec![
            with_old(On::Whole, Some(File::Whole), false),
            with_old(On::Part, Some(File::Pulling), false),
            with_old(On::Part, Some(File::Failed), false),
            with_old(On::Whole, Some(File::Whole), true),
        ]
    }

    fn next(&self, now: &Moment, step: &mut dyn FnMut(Action, Moment)) {
        if now.broken.is_some() {
            return;
        }
        self.environment(now, step);
        self.people(now, step);
        self.service(now, step);
    }

    fn check(&self, now: &Moment) -> Result<(), String> {
        match now.broken {
            Some(why) => Err(why.to_owned()),
            None => Ok(()),
        }
    }

    /// All that is wanted is there; what was removed is gone; nobody waits.
    fn resting(&self, now: &Moment) -> bool {
        let settled = match now.image {
            Image::None => true,
            Image::Marked => false,
            Image::Alive => {
                now.sealed
                    && now.wanted != 0
                    && (0..DISKS).all(|at| now.wanted & 1 << at == 0 || now.on[at] == On::Whole)
            }
        };
        settled
            && matches!(now.volume, Vol::None | Vol::Ready)
            && now.managers.iter().all(|of| of[OLD].is_none())
    }
}
