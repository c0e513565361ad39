//! Which test executes each command that a document names.
//!
//! Must name a test that really runs it: the longest beginning of a command that stands here decides.

/// What `cargo test` runs needs no other test than itself: its filter must find one (`tests_of`).
const ITSELF: &str = "";

const EXECUTED: &[(&str, &str)] = &[
    ("cargo build -p telemetry", ITSELF),
    ("cargo test", ITSELF),
    // These start and stop the servers that tests use, so they are only parsed; the program that `cargo up` starts is run.
    ("cargo up", "the_last_screen_works_when_pasted"),
    ("cargo verify", ITSELF),
    ("cargo local", ITSELF),
    ("cargo load -- bench", "bench_measures_every_target"),
    ("cargo load -- reads", "times_every_read"),
    ("cargo load -- reads --reports 12000000 --growth", "growth_compares_two_smaller_stores"),
    ("cargo load -- reads --growth", "growth_compares_two_smaller_stores"),
    ("cargo load -- reads --owner-reports", "measures_one_owner_over_ten_periods"),
    ("cargo load -- drains", "measures_every_log_format_and_a_gateway"),
    ("cargo load -- linear", "measures_bodies_of_every_write_route"),
    ("cargo load -- run", "a_run_with_all_options_is_clean"),
    ("cargo chaos", "c1_c2_c3_faults_change_no_result"),
    ("cargo chaos --plan", "c13_plan_depends_only_on_the_seed"),
    ("cargo run -p fuzz", "s13_bodies"),
    ("cargo run -p telemetry --", "every_service_is_a_subcommand_with_a_health_check_and_help_of_its_own"),
    ("cargo run -p telemetry -- ingest-gateway", "every_mode_explains_itself"),
    ("cargo run -p telemetry -- identity-api admin operator", "adds_lists_and_removes_operators"),
    ("cargo run -p telemetry -- identity-api admin organization", "creates_lists_and_shows_organizations"),
    ("cargo run -p telemetry -- identity-api admin key", "creates_lists_and_revokes_keys"),
    ("telemetry ingest-gateway", "single_processes_start_beside_cargo_up_and_take_and_show_an_event"),
    ("telemetry query-api --listen", "single_processes_start_beside_cargo_up_and_take_and_show_an_event"),
    ("telemetry stream-workers", "a_running_worker_says_how_it_is_and_stops_when_asked"),
    ("telemetry stream-workers --listen", "single_processes_start_beside_cargo_up_and_take_and_show_an_event"),
    ("telemetry console", "what_compose_starts_is_healthy_takes_an_event_shows_it_and_stops_when_asked"),
    ("telemetry secrets", "every_secret_of_compose_is_made_and_is_different_each_time"),
    ("telemetry identity-api admin", "subcommands_have_help_and_one_line_errors"),
    ("telemetry identity-api admin operator", "adds_lists_and_removes_operators"),
    ("telemetry identity-api admin organization", "creates_lists_and_shows_organizations"),
    ("telemetry identity-api admin key", "creates_lists_and_revokes_keys"),
    ("telemetry identity-api admin domain", "adds_verifies_lists_and_releases_domains"),
    ("telemetry identity-api admin access-request", "lists_approves_and_rejects_access_requests"),
    ("telemetry identity-api admin partner", "trusts_and_untrusts_partners"),
    ("telemetry identity-api admin analyst", "creates_lists_and_revokes_analyst_accounts"),
    ("telemetry query-api analysts", "process_starts_and_ends_accounts"),
    ("telemetry identity-api migrate", "a_dump_of_postgresql_and_the_log_bring_every_read_back_byte_for_byte"),
    ("telemetry stream-workers prepare", "preparing_twice_is_as_good_as_once"),
    ("telemetry stream-workers deliver", "s7_f34_a_delivery_survives_the_kill_of_its_deliverer_and_comes_again_as_it_was"),
    ("telemetry stream-workers replay", "a_replay_restores_what_is_missing_in_its_range_and_of_its_organizations"),
    ("telemetry stream-workers rebuild", "a_new_database_gets_the_rows_of_the_one_in_use"),
    ("telemetry stream-workers settled", "every_event_is_stored_or_rejected_once_whatever_dies"),
    ("telemetry stream-workers rejected list", "a_dead_letter_is_listed_and_shown_as_it_was_and_does_nothing_to_the_terminal"),
    ("telemetry stream-workers rejected show", "a_dead_letter_is_listed_and_shown_as_it_was_and_does_nothing_to_the_terminal"),
    ("telemetry stream-workers rejected retry", "a_retry_restores_a_record_once_and_a_second_one_changes_nothing"),
    ("telemetry settings", "golden_nouns_of_an_organization"),
    ("telemetry audit", "golden_nouns_of_an_organization"),
    ("telemetry webhook", "golden_nouns_of_an_organization"),
    ("telemetry analyst", "golden_nouns_of_an_organization"),
    ("telemetry stream-workers rejected", "golden_operators_of_the_log_and_the_store"),
    ("telemetry whoami", "golden_a_person_and_their_organizations"),
    ("telemetry login", "a_person_signs_in_by_the_link_of_the_mail_and_out_again"),
    ("telemetry profile", "several_profiles_stand_in_one_file_and_one_is_in_use"),
    ("telemetry doctor", "the_doctor_says_what_is_right_and_what_to_do_about_the_rest"),
    ("telemetry bots check", "a_bot_is_told_by_its_name_and_its_address"),
    ("telemetry bots diff", "a_list_is_compared_with_the_bot_table"),
    ("telemetry drain", "golden_nouns_of_an_organization"),
    ("telemetry drain create", "what_is_made_is_listed_shown_by_its_name_and_deleted_once_somebody_is_sure"),
    ("telemetry drain test", "a_log_that_is_tried_says_what_each_line_becomes_and_needs_no_service"),
    ("telemetry import", "a_log_goes_on_where_it_stopped_and_counts_once_however_often_it_comes"),
    ("telemetry events import", "events_are_sent_imported_once_and_read_in_every_form"),
    ("telemetry crawlers", "events_are_sent_imported_once_and_read_in_every_form"),
    ("telemetry urls", "events_are_sent_imported_once_and_read_in_every_form"),
    ("telemetry summary", "events_are_sent_imported_once_and_read_in_every_form"),
    ("telemetry series", "events_are_sent_imported_once_and_read_in_every_form"),
    ("promtool check", "promtool_takes_the_rules_and_the_configuration"),
    ("promtool test", "every_alert_fires_in_one_case_of_promtool_and_stays_silent_in_another"),
    // There is no Docker where tests run: what containers start is started without them, and how their images are made is read.
    ("docker compose", "what_compose_starts_is_healthy_takes_an_event_shows_it_and_stops_when_asked"),
    ("docker run", "a_file_of_secrets_is_its_owners_alone_and_never_replaced"),
    ("docker build", "s19_every_image_is_named_by_its_digest"),
    ("openssl rand -base64 32", "a_key_as_openssl_prints_it_is_one"),
    ("openssl req -x509", "v7_v4_what_is_no_good_server_gets_nothing_and_is_tried_again"),
    ("export DATABASE_URL", "creates_lists_and_revokes_keys"),
    // The procedures of operating, step by step, by the same programs.
    ("pg_dump", "a_dump_of_postgresql_and_the_log_bring_every_read_back_byte_for_byte"),
    ("pg_restore", "a_dump_of_postgresql_and_the_log_bring_every_read_back_byte_for_byte"),
    ("psql", "a_backup_of_postgresql_and_the_log_bring_every_read_back_byte_for_byte"),
    ("rm -rf /backup/data", "a_backup_of_postgresql_and_the_log_bring_every_read_back_byte_for_byte"),
    ("mv /backup/backup_label", "a_backup_of_postgresql_and_the_log_bring_every_read_back_byte_for_byte"),
    ("rm -rf /backup/data/pg_replslot", "a_backup_of_postgresql_and_the_log_bring_every_read_back_byte_for_byte"),
];

/// The test that executes a command; empty when cargo's own run of the tests does.
pub(super) fn by(words: &[String]) -> Option<&'static str> {
    let line = words.join(" ");
    let begins =
        |beginning: &str| line.strip_prefix(beginning).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '/']));
    let known = EXECUTED.iter().filter(|(beginning, _)| begins(beginning));
    known.max_by_key(|(beginning, _)| beginning.len()).map(|(_, test)| *test)
}
