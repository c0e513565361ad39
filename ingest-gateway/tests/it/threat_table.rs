//! Which test stands for which threat to the write surface: transport and parsing (X), events (E), sessions (S).
//!
//! Must name a test for every row, and only tests that exist.

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
    ("E6", SITE, "within_is_decided_on_label_boundaries"),
    ("E6", "query-api/tests/it/resolve.rs", "the_longest_verified_suffix_answers_and_its_canonical_domain_is_echoed"),
    ("E7", LOOKALIKES, "e5_every_spelling_of_a_host_has_one_owner_for_reports_and_for_resolve"),
    ("E7", SITE, "what_is_not_a_content_url_is_refused"),
    ("E8", RECORDS, "an_event_is_normalised_before_the_log"),
    ("E9", THREATS, "e9_an_instant_is_kept_to_the_millisecond_or_refused"),
    ("E10", LOOKALIKES, "e10_a_batch_sent_fifty_five_times_counts_once"),
    ("E11", LOOKALIKES, "e11_a_claimed_correlation_id_takes_nothing_from_its_real_observer"),
    ("E12", LOOKALIKES, "e12_the_first_payload_of_an_id_stays"),
    ("E13", RECORDS, "a_retry_gets_the_same_keys_and_another_caller_gets_others"),
    ("E14", THREATS, "e14_spellings_of_an_id_are_one_event"),
    ("E15", THREATS, "e15_one_bad_event_of_a_thousand_leaves_nothing"),
    ("E16", REFUSALS, "the_size_limits_are_exact"),
    ("E16", REFUSALS, "the_envelope_keeps_its_own_rules"),
    ("E17", "ingest-gateway/tests/it/durability.rs", "a_2xx_means_durable"),
    ("E18", THREATS, "e18_the_largest_request_still_fits_the_log"),
    ("E19", SESSIONS, "a_click_token_binds_an_engagement_to_its_session"),
    ("E20", THREATS, "e20_only_engagements_and_checkouts_carry_a_token"),
    ("E21", THREATS, "e21_a_session_may_lack_only_where_the_specification_says"),
    ("E22", THREATS, "e22_an_events_own_session_wins_over_the_envelopes"),
    ("E23", REFUSALS, "the_envelope_keeps_its_own_rules"),
    ("E24", THREATS, "e24_x12_hostile_text_is_stored_as_it_is"),
    ("S1", SESSIONS, "a_session_starts_with_any_or_no_members"),
    ("S2", OF_SESSIONS, "s2_a_manifest_that_is_named_is_not_fetched"),
    ("S2", SESSIONS, "what_a_session_may_not_say_is_named"),
    ("S3", OF_SESSIONS, "s3_naming_anothers_session_as_prior_tells_and_changes_nothing"),
    ("S3", SESSIONS, "what_a_session_may_not_say_is_named"),
    ("S4", SESSIONS, "events_of_a_session_that_nobody_started_create_it"),
    ("S4", EMITTERS, "the_stricter_of_envelope_and_turn_decides_what_is_kept"),
    ("S5", SESSIONS, "a_session_is_only_ever_its_reporters"),
    ("S5", OF_SESSIONS, "s5_s7_uploading_anothers_session_id_makes_a_session_of_ones_own"),
    ("S6", SESSIONS, "the_first_outcome_stays"),
    ("S6", SESSIONS, "parallel_ends_agree_on_one_outcome"),
    ("S7", OF_SESSIONS, "s5_s7_uploading_anothers_session_id_makes_a_session_of_ones_own"),
    ("S8", OF_SESSIONS, "s8_an_upload_repeated_twenty_times_is_the_same_events"),
    ("S9", SESSIONS, "what_a_session_may_not_say_is_named"),
    ("S10", OF_SESSIONS, "s10_a_started_session_outlives_a_gateway_killed_right_after_its_answer"),
];

const CREDENTIALS: &str = "ingest-gateway/tests/it/credentials.rs";
const EMITTERS: &str = "ingest-gateway/tests/it/emitters.rs";
const ENCODINGS: &str = "ingest-gateway/tests/it/encodings.rs";
const HOSTILE: &str = "ingest-gateway/tests/it/hostile.rs";
const LOOKALIKES: &str = "infra/all-in-one/tests/it/lookalikes.rs";
const OF_SESSIONS: &str = "ingest-gateway/tests/it/threats_sessions.rs";
const RECORDS: &str = "ingest-gateway/tests/it/records.rs";
const REFUSALS: &str = "ingest-gateway/tests/it/refusals.rs";
const SESSIONS: &str = "ingest-gateway/tests/it/sessions.rs";
const SIEGE: &str = "ingest-gateway/tests/it/siege.rs";
const SITE: &str = "schemas/src/site.rs";
const THREATS: &str = "ingest-gateway/tests/it/threats.rs";

#[test]
fn every_row_has_a_test_that_exists() {
    every_row_has_a_test(TESTS, threat_rows('X', 1..=21).chain(threat_rows('E', 1..=24)).chain(threat_rows('S', 1..=10)));
}
