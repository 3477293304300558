"""Public fault reports of this field, by number, and the tests that show how this server behaves.

The letters in front of the titles: W wire or session, E the real stages with tiny weights, M needs the real model,
C configuration and start-up, S security. A test is `folder/file::name` below `tests`; all its parameters count.
"""

NUM_CASES = 78

CHAT, MEDIA, STREAM = "protocol/test_chat.py", "protocol/test_media.py", "protocol/test_streaming.py"
LEAVE, SECURE = "protocol/test_disconnect.py", "protocol/test_security.py"
SESSION, GATE = "unit/realtime/test_reported_faults.py", "unit/serving/realtime/test_gate.py"
ENGINE, WORKERS = "integration/test_engine_generate.py", "integration/test_worker_processes.py"
TALKER, SERVED = "unit/engine/test_talker_engine.py", "integration/test_serve_process.py"
FETCH = "unit/serving/test_media_fetch.py"
DUPLEX = "integration/test_duplex_engine.py"
COMMANDS, DEPLOY = "architecture/test_doc_commands.py", "unit/config"

CASES: dict[str, tuple[str, tuple[str, ...]]] = {
    "C29": ("W WAV sizes of 0 or 0xFFFFFFFF", (f"{MEDIA}::test_c29_sizes_of_a_wav_header_are_not_believed",)),
    "C30": ("W flavours of WAV", (f"{MEDIA}::test_c30_flavours_of_wav_are_mono_at_the_models_rate",)),
    "C32": (
        "E empty, silent and broken sound",
        (
            f"{MEDIA}::test_c32_empty_and_broken_sound_is_refused_and_silence_is_not",
            f"{SESSION}::test_c32_silence_is_legal_and_not_a_number_is_refused",
        ),
    ),
    "C33": ("E too long for the encoder", (f"{MEDIA}::test_c33_clips_around_thirty_seconds_are_taken",)),
    "C36": (
        "E the reference clip is lost or unreadable",
        (
            f"{MEDIA}::test_c36_each_request_gets_the_voice_it_names",
            f"{MEDIA}::test_c36_a_voice_that_cannot_be_read_is_never_replaced",
            f"{SESSION}::test_c36_a_reference_clip_that_cannot_be_read_is_an_error_and_no_other_voice",
        ),
    ),
    "C39": (
        "M the end of the speech is lost: a limit is said, nothing voiced is missing",
        (
            f"{CHAT}::test_c39_speech_that_was_cut_off_says_so_whole_and_streamed",
            f"{ENGINE}::test_every_request_gets_the_answer_it_would_get_alone",
        ),
    ),
    "C40": ("E tiny pictures", (f"{MEDIA}::test_c40_tiny_pictures_are_answered",)),
    "C43": ("E extreme shapes", (f"{MEDIA}::test_c43_extreme_shapes_have_bounded_tokens",)),
    "C44": (
        "E modes of pictures",
        (
            f"{MEDIA}::test_c44_picture_modes_are_converted",
            f"{MEDIA}::test_c44_a_truncated_picture_is_refused",
            "unit/audio/test_image.py::test_a_transparent_palette_lies_on_white",
        ),
    ),
    "C45": (
        "E a very large picture, then a small one",
        (f"{MEDIA}::test_c45_c107_a_picture_of_too_many_pixels_is_refused_from_its_header",),
    ),
    "C47": (
        "M the sound of a video",
        (f"{MEDIA}::test_c47_the_sound_of_a_video_is_used_unless_it_is_not_wanted",),
    ),
    "C48": (
        "E odd clips",
        (
            f"{MEDIA}::test_c48_odd_clips_are_taken_or_refused",
            f"{MEDIA}::test_c48_thousands_of_pictures_in_one_video_address_are_not_decoded",
            f"{SESSION}::test_c48_frame_groups_keep_their_order_and_their_number_is_bounded",
        ),
    ),
    "C51": (
        "E the Talker's limit",
        (
            f"{TALKER}::test_a_span_that_meets_the_last_position_says_so",
            f"{TALKER}::test_a_stream_rolls_over_with_its_gap_and_its_history",
            f"{TALKER}::test_a_stream_ends_at_its_code_limit_even_before_its_last_condition",
        ),
    ),
    "C59": (
        "M equal requests at once sound as one alone",
        (f"{ENGINE}::test_every_request_gets_the_answer_it_would_get_alone",),
    ),
    "C61": (
        "E randomness is each request's own",
        (
            f"{ENGINE}::test_every_request_gets_the_answer_it_would_get_alone",
            f"{ENGINE}::test_requests_join_and_leave_at_random_without_touching_the_others",
            f"{TALKER}::test_codes_are_the_eager_generator_s_for_every_batch",
        ),
    ),
    "C65": (
        "E a poisoned neighbour",
        (
            f"{ENGINE}::test_a_poisoned_request_ends_alone",
            "integration/test_supervision.py::test_a_poisoned_request_fails_alone",
        ),
    ),
    "C67": (
        "W a header in every chunk",
        (
            f"{STREAM}::test_c67_pieces_in_the_shape_of_openai_join_to_one_file",
            f"{STREAM}::test_c67_raw_samples_have_no_header",
            "unit/audio/test_formats.py::test_c67_a_stream_of_wav_has_one_header_of_unknown_length",
        ),
    ),
    "C69": (
        "W pieces of OpenAI's audio delta",
        (
            f"{STREAM}::test_c69_deltas_of_openai_have_one_id_and_the_expiry_at_the_end",
            "integration/test_openai_sdk.py::test_c69_the_clients_own_accumulator_takes_the_stream",
        ),
    ),
    "C72": (
        "W stop reason and usage",
        (
            f"{STREAM}::test_c72_one_finish_reason_in_the_last_chunk",
            f"{STREAM}::test_c72_usage_comes_once_after_the_finish_reason",
            f"{CHAT}::test_c72_usage_counts_text_and_audio",
        ),
    ),
    "C74": ("E the user types special tokens", (f"{CHAT}::test_c74_special_tokens_in_messages_stay_letters",)),
    "C76": ("W names of parts", (f"{CHAT}::test_c76_an_unknown_part_is_refused_with_the_known_ones",)),
    "C77": (
        "W empty and odd messages",
        (
            f"{CHAT}::test_c77_odd_conversations_are_refused_in_one_line",
            f"{CHAT}::test_c77_unusual_conversations_are_answered",
        ),
    ),
    "C80": (
        "M thoughts are spoken",
        (f"{CHAT}::test_c80_thoughts_are_returned_apart", f"{STREAM}::test_c80_thoughts_stream_apart"),
    ),
    "C81": ("M the system prompt is dropped with media", (f"{CHAT}::test_c81_the_system_prompt_stays_with_media",)),
    "C82": (
        "E max_tokens is ignored",
        (
            f"{CHAT}::test_c82_max_tokens_out_of_range_is_refused",
            f"{CHAT}::test_c82_five_tokens_are_five_tokens",
            f"{SERVED}::test_the_start_ends_with_a_table_of_what_is_served_where",
        ),
    ),
    "C84": (
        "W numbers out of range",
        (
            f"{CHAT}::test_c84_an_out_of_range_number_is_refused_by_name",
            f"{CHAT}::test_every_name_of_the_table_is_refused_with_an_openai_error",
        ),
    ),
    "C86": (
        "C a setting of a file is ignored",
        (
            f"{DEPLOY}/test_precedence.py::test_the_strongest_layer_that_speaks_wins",
            f"{DEPLOY}/test_merge.py::test_an_unknown_key_never_passes",
            "unit/cli/test_config.py::test_show_prints_values_origins_and_names_without_effect",
        ),
    ),
    "C87": (
        "C invalid overrides",
        (
            f"{DEPLOY}/test_messages.py::test_a_bad_stage_override_is_refused",
            f"{DEPLOY}/test_messages.py::test_an_unknown_flag_is_refused_by_the_nearest_name",
        ),
    ),
    "C89": (
        "C a documented flag is absent",
        (
            f"{COMMANDS}::test_the_parser_takes_the_command",
            f"{COMMANDS}::test_a_command_and_its_flags_that_are_mentioned_exist",
            f"{COMMANDS}::test_the_references_recipes_start_a_server",
        ),
    ),
    "C94": (
        "E a client's departure",
        (
            f"{LEAVE}::test_c94_leaving_before_the_first_event_aborts_the_request",
            f"{LEAVE}::test_c94_leaving_between_text_and_audio_aborts_the_request",
            f"{LEAVE}::test_c94_leaving_after_the_end_is_no_abort",
            f"{LEAVE}::test_c94_leaving_during_media_reads_nothing_more",
            f"{LEAVE}::test_c94_two_hundred_departures_leave_nothing_behind",
            "integration/test_serve_load.py::test_sixty_mixed_clients_with_departures_leave_nothing_behind",
        ),
    ),
    "C95": (
        "E shared memory is left behind",
        (
            f"{ENGINE}::test_a_thousand_aborts_leave_nothing_behind",
            f"{WORKERS}::test_two_hundred_aborts_at_any_time_leave_nothing",
            "integration/test_supervision.py::test_two_hundred_aborts_leave_nothing",
            "unit/pipeline/connectors/test_segment_names.py::test_a_segment_of_a_killed_process_is_reaped",
        ),
    ),
    "C96": ("W a reader that does not read", (f"{LEAVE}::test_c96_a_client_that_does_not_read_is_given_up",)),
    "C100": (
        "E SIGTERM with work under way",
        (
            f"{SERVED}::test_c100_sigterm_lets_what_is_in_flight_finish_and_takes_nothing_new",
            f"{SERVED}::test_c100_the_drain_time_is_kept_and_no_process_is_left",
            f"{LEAVE}::test_c100_draining_waits_for_what_is_in_flight",
        ),
    ),
    "C101": (
        "E a stage is killed",
        (
            f"{WORKERS}::test_a_talker_killed_under_load_takes_only_its_own_requests",
            "integration/test_supervision.py::test_the_only_replica_down_is_said_at_once_and_text_goes_on",
        ),
    ),
    "C104": (
        "S a media address inside",
        (
            f"{SECURE}::test_c104_addresses_inside_are_refused_before_any_connection",
            f"{FETCH}::test_c104_one_private_address_among_public_ones_is_enough_to_refuse",
            f"{FETCH}::test_c104_the_name_is_resolved_once_for_each_connection_and_every_address_is_checked",
            "unit/serving/test_addresses.py::test_c104_what_is_not_the_public_internet",
        ),
    ),
    "C106": (
        "S a local path",
        (
            f"{SECURE}::test_c106_local_files_are_refused_alike_whether_they_exist_or_not",
            f"{SECURE}::test_c106_below_the_allowed_folder_files_are_read_and_nothing_else",
            f"{SESSION}::test_c106_a_path_for_a_voice_is_refused_alike_whether_it_exists_or_not",
        ),
    ),
    "C107": (
        "S bombs",
        (
            f"{MEDIA}::test_c107_an_hour_of_opus_is_cut_at_the_limit",
            f"{MEDIA}::test_c107_of_an_animation_one_frame_is_decoded",
            f"{MEDIA}::test_c45_c107_a_picture_of_too_many_pixels_is_refused_from_its_header",
        ),
    ),
    "C108": (
        "S a key on every door",
        (
            f"{SECURE}::test_c108_every_door_asks_for_the_key",
            f"{SECURE}::test_c108_the_key_is_asked_for_before_the_body_is_read",
            f"{SECURE}::test_c108_a_websocket_without_the_key_is_refused_before_it_opens",
            f"{GATE}::test_c108_the_key_is_taken_from_the_header_or_the_subprotocol",
        ),
    ),
    "C109": (
        "S a hostile page",
        (
            f"{GATE}::test_c109_a_page_from_elsewhere_is_refused",
            f"{GATE}::test_c109_a_name_that_was_pointed_here_is_not_the_servers_own",
        ),
    ),
    "C111": (
        "S equal bytes, other media",
        (
            "unit/pipeline/test_intake.py::test_digests_tell_content_shape_and_layout_apart",
            "unit/engine/test_prefix_hash.py::test_other_content_has_another_name",
            f"{MEDIA}::test_c111_equal_samples_at_different_rates_are_different_voices",
            f"{MEDIA}::test_c111_equal_bytes_of_another_size_or_palette_are_other_pictures",
        ),
    ),
    "C112": (
        "S the text of an error",
        (
            f"{MEDIA}::test_c112_a_broken_file_is_refused_without_the_inside",
            f"{CHAT}::test_c112_bodies_that_cannot_be_read",
            f"{SECURE}::test_c112_replies_to_unknown_paths_and_methods_are_plain",
            f"{SECURE}::test_c112_an_error_of_ours_is_not_explained",
        ),
    ),
    "C115": ("S an origin check that locks the owner out", (f"{GATE}::test_c115_a_refusal_names_the_setting",)),
}

# Of live sessions. Their tests bear the number in their name, or are named here.
SESSION_CASES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("C04", "C06", "C07", "C09", "C11", "C13", "C17", "C19", "C20", "C22", "C23", "C24", "C26"), ()),
    **dict.fromkeys(("C27", "C34", "C56", "C63", "C64", "C92", "C93", "C98", "C117"), ()),
    "C01": ("protocol/test_realtime_vllm_client.py::test_d9_silence_is_listened_to_and_input_can_be_cleared",),
    "C03": ("protocol/test_realtime_vllm_client.py::test_d9_silence_is_listened_to_and_input_can_be_cleared",),
    "C14": (
        "protocol/test_duplex_client.py::test_barge_in_keeps_what_was_heard_only",
        "protocol/test_realtime_openbmb_sdk.py::test_b2_an_interruption_ends_the_answer_and_the_next_turn_is_whole",
    ),
    "C15": (
        "unit/realtime/test_vad.py::test_a_click_starts_nothing",
        "unit/realtime/test_overlap.py::test_an_acknowledgement_word_leaves_no_audio",
    ),
    "C50": (f"{DUPLEX}::test_a_session_whose_context_is_full_hears_no_more_and_its_neighbours_go_on",),
    "C70": (
        "protocol/test_realtime_openai_sdk.py::test_an_open_microphone_gives_each_turn_an_item_and_a_response",
        "protocol/test_realtime_frameworks.py::test_livekit_speaks_listens_interrupts_and_keeps_its_context",
    ),
    "C54": ("unit/realtime/test_long_sessions.py::test_two_hours_of_talk_grow_nothing",),
    "C102": ("protocol/test_realtime_soak.py::test_five_thousand_short_sessions_leave_nothing_behind",),
}

# What only the published weights could show; the part that does not need them is tested under another number.
NEEDS_THE_MODEL = {
    "C37": "that no sentence of the reference clip is spoken",
    "C53": "that ten minutes of video leave the answers on the present scene",
    "C55": "that forty turns of role play neither loop nor change language",
    "C57": "that the last word of a file is answered; the padding is tested with the client",
    "C58": "that pitches of two voices never cross; C36 and C61 show that voice and seed are each request's own",
    "C79": "that no markup is heard: the model voices its own text, and the text channel keeps the original",
}
