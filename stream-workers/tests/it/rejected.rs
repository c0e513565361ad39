//! C8: `rejected list|show|retry`, by the real binary: a dead letter is shown as it was, and put back once.

use crate::world::{NEW_YEAR_US, World, event, record};

/// A record that nobody can read, and that would clear the screen, between two good ones.
async fn world_with_poison() -> (World, String, Vec<u8>) {
    let world = World::new().await;
    let poison = b"{\"v\":1,\"\x1b[2J".to_vec();
    world.put(&[(0, record(1, NEW_YEAR_US, &[event(1)]))]).await;
    let origin = world.log.put(0, &poison).await;
    world.put(&[(0, record(1, NEW_YEAR_US, &[event(3)]))]).await;
    world.work_off(&world.group()).await;
    (world, origin, poison)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_listed_and_shown_as_it_was_and_does_nothing_to_the_terminal() {
    let (world, origin, poison) = world_with_poison().await;
    let (code, list, stderr) = world.command(&["rejected", "list"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    let [line] = list.lines().collect::<Vec<_>>()[..] else { panic!("{list}") };
    assert!(line.starts_with(&origin) && line.contains(" 12 bytes  open  not a record: "), "{line}");
    let (_, json, _) = world.command(&["rejected", "list", "--json"]).await;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (json["origin"].as_str(), json["bytes"].as_u64(), json["retried"].is_null()),
        (Some(origin.as_str()), Some(12), true)
    );

    let (_, shown, _) = world.command(&["rejected", "show", &origin]).await;
    assert!(shown.contains("{\"v\":1,\"\u{fffd}[2J") && !shown.contains('\u{1b}'), "{shown}");
    let (_, raw, _) = world.command(&["rejected", "show", "--raw", &origin]).await;
    assert_eq!(raw.as_bytes(), poison);
    for (named, said) in [("nothing", "write TOPIC/PARTITION/OFFSET"), ("test/0/99", "no such dead letter")] {
        let (code, _, stderr) = world.command(&["rejected", "show", named]).await;
        assert_eq!(code, Some(1));
        assert!(stderr.contains(said) && stderr.trim().lines().count() == 1, "{stderr}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_still_cannot_be_read_is_not_put_back() {
    let (world, origin, _) = world_with_poison().await;
    let (code, stdout, stderr) = world.command(&["rejected", "retry", &origin]).await;
    assert_eq!(code, Some(1));
    assert!(stdout.starts_with(&format!("{origin} cannot be read yet (not a record: ")), "{stdout}");
    assert!(stderr.contains("1 of 1 records cannot be read by this build"), "{stderr}");
    assert_eq!(world.log.uncommitted(&world.group()).await, 0, "nothing was put on the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_restores_a_record_once_and_a_second_one_changes_nothing() {
    let world = World::new().await;
    // Set aside by a worker of before, which could not read it; this one can.
    let readable = record(1, NEW_YEAR_US, &[event(1), event(2)]).to_string();
    let neighbour = record(1, NEW_YEAR_US, &[event(3)]).to_string();
    let origin = format!("{}/0/77", world.stores.kafka.topic);
    for _ in 0..2 {
        world.log.put_aside(&origin, "record version 1 is newer than this worker's 0", readable.as_bytes()).await;
    }
    world.log.put(0, neighbour.as_bytes()).await;
    world.work_off(&world.group()).await;
    assert_eq!(world.visible().await, ["event-000003"]);

    let (code, stdout, stderr) = world.command(&["rejected", "retry", "--all"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.starts_with(&format!("{origin} is put back as {}/", world.stores.kafka.topic)), "{stdout}");
    assert_eq!(stdout.lines().count(), 1, "a letter that arrived twice is one: {stdout}");
    world.work_off(&world.group()).await;
    assert_eq!(world.visible().await, ["event-000001", "event-000002", "event-000003"]);
    let before = (world.table().await, world.raw_rows().await);

    let (code, stdout, _) = world.command(&["rejected", "retry", &origin]).await;
    assert_eq!(code, Some(0));
    assert!(stdout.contains("was put back before, as"), "{stdout}");
    let (_, nothing, _) = world.command(&["rejected", "retry", "--all"]).await;
    assert_eq!(nothing, "", "nothing is open any more");
    assert_eq!(world.log.uncommitted(&world.group()).await, 0, "the log holds nothing new");
    let (_, list, _) = world.command(&["rejected", "list"]).await;
    assert!(list.contains("put back as") && list.lines().count() == 1, "{list}");
    world.work_off(&world.group()).await;
    assert_eq!((world.table().await, world.raw_rows().await), before);
}
