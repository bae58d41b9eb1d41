"""A tiny Qwen3-VL of the real class (about 1.3 M parameters), with tokenizer, chat template and processor."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import Qwen2Tokenizer, Qwen2VLImageProcessorPil, Qwen3VLConfig, Qwen3VLForConditionalGeneration

from mmcredit.models.processor import ImageOnlyProcessor

SPECIALS = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
    "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def train_tokenizer(corpus: Iterable[str], vocab_size: int = 800) -> Qwen2Tokenizer:
    """Byte-level BPE with Qwen's splitting rule and special tokens; every byte is in the vocabulary."""
    reference = Qwen2Tokenizer(vocab={"<|endoftext|>": 0}, merges=[]).backend_tokenizer
    bpe = Tokenizer(models.BPE())
    bpe.normalizer, bpe.pre_tokenizer = normalizers.NFC(), reference.pre_tokenizer
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(SPECIALS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator(corpus, trainer)
    learned = json.loads(bpe.to_str())["model"]
    merges: Any = [tuple(m) for m in learned["merges"]]
    return Qwen2Tokenizer(
        vocab=learned["vocab"],
        merges=merges,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=list(SPECIALS),
        chat_template=CHAT_TEMPLATE,
        padding_side="left",
    )


def build_processor(tokenizer: Qwen2Tokenizer) -> ImageOnlyProcessor:
    """Patch 16, merge 2; pictures between 2x2 and 12x12 merged tokens."""
    images = Qwen2VLImageProcessorPil(
        patch_size=16,
        merge_size=2,
        temporal_patch_size=2,
        size={"shortest_edge": 64 * 64, "longest_edge": 384 * 384},
        image_mean=[0.5, 0.5, 0.5],
        image_std=[0.5, 0.5, 0.5],
    )
    return ImageOnlyProcessor(images, tokenizer, chat_template=CHAT_TEMPLATE)


def build_model(tokenizer: Qwen2Tokenizer, seed: int = 0) -> Qwen3VLForConditionalGeneration:
    """Randomly initialised: vision depth 3 width 96 with one DeepStack layer, text 4 layers width 128."""
    token: Any = tokenizer.convert_tokens_to_ids
    end, pad = token("<|im_end|>"), token("<|endoftext|>")
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer), "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 4096,
            "rope_parameters": {"rope_type": "default", "mrope_section": [8, 4, 4], "rope_theta": 10000.0,
                                "mrope_interleaved": True},
            "tie_word_embeddings": True, "bos_token_id": None, "eos_token_id": end, "pad_token_id": pad,
        },
        vision_config={
            "depth": 3, "hidden_size": 96, "intermediate_size": 192, "num_heads": 4, "in_channels": 3,
            "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": 128,
            "num_position_embeddings": 64, "deepstack_visual_indexes": [1],
        },
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=True,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3VLForConditionalGeneration(config)
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = end, pad
    return model
