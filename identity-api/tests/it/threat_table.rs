//! Which test stands for which threat to identity: credentials and sessions (X), resolving (D), delegations (G), webhook
//! registration (W), onboarding and health (I), what was found by attacking (A), and credentials of who is removed (S17).

use service_kit::testing::{ThreatTest, every_row_has_a_test, threat_rows};

const TESTS: &[ThreatTest] = &[
    ("X18", USER_SESSIONS, "x18_x19_whatever_is_no_session_or_key_gets_the_same_401_on_every_kind_of_route"),
    ("X19", USER_SESSIONS, "x18_x19_whatever_is_no_session_or_key_gets_the_same_401_on_every_kind_of_route"),
    ("X20", USER_SESSIONS, "x20_a_key_is_no_session_and_a_session_no_key"),
    ("X20", ROUTES, "s3_every_identity_route_answers_every_credential_as_the_table_says"),
    ("X21", "infra/service-kit/src/auth.rs", "x21_a_key_is_looked_up_by_the_hash_of_all_of_it_and_never_compared"),
    ("X22", "identity-api/tests/it/logs.rs", "s11_x22_no_session_token_or_client_secret_is_logged_at_trace"),
    ("X22", "identity-api/tests/it/api_keys.rs", "a_raw_key_is_shown_once_and_never_stored"),
    ("X23", TWO_PROCESSES, "s4_a_key_revoked_by_one_process_fails_at_the_other_at_once"),
    ("X23", TWO_PROCESSES, "s4_a_key_in_use_dies_with_the_answer_to_its_revocation"),
    ("X24", "identity-api/tests/it/credentials.rs", "a_key_may_do_what_its_scopes_say_and_no_more"),
    ("X24", "query-api/tests/it/visibility.rs", "only_a_valid_key_with_telemetry_read_reads"),
    ("X25", USER_SESSIONS, "x25_signing_in_ends_the_session_that_was_presented_and_opens_one_of_the_servers_choice"),
    ("X25", "identity-api/src/people/sign_in/cookies.rs", "x25_cookies_are_for_this_host_and_not_for_scripts"),
    ("X25", USER_SESSIONS, "s4_signing_out_counts_at_once_in_every_process_and_takes_the_cookie_back"),
    ("X25", "identity-api/tests/it/audit.rs", "x25_whose_role_changes_signs_in_again"),
    ("X25", "identity-api/tests/it/audit.rs", "x25_who_becomes_an_operator_or_no_longer_is_one_signs_in_again"),
    ("X26", "identity-api/tests/it/cross_site.rs", "x26_a_change_by_cookie_needs_a_page_of_our_own"),
    ("X26", "identity-api/tests/it/cross_site.rs", "x26_another_sites_page_signs_nobody_in"),
    ("X31", "identity-api/tests/it/magic_links.rs", "x31_a_link_signs_in_directly_only_where_it_was_requested"),
    ("X32", "infra/service-kit/src/http/inert.rs", "x32_nothing_acts_on_a_terminal_or_is_lost_in_json"),
    ("X32", "infra/service-kit/src/http/inert.rs", "x32_no_cell_runs_or_acts_on_a_terminal"),
    ("X32", "infra/cli/src/output.rs", "x32_csv_has_no_formula_behind_another_separator"),
    ("X32", "infra/cli/src/output.rs", "x32_tables_replace_what_acts_on_a_terminal"),
    ("X27", "identity-api/tests/it/cross_site.rs", "x27_no_other_site_may_read_an_answer_and_nobody_keeps_it"),
    ("X28", "identity-api/tests/it/object_ids.rs", "x29_x28_whatever_stands_in_the_place_of_an_id_is_not_there"),
    ("X29", "identity-api/tests/it/object_ids.rs", "x29_x28_whatever_stands_in_the_place_of_an_id_is_not_there"),
    ("RS1", RESOLVE, "rs1_rs5_resolving_calls_nobody_and_has_a_rate"),
    ("RS2", "identity-api/tests/it/domain_history.rs", "i3_rs2_a_registration_alone_shows_nothing_and_stops_nobody"),
    ("RS2", RESOLVE, "the_longest_verified_suffix_answers_and_its_canonical_domain_is_echoed"),
    ("RS3", RESOLVE, "exactly_one_of_domain_and_an_absolute_url_is_required"),
    (
        "RS4",
        "infra/lab/end-to-end/tests/it/lookalikes.rs",
        "e5_every_spelling_of_a_host_has_one_owner_for_reports_and_for_resolve",
    ),
    ("RS5", RESOLVE, "rs1_rs5_resolving_calls_nobody_and_has_a_rate"),
    ("G1", DELEGATIONS, "g1_only_a_content_owner_delegates_and_only_reading"),
    ("G2", DELEGATIONS, "g2_a_grantee_is_another_organisation_and_a_platform_or_an_agent"),
    ("G3", RACES, "s12_of_forty_grants_of_a_pair_one_wins_and_of_forty_revocations_one_is_told"),
    ("G4", DELEGATIONS, "g4_only_the_grantor_revokes"),
    ("G5", DELEGATIONS, "g5_a_list_shows_the_callers_own_side_only"),
    ("G6", "identity-api/tests/it/answer_races.rs", "s12_g6_of_forty_answers_to_a_request_one_wins_whatever_they_say"),
    ("G7", REQUESTS, "g7_an_expired_request_is_gone_for_both_answers_and_a_resolved_one_is_a_conflict"),
    ("G8", REQUESTS, "g8_only_the_grantor_answers"),
    ("G9", REQUESTS, "g9_a_domain_is_read_like_everywhere_else"),
    ("G10", RACES, "s12_of_forty_requests_of_a_pair_one_is_filed"),
    ("G11", "identity-api/tests/it/bulk_requests.rs", "g11_every_item_stands_alone_in_order_and_the_summary_adds_up"),
    (
        "G11",
        "identity-api/tests/it/bulk_outage.rs",
        "g11_a_bulk_call_whose_database_dies_in_the_middle_leaves_nothing_and_its_repeat_files_each_once",
    ),
    ("G12", "identity-api/tests/it/rates.rs", "g12_a_bulk_call_costs_one_for_each_of_its_requests"),
    ("W1", WEBHOOKS, "w1_w2_w3_a_receiver_is_a_public_https_server_by_name"),
    ("W1", "infra/service-kit/tests/it/spellings.rs", "s5_of_four_hundred_spellings_of_the_inside_none_is_called"),
    ("W2", WEBHOOKS, "w1_w2_w3_a_receiver_is_a_public_https_server_by_name"),
    ("W3", WEBHOOKS, "w1_w2_w3_a_receiver_is_a_public_https_server_by_name"),
    ("W4", RACES, "s12_an_organisation_never_has_more_than_ten_active_endpoints"),
    ("W5", WEBHOOKS, "w5_a_secret_is_shown_once_and_stored_sealed"),
    ("W5", WATCHED, "w5_no_answer_to_an_operator_has_anything_of_the_secret_the_payload_the_path_or_the_query"),
    ("W6", WEBHOOKS, "w6_an_endpoint_is_its_organisations_only"),
    ("W6", WATCHED, "w6_nobody_but_an_operator_sees_endpoints_of_others_and_a_refusal_is_no_look"),
    ("W7", WEBHOOKS, "w7_a_subscription_names_known_types"),
    ("W7", "identity-api/tests/it/outbox.rs", "w7_everybody_concerned_is_told_and_only_of_what_they_subscribed_to"),
    ("W8", "identity-api/tests/it/outbox.rs", "w8_nothing_is_written_for_a_disabled_endpoint"),
    ("W8", RACES, "w8_after_an_endpoint_is_disabled_nothing_is_written_for_it"),
    ("I1", ORGANIZATIONS, "i1_a_key_founds_nothing_and_the_other_types_are_asked_for_elsewhere"),
    ("I2", ORGANIZATIONS, "i2_members_that_are_not_the_callers_to_set_are_refused"),
    ("I3", "identity-api/tests/it/domain_history.rs", "i3_rs2_a_registration_alone_shows_nothing_and_stops_nobody"),
    ("I4", "identity-api/tests/it/access_requests.rs", "i4_a_person_sees_their_own_requests_of_each_type"),
    ("I5", "identity-api/tests/it/access_requests.rs", "i5_every_fault_of_a_request_is_told_at_once_and_nothing_is_stored"),
    ("I6", "identity-api/tests/it/settings.rs", "i6_changes_of_two_flags_at_once_keep_both"),
    ("I6", "identity-api/tests/it/settings.rs", "i6_what_sets_no_known_flag_to_a_boolean_is_refused"),
    ("I7", "query-api/tests/it/readiness.rs", "a_postgres_that_is_away_or_hangs_is_503_within_seconds"),
    ("I8", "query-api/tests/it/readiness.rs", "a_postgres_that_is_away_or_hangs_is_503_within_seconds"),
    ("A2", HEAD, "a2_a_page_whose_tree_would_have_millions_of_nodes_ends_with_its_head"),
    ("A2", HEAD, "a2_a_head_without_end_costs_so_many_tokens_and_no_more"),
    ("A2", PROOF, "a2_a_document_is_read_beside_the_thread_that_serves_others"),
    ("A2", PROOF, "a2_manifests_and_heads_are_read_by_the_few_readers_there_are_and_by_nobody_else"),
    ("A2", "identity-api/tests/it/domains.rs", "a2_a_page_whose_tree_would_explode_is_read_no_further_than_its_head"),
    ("A4", KEY_MAKERS, "a4_a_member_who_is_no_owner_mints_and_revokes_no_key"),
    ("A4", KEY_MAKERS, "a4_every_key_names_its_maker"),
    ("A4", WAYS_IN, "a4_a_member_who_is_no_owner_lets_nobody_in"),
    ("A18", WAYS_IN, "a18_members_release_enable_test_and_revoke_nothing"),
    ("A5", WAYS_IN, "a5_a_key_delegates_and_approves_at_most_its_own_scopes"),
    ("A5", KEY_MAKERS, "a5_a_key_grants_at_most_its_own_scopes"),
    ("A5", KEY_MAKERS, "a5_the_scope_to_provision_is_granted_only_where_an_operator_trusts_the_organisation"),
    ("S17", KEY_MAKERS, "s17_who_is_removed_leaves_no_key_behind_not_even_one_that_a_key_of_theirs_made"),
    ("S17", KEY_MAKERS, "s17_keys_stay_where_the_owner_says_so_and_go_with_an_owner_who_becomes_a_member"),
    ("S17", KEY_MAKERS, "s17_a_key_that_is_minted_while_its_maker_is_removed_is_revoked_or_is_none"),
    ("S17", KEY_MAKERS, "s17_invites_that_a_removed_persons_key_has_made_are_withdrawn"),
    ("S17", KEY_MAKERS, "s17_an_operator_who_is_removed_leaves_no_key_behind_unless_it_is_to_be_kept"),
    ("S17", WAYS_IN, "s17_who_is_removed_leaves_no_delegation_and_no_webhook_endpoint_behind"),
    ("S17", WAYS_IN, "s17_delegations_and_endpoints_stay_where_the_owner_says_so_and_go_with_an_owner_who_becomes_a_member"),
    ("S17", WAYS_IN, "s17_a_member_who_is_no_owner_gets_no_signing_secret"),
    ("S17", WAYS_IN, "s17_an_endpoint_goes_with_the_person_who_rotated_its_secret_last"),
    ("S17", WAYS_IN, "s17_a_secret_that_is_rotated_while_who_does_is_removed_signs_nothing_or_is_never_made"),
    ("S17", WAYS_IN, "s17_what_a_removed_person_made_elsewhere_stays"),
    ("S17", WAYS_IN, "s17_what_is_being_made_while_its_maker_is_removed_is_taken_back_or_is_never_made"),
    ("S17", WAYS_IN, "s17_an_operator_who_is_removed_leaves_nothing_behind_that_their_keys_made"),
    ("S17", WAYS_IN, "s17_a_removed_member_loses_the_keys_they_minted_there_as_an_operator"),
    ("A8", CONTESTS, "a8_a_fresh_dns_proof_takes_a_host_that_is_held_on_somebodys_word_and_both_are_told"),
    ("A8", CONTESTS, "a8_a_proof_that_stands_keeps_a_host_and_one_that_is_gone_does_not"),
    ("A8", CONTESTS, "a8_of_all_who_prove_an_attested_host_at_once_one_gets_it"),
    ("A8", CONTESTS, "a8_a_holder_who_has_proved_the_host_meanwhile_keeps_it"),
    ("A8", CONTESTS, "a8_a_holder_whose_proof_is_being_noted_keeps_the_host"),
    ("A8", CONTESTS, "a8_the_process_looks_at_due_proofs_by_itself"),
    ("A8", CONTESTS, "a8_every_proof_is_looked_at_again_and_lapses_after_seven_days_without_it"),
    ("A8", CONTESTS, "a8_a_service_that_was_away_for_a_week_lets_nothing_lapse_on_its_first_look"),
    ("A8", CONTESTS, "a8_an_owner_proves_again_what_was_attested_or_is_missing"),
    ("A8", CONTESTS, "a8_several_processes_look_at_each_proof_once_and_tell_of_each_lapse_once"),
    ("A10", MAIL_NAMES, "a10_an_organisation_without_a_verified_domain_is_not_named_in_a_mail_to_somebody_else"),
    ("A10", MAIL_NAMES, "a10_a14_what_reads_as_a_link_or_as_another_name_names_no_organisation"),
    ("A10", NAMES, "a10_a_name_that_reads_as_a_link_is_refused_however_it_is_spelt"),
    (
        "A11",
        "identity-api/tests/it/rates.rs",
        "a11_unknown_sessions_and_keys_are_429_once_their_address_has_tried_too_many_and_known_ones_go_on",
    ),
    ("A14", NAMES, "a14_a_name_that_looks_like_another_is_refused"),
    ("A14", NAMES, "a14_honest_names_in_any_one_script_and_in_those_of_east_asia_pass"),
    ("A14", NAMES, "a14_what_nobody_sees_is_known"),
    ("A15", "identity-api/tests/it/rates.rs", "a15_a_partners_routes_have_a_rate_for_each_key_and_for_all_keys_of_the_partner"),
    (
        "A15",
        "identity-api/tests/it/rates.rs",
        "a15_a_partners_key_that_is_spent_elsewhere_waits_at_its_routes_and_its_other_keys_do_not",
    ),
    ("I9", "infra/lab/end-to-end/tests/it/metrics.rs", "i9_ten_thousand_domains_add_no_series"),
    ("F50", BUDGETS, "f50_changes_end_in_429_when_the_budget_is_spent"),
    ("F50", BUDGETS, "f50_a_person_who_creates_organizations_has_a_budget"),
    ("F50", "identity-api/tests/it/growth.rs", "f50_every_change_ends_before_postgres_grows_by_10_mb"),
    ("F51", BUDGETS, "f51_many_keys_of_one_organization_share_a_rate"),
    ("F51", BUDGETS, "f51_an_organization_has_at_most_1000_active_keys"),
    ("F51", BUDGETS, "f51_a_list_of_keys_has_at_most_1000_revoked_ones"),
    ("F51", BUDGETS, "f51_an_organization_has_at_most_1000_members"),
    ("F51", BUDGETS, "f51_every_list_is_paged"),
    ("F52", BUDGETS, "f52_an_endpoint_has_five_tests_and_redeliveries_a_minute"),
    ("F52", BUDGETS, "f52_an_organization_has_twenty_tests_a_minute"),
    ("F53", "identity-api/src/people/sign_in/magic_links.rs", "f53_mails_for_one_address_leave_slots_for_others"),
];

const BUDGETS: &str = "identity-api/tests/it/budgets.rs";
const CONTESTS: &str = "identity-api/tests/it/domain_contests.rs";
const DELEGATIONS: &str = "identity-api/tests/it/delegations.rs";
const HEAD: &str = "identity-api/src/domains/head.rs";
const PROOF: &str = "identity-api/src/domains/proof.rs";
const KEY_MAKERS: &str = "identity-api/tests/it/key_makers.rs";
const WAYS_IN: &str = "identity-api/tests/it/granting.rs";
const MAIL_NAMES: &str = "identity-api/tests/it/mail_names.rs";
const NAMES: &str = "identity-api/src/request/text_rules/names.rs";
const ORGANIZATIONS: &str = "identity-api/tests/it/organizations.rs";
const RACES: &str = "identity-api/tests/it/races.rs";
const REQUESTS: &str = "identity-api/tests/it/delegation_requests.rs";
const RESOLVE: &str = "query-api/tests/it/resolve.rs";
const ROUTES: &str = "identity-api/tests/it/routes.rs";
const TWO_PROCESSES: &str = "identity-api/tests/it/two_processes.rs";
const USER_SESSIONS: &str = "identity-api/tests/it/user_sessions.rs";
const WATCHED: &str = "identity-api/tests/it/operator_webhooks.rs";
const WEBHOOKS: &str = "identity-api/tests/it/webhooks.rs";

#[test]
fn every_row_has_a_test_that_exists() {
    let of_callers = threat_rows("X", 18..=29).chain(threat_rows("X", 31..=32)).chain(threat_rows("RS", 1..=5));
    let of_identity = threat_rows("G", 1..=12).chain(threat_rows("W", 1..=8)).chain(threat_rows("I", 1..=9));
    let found =
        [2, 4, 5, 8, 10, 11, 14, 15, 18].into_iter().flat_map(|row| threat_rows("A", row..=row)).chain(threat_rows("S", 17..=17));
    let of_tenants = threat_rows("F", 50..=53);
    every_row_has_a_test(TESTS, of_callers.chain(of_identity).chain(found).chain(of_tenants));
}
