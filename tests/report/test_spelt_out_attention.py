"""Attention that is spelt out is told, also on a T4, where a fused kernel takes it; what is fused or none is not."""

import pytest
from wrong_programs import found

RULE = "spelt-out attention"
HEAD = """
from torch.nn import functional as F
projection = nn.Linear(256, 768).cuda()
def attend(x):
    q, k, v = (t.view(4, -1, 8, 32).transpose(1, 2) for t in projection(x).chunk(3, dim=-1))
    return CODE
for i in range(3):
    with torch.autocast("cuda", TYPE):
        loss = model(attend(torch.randn(4, 1024, 256, device="cuda")).transpose(1, 2).reshape(4, -1, 256)).pow(2).mean()
    loss.backward()
    optimizer.step(); optimizer.zero_grad()
"""
SPELT = "(q @ k.transpose(-2, -1) / 5.6).softmax(-1) @ v  # here"
DROPPED = "torch.einsum('bhst,bhtd->bhsd', F.dropout(torch.einsum('bhsd,bhtd->bhst', q, k).softmax(-1)), v)  # here"
FUSED = "F.scaled_dot_product_attention(q, k, v)"


def attending(code: str, of_type: str = "torch.float16") -> str:
    return HEAD.replace("CODE", code).replace("TYPE", of_type)


@pytest.mark.parametrize("code", [SPELT, DROPPED])
@pytest.mark.parametrize("gpu", ["t4-16gb", "a100-80gb"])
def test_it_is_told_and_a_fused_kernel_keeps_none_of_it(run, code, gpu):
    finding, said = found(run, attending(code), RULE, "--gpu", gpu)
    assert finding["line"]["text"].endswith("# here")
    assert f"keeps none of them on {gpu}" in finding["sentence"]
    fused, other = found(run, attending(FUSED), RULE, "--gpu", gpu)
    assert fused is None
    saved_bytes = said.figures["peak"]["allocated_bytes"] - other.figures["peak"]["allocated_bytes"]
    assert finding["n_bytes"] * 9 // 10 < saved_bytes


def test_what_is_fused_in_another_type_alone(run):
    finding, _ = found(run, attending(SPELT, "torch.bfloat16"), RULE, "--gpu", "t4-16gb")
    assert "F.scaled_dot_product_attention(q, k, v, …) in float16 keeps none" in finding["sentence"]


def test_pytorchs_own_module_that_returns_its_weights(run):
    text = """
    attention = nn.MultiheadAttention(256, 8, batch_first=True).cuda()
    for i in range(3):
        x = torch.randn(4, 1024, 256, device="cuda")
        model(attention(x, x, x)[0]).pow(2).mean().backward()
        optimizer.step(); optimizer.zero_grad()
    """
    finding, _ = found(run, text, RULE)
    assert "call nn.MultiheadAttention with need_weights=False" in finding["sentence"]
    assert found(run, text.replace("x, x, x", "x, x, x, need_weights=False"), RULE)[0] is None


RIGHT = {
    "experts that are routed": """
        gate = nn.Linear(256, 256).cuda()
        for i in range(3):
            x = torch.randn(16, 1024, 256, device="cuda")
            weights = (x @ gate.weight).softmax(-1)
            (weights * model(x)).pow(2).mean().backward(); optimizer.step(); optimizer.zero_grad()
        """,
    "a softmax of logits": """
        for i in range(3):
            model(batch()).softmax(-1).pow(2).mean().backward(); optimizer.step(); optimizer.zero_grad()
        """,
    "plain mathematics that the program chose": attending(FUSED).replace(
        "for i",
        "torch.backends.cuda.enable_flash_sdp(False); torch.backends.cuda.enable_mem_efficient_sdp(False)\nfor i",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_looks_like_it_is_not(run, name):
    assert found(run, RIGHT[name], RULE)[0] is None
