//! Which test stands for which threat to the delivery of webhooks (V), and for which fault of its pipeline and of the store (F).

use service_kit::testing::{ThreatTest, every_row_has_a_test, threat_rows};

const TESTS: &[ThreatTest] = &[
    ("V1", REBINDING, "s5_v1_of_a_thousand_flips_between_outside_and_inside_none_gets_in"),
    ("V1", REBINDING, "v1_what_was_looked_at_is_what_is_connected_to"),
    ("V2", ADDRESS, "s5_v2_the_verdict_on_a_million_addresses_is_the_tables_and_no_carrier_gets_past_it"),
    ("V2", ADDRESS, "s5_v2_of_ipv6_only_what_is_handed_out_is_public"),
    ("V3", EGRESS, "v3_a_proxy_in_the_environment_is_not_used"),
    ("V3", END_TO_END, "v15_v3_whoever_is_concerned_is_told_signed_at_a_local_receiver_and_no_proxy_hears_of_it"),
    ("V4", EGRESS, "v4_a_redirect_is_an_answer_and_nobody_follows_it"),
    ("V4", FAIRNESS, "v7_v4_what_is_no_good_server_gets_nothing_and_is_tried_again"),
    ("V5", EGRESS, "s6_v5_every_slow_or_endless_receiver_is_left_in_time"),
    ("V5", EGRESS, "v5_what_is_packed_stays_packed"),
    ("V5", FAIRNESS, "s6_v5_an_attempt_at_each_of_nine_slow_or_endless_receivers_ends_by_itself"),
    ("V6", DELIVERIES, "v6_an_attempt_looks_the_name_up_anew_and_keeps_no_connection_of_the_one_before"),
    ("V7", EGRESS, "v7_a_certificate_that_is_not_good_is_refused"),
    ("V7", FAIRNESS, "v7_v4_what_is_no_good_server_gets_nothing_and_is_tried_again"),
    ("V8", "schemas/src/webhook/signature.rs", "v8_the_signature_is_what_openssl_computes_over_the_same_bytes"),
    ("V8", DELIVERIES, "v8_a_delivery_arrives_signed_with_the_headers_of_the_specification_and_once"),
    ("V8", RECEIVERS, "v8_v9_the_library_and_the_receivers_of_the_readme_agree_on_real_and_on_forged_deliveries"),
    ("V9", RECEIVERS, "v8_v9_the_library_and_the_receivers_of_the_readme_agree_on_real_and_on_forged_deliveries"),
    ("V9", "schemas/src/webhook/verify.rs", "one_changed_byte_anywhere_is_a_forgery"),
    ("V10", DELIVERIES, "s7_v10_a_delivery_that_always_fails_is_attempted_eight_times_on_schedule_and_is_then_a_dead_letter"),
    ("V10", "schemas/src/webhook/schedule.rs", "v10_eight_attempts_are_spread_over_38_hours_and_36_minutes_at_least"),
    ("V11", FAIRNESS, "s6_v11_f35_a_hundred_hanging_endpoints_delay_nobody_and_hold_no_connection"),
    ("V12", TURNS, "v12_an_organisation_that_floods_the_queue_waits_behind_itself_alone"),
    ("V12", TURNS, "v12_an_organisation_whose_endpoints_have_hung_and_rest_is_not_put_behind_others"),
    ("V13", DELIVERIES, "v13_what_was_rolled_back_is_not_sent"),
    (
        "V13",
        "identity-api/tests/it/outbox.rs",
        "a_change_that_cannot_be_told_does_not_happen_and_one_that_does_not_happen_is_not_told",
    ),
    ("V14", FAULTS, "v14_of_three_deliverers_each_message_has_one"),
    ("V14", FAULTS, "v14_who_has_lost_a_lease_writes_nothing_however_its_attempt_ends"),
    ("V15", "schemas/src/webhook.rs", "a_created_delegation_is_told_with_exactly_the_published_members"),
    ("V15", END_TO_END, "v15_v3_whoever_is_concerned_is_told_signed_at_a_local_receiver_and_no_proxy_hears_of_it"),
    ("W8", DELIVERIES, "w8_no_attempt_begins_once_an_endpoint_is_disabled_and_what_was_pending_is_dropped"),
    ("W8", SILENCE, "w8_a_deliverer_that_was_stopped_between_a_lease_and_its_attempt_gives_the_lease_back_instead"),
    ("F9", WRITER, "a_writer_killed_between_statements_loses_nothing"),
    ("F9", "stream-workers/tests/it/writer/refused.rs", "lost_responses_change_nothing"),
    ("F18", SILENCE, "f18_connections_that_the_network_has_swallowed_keep_no_place_in_their_pool"),
    ("F18", SILENCE, "f18_a_deliverer_whose_look_for_what_is_due_is_never_answered_looks_again"),
    ("F18", SILENCE, "f18_a_deliverer_whose_end_of_an_attempt_is_never_confirmed_gives_its_lanes_back_and_counts_it_once"),
    ("F18", SILENCE, "f18_a_deliverer_to_which_postgresql_says_nothing_more_says_so_and_stops_in_time"),
    ("F19", FAULTS, "f19_postgres_restarts_while_the_outbox_drains_and_nothing_is_missing"),
    ("F34", FAULTS, "s7_f34_a_delivery_survives_the_kill_of_its_deliverer_and_comes_again_as_it_was"),
    ("F34", KILLS, "s7_whenever_deliverers_are_killed_no_delivery_is_missing_and_repeats_are_byte_equal"),
    ("F35", FAIRNESS, "s6_v11_f35_a_hundred_hanging_endpoints_delay_nobody_and_hold_no_connection"),
];

const ADDRESS: &str = "infra/service-kit/src/egress/address.rs";
const DELIVERIES: &str = "stream-workers/tests/it/deliveries.rs";
const EGRESS: &str = "infra/service-kit/tests/it/egress.rs";
const END_TO_END: &str = "infra/lab/end-to-end/tests/it/webhooks.rs";
const FAIRNESS: &str = "stream-workers/tests/it/fairness.rs";
const TURNS: &str = "stream-workers/tests/it/turns.rs";
const FAULTS: &str = "stream-workers/tests/it/delivery_faults.rs";
const SILENCE: &str = "stream-workers/tests/it/delivery_silence.rs";
const WRITER: &str = "stream-workers/tests/it/writer.rs";
const KILLS: &str = "stream-workers/tests/it/kills.rs";
const REBINDING: &str = "infra/service-kit/tests/it/rebinding.rs";
const RECEIVERS: &str = "stream-workers/tests/it/receivers.rs";

#[test]
fn every_row_has_a_test_that_exists() {
    let faults = ["W8", "F9", "F18", "F19", "F34", "F35"].map(str::to_owned);
    every_row_has_a_test(TESTS, threat_rows("V", 1..=15).chain(faults));
}
