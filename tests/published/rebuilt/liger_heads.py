"""The linear heads with a loss of Liger-Kernel's benchmark in PyTorch's own code, written anew.

Of each the benchmark has a second one, Liger's, on the card.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from .liger import divergence
from .liger_measure import DTYPES, by_mode, peak
from .liger_rows import divergence_by_row


def linear_cross_entropy(gpu, BT: int, H: int, V: int, dtype: str, mode: str) -> int:
    """A head without bias, [H, V], and `nn.CrossEntropyLoss`."""
    heads = [nn.Linear(H, V, bias=False, dtype=DTYPES[dtype]).to(gpu.device) for _ in range(2)]
    x = torch.randn(BT, H, requires_grad=True, dtype=DTYPES[dtype], device=gpu.device)
    target = torch.randint(V, (BT, 1), dtype=torch.long, device=gpu.device).squeeze(1)
    loss = nn.CrossEntropyLoss()
    return peak(gpu, lambda: loss(heads[0](x), target).backward())


def linear_jsd(gpu, BT: int, H: int, V: int, dtype: str, mode: str, by_row: bool = False) -> int:
    """A student's and a teacher's head, whose outputs' Jensen-Shannon divergence, summed `by_row`, is the loss."""
    kind = dict(dtype=DTYPES[dtype], device=gpu.device)
    student, teacher, *others = [nn.Linear(H, V, bias=False, **kind) for _ in range(4)]
    student.weight.data = others[0].weight.data = torch.rand(V, H, **kind)
    teacher.weight.data = others[1].weight.data = torch.rand(V, H, **kind)
    x = torch.rand(BT, H, requires_grad=True, **kind)
    of_teacher = torch.rand(BT, H, **kind)

    def forward() -> torch.Tensor:
        logits = student(x)
        teacher_logits = teacher(of_teacher)
        log_q = torch.log_softmax(logits / 1.0, dim=-1)
        log_p = torch.log_softmax(teacher_logits / 1.0, dim=-1)
        return (divergence_by_row if by_row else divergence)(log_q, log_p, kind["dtype"])

    if by_row:
        return by_mode(gpu, mode, forward)
    return peak(gpu, lambda: forward().backward())


# ------------------------------------------------------------------------------------------------------------ alignment


def orpo(chosen: torch.Tensor, rejected: torch.Tensor) -> torch.Tensor:
    """What odds ratio preference optimization subtracts."""
    odds = (chosen - rejected) - (torch.log1p(-torch.exp(chosen)) - torch.log1p(-torch.exp(rejected)))
    ratio = F.logsigmoid(odds)
    return 0.1 * ratio


def cpo(chosen: torch.Tensor, rejected: torch.Tensor) -> torch.Tensor:
    """What contrastive preference optimization subtracts."""
    logits = chosen - rejected
    return F.logsigmoid(0.1 * logits) * (1 - 0.0) + F.logsigmoid(-0.1 * logits) * 0.0


def simpo(chosen: torch.Tensor, rejected: torch.Tensor) -> torch.Tensor:
    """What simple preference optimization subtracts."""
    logits = chosen - rejected
    logits = logits - (0.5 / 0.1)
    return F.logsigmoid(0.1 * logits) * (1 - 0.0) + F.logsigmoid(-0.1 * logits) * 0.0


PREFERENCES = {"orpo": orpo, "cpo": cpo, "simpo": simpo}


def alignment(gpu, B: int, T: int, H: int, V: int, dtype: str, loss: str, mode: str) -> int:
    """A head, cross entropy of the chosen half of the batch, and a loss of the preference."""
    heads = [nn.Linear(H, V, bias=False, dtype=DTYPES[dtype]).to(gpu.device) for _ in range(2)]
    x = torch.randn(B, T, H, requires_grad=True, dtype=DTYPES[dtype], device=gpu.device)
    target = torch.randint(V, (B, T), dtype=torch.long, device=gpu.device)
    return peak(gpu, lambda: _aligned(x, heads[0].weight, target, PREFERENCES[loss]).backward())


def _aligned(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, preference: Callable) -> torch.Tensor:
    n_chosen = len(x) // 2
    outputs = x @ weight.t()
    logits = outputs.float()
    chosen = logits[:n_chosen]
    nll = F.cross_entropy(chosen.view(-1, chosen.shape[-1]), target[:n_chosen].view(-1))
    mask = target != -100
    labels = torch.where(target == -100, 0, target)
    of_tokens = torch.gather(logits.log_softmax(-1), dim=2, index=labels.unsqueeze(2)).squeeze(2)
    log_probabilities = (of_tokens * mask).sum(-1) / mask.sum(-1)
    losses = preference(log_probabilities[:n_chosen], log_probabilities[n_chosen:])
    return nll * 1.0 - losses.mean()


def grpo(
    gpu, B: int, T: int, H: int, V: int, importance_sampling_level: str, dtype: str, others: int, mode: str
) -> int:
    """A head and a reference's, group relative policy optimization of bnpo's kind; `others`: pairs of heads beside."""
    kind = dict(dtype=DTYPES[dtype], device=gpu.device)
    heads = [nn.Linear(H, V, bias=False, dtype=DTYPES[dtype]).to(gpu.device) for _ in range(2 + 2 * others)]
    x = torch.randn(B, T, H, requires_grad=True, **kind)
    tokens = torch.randint(0, V, (B, T), dtype=torch.long, device=gpu.device)
    mask = torch.ones(B, T, device=gpu.device)
    advantages = torch.randn(B, **kind)
    of_reference = torch.randn(B, T, H, **kind)

    def log_probabilities(x: torch.Tensor, head: nn.Linear) -> torch.Tensor:
        logits = x @ head.weight.t()
        every = F.log_softmax(logits.float(), dim=-1)
        # What is here is held to the end of the forward pass, as the benchmark's local variables are.
        held.append((logits, every))
        return every.gather(dim=-1, index=tokens.unsqueeze(-1)).squeeze(-1)

    held: list = []

    def forward() -> torch.Tensor:
        of_tokens = log_probabilities(x, heads[0])
        with torch.no_grad():
            reference = log_probabilities(of_reference, heads[1])
        ratio = of_tokens - of_tokens.detach()
        if importance_sampling_level == "sequence":
            ratio = ((ratio * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)).unsqueeze(-1)
        weight = torch.exp(ratio)
        clipped = torch.clamp(weight, 0.8, 1.2)
        per_token = -torch.min(weight * advantages.unsqueeze(1), clipped * advantages.unsqueeze(1))
        kl = torch.exp(reference - of_tokens) - (reference - of_tokens) - 1.0
        per_token = per_token + 0.1 * kl
        loss = (per_token * mask).sum() / torch.clamp(mask.sum(), min=1.0)
        held.clear()
        return loss

    def full() -> None:
        y = forward()
        y.backward()

    return peak(gpu, full) if others else by_mode(gpu, mode, forward)


# --------------------------------------------------------------------------------------------------------- distillation


def _jensen_shannon(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    log_q = F.log_softmax(student, dim=-1)
    log_p = F.log_softmax(teacher, dim=-1)
    mean = 0.5 * log_q.exp() + (1 - 0.5) * log_p.exp()
    log_mean = mean.log()
    of_student = F.kl_div(log_mean, log_q, reduction="batchmean", log_target=True)
    of_teacher = F.kl_div(log_mean, log_p, reduction="batchmean", log_target=True)
    return 0.5 * of_teacher + 0.5 * of_student


def _cosine(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    student_norm = F.normalize(student, p=2, dim=-1)
    teacher_norm = F.normalize(teacher, p=2, dim=-1)
    loss = 1.0 * (1 - F.cosine_similarity(student_norm, teacher_norm, dim=-1))
    return loss.mean()


DISTANCES = {"jsd": _jensen_shannon, "cosine": _cosine}


def distillation(gpu, BT: int, H: int, V: int, dtype: str, distance: str, mode: str) -> int:
    """A student of half the width and its teacher: cross entropy, and a distance of the logits, half of each."""
    widths = (H // 2, H)
    pairs = [[nn.Linear(h, V, bias=False, dtype=DTYPES[dtype]).to(gpu.device) for h in widths] for _ in range(2)]
    made = torch.rand(BT, H // 2, device=gpu.device, dtype=DTYPES[dtype])
    inputs = [made.detach().clone().requires_grad_(True) for _ in range(2)]
    of_teacher = torch.rand(BT, H, device=gpu.device, dtype=DTYPES[dtype])
    target = torch.randint(0, V, (BT,), device=gpu.device, dtype=torch.long)
    student, teacher = pairs[0]

    def logits() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        outputs = inputs[1] @ student.weight.t()
        with torch.no_grad():
            teacher_outputs = of_teacher @ teacher.weight.t()
        student_logits, teacher_logits = outputs.float(), teacher_outputs.float()
        return student_logits, teacher_logits, F.cross_entropy(student_logits, target)

    def forward() -> torch.Tensor:
        student_logits, teacher_logits, hard = logits()
        student_logits /= 1.0
        teacher_logits /= 1.0
        soft = DISTANCES[distance](student_logits, teacher_logits)
        return 0.5 * hard + 0.5 * soft

    return peak(gpu, lambda: forward().backward())
