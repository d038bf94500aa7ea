//! One situation each.

use std::collections::{BTreeMap, BTreeSet};

use logic::images::*;

fn disk(number: u32) -> DiskId {
    DiskId::parse(&format!("{number:08x}-0000-4000-8000-000000000000")).unwrap()
}

fn uuid(number: u32) -> ImageId {
    ImageId::parse(&format!("{number:08x}-aaaa-4000-8000-000000000000")).unwrap()
}

fn name(text: &str) -> ImageName {
    ImageName::parse(text).unwrap()
}

fn rules() -> Rules {
    Rules {
        node: NodeName::parse("here").unwrap(),
        program: Program { path: "/new".to_owned(), version: "2".to_owned() },
        api: (1, 2),
        cleanup_after: Some(1000),
        patience: 100,
    }
}

fn seal(content: &[u8]) -> Seal {
    Seal { size: 1, root: Hash::of(content), sha256: format!("sha256:{}", "0".repeat(64)), sha512: None }
}

struct Builder(Site);

impl Builder {
    fn new() -> Self {
        Self(Site { now: 1_000_000, ..Site::default() })
    }

    fn disk(&mut self, number: u32, node: &str) -> &mut Self {
        let spec = DiskSpec { node: NodeName::parse(node).unwrap(), path: format!("/disk{number}") };
        let mut object = Disk::new(disk(number).as_str(), spec);
        object.status.ready = true;
        self.0.disks.insert(disk(number), object);
        self.0.probes.insert(disk(number), Ok(()));
        self
    }

    /// A manager that runs, with these files.
    fn manager(&mut self, number: u32, version: &str, files: &[(&str, u32, FileState)]) -> String {
        let at = self.0.disks[&disk(number)].spec.clone();
        let path = if version == "2" { "/new" } else { "/old" };
        let program = Program { path: path.to_owned(), version: version.to_owned() };
        let key = manager_name(&disk(number), &program);
        let spec = ManagerSpec {
            disk: disk(number),
            path: at.path,
            node: at.node.clone(),
            program,
            images: BTreeMap::new(),
            removed: BTreeMap::new(),
        };
        let mut object = BackingImageManager::new(&key, spec);
        object.status.state = ManagerState::Running;
        (object.status.api_version, object.status.api_min_version) = (2, 1);
        object.status.address = Some(format!("10.0.0.{number}:1"));
        let files: BTreeMap<_, _> = files
            .iter()
            .map(|(image, id, state)| {
                let mut file = FileStatus::new(uuid(*id), *state, "");
                file.seal = (*state == FileState::Downloaded).then(|| seal(b"x"));
                (name(image), file)
            })
            .collect();
        object.status.files = files.clone();
        object.status.files.values_mut().for_each(|file| file.seal = None);
        let local = at.node.as_str() == "here";
        let report = Report {
            process: if local { Process::Runs } else { Process::Elsewhere },
            heard: self.0.now,
            address: object.status.address.clone(),
            api_version: 2,
            api_min_version: 1,
            files: Some(files),
            disk_problem: None,
            space: None,
            told: BTreeMap::new(),
        };
        self.0.reports.insert(key.clone(), report);
        self.0.managers.insert(key.clone(), object);
        key
    }

    fn image(&mut self, text: &str, id: u32, disks: &[u32]) -> &mut BackingImage {
        let spec = ImageSpec {
            source: Source::Url { url: "https://example.com/x".to_owned() },
            format: None,
            checksum: None,
            disks: disks.iter().map(|number| disk(*number)).collect(),
        };
        let mut image = BackingImage::new(text, spec);
        image.status.uuid = Some(uuid(id));
        for manager in self.0.managers.values_mut().filter(|manager| manager.spec.program.version == "2") {
            if image.spec.disks.contains(&manager.spec.disk) {
                manager.spec.images.insert(name(text), uuid(id));
            }
        }
        self.0.images.insert(name(text), image);
        self.0.images.get_mut(&name(text)).unwrap()
    }

    fn volume(&mut self, text: &str, image: &str, on: u32) {
        let spec = VolumeSpec { backing_image: name(image), disk: disk(on), size: None, upload: false };
        self.0.volumes.insert(name(text), Volume::new(text, spec));
    }

    fn calls(&self, manager: &str) -> Vec<Call> {
        let steps = manager_next(&self.0, &rules(), manager);
        steps
            .into_iter()
            .filter_map(|step| match step {
                Step::Call { call, .. } => Some(call),
                _ => None,
            })
            .collect()
    }
}

#[test]
fn a_manager_is_what_its_program_and_its_api_make_it() {
    let mut site = Builder::new();
    site.disk(1, "here").disk(2, "there");
    for (number, version, path, api, role) in [
        (1, "2", "/new", (2, 1), Role::Default),
        (1, "2", "/other", (2, 1), Role::Old),
        (1, "1", "/new", (1, 1), Role::Old),
        (1, "9", "/new", (9, 3), Role::Incompatible),
        (1, "0", "/new", (0, 0), Role::Old),
        // On another node the path is that node's business.
        (2, "2", "/other", (2, 1), Role::Default),
        (2, "3", "/new", (3, 2), Role::Old),
    ] {
        let key = site.manager(number, version, &[]);
        let manager = site.0.managers.get_mut(&key).unwrap();
        manager.spec.program = Program { path: path.to_owned(), version: version.to_owned() };
        (manager.status.api_version, manager.status.api_min_version) = api;
        assert_eq!(rules().role(manager), role, "{version} {path} {api:?}");
        site.0.managers.clear();
    }
}

#[test]
fn a_disk_that_comes_or_goes_does_not_change_the_order_of_the_others() {
    let disks: Vec<_> = (0..20).map(disk).collect();
    let mut firsts = BTreeMap::<DiskId, usize>::new();
    for number in 0..200 {
        let all = rendezvous(&uuid(number), &disks);
        *firsts.entry(all[0].clone()).or_default() += 1;
        let fewer: Vec<_> = rendezvous(&uuid(number), &disks[..19]);
        let without: Vec<_> = all.into_iter().filter(|it| **it != disks[19]).collect();
        assert_eq!(fewer, without);
    }
    assert!(firsts.values().all(|count| *count < 40), "one disk pulls too much: {firsts:?}");
}

#[test]
fn nothing_is_done_with_an_image_before_its_uuid_is_stored() {
    let mut site = Builder::new();
    site.disk(1, "here");
    site.manager(1, "2", &[]);
    site.image("a", 1, &[1]).status.uuid = None;
    assert_eq!(image_next(&site.0, &rules(), &name("a")), Some(Step::GiveUuid(name("a"))));
}

#[test]
fn the_lease_is_written_before_anybody_is_told_to_pull() {
    let mut site = Builder::new();
    site.disk(1, "here").disk(2, "here");
    let (one, two) = (site.manager(1, "2", &[]), site.manager(2, "2", &[]));
    site.image("a", 1, &[1, 2]);
    assert!(site.calls(&one).is_empty() && site.calls(&two).is_empty());
    let Some(Step::SetImageStatus(_, status)) = image_next(&site.0, &rules(), &name("a")) else { panic!() };
    let puller = status.puller.clone().unwrap();
    assert_eq!(puller.term, 1);
    site.0.images.get_mut(&name("a")).unwrap().status = *status;
    let pulls = |key: &str| matches!(site.calls(key)[..], [Call::Pull { term: 1, .. }]);
    assert!(pulls(&one) != pulls(&two));
}

#[test]
fn what_a_node_that_was_restarted_had_is_waited_for_and_not_fetched_again() {
    let mut site = Builder::new();
    site.disk(1, "here").disk(2, "there");
    site.manager(1, "2", &[]);
    let far = site.manager(2, "2", &[("a", 1, FileState::Downloaded)]);
    site.image("a", 1, &[1, 2]).status.seal = Some(seal(b"x"));
    site.0.reports.get_mut(&far).unwrap().files = None;
    let lease = |site: &Builder| match image_next(&site.0, &rules(), &name("a")) {
        Some(Step::SetImageStatus(_, status)) => status.puller.clone(),
        _ => None,
    };
    assert_eq!(lease(&site), None);
    // Given up for unknown: the image is wanted here all the same.
    let manager = site.0.managers.get_mut(&far).unwrap();
    manager.status.state = ManagerState::Unknown;
    assert_eq!(lease(&site).map(|puller| puller.disk), Some(disk(1)));
}

#[test]
fn an_old_manager_is_a_source_of_whole_images_only() {
    let mut site = Builder::new();
    site.disk(1, "here").disk(2, "there").disk(3, "there");
    site.manager(1, "2", &[]);
    let grows = site.manager(2, "1", &[("a", 1, FileState::Downloading)]);
    let whole = site.manager(3, "1", &[("a", 1, FileState::Downloaded)]);
    for key in [&grows, &whole] {
        site.0.managers.get_mut(key).unwrap().status.api_version = 1;
    }
    site.image("a", 1, &[1]);
    let peers = site.0.peers(&rules(), &name("a"), &site.0.images[&name("a")], &disk(1));
    assert_eq!(peers.iter().map(|peer| peer.disk.clone()).collect::<Vec<_>>(), [disk(3)]);
}

#[test]
fn two_managers_never_work_on_one_file() {
    let mut site = Builder::new();
    site.disk(1, "here").disk(2, "here");
    let old = site.manager(1, "1", &[("a", 1, FileState::Downloading)]);
    let new = site.manager(1, "2", &[]);
    site.manager(2, "2", &[("a", 1, FileState::Downloaded)]);
    site.image("a", 1, &[1, 2]).status.seal = Some(seal(b"x"));
    assert!(site.calls(&new).is_empty(), "it would fetch what the old one fetches");
    site.0.reports.get_mut(&old).unwrap().files = Some(BTreeMap::new());
    assert!(matches!(site.calls(&new)[..], [Call::Sync { .. }]));
}

#[test]
fn only_what_is_neither_sent_nor_fetched_is_handed_over() {
    for (state, sending, handed) in [
        (FileState::Downloaded, 0, true),
        (FileState::Failed, 0, true),
        (FileState::Downloaded, 1, false),
        (FileState::Downloading, 0, false),
    ] {
        let mut site = Builder::new();
        site.disk(1, "here");
        let old = site.manager(1, "1", &[("a", 1, state)]);
        let new = site.manager(1, "2", &[]);
        let files = site.0.reports.get_mut(&old).unwrap().files.as_mut().unwrap();
        files.get_mut(&name("a")).unwrap().sending = sending;
        let steps = manager_next(&site.0, &rules(), &new);
        let expected = Step::HandOver { from: old.clone(), to: new.clone() };
        assert_eq!(steps.contains(&expected), handed, "{state:?} {sending}");
    }
}

#[test]
fn an_old_manager_goes_when_it_has_nothing_left_and_an_incompatible_one_at_once() {
    let mut site = Builder::new();
    site.disk(1, "here");
    site.manager(1, "2", &[]);
    let old = site.manager(1, "1", &[("a", 1, FileState::Downloaded)]);
    assert!(!manager_next(&site.0, &rules(), &old).contains(&Step::MarkManager(old.clone())));
    site.0.reports.get_mut(&old).unwrap().files = Some(BTreeMap::new());
    assert_eq!(manager_next(&site.0, &rules(), &old), [Step::MarkManager(old.clone())]);
    let strange = site.manager(1, "9", &[("a", 1, FileState::Downloaded)]);
    let status = &mut site.0.managers.get_mut(&strange).unwrap().status;
    (status.api_version, status.api_min_version) = (9, 9);
    assert_eq!(manager_next(&site.0, &rules(), &strange), [Step::MarkManager(strange)]);
}

#[test]
fn an_incompatible_manager_of_the_configured_program_ends_and_is_not_made_again() {
    let mut site = Builder::new();
    site.disk(1, "here");
    let key = site.manager(1, "2", &[("a", 1, FileState::Downloaded)]);
    let report = site.0.reports.get_mut(&key).unwrap();
    (report.process, report.api_version, report.api_min_version) = (Process::Runs, 9, 9);
    let steps = manager_next(&site.0, &rules(), &key);
    let [Step::SetManagerStatus(_, status)] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!(status.state, ManagerState::Error);
    assert!(status.reason.contains("versions 9 to 9 of the API"), "{}", status.reason);
    site.0.managers.get_mut(&key).unwrap().status = (**status).clone();
    assert_eq!(manager_next(&site.0, &rules(), &key), [Step::Stop(key.clone())]);
    let ended = Process::Ended { why: "it was stopped".to_owned(), wait: false };
    site.0.reports.get_mut(&key).unwrap().process = ended;
    assert_eq!(manager_next(&site.0, &rules(), &key), []);
    assert_eq!(missing_manager(&site.0, &rules(), &disk(1)), None);
    // With another program configured there is no use for it.
    let other = Rules { program: Program { path: "/next".to_owned(), version: "3".to_owned() }, ..rules() };
    assert_eq!(manager_next(&site.0, &other, &key), [Step::MarkManager(key)]);
}

#[test]
fn a_crashed_default_manager_is_started_again_and_an_old_one_is_not() {
    let mut site = Builder::new();
    site.disk(1, "here");
    let (new, old) = (site.manager(1, "2", &[]), site.manager(1, "1", &[("a", 1, FileState::Downloaded)]));
    for key in [&new, &old] {
        let report = site.0.reports.get_mut(key).unwrap();
        (report.process, report.files) = (Process::Ended { why: "gone".to_owned(), wait: false }, None);
        site.0.managers.get_mut(key).unwrap().status.state = ManagerState::Error;
        site.0.managers.get_mut(key).unwrap().status.reason = "gone".to_owned();
    }
    assert_eq!(manager_next(&site.0, &rules(), &new), [Step::Start(new)]);
    assert_eq!(manager_next(&site.0, &rules(), &old), [Step::MarkManager(old)]);
}

#[test]
fn a_manager_that_says_nothing_for_long_is_unknown_with_all_that_it_had() {
    let mut site = Builder::new();
    site.disk(1, "there");
    let key = site.manager(1, "2", &[("a", 1, FileState::Downloaded)]);
    site.0.reports.get_mut(&key).unwrap().heard = site.0.now - rules().patience - 1;
    let steps = manager_next(&site.0, &rules(), &key);
    let [Step::SetManagerStatus(_, status)] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!(status.state, ManagerState::Unknown);
    assert_eq!(status.files[&name("a")].state, FileState::Unknown);
    assert!(!status.reason.is_empty());
}

#[test]
fn files_that_the_site_never_knew_are_left_alone() {
    let mut site = Builder::new();
    site.disk(1, "here");
    let key = site.manager(1, "2", &[("strange", 7, FileState::Downloaded)]);
    assert_eq!(manager_next(&site.0, &rules(), &key), []);
    // Unless an image of the same name is wanted there.
    site.image("strange", 8, &[1]);
    let Some(Step::SetManagerSpec(_, spec)) = image_next(&site.0, &rules(), &name("strange")) else {
        panic!()
    };
    assert_eq!(spec.removed.keys().collect::<Vec<_>>(), [&uuid(7)]);
    site.0.managers.get_mut(&key).unwrap().spec = *spec;
    assert_eq!(site.calls(&key), [Call::Delete { image: name("strange"), uuid: uuid(7) }]);
}

#[test]
fn a_copy_goes_only_if_another_is_verified_and_nothing_stands_on_it() {
    let whole = FileState::Downloaded;
    for (others, volume, chosen, keeps) in [
        (vec![whole], None, vec![1], None),
        (vec![], None, vec![1], Some(Keep::LastVerified)),
        (vec![FileState::Downloading], None, vec![1], Some(Keep::LastVerified)),
        (vec![whole], Some(1), vec![1], Some(Keep::Used(name("v")))),
        (vec![whole], Some(2), vec![1], None),
        (vec![whole], None, vec![1, 2], Some(Keep::LastVerified)),
        (vec![whole], None, vec![3], Some(Keep::NotThere)),
    ] {
        let mut site = Builder::new();
        site.disk(1, "here").disk(2, "here").disk(3, "here");
        site.manager(1, "2", &[("a", 1, whole)]);
        if let Some(state) = others.first() {
            site.manager(2, "2", &[("a", 1, *state)]);
        }
        site.image("a", 1, &[1, 2]);
        if let Some(on) = volume {
            site.volume("v", "a", on);
        }
        let chosen_disks: BTreeSet<_> = chosen.iter().map(|number| disk(*number)).collect();
        let may = may_clean_up(&site.0, &rules(), &name("a"), &site.0.images[&name("a")], &chosen_disks);
        assert_eq!(may.err().map(|(_, keep)| keep), keeps, "{others:?} {volume:?} {chosen:?}");
    }
}

#[test]
fn unused_copies_go_one_at_a_time_the_longest_unused_first() {
    let mut site = Builder::new();
    site.disk(1, "here").disk(2, "here").disk(3, "here");
    for number in 1..=3 {
        site.manager(number, "2", &[("a", 1, FileState::Downloaded)]);
    }
    let now = site.0.now;
    let image = site.image("a", 1, &[1, 2, 3]);
    image.status.last_use =
        BTreeMap::from([(disk(1), now - 2000), (disk(2), now - 3000), (disk(3), now - 10)]);
    let step = image_next(&site.0, &rules(), &name("a"));
    assert_eq!(step, Some(Step::SetImageDisks(name("a"), BTreeSet::from([disk(1), disk(3)]))));
    let never = Rules { cleanup_after: None, ..rules() };
    assert!(!matches!(image_next(&site.0, &never, &name("a")), Some(Step::SetImageDisks(..))));
}

#[test]
fn a_volume_brings_its_image_to_its_disk_and_waits_for_it() {
    let mut site = Builder::new();
    site.disk(1, "here");
    let key = site.manager(1, "2", &[]);
    site.image("a", 1, &[]);
    site.volume("v", "a", 1);
    let wanted = Step::SetImageDisks(name("a"), BTreeSet::from([disk(1)]));
    assert_eq!(volume_next(&site.0, &rules(), &name("v")), Some(wanted));
    site.image("a", 1, &[1]);
    assert!(matches!(volume_next(&site.0, &rules(), &name("v")), Some(Step::SetVolumeStatus(..))));
    site.manager(1, "2", &[("a", 1, FileState::Downloaded)]);
    site.image("a", 1, &[1]).status.seal = Some(seal(b"x"));
    let step = volume_next(&site.0, &rules(), &name("v"));
    assert!(
        matches!(&step, Some(Step::Call { manager, call: Call::VolumeCreate { .. } }) if *manager == key),
        "{step:?}"
    );
}

#[test]
fn a_copy_that_is_another_image_is_shown_as_failed_and_makes_room() {
    let mut site = Builder::new();
    site.disk(1, "here");
    let key = site.manager(1, "2", &[("a", 1, FileState::Downloaded)]);
    site.image("a", 1, &[1]).status.seal = Some(seal(b"another"));
    let Some(Step::SetImageStatus(_, status)) = image_next(&site.0, &rules(), &name("a")) else { panic!() };
    assert_eq!(status.disks[&disk(1)].state, FileState::Failed);
    assert_eq!(site.calls(&key), [Call::Delete { image: name("a"), uuid: uuid(1) }]);
}

#[test]
fn an_image_is_gone_when_its_files_are_and_a_disk_that_is_away_remembers() {
    let mut site = Builder::new();
    site.disk(1, "here").disk(2, "there");
    let near = site.manager(1, "2", &[("a", 1, FileState::Downloaded)]);
    let far = site.manager(2, "2", &[("a", 1, FileState::Downloaded)]);
    site.0.managers.get_mut(&far).unwrap().status.state = ManagerState::Unknown;
    site.image("a", 1, &[1, 2]).metadata.deletion_timestamp = Some("now".to_owned());
    for _ in 0..2 {
        match image_next(&site.0, &rules(), &name("a")) {
            Some(Step::SetManagerSpec(key, spec)) => site.0.managers.get_mut(&key).unwrap().spec = *spec,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(image_next(&site.0, &rules(), &name("a")), None, "its file is still there");
    assert_eq!(site.calls(&near), [Call::Delete { image: name("a"), uuid: uuid(1) }]);
    site.0.reports.get_mut(&near).unwrap().files = Some(BTreeMap::new());
    assert_eq!(image_next(&site.0, &rules(), &name("a")), Some(Step::RemoveImage(name("a"))));
    assert_eq!(site.0.managers[&far].spec.removed.len(), 1);
    // Back again, with the image long gone from the site.
    site.0.images.clear();
    site.0.managers.get_mut(&far).unwrap().status.state = ManagerState::Running;
    assert_eq!(site.calls(&far), [Call::Delete { image: name("a"), uuid: uuid(1) }]);
}

#[test]
fn what_would_fail_again_is_not_tried_again_by_anybody() {
    let mut site = Builder::new();
    site.disk(1, "here").disk(2, "there");
    let keys = [site.manager(1, "2", &[("a", 1, FileState::Failed)]), site.manager(2, "2", &[])];
    let image = site.image("a", 1, &[1, 2]);
    image.status.puller = Some(Puller { disk: disk(1), term: 1 });
    // Tried again, by whoever's turn it is, unless it would be in vain.
    assert!(matches!(site.calls(&keys[0])[..], [Call::Pull { .. }]));
    for files in [
        &mut site.0.managers.get_mut(&keys[0]).unwrap().status.files,
        site.0.reports.get_mut(&keys[0]).unwrap().files.as_mut().unwrap(),
    ] {
        files.get_mut(&name("a")).unwrap().lasting = true;
    }
    site.0.backoff.insert((keys[0].clone(), name("a")));
    for _ in 0..2 {
        let Some(Step::SetImageStatus(_, status)) = image_next(&site.0, &rules(), &name("a")) else { break };
        assert_eq!(status.puller, Some(Puller { disk: disk(1), term: 1 }));
        assert_eq!(status.disks[&disk(1)].state, FileState::Failed);
        assert!(status.disks[&disk(2)].reason.contains("did not get what was asked for"));
        site.0.images.get_mut(&name("a")).unwrap().status = *status;
        site.0.backoff.clear();
    }
    assert_eq!((site.calls(&keys[0]), site.calls(&keys[1])), (vec![], vec![]));
}
