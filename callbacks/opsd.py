"""OPSD: the policy learns, token by token on its own responses, what it would have said had it seen the solution.

Student and teacher are one model. The teacher has the initial weights and a prompt with the worked solution; the loss
is the divergence of the whole next-token distributions. There is no reward: the policy gradient is switched off.

Departures from the paper and its public code (https://arxiv.org/abs/2601.18734, github.com/siyan-zhao/OPSD):
1. Samples without a worked solution show the gold answer; those without either get no term.
2. The solution follows the question as one more line; the public code has a longer prompt of its own.
3. The whole vocabulary enters unclipped; the public code can clip each entry and keep the teacher's top-k alone.

Suffixes: B prompts, G group, T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from mmcredit.credit import CreditCallback, Record
from mmcredit.scoring.divergence import Divergence, jensen_shannon
from mmcredit.scoring.hints import hinted, solution_hints, unknown_hints
from mmcredit.scoring.views import View, Weights
from mmcredit.types import Rollout, UserError

if TYPE_CHECKING:
    from mmcredit.scoring.scorer import Scorer

TEMPLATE = "Reference solution: {solution}"


class OPSD(CreditCallback):
    """On-policy self-distillation from a teacher that sees the solution. METHODS section 8.

    Args:
        divergence: (student, teacher) log-probs of the vocabulary -> divergence of each token: ``forward_kl``,
            ``reverse_kl`` or ``jensen_shannon``, with or without a beta.
        coef: its weight, above 0.
        keep_reward: add the term to the parent's loss; False: it takes the place of the policy gradient.
        template: the line that the teacher's prompt has more; ``{solution}`` is replaced.

    Raises:
        UserError: a weight that is not above 0, a beta outside 0..1, or a template without a place for the solution.
    """

    paper: ClassVar[str] = "https://arxiv.org/abs/2601.18734"
    needs_old_logp: ClassVar[bool] = False
    needs_reference: ClassVar[bool] = True

    def __init__(
        self,
        divergence: Divergence = jensen_shannon,
        coef: float = 1.0,
        keep_reward: bool = False,
        template: str = TEMPLATE,
    ) -> None:
        if coef <= 0:
            raise UserError(f"callbacks.opsd.coef={coef} must be above 0; callbacks=[] leaves the method out")
        if "{solution}" not in template:
            raise UserError(f"callbacks.opsd.template={template!r} must contain {{solution}}, where the solution goes")
        divergence(torch.zeros(1, 1), torch.zeros(1, 1))  # refuses its own arguments, here and not at the first loss
        self.divergence, self.coef = divergence, coef
        self.keep_reward, self.template = keep_reward, template

    def extra_views(self, seed: int) -> Sequence[View]:
        return [View(Weights.REFERENCE, hints=hints) for hints in unknown_hints(1)]

    def on_advantage(self, rollout: Rollout, advantage_BGT: Tensor, scorer: Scorer, record: Record) -> Tensor:
        """No advantage, unless the reward is kept: the policy gradient vanishes."""
        worked = torch.tensor(["solution" in sample.meta for sample in rollout.prompts.samples])
        record.scalar("opsd/solution_rate", worked.float().mean())
        record.scalar("opsd/unhinted_rate", (~hinted(rollout, solution_hints(rollout, self.template))).float().mean())
        return advantage_BGT if self.keep_reward else torch.zeros_like(advantage_BGT)

    def on_loss(self, micro: Rollout, logp_BGT: Tensor, scorer: Scorer, record: Record) -> Tensor:
        hints = solution_hints(micro, self.template)
        found_BGT = scorer.train_divergence(micro, View(Weights.REFERENCE, hints=hints), self.divergence)
        here = (micro.mask_BGT & hinted(micro, hints)[..., None]).to(found_BGT.device)
        record.extend("opsd/divergence", found_BGT[here])
        return self.coef * found_BGT
