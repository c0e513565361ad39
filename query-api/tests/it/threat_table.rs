//! Which test stands for which threat to click tokens (C).
//!
//! Must name a test for every row, and only tests that exist.

use service_kit::testing::{ThreatTest, every_row_has_a_test, threat_rows};

const TESTS: &[ThreatTest] = &[
    ("C1", CLICKS, "c1_tokens_share_no_beginning_and_their_bits_are_even"),
    ("C1", CLICKS, "c1_look_ups_of_one_key_are_limited"),
    ("C2", CLICKS, "c2_c10_malformed_unknown_expired_and_unshared_tokens_get_the_very_same_404"),
    ("C3", MADE, "a_click_token_binds_an_engagement_to_its_session"),
    ("C4", MADE, "a_click_token_binds_an_engagement_to_its_session"),
    ("C5", CLICKS, "c5_only_a_platforms_or_an_agents_key_that_may_read_looks_tokens_up"),
    ("C5", "ingest-gateway/tests/it/credentials.rs", "s3_every_write_route_answers_every_credential_as_the_table_says"),
    ("C6", DISCLOSE, "s10_c6_c7_c8_c9_ten_thousand_sessions_show_at_each_level_no_more_than_the_table_and_never_their_id"),
    ("C6", "query-api/src/spellings.rs", "c6_a_session_id_is_found_in_every_spelling_alone_and_within_other_text"),
    (
        "C6",
        "query-api/tests/it/clicks_planted.rs",
        "s10_c6_c7_sessions_through_the_stores_show_no_more_than_their_level_and_never_their_id",
    ),
    ("C7", DISCLOSE, "c7_each_level_shows_what_it_is_to_show"),
    ("C7", CLICKS, "a_session_without_a_level_is_shown_as_its_strictest_turn_asks"),
    ("C8", CLICKS, "c8_c10_both_consents_count_from_the_next_look_up_on_and_the_longest_verified_host_decides"),
    ("C9", CLICKS, "a_manifest_is_exactly_as_specified"),
    ("C10", CLICKS, "c8_c10_both_consents_count_from_the_next_look_up_on_and_the_longest_verified_host_decides"),
    ("C11", CLICKS, "c11_a_token_is_valid_for_ninety_days_and_not_a_moment_longer"),
    ("C12", CLICKS, "a_manifest_is_exactly_as_specified"),
    ("C13", CLICKS, "c13_no_token_is_logged_at_any_level"),
    ("C13", CLICKS, "c13_an_answer_is_not_stored_and_sends_no_referrer"),
];

const CLICKS: &str = "query-api/tests/it/clicks.rs";
const DISCLOSE: &str = "query-api/src/disclose/tests.rs";
const MADE: &str = "ingest-gateway/tests/it/sessions.rs";

#[test]
fn every_row_has_a_test_that_exists() {
    every_row_has_a_test(TESTS, threat_rows('C', 1..=13));
}
