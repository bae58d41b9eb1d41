"""Tiny random models of each family's real class, with the processor that belongs to them."""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from transformers import (
    AutoTokenizer,
    GotOcr2ImageProcessorPil,
    InternVLConfig,
    InternVLForConditionalGeneration,
    InternVLProcessor,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2Tokenizer,
    Qwen2VLImageProcessorPil,
    Qwen3_5Config,
    Qwen3_5ForConditionalGeneration,
    Qwen3_5MoeConfig,
    Qwen3_5MoeForConditionalGeneration,
    Qwen3VLMoeConfig,
    Qwen3VLMoeForConditionalGeneration,
)

from mmcredit.models.image_only import ImageOnly, ImageOnlyProcessor, Qwen25ImageOnlyProcessor
from mmcredit.models.tiles import TilesProcessor
from mmcredit.models.tiny import CHAT_TEMPLATE
from mmcredit.models.vlm import VisionLanguageModel


def text_config(tokenizer: Qwen2Tokenizer, **more: Any) -> dict[str, Any]:
    """Of the language model: width 128, heads of width 32 (the least that vLLM's CPU build takes), three layers."""
    token: Any = tokenizer.convert_tokens_to_ids
    return {
        "vocab_size": len(tokenizer), "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096,
        "tie_word_embeddings": True, "bos_token_id": None, "eos_token_id": token("<|im_end|>"),
        "pad_token_id": token("<|endoftext|>"),
    } | more  # fmt: skip


def vision_tokens(tokenizer: Qwen2Tokenizer) -> dict[str, int]:
    token: Any = tokenizer.convert_tokens_to_ids
    return {
        "image_token_id": token("<|image_pad|>"),
        "video_token_id": token("<|video_pad|>"),
        "vision_start_token_id": token("<|vision_start|>"),
        "vision_end_token_id": token("<|vision_end|>"),
    }


def qwen_images(patch: int) -> Qwen2VLImageProcessorPil:
    half = [0.5, 0.5, 0.5]
    size = {"shortest_edge": (4 * patch) ** 2, "longest_edge": (24 * patch) ** 2}
    return Qwen2VLImageProcessorPil(
        patch_size=patch, merge_size=2, temporal_patch_size=2, size=size, image_mean=half, image_std=half
    )


class Qwen25:
    """Patch 14, one window-attention layer (windows of 4x4 patches) and one full layer in the vision tower."""

    name = "qwen2_5_vl"
    smaller = {"max_pixels": 100 * 100}  # settings under which pictures become fewer tokens

    def processor(self, tokenizer: Qwen2Tokenizer) -> ImageOnly:
        return Qwen25ImageOnlyProcessor(qwen_images(14), tokenizer, chat_template=CHAT_TEMPLATE)

    def model(self, tokenizer: Qwen2Tokenizer, text: Any = None, vision: Any = None) -> Any:
        rope = {"rope_type": "default", "mrope_section": [4, 6, 6], "rope_theta": 10000.0}
        config = Qwen2_5_VLConfig(
            text_config=text_config(tokenizer, rope_parameters=rope) | (text or {}),
            vision_config={
                "depth": 2, "hidden_size": 64, "intermediate_size": 128, "num_heads": 4, "patch_size": 14,
                "window_size": 56, "out_hidden_size": 128, "fullatt_block_indexes": [1],
            } | (vision or {}),
            tie_word_embeddings=True,
            **vision_tokens(tokenizer),
        )  # fmt: skip
        return Qwen2_5_VLForConditionalGeneration(config)

    def pictures(self, processor: ImageOnly, images: list[Any], ids: torch.Tensor) -> dict[str, torch.Tensor]:
        """What the plain model wants to see the images with: ``ids`` are [1, L]."""
        seen = processor.image_processor(images=images, return_tensors="pt")
        kinds = (ids == processor.image_token_id).int()
        return {
            "pixel_values": seen.pixel_values, "image_grid_thw": seen.image_grid_thw, "mm_token_type_ids": kinds,
        }  # fmt: skip


class Qwen35(Qwen25):
    """Three linear-attention layers, then one of full attention; patch 16."""

    name = "qwen3_5"

    def processor(self, tokenizer: Qwen2Tokenizer) -> ImageOnly:
        return ImageOnlyProcessor(qwen_images(16), tokenizer, chat_template=CHAT_TEMPLATE)

    def model(self, tokenizer: Qwen2Tokenizer) -> Any:
        rope = {
            "rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 10000.0, "mrope_interleaved": True,
            "partial_rotary_factor": 0.25,
        }  # fmt: skip
        linear = {
            "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
        }  # fmt: skip
        config = Qwen3_5Config(
            text_config=text_config(tokenizer, num_hidden_layers=4, head_dim=32, rope_parameters=rope, **linear),
            vision_config={
                "depth": 2, "hidden_size": 64, "intermediate_size": 128, "num_heads": 4, "patch_size": 16,
                "out_hidden_size": 128, "num_position_embeddings": 64,
            },
            tie_word_embeddings=True,
            **vision_tokens(tokenizer),
        )  # fmt: skip
        return Qwen3_5ForConditionalGeneration(config)


EXPERTS = {"moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2}


class Qwen35Moe(Qwen35):
    """The same with four experts, two a token, and a shared one."""

    name = "qwen3_5_moe"

    def model(self, tokenizer: Qwen2Tokenizer) -> Any:
        dense = super().model(tokenizer).config.to_dict()
        shared = {"shared_expert_intermediate_size": 32, "model_type": "qwen3_5_moe_text"}
        config = Qwen3_5MoeConfig(
            text_config=dense["text_config"] | EXPERTS | shared,
            vision_config=dense["vision_config"] | {"model_type": "qwen3_5_moe_vision"},
            tie_word_embeddings=True,
            **vision_tokens(tokenizer),
        )
        return Qwen3_5MoeForConditionalGeneration(config)


class Qwen3Moe(Qwen35):
    """Four experts, two a token; one DeepStack layer. The dense class is what all other tests use."""

    name = "qwen3_vl_moe"

    def model(self, tokenizer: Qwen2Tokenizer) -> Any:
        rope = {"rope_type": "default", "mrope_section": [8, 4, 4], "rope_theta": 10000.0, "mrope_interleaved": True}
        config = Qwen3VLMoeConfig(
            text_config=text_config(tokenizer, rope_parameters=rope, head_dim=32, decoder_sparse_step=1)
            | EXPERTS
            | {"norm_topk_prob": True},  # read by vLLM; not among the defaults of transformers
            vision_config={
                "depth": 3, "hidden_size": 64, "intermediate_size": 128, "num_heads": 4, "patch_size": 16,
                "out_hidden_size": 128, "num_position_embeddings": 64, "deepstack_visual_indexes": [1],
            },
            tie_word_embeddings=True,
            **vision_tokens(tokenizer),
        )  # fmt: skip
        return Qwen3VLMoeForConditionalGeneration(config)


class InternVL:
    """Tiles of 56x56 pixels, patch 14: 2x2 merged tokens a tile; at most 4 tiles and a thumbnail a picture."""

    name = "internvl"
    text, tied = "qwen2", True  # the language model
    smaller = {"max_patches": 2}

    def processor(self, tokenizer: Qwen2Tokenizer, max_patches: int = 4) -> TilesProcessor:
        half = [0.5, 0.5, 0.5]
        size = {"height": 56, "width": 56}
        images = GotOcr2ImageProcessorPil(size=size, max_patches=max_patches, image_mean=half, image_std=half)
        return TilesProcessor(images, named(tokenizer), image_seq_length=4, chat_template=CHAT_TEMPLATE, patch=14)

    def model(self, tokenizer: Qwen2Tokenizer) -> Any:
        rope = {"rope_type": "default", "rope_theta": 10000.0}
        config = InternVLConfig(
            text_config={"model_type": self.text}
            | text_config(tokenizer, rope_parameters=rope, head_dim=32, tie_word_embeddings=self.tied),
            vision_config={
                "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
                "image_size": (56, 56), "patch_size": (14, 14),
            },
            image_token_id=tokenizer.convert_tokens_to_ids("<|image_pad|>"),
            image_seq_length=4,
            tie_word_embeddings=self.tied,
        )  # fmt: skip
        return InternVLForConditionalGeneration(config)

    def pictures(self, processor: TilesProcessor, images: list[Any], ids: torch.Tensor) -> dict[str, torch.Tensor]:
        """The tiles as Hugging Face's processor gives them."""
        text = [processor.image_token * len(images)]
        return {"pixel_values": InternVLProcessor.__call__(processor, images, text, return_tensors="pt").pixel_values}


class InternVL35(InternVL):
    """With Qwen3's language model and a head of its own, as InternVL3.5-8B."""

    name, text, tied = "internvl3_5", "qwen3", False


def named(tokenizer: Qwen2Tokenizer) -> Any:
    """The same vocabulary, with the names by which InternVL's processor finds its tokens."""
    names = {
        "start_image_token": "<|vision_start|>", "end_image_token": "<|vision_end|>",
        "context_image_token": "<|image_pad|>", "video_token": "<|video_pad|>",
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        return AutoTokenizer.from_pretrained(folder, extra_special_tokens=names)


def build(case: Any, tokenizer: Qwen2Tokenizer) -> VisionLanguageModel:
    """Random weights, spread so that predictions differ clearly from token to token."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(1)
        hf = case.model(tokenizer)
        for parameter in hf.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3.0)
        # a random class zeroes the padding's embedding, a trained one does not: padding must be able to do harm
        hf.get_input_embeddings().weight[tokenizer.pad_token_id].normal_(std=0.06)
    end: Any = tokenizer.convert_tokens_to_ids("<|im_end|>")
    hf.generation_config.eos_token_id, hf.generation_config.pad_token_id = end, tokenizer.pad_token_id
    return VisionLanguageModel(hf).eval()


CASES = (InternVL(), Qwen25(), Qwen35(), Qwen35Moe(), Qwen3Moe())
