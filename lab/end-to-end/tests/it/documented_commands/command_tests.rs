//! Maps documented commands to the tests that run them. The longest matching prefix counts, and its test must really run the command.

/// For `cargo test` commands, which need no other test. Their filter must match a test (`workspace_tests`).
const ITSELF: &str = "";

const EXECUTED: &[(&str, &str)] = &[
    ("cargo test", ITSELF),
    // These start and stop the servers that tests use, so they are only parsed. The test runs the program that `cargo up` starts.
    ("cargo up", "commands_on_the_welcome_screen_work_when_pasted"),
    ("cargo verify", ITSELF),
    ("cargo local", ITSELF),
    ("cargo load -- bench", "bench_measures_every_target"),
    ("cargo load -- reads", "measures_every_read"),
    ("cargo load -- reads --reports 12000000 --growth", "growth_is_measured_against_two_smaller_stores"),
    ("cargo load -- reads --owner-reports", "measures_one_owner_in_ten_periods"),
    ("cargo load -- drains", "measures_every_log_format_and_a_gateway"),
    ("cargo load -- linear", "measures_bodies_of_every_write_route"),
    ("cargo chaos", "c1_c2_c3_faults_do_not_change_results"),
    ("cargo chaos --plan", "c13_plan_depends_only_on_the_seed"),
    ("cargo run -p fuzz", "s13_fuzz_bodies"),
    ("cargo run -p telemetry --", "services_are_subcommands_with_help_and_health_check"),
    ("cargo run -p telemetry -- ingest-gateway", "every_subcommand_has_help"),
    ("cargo run -p telemetry -- identity-api admin operator", "adds_lists_and_removes_operators"),
    ("cargo run -p telemetry -- identity-api admin organization", "creates_lists_and_shows_organizations"),
    ("cargo run -p telemetry -- identity-api admin key", "creates_lists_and_revokes_keys"),
    ("telemetry all", "commands_on_the_welcome_screen_work_when_pasted"),
    ("telemetry ingest-gateway", "single_processes_work_next_to_cargo_up"),
    ("telemetry query-api --listen", "single_processes_work_next_to_cargo_up"),
    ("telemetry stream-workers", "worker_reports_its_health_and_stops"),
    ("telemetry stream-workers --listen", "single_processes_work_next_to_cargo_up"),
    ("telemetry console", "compose_services_process_an_event"),
    ("telemetry secrets", "creates_new_secrets_each_time"),
    ("telemetry identity-api admin", "subcommands_have_help_and_one_line_errors"),
    ("telemetry identity-api admin operator", "adds_lists_and_removes_operators"),
    ("telemetry identity-api admin organization", "creates_lists_and_shows_organizations"),
    ("telemetry identity-api admin key", "creates_lists_and_revokes_keys"),
    ("telemetry identity-api admin domain", "adds_verifies_lists_and_releases_domains"),
    ("telemetry identity-api admin access-request", "lists_approves_and_rejects_access_requests"),
    ("telemetry identity-api admin partner", "trusts_and_untrusts_partners"),
    ("telemetry identity-api admin analyst", "creates_lists_and_revokes_analyst_accounts"),
    ("telemetry query-api analysts", "process_creates_and_removes_accounts"),
    ("telemetry identity-api migrate", "reads_are_equal_after_restoring_dump_and_log"),
    ("telemetry stream-workers prepare", "prepare_is_idempotent"),
    ("telemetry stream-workers deliver", "s7_f34_repeats_the_delivery_of_a_killed_deliverer"),
    ("telemetry stream-workers replay", "replay_restores_missing_rows"),
    ("telemetry stream-workers rebuild", "rebuild_produces_the_same_rows"),
    ("telemetry stream-workers processed", "stores_or_rejects_every_event_once"),
    ("telemetry stream-workers rejected list", "prints_dead_letters_without_control_characters"),
    ("telemetry stream-workers rejected show", "prints_dead_letters_without_control_characters"),
    ("telemetry stream-workers rejected retry", "retry_restores_a_record_only_once"),
    ("telemetry settings", "organization_commands_match_golden_output"),
    ("telemetry audit", "organization_commands_match_golden_output"),
    ("telemetry webhook", "organization_commands_match_golden_output"),
    ("telemetry analyst", "organization_commands_match_golden_output"),
    ("telemetry stream-workers rejected", "log_and_store_commands_match_golden_output"),
    ("telemetry whoami", "person_commands_match_golden_output"),
    ("telemetry login", "signs_in_by_email_and_out_again"),
    ("telemetry profile", "uses_one_of_several_profiles"),
    ("telemetry doctor", "doctor_reports_findings_with_advice"),
    ("telemetry bots check", "identifies_bots_by_name_and_address"),
    ("telemetry bots diff", "compares_a_list_with_the_bot_table"),
    ("telemetry sign", "sign_commands_match_golden_output"),
    ("telemetry statement", "statement_commands_match_golden_output"),
    ("telemetry drain", "organization_commands_match_golden_output"),
    ("telemetry drain create", "creates_lists_shows_and_deletes_objects"),
    ("telemetry drain test", "drain_test_shows_each_line_without_a_service"),
    ("telemetry import", "imports_resume_and_count_each_line_once"),
    ("telemetry events import", "sends_imports_and_reads_events_in_every_format"),
    ("telemetry crawlers", "sends_imports_and_reads_events_in_every_format"),
    ("telemetry urls", "sends_imports_and_reads_events_in_every_format"),
    ("telemetry summary", "sends_imports_and_reads_events_in_every_format"),
    ("python3 verify_statement.py", "e1_both_programs_agree_on_random_months"),
    ("telemetry wait", "events_and_figures_match_golden_output"),
    ("telemetry series", "sends_imports_and_reads_events_in_every_format"),
    ("promtool test", "every_alert_has_a_firing_and_a_silent_test_case"),
    // Docker isn't available where the tests run, so the tests start the containers' programs without it and check the image definitions.
    ("docker compose", "compose_services_process_an_event"),
    ("docker run", "secrets_file_is_private_and_never_replaced"),
    ("docker build", "s19_images_have_digests"),
    ("kubectl", "manifests_match_the_kubernetes_schemas"),
    ("openssl rand -base64 32", "openssl_output_is_a_valid_key"),
    ("openssl req -x509", "v7_v4_sends_nothing_to_untrusted_servers"),
    ("export DATABASE_URL", "creates_lists_and_revokes_keys"),
    // Operating procedures, step by step, with the same programs.
    ("pg_dump", "reads_are_equal_after_restoring_dump_and_log"),
    ("pg_restore", "reads_are_equal_after_restoring_dump_and_log"),
    ("psql", "reads_are_equal_after_restoring_backup_and_log"),
];

/// Returns the test that executes a command, or an empty string for commands that `cargo test` runs itself.
pub(super) fn test_for(words: &[String]) -> Option<&'static str> {
    let line = words.join(" ");
    let begins =
        |beginning: &str| line.strip_prefix(beginning).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '/']));
    let known = EXECUTED.iter().filter(|(beginning, _)| begins(beginning));
    known.max_by_key(|(beginning, _)| beginning.len()).map(|(_, test)| *test)
}
