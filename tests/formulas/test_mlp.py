"""The closed form of an MLP against what autograd keeps: on CPU and meta, on the simulated GPU, and as recorded."""

import json
import warnings
from functools import cache

import pytest
import torch
from activation_variants import OTHERS, variants
from hypothesis import assume, example, given
from hypothesis import strategies as st
from places import RECORDED
from torch import nn
from torch.nn.modules import activation as torch_activations

from every_byte.formula.expressions import Expression
from every_byte.ledger.saved_tensors import SavedTensor
from utils import MLP, SavedTensorContext, SimulatedGPU
from utils.experiments.first_programs import mlp_forward
from utils.formulas.mlp import ACTIVATIONS, mlp_saved, mlp_saved_dropout_inside

LABELS = sorted(variants())
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


class FusedDropout(nn.Module):
    """What nn.Dropout runs on CUDA; on the CPU and on meta it keeps a mask of another type."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        return torch.native_dropout(x, self.p, self.training)[0]


@cache
def recording() -> dict:
    return json.loads((RECORDED / "activations_saved.cuda.json").read_text(encoding="utf-8"))


def saved_by(mlp: nn.Module, x: torch.Tensor) -> tuple[list[SavedTensor], int]:
    with SavedTensorContext(mlp.parameters()) as saved:
        y = mlp(x)
    return saved.rows(y), saved.saved_tensor_mem


def test_the_formulas_know_every_activation_of_torch():
    assert {name for name, _ in variants().values()} == set(ACTIVATIONS)
    assert {label.split("(")[0] for label in LABELS} | set(OTHERS) == {*torch_activations.__all__, "Identity"}


class TestRecordedOnCUDA:
    def test_every_activation_is_recorded(self):
        assert recording()["torch"].startswith("2.13.0+cu")
        assert {case["activation"] for case in recording()["cases"]} == set(LABELS)

    @pytest.mark.sampled(4)
    @pytest.mark.parametrize("label", LABELS)
    def test_terms_are_what_cuda_keeps(self, label):
        cases = [case for case in recording()["cases"] if case["activation"] == label]
        assert len(cases) == 4
        for case in cases:
            setting = case["setting"]
            formula = mlp_saved(activation=case["formula"], dropout=setting["dropout"], bias=setting["bias"])
            letters = {letter: setting[letter] for letter in "bsd"} | {"e": getattr(torch, setting["dtype"]).itemsize}
            assert formula.by_term(**letters) == formula.account(SavedTensor(*row) for row in case["rows"])
            assert formula.bytes(**letters) == case["saved_bytes"]

    @pytest.mark.sampled(4)
    @pytest.mark.parametrize("label", LABELS)
    def test_the_allocator_agrees(self, label):
        for case in recording()["cases"]:
            if case["activation"] == label:  # the output is new and not kept, the input is kept and not new
                b, s, d = (case["setting"][letter] for letter in "bsd")
                output = case_input = b * s * d * getattr(torch, case["setting"]["dtype"]).itemsize
                assert case["requested_bytes"] == case["saved_bytes"] + output - case_input


@st.composite
def settings(draw):
    sizes, dtype = st.integers(1, 9), draw(st.sampled_from(DTYPES))
    devices = ["meta"] if dtype == torch.float16 else ["cpu", "meta"]  # the CPU lacks some kernels for float16
    return {
        "label": draw(st.sampled_from([label for label in LABELS if label != "LogSigmoid"])),
        "sizes": (draw(sizes), draw(sizes), draw(sizes)),
        "dtype": dtype,
        "device": draw(st.sampled_from(devices)),
        "bias": draw(st.booleans()),
        "dropout": draw(st.sampled_from([0, 0.1, 0.9])),
        "x_grad": draw(st.booleans()),
    }


def small(label, **changes):
    plain = {"sizes": (1, 1, 1), "dtype": torch.float32, "device": "cpu", "bias": True, "dropout": 0.1, "x_grad": True}
    return {"label": label, **plain, **changes}


class TestAgainstAutograd:
    @pytest.mark.long
    @given(setting=settings())
    @example(setting=small("SiLU(inplace=True)"))
    @example(setting=small("RReLU(inplace=True)", bias=False))
    @example(setting=small("ReLU", device="meta", dtype=torch.float16))
    def test_term_by_term(self, setting):
        (b, s, d), dtype, device = setting["sizes"], setting["dtype"], setting["device"]
        name, make = variants()[setting["label"]]
        mlp = MLP(d, make(), device=device, dtype=dtype, bias=setting["bias"]).to(device, dtype)
        if setting["dropout"]:
            mlp.dropout = FusedDropout(setting["dropout"])
        x = torch.ones(b, s, d, device=device, dtype=dtype, requires_grad=setting["x_grad"])
        rows, saved_bytes = saved_by(mlp, x)
        formula = mlp_saved(activation=name, dropout=setting["dropout"], bias=setting["bias"])
        predicted = formula.by_term(b=b, s=s, d=d, e=dtype.itemsize)
        assert formula.account(rows) == predicted
        assert sum(predicted.values()) == formula.bytes(b=b, s=s, d=d, e=dtype.itemsize) == saved_bytes

    @pytest.mark.sampled(4)
    @pytest.mark.parametrize("label", LABELS)
    @pytest.mark.parametrize("dropout", [None, 0.2])
    def test_on_the_simulated_gpu(self, label, dropout):
        name, make = variants()[label]
        with SimulatedGPU("a100-80gb") as gpu, warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".* is not modelled")  # of temporaries; what is kept is counted
            mlp = MLP(5, make(), dropout, device=gpu.device, dtype=torch.bfloat16).to(gpu.device, torch.bfloat16)
            x = torch.ones(3, 7, 5, device=gpu.device, dtype=torch.bfloat16)
            rows, saved_bytes = saved_by(mlp, x)
        formula = mlp_saved(activation=name, dropout=dropout)
        assert formula.compare(rows, b=3, s=7, d=5, e=2).is_exact
        assert formula.bytes(b=3, s=7, d=5, e=2) == saved_bytes

    @pytest.mark.long
    @given(setting=settings(), s=st.integers(1, 300), d=st.integers(1, 90))
    @example(setting=small("ReLU", sizes=(1, 9, 1), dtype=torch.float64, bias=False), s=299, d=89)
    def test_drawn_settings_on_the_simulated_gpu(self, setting, s, d):
        name, b = variants()[setting["label"]][0], setting["sizes"][0]
        chosen = {"activation": name, "dropout": setting["dropout"], "bias": setting["bias"]}
        assume(not name.startswith("Threshold"))  # it has no default settings
        with SimulatedGPU("a100-80gb") as gpu, warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".* is not modelled")
            forward = mlp_forward(gpu, b=b, s=s, d=d, dtype=setting["dtype"], **chosen)
        assert mlp_saved(**chosen).compare(forward.rows, b=b, s=s, d=d, e=setting["dtype"].itemsize).is_exact

    @pytest.mark.sampled(4)
    @pytest.mark.parametrize("label", [label for label in LABELS if "inplace" not in label])
    def test_dropout_inside_on_the_simulated_gpu(self, label):
        name, make = variants()[label]
        with SimulatedGPU("a100-80gb") as gpu, warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".* is not modelled")
            mlp = MLP(5, make(), 0.2, device=gpu.device, dtype=torch.bfloat16).to(gpu.device, torch.bfloat16)
            mlp.forward = lambda x: mlp.down(mlp.dropout(mlp.activation(mlp.up(x))))
            x = torch.ones(3, 7, 5, device=gpu.device, dtype=torch.bfloat16)
            rows, saved_bytes = saved_by(mlp, x)
        formula = mlp_saved_dropout_inside(activation=name)
        assert formula.compare(rows, b=3, s=7, d=5, e=2).is_exact
        assert formula.bytes(b=3, s=7, d=5, e=2) == saved_bytes

    @pytest.mark.parametrize("activation", ["gelu", "relu"])
    def test_dropout_inside_as_torchs_own_layer_has_it(self, activation):
        with SimulatedGPU("a100-80gb") as gpu:
            layer = nn.TransformerEncoderLayer(8, 2, 32, 0.1, activation, batch_first=True, device=gpu.device)
            with SavedTensorContext(layer.parameters()) as saved:
                _y = layer._ff_block(torch.ones(2, 3, 8, device=gpu.device))  # with a second dropout behind linear2
        b_s_d = 2 * 3 * 8
        assert (
            saved.saved_tensor_mem == mlp_saved_dropout_inside(activation=activation).bytes(b=2, s=3, d=8, e=4) + b_s_d
        )

    def test_log_sigmoid_keeps_more_on_a_cpu_and_the_account_says_so(self):
        rows, saved_bytes = saved_by(MLP(5, "log_sigmoid"), torch.ones(2, 3, 5))
        formula = mlp_saved(activation="log_sigmoid")
        message = r"selects 480 bytes of shape \(2, 3, 20\), kept by activation: LogSigmoidBackward0.buffer"
        with pytest.raises(ValueError, match=message):
            formula.account(rows)
        assert saved_bytes == formula.bytes(b=2, s=3, d=5, e=4) + 480
        assert formula.account(row for row in rows if row.slot != "buffer") == formula.by_term(b=2, s=3, d=5, e=4)

    def test_an_input_that_is_not_contiguous(self):
        rows, _ = saved_by(MLP(5, "gelu"), torch.ones(3, 2, 5).transpose(0, 1))
        assert mlp_saved(activation="gelu").compare(rows, b=2, s=3, d=5, e=4).is_exact

    def test_parameters_that_are_not_ignored_are_named(self):
        mlp = MLP(5, "relu")
        with SavedTensorContext() as saved:
            y = mlp(torch.ones(2, 3, 5, requires_grad=True))
        message = (
            r"no term of 'MLP with ReLU: kept for backward' selects 400 bytes of shape \(5, 20\), kept by up: "
            r"AddmmBackward0.mat2. Parameters are left out by SavedTensorContext\(model.parameters\(\)\)"
        )
        with pytest.raises(ValueError, match=message):
            mlp_saved(activation="relu").account(saved.rows(y))


class TestMLPFormula:
    def test_the_published_figures(self):
        setting = {"b": 2, "s": 4096, "d": 1024, "e": 2}
        assert mlp_saved(activation="relu").bytes(**setting) == 83_886_080
        assert mlp_saved(activation="gelu").bytes(**setting) == 150_994_944

    def test_the_derivation_of_the_article(self):
        assert mlp_saved(activation="gelu").latex(e=2) == r"18 \, b \, s \, d"
        assert mlp_saved(activation="tanh").latex(e=2) == r"10 \, b \, s \, d"
        assert mlp_saved(activation="gelu", dropout=True).latex() == r"9 \, b \, s \, d \, e + b \, s \, d"
        assert mlp_saved(activation="gelu", dropout=0.1).expression.subs({"b": 2, "s": 3, "d": 5, "e": 2}) == 19 * 30

    @pytest.mark.parametrize("dropout", [None, False, 0, 0.0])
    def test_without_dropout_there_is_no_mask(self, dropout):
        assert list(mlp_saved(activation="gelu", dropout=dropout).by_term(b=1, s=1, d=1, e=4)) == [
            "input",
            "activation input",
            "down input",
        ]

    @pytest.mark.parametrize("name", ["leaky_relu_", "LeakyReLU_", "leakyrelu_"])
    def test_names_ignore_case_and_underscores(self, name):
        assert mlp_saved(activation=name) == mlp_saved(activation="LeakyReLU_") != mlp_saved(activation="LeakyReLU")

    @pytest.mark.parametrize("name", ["glu", "gelu_", "", "gello", None])
    def test_other_activations_are_refused(self, name):
        message = f"activation must be one whose backward is known: got {name!r}; one of CELU, CELU_, ELU"
        with pytest.raises(ValueError, match=message):
            mlp_saved(activation=name)

    def test_dropout_inside_of_an_in_place_form_is_refused(self):
        with pytest.raises(ValueError, match="activation must not be in place: got 'relu_'; try 'relu'."):
            mlp_saved_dropout_inside(activation="relu_")

    @pytest.mark.parametrize("dropout", [1, 1.0, -0.5, 7])
    def test_dropout_has_a_range(self, dropout):
        with pytest.raises(ValueError, match=rf"dropout must lie in \[0, 1\), .*: got dropout={dropout}"):
            mlp_saved(activation="gelu", dropout=dropout)

    def test_what_a_page_gets_of_every_activation(self):
        first, second, last = (Expression(text).tree() for text in ("b*s*d*e", "4*b*s*d*e", "b*s*d"))
        for name in ACTIVATIONS:
            terms = mlp_saved(activation=name, dropout=True).for_a_page()
            assert [term["size"] for term in terms] == [first, *[second] * (len(terms) - 2), last]
            assert [term["text"] for term in terms][0] == "b·s·d·e"
            assert all(term["why"] and term["name"] for term in terms)
