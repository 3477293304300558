"""The configuration files of the tiny checkpoint: the real fields, tiny sizes, and the ids of its own vocabulary."""

from pathlib import Path
from typing import Any

from antiphon.config.flow_files import FLOW_YAML
from antiphon.pipeline.tiny_checkpoint.json_file import write_json
from antiphon.pipeline.tiny_checkpoint.vocabulary import Vocabulary

NUM_CODES = 6561  # fixed by the speech tokenizer's eight ternary digits; one more id ends the speech
_NUM_EXTRA_TEXT_IDS = 316  # the real text table has as many rows beyond the vocabulary

_FLOW_YAML_TEXT = """\
# Tiny sizes in the structure of the real file. It is HyperPyYAML: read it as data, its tags name classes to construct.
flow: !new:cosyvoice2.flow.flow.CausalMaskedDiffWithXvec
    input_size: 32
    output_size: 80
    spk_embed_dim: 192
    output_type: 'mel'
    vocab_size: 6561
    encoder: !new:cosyvoice2.transformer.upsample_encoder_v2.UpsampleConformerEncoderV2
        input_size: 32
        output_size: 32
        input_layer: 'linear'
        pre_lookahead_len: 3
        num_blocks: 2
        num_up_blocks: 1
        up_stride: 2
        up_scale_factor: 2
        attention_heads: 2
        pos_enc_layer_type: 'rel_pos_espnet'
        selfattention_layer_type: 'rel_selfattn'
        key_bias: true
        linear_units: 64
        normalize_before: true
    decoder: !new:cosyvoice2.flow.flow_matching.CausalConditionalCFM
        inference_cfg_rate: 0.7
        estimator: !new:cosyvoice2.flow.decoder_dit.DiT
            in_channels: 320
            out_channels: 80
            mlp_ratio: 4.0
            depth: 2
            num_heads: 2
            head_dim: 16
            hidden_size: 32
"""


def model_config(vocabulary: Vocabulary) -> dict[str, Any]:
    """`config.json`. The hidden size has to be a multiple of 128: the resampler's heads are that wide."""
    added = vocabulary.added
    return {
        "architectures": ["MiniCPMO"],
        "version": "4.5",
        "model_type": "minicpmo",
        "torch_dtype": "bfloat16",
        "transformers_version": "4.51.0",
        "vocab_size": vocabulary.size,
        "bos_token_id": added["<|endoftext|>"],
        "eos_token_id": added["<|im_end|>"],
        "hidden_size": 256,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000,
        "rope_scaling": None,
        "max_position_embeddings": 40960,
        "max_window_layers": 2,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": False,
        "use_cache": True,
        "use_sliding_window": False,
        "sliding_window": None,
        "initializer_range": 0.02,
        "query_num": 64,
        "image_size": 448,
        "patch_size": 14,
        "drop_vision_last_layer": False,
        "batch_vision_input": True,
        "vision_batch_size": 16,
        "use_image_id": True,
        "slice_mode": True,
        "slice_config": {"max_slice_nums": 1, "scale_resolution": 448, "patch_size": 14, "model_type": "minicpmv"},
        "audio_pool_step": 5,
        "audio_chunk_length": 1.0,
        "stream_input": True,
        "listen_speak_type": "asr",
        "init_vision": True,
        "init_audio": True,
        "init_tts": True,
        "vision_config": {
            "model_type": "siglip_vision_model",
            "hidden_size": 48,
            "intermediate_size": 96,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": 980,
            "patch_size": 14,
            "num_channels": 3,
            "hidden_act": "gelu_pytorch_tanh",
            "layer_norm_eps": 1e-6,
            "attention_dropout": 0.0,
        },
        "audio_config": {
            "model_type": "whisper",
            "d_model": 32,
            "encoder_layers": 2,
            "encoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "num_mel_bins": 80,
            "max_source_positions": 1500,
            "activation_function": "gelu",
            "scale_embedding": False,
            "dropout": 0.0,
            "attention_dropout": 0.0,
            "activation_dropout": 0.0,
        },
        "tts_config": _talker_config(vocabulary),
    }


def _talker_config(vocabulary: Vocabulary) -> dict[str, Any]:
    added = vocabulary.added
    return {
        "model_type": "minicpmtts",
        "backbone_model": "llama",
        "attention_type": "full_attention",
        "attn_implementation": "sdpa",
        "condition_type": "hidden_text_merge",
        "projector_type": "mlp",
        "normalize_projected_hidden": True,
        "hidden_act": "silu",
        "hidden_size": 32,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "max_position_embeddings": 4096,
        "llm_dim": 256,
        "llm_hidden_size": 256,
        "llm_dim_model_base": 256,
        "llm_intermediate_size": 768,
        "num_audio_tokens": NUM_CODES + 1,
        "num_text_tokens": vocabulary.size + _NUM_EXTRA_TEXT_IDS,
        "num_vq": 1,
        "num_mel_bins": 100,
        # The same two tokens as in the real file, which knows them by id only.
        "audio_bos_token_id": added["<focus>"],
        "text_eos_token_id": added["</perception>"],
        "audio_tokenizer_type": "s3tokenizer",
        "audio_tokenizer_sample_rate": 16000,
        "interleaved": False,
        "use_text": True,
        "use_llm_hidden_state": False,
        "recomputed_chunks": 1,
        "window_size": 2,
        "streaming": False,
        "streaming_sliding_window": False,
        "streaming_sliding_window_audio_window_size": 300,
        "s3_stream_chunk_size": 25,
        "s3_stream_prelook_size": 3,
        "s3_stream_n_timesteps": 10,
        "s3_stream_generate": False,
    }


def preprocessor_config() -> dict[str, Any]:
    """`preprocessor_config.json`, as the real one: images do not shrink with the model."""
    return {
        "image_processor_type": "MiniCPMVImageProcessor",
        "feature_extractor_type": "MiniCPMAAudioProcessor",
        "processor_class": "MiniCPMOProcessor",
        "max_slice_nums": 9,
        "scale_resolution": 448,
        "patch_size": 14,
        "use_image_id": True,
        "image_feature_size": 64,
        "im_start": "<image>",
        "im_end": "</image>",
        "slice_start": "<slice>",
        "slice_end": "</slice>",
        "unk": "<unk>",
        "im_id_start": "<image_id>",
        "im_id_end": "</image_id>",
        "slice_mode": True,
        "audio_pool_step": 5,
        "norm_mean": [0.5, 0.5, 0.5],
        "norm_std": [0.5, 0.5, 0.5],
        "version": 4.5,
    }


def generation_config(vocabulary: Vocabulary) -> dict[str, Any]:
    """`generation_config.json`."""
    bos, eos = vocabulary.added["<|endoftext|>"], vocabulary.added["<|im_end|>"]
    return {
        "bos_token_id": bos,
        "do_sample": True,
        "eos_token_id": [eos, bos],
        "pad_token_id": bos,
        "temperature": 0.6,
        "top_k": 20,
        "top_p": 0.95,
    }


def write_configs(folder: Path, vocabulary: Vocabulary) -> None:
    """Write the configuration files."""
    write_json(folder / "config.json", model_config(vocabulary))
    write_json(folder / "preprocessor_config.json", preprocessor_config())
    write_json(folder / "generation_config.json", generation_config(vocabulary))
    flow_yaml = folder / FLOW_YAML
    flow_yaml.parent.mkdir(parents=True, exist_ok=True)
    flow_yaml.write_text(_FLOW_YAML_TEXT, encoding="utf-8", newline="\n")
