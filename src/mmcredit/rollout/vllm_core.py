"""vLLM behind four calls, in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from PIL.Image import Image
from torch import Tensor

from mmcredit.functional import world
from mmcredit.rollout.sampling import SamplingLaw
from mmcredit.rollout.vllm_launch import alone, launched
from mmcredit.rollout.vllm_limits import check_pictures, check_tokens
from mmcredit.types import UserError

NEVER = -100.0  # added to the logits of forbidden tokens: vLLM takes no less


@dataclass(frozen=True)
class Request:
    """One response that is wanted."""

    ids: list[int]  # of the prompt, one placeholder a picture
    images: tuple[Image, ...]
    seed: int
    length: int  # of the prompt, placeholders expanded


@dataclass(frozen=True)
class Reply:
    """One response."""

    prompt_ids: list[int]  # placeholders expanded
    ids: list[int]  # sampled, the end token included
    logps: list[float]  # nats


class Core(Protocol):
    """vLLM, wherever it runs. ``held`` says which weights it has (``vllm.version``), empty at first."""

    held: list[Any]

    def count_before_sampling(self, plain: bool) -> None:
        """Before the first call: log-probs are of the model's own distribution (``plain``), or of the one sampled from:
        after temperature, forbidden tokens and top-p."""

    def generate(
        self, requests: Sequence[Request], law: SamplingLaw, forbidden: Sequence[int], ends: Sequence[int]
    ) -> list[Reply]:
        """One reply a request, in order: up to one of the ends, and without what is forbidden."""

    def load(self, weights: Iterator[tuple[str, Tensor]]) -> None:
        """Take these weights, and forget everything that was computed with others."""

    def sleep(self) -> None:
        """Give memory back until ``wake``."""

    def wake(self) -> None:
        """Be ready; does nothing if awake."""


class LocalCore:
    """vLLM in this process; it starts at first use.

    Args:
        path: folder or hub name of the policy: its architecture, tokenizer and processor.
        images: most pictures a prompt.
        pictures: the trainer's settings of the processor's image part that differ from the saved ones.
        sleeps: free the memory of weights and cache during training (GPUs only).
        options: further arguments of ``vllm.LLM``: dtype, max_model_len, gpu_memory_utilization, ...

    Raises:
        UserError: vLLM is not installed, or shall be spread over several processes (``vllm_group`` can).
    """

    def __init__(
        self,
        path: str,
        images: int = 1,
        pictures: Mapping[str, Any] | None = None,
        sleeps: bool = False,
        **options: Any,
    ) -> None:
        if (parallel := options.get("tensor_parallel_size", 1)) != 1:
            raise UserError(
                f"tensor_parallel_size={parallel}: a single process runs a whole vLLM; use 1, or rollout=vllm in a "
                f"training of {parallel} processes (docs/vllm.md)"
            )
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # weights are handed over in this process
        try:
            import vllm
        except ImportError as error:
            raise UserError(
                f"rollout=vllm needs vLLM, which cannot be imported ({error}): pip install 'mmcredit[vllm]', or see "
                "docs/vllm.md for CPUs"
            ) from None
        self.vllm, self.sleeps, self._asleep = vllm, sleeps, set[str]()
        self.held: list[Any] = []
        self.options = {
            "model": path, "limit_mm_per_prompt": {"image": images, "video": 0}, "enable_sleep_mode": sleeps,
            "mm_processor_kwargs": {"use_fast": False, **(pictures or {})}, **options,
        }  # fmt: skip
        # use_fast=False: pictures are resized by Pillow, as the trainer's; torchvision rounds other pixels

    @cached_property
    @torch.inference_mode(False)  # weights made in it, as in a validation, could not be updated outside
    def llm(self) -> Any:
        """The engine itself. Of several ranks all must come here together: vLLM forms groups of them."""
        if world() == 1:
            return self.vllm.LLM(**self.options, **alone())
        with launched() as executor:
            return self.vllm.LLM(**self.options, distributed_executor_backend=executor)

    def count_before_sampling(self, plain: bool) -> None:
        """See ``Core``.

        Raises:
            UserError: vLLM has started and counts the others.
        """
        mode = "raw_logprobs" if plain else "processed_logprobs"
        if "llm" in self.__dict__ and mode != self.options["logprobs_mode"]:
            one, other = ("0 or 1", "neither") if plain else ("neither 0 nor 1", "one of them")
            raise UserError(
                f"rollout.temperature is {one}, but the server has sampled where it is {other}, and counts log-probs "
                "accordingly: start it anew"
            )
        self.options["logprobs_mode"] = mode

    def generate(
        self, requests: Sequence[Request], law: SamplingLaw, forbidden: Sequence[int], ends: Sequence[int]
    ) -> list[Reply]:
        """See ``Core``.

        Raises:
            UserError: more pictures or tokens a prompt than vLLM was started for.
        """
        self.wake()  # of ranks that share a server, one may have sent it to sleep
        self._wake("kv_cache")
        check_pictures(max((len(r.images) for r in requests), default=0), self.options["limit_mm_per_prompt"]["image"])
        longest = max((r.length for r in requests), default=0)
        check_tokens(longest, law.max_new_tokens, self.llm.model_config.max_model_len)
        asked, params = [], []
        for request in requests:
            pictures = {"multi_modal_data": {"image": list(request.images)}} if request.images else {}
            asked.append({"prompt_token_ids": request.ids, **pictures})
            params.append(
                self.vllm.SamplingParams(
                    temperature=law.temperature, top_p=law.top_p, max_tokens=law.max_new_tokens,
                    seed=request.seed, logprobs=0, logit_bias=dict.fromkeys(forbidden, NEVER), detokenize=False,
                    stop_token_ids=list(ends), ignore_eos=True,  # that of the tokenizer need not be one of the ends
                )
            )  # fmt: skip
        outputs = self.llm.generate(asked, params, use_tqdm=False)
        return [_reply(output) for output in outputs]

    @torch.inference_mode(False)
    def load(self, weights: Iterator[tuple[str, Tensor]]) -> None:
        """See ``Core``: prefix, picture and encoder caches hold what older weights saw, and are dropped."""
        self.llm.collective_rpc("reload_weights", kwargs={"weights_iterator": weights})
        self.llm.reset_prefix_cache()
        self.llm.llm_engine.reset_encoder_cache()
        self.llm.reset_mm_cache()

    def sleep(self) -> None:
        """See ``Core``."""
        if self.sleeps:
            self.llm.sleep(level=1)
            self._asleep = {"weights", "kv_cache"}

    def wake(self) -> None:
        """See ``Core``: weights first; the cache follows when they are loaded."""
        self._wake("weights")

    def _wake(self, part: str) -> None:
        if part in self._asleep:
            self.llm.wake_up(tags=[part])
            self._asleep.remove(part)


def _reply(output: Any) -> Reply:
    (found,) = output.outputs
    logps = [step[token].logprob for token, step in zip(found.token_ids, found.logprobs, strict=True)]
    return Reply(list(output.prompt_token_ids), list(found.token_ids), logps)
