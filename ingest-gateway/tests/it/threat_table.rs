//! Which test stands for which threat to the write surface: transport and parsing (X), events (E), sessions (SE).

use service_kit::testing::{ThreatTest, every_row_has_a_test, threat_rows};

const TESTS: &[ThreatTest] = &[
    ("X1", SIEGE, "s9_five_thousand_slow_sockets_keep_nobody_from_being_served_and_are_cut_off"),
    ("X1", HOSTILE, "x1_x2_slow_heads_and_bodies_are_cut_off_and_others_are_served_meanwhile"),
    ("X2", HOSTILE, "x2_a_body_that_trickles_is_cut_off_as_a_whole"),
    ("X3", SIEGE, "s9_a_hundred_bombs_of_each_encoding_are_refused_in_bounded_memory"),
    ("X3", ENCODINGS, "x3_frames_that_hold_nothing_are_no_way_around_the_limits"),
    ("X4", "infra/service-kit/src/http/inflate.rs", "every_member_of_a_gzip_counts"),
    ("X5", ENCODINGS, "every_encoding_is_understood"),
    ("X6", ENCODINGS, "s9_the_inflated_limit_is_exact_on_every_route_and_encoding"),
    ("X6", HOSTILE, "x6_what_is_left_of_a_refused_body_is_never_the_next_request"),
    ("X7", THREATS, "x7_data_nests_thirty_two_levels_and_no_more"),
    ("X7", REFUSALS, "what_is_not_a_json_object_is_400"),
    ("X8", THREATS, "x8_an_array_is_no_event"),
    ("X9", EMITTERS, "a_member_that_is_known_may_not_stand_twice"),
    ("X10", RECORDS, "numbers_in_data_are_kept_as_written"),
    ("X11", THREATS, "x11_nul_and_lone_surrogates_are_refused_in_every_string"),
    ("X12", THREATS, "e24_x12_hostile_text_is_stored_as_it_is"),
    ("X13", THREATS, "x13_lengths_are_limited_to_the_byte"),
    ("X14", REFUSALS, "only_json_is_a_body"),
    ("X15", HOSTILE, "x15_ambiguous_requests_are_refused_and_the_connection_ends"),
    ("X15", HOSTILE, "x15_a_length_beside_chunks_never_splits_a_request"),
    ("X16", HOSTILE, "x16_http_2_is_not_spoken"),
    ("X17", HOSTILE, "x17_a_caller_that_leaves_never_leaves_half_a_batch"),
    ("X17", "ingest-gateway/tests/it/half_written.rs", "x17_a_caller_that_leaves_never_leaves_half_a_session"),
    ("X18", CREDENTIALS, "every_bad_credential_gets_the_same_401"),
    ("X19", CREDENTIALS, "x19_a_key_is_one_plain_header_or_nothing"),
    ("X20", CREDENTIALS, "s3_every_write_route_answers_every_credential_as_the_table_says"),
    ("X21", CREDENTIALS, "x21_keys_that_never_were_and_keys_that_are_revoked_are_refused_alike"),
    ("X21", "infra/service-kit/src/auth.rs", "x21_a_key_is_looked_up_by_the_hash_of_all_of_it_and_never_compared"),
    ("E1", SESSIONS, "a_session_is_only_ever_its_reporters"),
    ("E2", CREDENTIALS, "an_owners_key_reports_only_for_its_verified_hosts"),
    ("E3", THREATS, "e3_each_type_is_taken_from_its_roles_only"),
    ("E4", THREATS, "e4_names_that_are_no_type_are_refused"),
    ("E4", EMITTERS, "content_displayed_is_the_old_name_of_content_presented"),
    ("E5", LOOKALIKES, "e5_every_spelling_of_a_host_has_one_owner_for_reports_and_for_resolve"),
    ("E5", SITE, "a_host_with_www_is_the_host_without_it_unless_that_is_a_public_suffix"),
    ("E5", "query-api/tests/it/visibility.rs", "e5_domain_filter_ignores_leading_www"),
    ("E6", SITE, "within_is_decided_on_label_boundaries"),
    ("E6", "query-api/tests/it/resolve.rs", "the_longest_verified_suffix_answers_and_its_canonical_domain_is_echoed"),
    ("E7", LOOKALIKES, "e5_every_spelling_of_a_host_has_one_owner_for_reports_and_for_resolve"),
    ("E7", "schemas/src/site/content_url.rs", "what_is_not_a_content_url_is_refused"),
    ("E8", RECORDS, "an_event_is_normalised_before_the_log"),
    ("E9", THREATS, "e9_an_instant_is_kept_to_the_millisecond_or_refused"),
    ("E10", LOOKALIKES, "e10_a_batch_sent_fifty_five_times_counts_once"),
    ("E11", LOOKALIKES, "e11_a_claimed_correlation_id_takes_nothing_from_its_real_observer"),
    ("E11", ONE, "e11_a_page_that_edge_origin_and_agent_spell_differently_is_retrieved_once_and_another_page_is_another"),
    ("E11", PAGE, "e11_every_spelling_of_one_page_has_one_key_and_different_pages_have_two"),
    ("E11", PAGE, "e11_spellings_of_one_page_agree_as_the_documented_table_says"),
    ("E11", KEY, "e11_keys_of_stored_rows_never_change"),
    ("E11", KEY, "e11_own_keys_are_unique_per_organization"),
    ("E11", "schemas/src/report_keys.rs", "observers_share_a_key_and_no_identity"),
    ("E12", LOOKALIKES, "e12_the_first_payload_of_an_id_stays"),
    ("E13", RECORDS, "a_retry_gets_the_same_keys_and_another_caller_gets_others"),
    ("E14", THREATS, "e14_spellings_of_an_id_are_one_event"),
    ("E15", THREATS, "e15_one_bad_event_of_a_thousand_leaves_nothing"),
    ("E16", REFUSALS, "the_size_limits_are_exact"),
    ("E16", REFUSALS, "the_envelope_keeps_its_own_rules"),
    ("E17", "ingest-gateway/tests/it/durability.rs", "a_2xx_means_durable"),
    ("E18", THREATS, "e18_the_largest_request_still_fits_the_log"),
    ("E19", SESSIONS, "a_click_token_binds_an_engagement_to_its_session"),
    ("E20", THREATS, "e20_only_engagements_and_checkouts_are_bound_by_a_token"),
    ("E21", THREATS, "e21_a_session_may_lack_only_where_the_specification_says"),
    ("E22", THREATS, "e22_an_events_own_session_wins_over_the_envelopes"),
    ("E23", REFUSALS, "the_envelope_keeps_its_own_rules"),
    ("E24", THREATS, "e24_x12_hostile_text_is_stored_as_it_is"),
    ("SE1", SESSIONS, "a_session_starts_with_any_or_no_members"),
    ("SE2", OF_SESSIONS, "se2_a_manifest_that_is_named_is_not_fetched"),
    ("SE2", SESSIONS, "what_a_session_may_not_say_is_named"),
    ("SE3", OF_SESSIONS, "se3_naming_anothers_session_as_prior_tells_and_changes_nothing"),
    ("SE3", SESSIONS, "what_a_session_may_not_say_is_named"),
    ("SE4", SESSIONS, "events_write_no_session_and_the_next_calls_find_it"),
    ("SE4", EMITTERS, "the_stricter_of_envelope_and_turn_decides_what_is_kept"),
    ("SE5", SESSIONS, "a_session_is_only_ever_its_reporters"),
    ("SE5", OF_SESSIONS, "se5_se7_uploading_anothers_session_id_makes_a_session_of_ones_own"),
    ("SE6", SESSIONS, "the_first_outcome_stays"),
    ("SE6", SESSIONS, "parallel_ends_agree_on_one_outcome"),
    ("SE7", OF_SESSIONS, "se5_se7_uploading_anothers_session_id_makes_a_session_of_ones_own"),
    ("SE8", OF_SESSIONS, "se8_an_upload_repeated_twenty_times_is_the_same_events"),
    ("SE9", SESSIONS, "what_a_session_may_not_say_is_named"),
    ("SE10", OF_SESSIONS, "se10_a_started_session_outlives_a_gateway_killed_right_after_its_answer"),
];

/// What was found by attacking the service.
const FOUND: &[ThreatTest] = &[
    ("A1", LINEAR, "a1_every_write_route_goes_over_each_byte_of_a_body_a_bounded_number_of_times_however_deep_it_nests"),
    ("A1", LINEAR, "a1_a_broken_limit_ends_the_work"),
    ("A1", "ingest-gateway/src/request/large.rs", "a1_a_large_body_does_not_keep_the_thread_that_serves_others"),
    ("S15", SIEGE, "s15_a_thousand_clients_that_never_read_keep_nobody_from_being_served_and_are_cut_off"),
    ("A11", STRANGERS, "a11_a_flood_of_unknown_keys_is_429_after_as_many_look_ups_as_its_address_has_and_known_keys_write_on"),
    ("A11", STRANGERS, "a11_a_key_that_is_made_after_it_was_refused_works_within_a_second_and_repeats_are_not_looked_up"),
    ("A16", CLICK_TOKENS, "s18_what_is_kept_of_an_event_says_nothing_of_the_session_that_a_token_binds_it_to"),
    ("A16", CLICK_TOKENS, "s18_beside_a_named_session_anothers_token_answers_and_is_kept_alike_whichever_session_that_is"),
    ("F50", BUDGETS, "f50_a_drain_without_a_verified_domain_stores_nothing"),
    ("F50", BUDGETS, "f50_hosts_of_others_get_no_hours"),
    ("F50", BUDGETS, "f50_many_bodies_of_an_hour_are_one_row"),
    ("F50", BUDGETS, "f50_coverage_beyond_the_budget_is_left_out_and_events_are_not"),
    ("F50", BUDGETS, "f50_writes_without_a_verified_domain_end_in_429"),
    ("F50", BUDGETS, "f50_sessions_of_an_owner_have_a_budget"),
    ("F50", "query-api/tests/it/crawlers.rs", "f50_spans_are_bounded_and_hours_are_counted_in_full"),
    ("F50", BUDGETS, "f50_sessions_end_in_429_before_the_stores_grow_by_10_mb"),
    ("F53", BUDGETS, "f53_changes_of_sessions_of_one_organization_leave_connections"),
    ("F53", "ingest-gateway/tests/it/outages.rs", "f53_writes_of_one_organization_leave_slots_for_others"),
    ("F53", "ingest-gateway/src/request/large.rs", "f53_large_bodies_of_one_organization_leave_turns_for_others"),
    ("F51", BUDGETS, "f51_many_keys_of_one_organization_share_a_rate"),
];

const BUDGETS: &str = "ingest-gateway/tests/it/budgets.rs";
const CLICK_TOKENS: &str = "ingest-gateway/tests/it/click_tokens.rs";
const CREDENTIALS: &str = "ingest-gateway/tests/it/credentials.rs";
const EMITTERS: &str = "ingest-gateway/tests/it/emitters.rs";
const ENCODINGS: &str = "ingest-gateway/tests/it/encodings.rs";
const HOSTILE: &str = "ingest-gateway/tests/it/hostile.rs";
const LINEAR: &str = "infra/lab/loadgen/tests/it/linear.rs";
const KEY: &str = "schemas/src/event_key/tests.rs";
const ONE: &str = "infra/lab/end-to-end/tests/it/one_retrieval.rs";
const PAGE: &str = "schemas/src/site/page.rs";
const LOOKALIKES: &str = "infra/lab/end-to-end/tests/it/lookalikes.rs";
const OF_SESSIONS: &str = "ingest-gateway/tests/it/threats_sessions.rs";
const RECORDS: &str = "ingest-gateway/tests/it/records.rs";
const REFUSALS: &str = "ingest-gateway/tests/it/refusals.rs";
const SESSIONS: &str = "ingest-gateway/tests/it/sessions.rs";
const SIEGE: &str = "ingest-gateway/tests/it/siege.rs";
const SITE: &str = "schemas/src/site.rs";
const STRANGERS: &str = "ingest-gateway/tests/it/strangers.rs";
const THREATS: &str = "ingest-gateway/tests/it/threats.rs";

#[test]
fn every_row_has_a_test_that_exists() {
    every_row_has_a_test(TESTS, threat_rows("X", 1..=21).chain(threat_rows("E", 1..=24)).chain(threat_rows("SE", 1..=10)));
    every_row_has_a_test(FOUND, ["A1", "A11", "A16", "F50", "F51", "F53", "S15"].map(str::to_owned));
}
