//! Which test stands for which threat to the reads (R), to click tokens (C) and to resolving (D).

use service_kit::testing::{ThreatTest, every_row_has_a_test, threat_rows};

const TESTS: &[ThreatTest] = &[
    ("CT1", CLICKS, "ct1_tokens_share_no_beginning_and_their_bits_are_even"),
    ("CT1", CLICKS, "ct1_look_ups_of_one_key_are_limited"),
    ("CT2", CLICKS, "ct2_ct10_malformed_unknown_expired_and_unshared_tokens_get_the_very_same_404"),
    ("CT3", MADE, "a_click_token_binds_an_engagement_to_its_session"),
    ("CT4", MADE, "a_click_token_binds_an_engagement_to_its_session"),
    ("CT5", CLICKS, "ct5_only_a_platforms_or_an_agents_key_that_may_read_looks_tokens_up"),
    ("CT5", "ingest-gateway/tests/it/credentials.rs", "s3_every_write_route_answers_every_credential_as_the_table_says"),
    ("CT6", DISCLOSE, "s10_ct6_ct7_ct8_ct9_ten_thousand_sessions_show_at_each_level_no_more_than_the_table_and_never_their_id"),
    ("CT6", SPELLINGS, "ct6_a_session_id_is_found_in_every_spelling_alone_and_within_other_text"),
    (
        "CT6",
        "query-api/tests/it/clicks_planted.rs",
        "s10_ct6_ct7_sessions_through_the_stores_show_no_more_than_their_level_and_never_their_id",
    ),
    ("CT7", DISCLOSE, "ct7_each_level_shows_what_it_is_to_show"),
    ("CT7", CLICKS, "a_session_without_a_level_is_shown_as_its_strictest_turn_asks"),
    ("CT8", CLICKS, "ct8_ct10_both_consents_count_from_the_next_look_up_on_and_the_longest_verified_host_decides"),
    ("CT9", CLICKS, "a_manifest_is_exactly_as_specified"),
    ("CT10", CLICKS, "ct8_ct10_both_consents_count_from_the_next_look_up_on_and_the_longest_verified_host_decides"),
    ("CT11", CLICKS, "ct11_a_token_is_valid_for_ninety_days_and_not_a_moment_longer"),
    ("CT12", CLICKS, "a_manifest_is_exactly_as_specified"),
    ("CT13", CLICKS, "ct13_no_token_is_logged_at_any_level"),
    ("CT13", CLICKS, "ct13_an_answer_is_not_stored_and_sends_no_referrer"),
];

const REFUSED: &str = "a_domain_that_is_not_the_callers_is_refused_the_same_whether_it_exists_or_not";

const READS: &[ThreatTest] = &[
    ("R1", "query-api/tests/it/visibility.rs", REFUSED),
    ("R1", PROBES, "s2_what_is_not_yours_and_what_is_not_there_are_answered_alike"),
    ("R2", DELEGATION, "every_reason_to_refuse_a_delegated_read_has_the_same_answer"),
    ("R2", PROBES, "s2_what_is_not_yours_and_what_is_not_there_are_answered_alike"),
    ("R3", DELEGATION, "every_reason_to_refuse_a_delegated_read_has_the_same_answer"),
    ("R3", DELEGATION, "a_platform_key_reads_nothing_of_its_own_and_needs_the_scope"),
    ("R4", DELEGATION, "a_delegated_answer_is_the_grantors_byte_for_byte"),
    ("R4", LISTS, "a_delegated_list_is_the_grantors_byte_for_byte_until_the_grant_ends"),
    ("R4", FILTERS, "r4_a_delegated_answer_is_the_grantors_to_the_byte_for_random_filters"),
    ("R4", FILTERS, "r4_what_an_owner_sees_as_a_partner_is_the_partners_answer_to_the_byte"),
    ("R4", DELEGATION, "s2_as_a_partner_only_the_owner_looks_and_only_while_the_delegation_is_in_force"),
    ("R5", DELEGATION, "s4_what_is_revoked_reads_nothing_from_the_next_request_on_at_any_process"),
    ("R5", LISTS, "a_delegated_list_is_the_grantors_byte_for_byte_until_the_grant_ends"),
    ("R5", REVOKED, "s4_whatever_one_process_takes_back_no_process_gives_from_its_answer_on"),
    ("R5", READERS, "s4_a_session_reads_nothing_from_its_end_or_that_of_the_membership_on_at_any_process"),
    ("R6", DELEGATION, "a_platform_key_reads_nothing_of_its_own_and_needs_the_scope"),
    ("R7", "query-api/tests/it/former_owners.rs", "r7_events_of_a_host_beneath_count_from_when_its_former_owner_left"),
    ("R7", OWNED, "r7_whoever_comes_after_another_owner_inherits_nothing_and_whoever_comes_back_sees_their_own_again"),
    ("R7", HISTORIES, "s1_every_read_of_every_random_history_equals_the_model"),
    ("R8", INJECTIONS, "r8_what_is_no_value_of_a_parameter_is_refused_before_any_statement"),
    ("R8", INJECTIONS, "r8_a_value_is_no_part_of_a_statement_and_figures_are_of_one_statement"),
    ("R8", INJECTIONS, "r8_stored_texts_that_look_like_statements_are_read_back_to_the_letter"),
    ("R9", PAGING, "a_wrong_limit_or_offset_is_400_on_every_list_and_a_large_limit_is_clamped_and_echoed"),
    ("R9", "query-api/src/parameters/paging.rs", "a_limit_is_a_whole_number_from_one_on_and_clamped"),
    ("R10", PAGING, "beyond_the_end_there_are_no_items_and_the_right_total_however_far"),
    ("R10", "query-api/src/parameters/paging.rs", "an_offset_is_a_whole_number_from_zero_on"),
    ("R10", SQL, "a_result_above_a_limit_is_413_an_overload_503_and_a_wrong_statement_500"),
    ("R11", "query-api/src/parameters/period.rs", "since_after_until_is_refused"),
    ("R11", "query-api/src/parameters/period.rs", "a_period_is_half_open_and_includes_the_day_of_until"),
    ("R11", "query-api/tests/it/parameters.rs", "a_period_is_echoed_in_the_one_format_of_instants_or_refused"),
    (
        "R12",
        "query-api/tests/it/paging_ties.rs",
        "r12_ten_thousand_events_of_ten_moments_are_the_union_of_their_pages_at_any_limit",
    ),
    ("R12", WALKS, "r12_a_walk_tells_of_each_retrieval_once_and_of_all_that_stood_there_while_others_report"),
    ("R12", WALKS, "r12_an_agent_walks_its_own_reports_alike"),
    ("R12", WALKS, "r12_a_report_from_before_that_is_stored_during_a_walk_moves_its_own_retrieval_and_no_other"),
    ("R12", PAGING, "what_arrives_later_but_happened_earlier_moves_no_page_before_it"),
    ("R13", PERMUTED, "every_read_agrees_with_every_other_for_random_histories_filters_and_windows"),
    ("R13", PERMUTED, "every_read_agrees_with_every_other_while_rows_arrive_and_merge"),
    ("R14", SETTINGS, "s1_every_statement_of_every_read_goes_by_the_settings_that_figures_are_exact_and_reads_bounded_by"),
    ("R14", SETTINGS, "s1_a_server_that_may_count_too_few_rows_is_refused_in_one_line"),
    ("R14", HISTORIES, "s1_every_read_asks_the_store_to_remember_no_condition_and_equals_the_model_where_the_proxy_asks_it_to"),
    ("R14", "query-api/tests/it/counting.rs", "repeats_count_once"),
    ("R15", "query-api/tests/it/counting.rs", "the_counting_contract_holds_figure_by_figure"),
    ("R16", LISTS, "two_agents_read_their_own_reports_and_nothing_of_each_other_or_of_an_owner"),
    ("R17", LISTS, "conversations_and_what_belongs_to_them_are_never_shown_to_an_owner"),
    ("R18", MANY, "r18_of_a_hundred_reads_at_once_a_key_has_its_share_and_the_rest_are_told_to_wait"),
    ("R18", MANY, "r18_a_streamed_answer_counts_until_its_last_item_is_out_or_its_reader_has_left"),
    ("R18", MANY, "r18_when_nobody_has_a_place_left_it_is_503_and_says_when_to_come_again"),
    ("R18", HELD_BACK, "r18_a_page_larger_than_one_may_be_is_refused_for_good_in_every_format_and_a_smaller_one_is_answered"),
    ("R18", HELD_BACK, "r18_who_reads_slowly_but_steadily_gets_the_whole_page_however_short_the_stores_time_is"),
    ("R18", HELD_BACK, "an_answer_whose_store_dies_on_the_way_looks_whole_in_no_format"),
    ("R18", SQL, "a_read_cannot_write"),
    ("R18", SIEGED, "r18_reports_are_taken_while_a_hundred_reads_of_a_year_are_under_way"),
    ("R19", "query-api/tests/it/routes.rs", "r19_no_other_method_or_spelling_of_any_path_gets_around_the_key"),
    ("RS1", RESOLVE, "rs1_rs5_resolving_calls_nobody_and_has_a_rate"),
    ("RS2", RESOLVE, "the_longest_verified_suffix_answers_and_its_canonical_domain_is_echoed"),
    ("RS2", OWNED, "i3_rs2_a_registration_alone_shows_nothing_and_stops_nobody"),
    ("RS3", RESOLVE, "exactly_one_of_domain_and_an_absolute_url_is_required"),
    ("RS3", RESOLVE, "the_longest_verified_suffix_answers_and_its_canonical_domain_is_echoed"),
    (
        "RS4",
        "infra/lab/end-to-end/tests/it/lookalikes.rs",
        "e5_every_spelling_of_a_host_has_one_owner_for_reports_and_for_resolve",
    ),
    ("RS5", RESOLVE, "rs1_rs5_resolving_calls_nobody_and_has_a_rate"),
];

/// What was found by attack.
const ATTACKS: &[ThreatTest] = &[
    ("A6", CONSENT, "a6_a_host_and_a_parent_are_asked_about_once_however_many_lie_beneath_them"),
    ("A6", CONSENT, "a6_what_is_asked_is_every_parent_and_nothing_else_whatever_the_order_of_the_hosts"),
    ("A6", CONSENT, "a6_many_hosts_are_asked_about_in_questions_of_a_size"),
    ("A6", "schemas/src/site.rs", "a6_a_host_of_more_labels_than_anybody_needs_is_nobodys"),
    ("A7", SPELLINGS, "a7_each_byte_of_a_text_is_looked_at_a_fixed_number_of_times_whatever_stands_there"),
    ("A7", DISCLOSE, "a7_of_data_a_manifest_says_nothing_but_words_of_the_standard_flags_and_counts_of_tokens"),
    ("A7", DISCLOSE, "a7_the_texts_of_a_manifest_hold_the_id_in_no_spelling_at_any_level"),
    ("A13", DATA, "a13_an_owner_is_shown_the_list_of_the_type_and_namespaced_names_and_nothing_else_at_any_depth"),
    ("A13", DATA, "a13_what_is_nested_deeper_than_can_be_looked_through_in_passing_is_left_out"),
    ("A13", DATA, "a13_the_reporter_reads_back_all_it_sent"),
    ("A13", "query-api/src/event_data/shown.rs", "a13_the_list_in_docs_api_is_the_one_in_the_code"),
    ("A16", SHARED, "a16_s18_the_reporter_of_a_click_learns_nothing_of_whose_token_it_was_in_any_format"),
    ("A16", SHARED, "a16_the_issuer_sees_the_clicks_on_its_tokens_and_nothing_of_who_reported_them"),
    ("A16", SHARED, "a16_an_owner_learns_whose_click_it_was_only_of_the_host_that_the_tokens_link_leads_to"),
    ("A16", SHARED, "a16_own_reports_and_clicks_by_others_are_one_list_for_totals_windows_pages_and_walks"),
    ("A16", SHARED, "a16_a_document_holds_the_first_thousand_clicks_of_others_and_all_of_its_own"),
    ("A16", DATA, "a16_the_issuer_of_a_token_is_shown_of_anothers_data_what_was_clicked_and_what_was_paid"),
    ("S18", SHARED, "a16_s18_the_reporter_of_a_click_learns_nothing_of_whose_token_it_was_in_any_format"),
    ("S18", SHARED, "s18_which_of_two_copies_counts_says_nothing_of_the_sessions_behind_their_tokens"),
    ("S18", "schemas/src/report_keys.rs", "resolved_and_unresolved_copies_have_one_identity"),
    (
        "S18",
        "infra/lab/end-to-end/tests/it/whole_story/clicks.rs",
        "s18_a_network_that_reports_by_another_s_token_learns_nothing_and_agent_and_owner_see_it_with_sharing_off_and_on_at_every_level",
    ),
];

const CONSENT: &str = "query-api/src/access/consent.rs";
const DATA: &str = "query-api/src/event_data/tests.rs";
const DELEGATION: &str = "query-api/tests/it/delegation.rs";
const FILTERS: &str = "query-api/tests/it/delegated_filters.rs";
const HELD_BACK: &str = "query-api/tests/it/held_back.rs";
const SETTINGS: &str = "query-api/tests/it/statement_settings.rs";
const HISTORIES: &str = "infra/lab/end-to-end/tests/it/histories.rs";
const INJECTIONS: &str = "query-api/tests/it/injections.rs";
const LISTS: &str = "query-api/tests/it/lists.rs";
const MANY: &str = "query-api/tests/it/many_reads.rs";
const OWNED: &str = "identity-api/tests/it/domain_history.rs";
const PAGING: &str = "query-api/tests/it/paging.rs";
const PERMUTED: &str = "query-api/tests/it/permuted.rs";
const PROBES: &str = "infra/lab/end-to-end/tests/it/probes.rs";
const READERS: &str = "query-api/tests/it/session_readers.rs";
const RESOLVE: &str = "query-api/tests/it/resolve.rs";
const REVOKED: &str = "infra/lab/end-to-end/tests/it/revocations.rs";
const SHARED: &str = "query-api/tests/it/shared_tokens.rs";
const SIEGED: &str = "infra/lab/end-to-end/tests/it/reads_beside_reports.rs";
const SPELLINGS: &str = "query-api/src/disclose/id_encodings.rs";
const SQL: &str = "query-api/src/reads/refusals.rs";
const WALKS: &str = "query-api/tests/it/walks.rs";
const CLICKS: &str = "query-api/tests/it/clicks.rs";
const DISCLOSE: &str = "query-api/src/disclose/tests.rs";
const MADE: &str = "ingest-gateway/tests/it/sessions.rs";

#[test]
fn every_row_has_a_test_that_exists() {
    every_row_has_a_test(TESTS, threat_rows("CT", 1..=13));
    every_row_has_a_test(ATTACKS, ["A6", "A7", "A13", "A16", "S18"].map(str::to_owned));
    every_row_has_a_test(READS, threat_rows("R", 1..=19).chain(threat_rows("RS", 1..=5)));
}
