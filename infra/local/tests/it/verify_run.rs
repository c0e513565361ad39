//! `cargo verify` with scripts in place of test binaries.

use crate::fake_clone::FakeClone;

/// Returns a script that prints cargo's messages for these test binaries, each in its package's folder.
fn cargo(clone: &FakeClone, binaries: &[&str]) -> String {
    let root = clone.path().display();
    let message = |name: &&str| {
        format!(
            r#"echo '{{"manifest_path":"{root}/{name}/Cargo.toml","target":{{"name":"it"}},"profile":{{"test":true}},"executable":"{root}/{name}/it"}}'"#
        )
    };
    let messages: Vec<String> = binaries.iter().map(message).collect();
    format!("[ \"$1\" = test ] || exit 0\n{}", messages.join("\n"))
}

#[test]
fn verify_runs_every_test_binary_and_repeats_failures() {
    let clone = FakeClone::new();
    let names = ["one", "two", "three"];
    for name in names {
        std::fs::create_dir(clone.path().join(name)).unwrap();
        let program = format!(
            "pwd; echo \"$CARGO_MANIFEST_DIR with $RUST_TEST_THREADS threads on $KAFKA_BROKERS\"; echo test of_{name} ... ok"
        );
        clone.write_script(&format!("{name}/it"), &program);
    }
    let (is_done, said) = clone.run(&["verify", "--quick"], &cargo(&clone, &names));
    assert!(is_done && said.contains("PASSED after"), "{said}");
    for name in names {
        let folder = clone.path().join(name).canonicalize().unwrap();
        assert!(said.contains(&format!("{name} it (")) && said.contains(&format!("test of_{name} ... ok")), "{said}");
        assert!(said.contains(&format!("\n{}\n", folder.display())), "{said}");
    }
    assert!(said.contains("/two with ") && said.contains(" threads on 127.0.0.1:"), "{said}");

    clone.write_script(
        "two/it",
        "printf 'failures:\\n\\n---- of_two stdout ----\\nleft: 1\\n\\nfailures:\\n    of_two\\n'; exit 101",
    );
    let (is_done, said) = clone.run(&["verify", "--quick"], &cargo(&clone, &names));
    assert!(!is_done && said.contains("---- of_two failed; its last output ----\nleft: 1\n"), "{said}");
    assert!(names.iter().all(|name| said.contains(&format!("{name} it ("))), "{said}");
    assert!(said.contains("tests    FAILED") && said.contains("lint     passed"), "{said}");
    let (is_done, said) = clone.run(&["verify", "--quick"], &cargo(&clone, &[]));
    assert!(!is_done && said.contains("tests    FAILED"), "no test ran: {said}");
}

#[test]
fn full_run_continues_after_a_failed_command() {
    let clone = FakeClone::new();
    std::fs::create_dir_all(clone.path().join("lab")).unwrap();
    std::fs::write(clone.path().join("lab/full.txt"), "# a comment\n\nSIZE=3 false # fails\nSIZE=3 sh -c 'touch size-$SIZE'\n")
        .unwrap();
    let (_, said) = clone.run(&["verify", "--full"], &cargo(&clone, &[]));
    assert!(clone.path().join("size-3").exists(), "{said}");
    assert!(said.contains("\nFAILED: SIZE=3 false # fails\n") && said.contains("\nfull     FAILED"), "{said}");
    assert!(said.contains("examples passed"), "{said}");
}
