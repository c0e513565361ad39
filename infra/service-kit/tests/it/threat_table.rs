//! Which test stands for which threat to what every surface shares.

use service_kit::testing::{ThreatTest, every_row_has_a_test};

const TESTS: &[ThreatTest] = &[
    ("A3", SLOW, "s15_a3_a_client_that_never_reads_its_answer_loses_it_and_its_connection"),
    ("A3", SLOW, "s15_a3_a_client_that_reads_a_byte_at_a_time_is_cut_off_too"),
    ("A3", SLOW, "a3_a_client_that_reads_steadily_gets_all_of_its_answer"),
    ("A3", "infra/service-kit/src/server/pace.rs", "a3_a_byte_a_second_is_no_progress_and_the_least_there_has_to_be_is_exact"),
    ("S15", SLOW, "s15_a3_a_client_that_never_reads_its_answer_loses_it_and_its_connection"),
    ("S15", "infra/lab/end-to-end/tests/it/slow_clients.rs", "s15_whoever_does_not_read_is_cut_off_on_every_listener"),
    (
        "S15",
        "infra/service-kit/src/server/pace.rs",
        "s15_who_stops_reading_or_reads_a_byte_a_second_is_cut_within_thirty_seconds_as_the_services_run",
    ),
    ("S15", SLOW, "s15_a3_the_metrics_listener_cuts_off_who_does_not_read"),
    ("S15", SLOW, "s15_a3_an_address_has_its_share_of_connections_and_a_trusted_proxy_is_not_limited"),
    ("S14", LINEAR, "s14_every_route_that_takes_a_body_is_measured_at_every_size_shape_and_nesting"),
    ("S14", LINEAR, "a1_every_write_route_goes_over_each_byte_of_a_body_a_bounded_number_of_times_however_deep_it_nests"),
    ("S14", "ingest-gateway/src/request/large.rs", "a1_a_large_body_does_not_keep_the_thread_that_serves_others"),
    ("A9", PRIVILEGE, "a9_no_service_can_change_the_audit_trail_or_be_rid_of_what_protects_it"),
    ("A9", PRIVILEGE, "a9_who_owns_the_tables_or_may_do_everything_is_refused_in_production"),
    ("A9", PRIVILEGE, "a9_an_account_with_any_right_over_the_whole_server_is_refused_in_production"),
    ("A9", PRIVILEGE, "a9_a_member_of_one_of_the_servers_own_roles_is_refused_in_production_however_far_removed"),
    ("A9", PRIVILEGE, "a9_an_account_that_can_replace_what_protects_the_audit_trail_is_refused_in_production"),
    ("A9", OWN_ACCOUNTS, "a9_each_service_refuses_in_production_to_run_as_a_superuser_or_as_the_owner_of_the_tables"),
    (
        "A9",
        "infra/service-kit/tests/it/clickhouse_accounts.rs",
        "a9_an_account_of_clickhouse_that_may_do_more_than_its_service_needs_is_refused_in_production",
    ),
    (
        "A9",
        "infra/service-kit/tests/it/clickhouse_accounts.rs",
        "a9_an_account_of_clickhouse_is_judged_in_a_database_whose_name_is_no_plain_word",
    ),
    (
        "A9",
        "stream-workers/tests/it/accounts.rs",
        "a9_a_worker_that_started_while_postgres_was_away_ends_once_its_account_turns_out_to_be_privileged",
    ),
    ("S16", OWN_ACCOUNTS, "s16_each_service_of_the_all_in_one_is_signed_in_as_itself_and_none_as_an_administrator"),
    ("S16", PRIVILEGE, "s16_each_role_may_do_in_postgresql_what_the_matrix_says_and_nothing_else"),
    ("S16", PRIVILEGE, "s16_an_account_with_the_rights_of_another_service_is_refused_in_production"),
    ("S16", PRIVILEGE, "s16_an_account_that_may_write_what_its_service_may_not_is_refused_in_production"),
    ("S16", PRIVILEGE, "s16_a_role_of_a_service_that_was_given_more_is_refused_with_what_to_do"),
    ("S16", PRIVILEGE, "s16_a_service_cannot_read_what_is_another_services"),
    ("S16", PRIVILEGE, "s16_an_owner_that_may_not_forbid_large_objects_says_which_statement_does"),
    (
        "S16",
        "infra/service-kit/tests/it/clickhouse_accounts.rs",
        "s16_the_accounts_of_clickhouse_do_what_the_services_do_and_nothing_else",
    ),
    ("S16", COMPOSE, "s16_each_process_of_compose_signs_in_as_itself_and_none_as_an_administrator"),
    ("S19", COMPOSE, "s19_every_image_is_named_by_its_digest"),
    ("S19", COMPOSE, "s19_a_digest_that_was_made_up_is_none"),
    ("S19", "infra/local/src/verify.rs", "s19_a_run_that_leaves_a_step_out_has_not_passed"),
    ("S19", "infra/local/src/deny.rs", "s19_licences_bans_and_sources_are_checked_and_advisories_where_they_can_be_had"),
    ("S19", "infra/local/src/deny.rs", "s19_no_rule_about_licences_bans_sources_and_advisories_is_weakened_unnoticed"),
    ("S19", "infra/local/src/deny.rs", "s19_cargo_verify_checks_the_rules"),
    ("A17", "infra/local/tests/it/guarded.rs", "a17_no_web_page_and_nobody_without_the_password_can_use_the_servers_of_a_clone"),
    ("A17", "infra/lab/end-to-end/tests/it/first_screen.rs", "a17_no_key_and_no_password_is_on_the_screen_or_in_the_log"),
    ("A11", STRANGERS, "a11_a_flood_of_unknown_credentials_costs_as_many_look_ups_as_its_address_has_tokens"),
    ("A11", STRANGERS, "a11_a_repeated_unknown_credential_is_not_looked_up_again_and_one_made_meanwhile_works_within_a_second"),
    ("A11", STRANGERS, "a11_a_repeated_unknown_credential_pays_each_time_though_nobody_is_asked"),
    ("A11", STRANGERS, "a11_a_credential_that_is_nobodys_any_more_is_a_strangers_and_pays_before_it_is_looked_up"),
    ("A11", "infra/service-kit/src/stale_cache.rs", "a11_unknown_keys_do_not_take_the_place_of_known_ones"),
    ("A12", RAW, "a12_a_line_that_ends_in_a_bare_line_feed_is_400_and_nothing_after_it_is_read"),
    ("A12", RAW, "a12_a_length_beside_a_transfer_coding_is_400_and_nothing_after_it_is_read"),
    ("A12", RAW, "a12_no_host_two_hosts_and_what_is_none_are_400_in_the_shape_of_every_error"),
    ("A12", RAW, "a12_bodies_may_hold_bare_line_feeds_and_whole_requests_and_the_connection_goes_on"),
    ("A12", RAW, "a12_a_head_that_comes_in_two_segments_is_refused_at_once"),
    ("A12", RAW, "a12_whatever_the_parser_cannot_read_is_400_in_the_shape_of_every_error"),
    ("A12", RAW, "a12_a_head_over_its_limits_is_431_in_the_shape_of_every_error_and_one_at_its_limits_is_taken"),
    ("A14", "infra/service-kit/src/http/boundary.rs", "a14_a_request_id_that_looks_like_a_secret_or_is_none_is_replaced"),
    ("A15", "infra/service-kit/src/egress/address.rs", "a15_what_answers_inside_a_cloud_is_not_public"),
    ("A15", "infra/service-kit/src/production.rs", "a15_who_stands_before_the_service_has_to_be_said"),
    ("A15", "infra/service-kit/src/production.rs", "a15_the_internet_is_no_reverse_proxy"),
    (
        "A15",
        "infra/service-kit/tests/it/browser_headers.rs",
        "a15_browsers_are_told_to_load_nothing_to_frame_nothing_and_over_https_to_come_no_other_way",
    ),
    ("A15", "query-api/tests/it/many_reads.rs", "a15_two_organisations_with_slow_readers_leave_places_for_a_third"),
    ("A15", "query-api/src/read_limiter.rs", "a15_organisations_that_take_all_they_can_leave_places_for_others"),
    (
        "A15",
        "ingest-gateway/tests/it/drains/shares.rs",
        "a15_a_slow_sender_with_all_the_places_it_can_take_leaves_places_for_other_organisations",
    ),
    ("A15", "infra/service-kit/src/slots.rs", "a15_each_tenant_leaves_as_many_slots_as_it_takes"),
    ("F53", "infra/service-kit/src/slots.rs", "the_waiting_tenant_with_the_fewest_slots_is_next"),
    ("F53", "infra/service-kit/src/slots.rs", "f53_short_work_has_all_slots_until_another_tenant_waits"),
    ("F53", "query-api/src/reads/outcomes.rs", "f53_questions_of_one_organization_leave_turns_for_others"),
    ("F53", "stream-workers/tests/it/fairness.rs", "f53_an_organization_with_hanging_receivers_leaves_lanes"),
    ("F54", "infra/telemetry/tests/it/compose/front.rs", "f54_one_address_does_not_take_all_connections_of_the_front"),
];

/// Faults of code that no test noticed once.
const FAULTS: &[ThreatTest] = &[
    ("2xx before fsync", "ingest-gateway/src/log/spill/power.rs", "c9_what_the_spill_has_answered_outlives_a_power_failure"),
    ("2xx before fsync", "ingest-gateway/src/log/spill/power.rs", "c9_what_a_failed_fsync_left_is_not_answered_and_not_there"),
    ("organisation left out of a key", "schemas/src/event_key/tests.rs", "e11_keys_of_stored_rows_never_change"),
    ("organisation left out of a key", "schemas/src/event_key/tests.rs", "e11_own_keys_are_unique_per_organization"),
    (
        "organisation left out of a key",
        "ingest-gateway/tests/it/idempotency.rs",
        "two_organisations_with_one_idempotency_key_and_one_body_share_nothing",
    ),
    (
        "burst of three times the rate",
        "infra/service-kit/src/rates.rs",
        "a_bucket_by_the_second_holds_exactly_twice_its_rate_and_fills_at_its_rate",
    ),
    ("limit off by one", "ingest-gateway/tests/it/limits.rs", "every_limit_is_exact_on_every_route_that_has_it"),
    (
        "status not documented",
        "infra/service-kit/src/testing/documented.rs",
        "a_status_that_is_observed_and_not_documented_fails_the_test_that_observed_it",
    ),
    ("insert without a fence", "store/src/sim/tests.rs", "inserts_without_a_fence_are_found"),
    ("events before reports", "store/src/sim/tests.rs", "events_written_before_reports_are_found"),
];

const LINEAR: &str = "infra/lab/loadgen/tests/it/linear.rs";
const OWN_ACCOUNTS: &str = "infra/lab/end-to-end/tests/it/own_accounts.rs";
const PRIVILEGE: &str = "infra/service-kit/tests/it/least_privilege.rs";
const COMPOSE: &str = "infra/local/tests/it/compose.rs";
const SLOW: &str = "infra/service-kit/tests/it/slow_clients.rs";
const RAW: &str = "infra/service-kit/tests/it/raw_requests.rs";
const STRANGERS: &str = "infra/service-kit/src/unknown_credentials.rs";

#[test]
fn every_row_has_a_test_that_exists() {
    every_row_has_a_test(
        TESTS,
        ["A3", "A9", "A11", "A12", "A14", "A15", "A17", "F53", "F54", "S14", "S15", "S16", "S19"].map(str::to_owned),
    );
    every_row_has_a_test(FAULTS, []);
}
