"""Several models in one run: what each has is told apart, whatever wraps or holds them; one model keeps its paths."""

import copy
from collections import defaultdict

import pytest
import torch
from reported import of_a_gpt, reported
from torch import nn
from torch.utils.checkpoint import checkpoint

from every_byte.ledger.ledger import Ledger
from every_byte.step.training import Training
from utils import SimulatedGPU


class Net(nn.Module):
    def __init__(self, d: int = 64):
        super().__init__()
        self.first, self.last = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        return self.last(self.first(x).relu())


class Generator(Net):
    pass


class Discriminator(Net):
    pass


def by_name(ledger) -> dict[tuple[str, str], int]:
    """The requested bytes of each module and category."""
    found = defaultdict(int)
    for row in ledger.rows:
        found[row.module, row.category] += row.n_bytes
    return dict(found)


def modules_of(report) -> set[str]:
    return {row.module for row in report.account.rows} - {""}


def after_the_last(phase: str, report) -> Ledger:
    """Right after the last event of a phase: the models are still there."""
    last = max(i for i, event in enumerate(report.trace.events) if event.phase == phase and event.action == "alloc")
    return Ledger.at(report.trace, last + 1)


def trained(gpu, *models, d: int = 64):
    """Both models in one step, one behind the other, with a loss that is a module as well."""
    optimizer = torch.optim.AdamW([p for model in models for p in model.parameters()])
    for _ in range(2):
        x = torch.randn(32, d, device=gpu.device)
        for model in models:
            x = model(x)
        nn.MSELoss()(x, torch.zeros(32, d, device=gpu.device)).backward()
        optimizer.step()
    return []


# ---- whose is what


def test_two_models_with_equal_paths_have_their_own_bytes():
    alone = reported(lambda gpu: trained(gpu, Net(48).to(gpu.device), d=48))
    each = by_name(after_the_last("step", alone))
    both = reported(lambda gpu: trained(gpu, Generator(48).to(gpu.device), Discriminator(48).to(gpu.device), d=48))
    found = by_name(after_the_last("step", both))
    for category in ("parameters", "gradients", "optimizer state"):
        for part in ("first", "last"):
            assert each[part, category] > 0
            for model in ("Generator", "Discriminator"):
                assert found[f"{model}.{part}", category] == each[part, category]
            assert (part, category) not in found


def test_what_autograd_keeps_and_what_backward_makes_is_its_models():
    def program(gpu):
        return trained(gpu, Generator().to(gpu.device), Discriminator().to(gpu.device))

    report = reported(program)
    found = by_name(after_the_last("forward", report))
    assert {module: n_bytes for (module, category), n_bytes in found.items() if category == "activations"} == {
        "Generator": 32 * 256 * 4,  # what ReLU returns, which runs in no part
        "Discriminator.first": 32 * 64 * 4,  # what Generator.last returns
        "Discriminator": 32 * 256 * 4,
        "MSELoss": 32 * 64 * 4,
    }
    made = {report.trace.called(e.module) for e in report.trace.events if e.action == "alloc" and e.phase == "backward"}
    assert {"Generator.first", "Generator.last", "Discriminator.first", "Discriminator.last"} <= made


def test_one_model_and_its_loss_keep_the_paths():
    report = reported(lambda gpu: trained(gpu, Net().to(gpu.device)))
    assert report.trace.names is None
    assert modules_of(report) == {"first", "last"}
    assert of_a_gpt().trace.names is None


def test_nothing_recorded_changes():
    report = reported(lambda gpu: trained(gpu, Generator().to(gpu.device), Discriminator().to(gpu.device)))
    assert {"first", "last"} <= {event.module for event in report.trace.events}
    assert not any("Generator" in event.module for event in report.trace.events)


def test_models_of_one_class_are_named_by_the_programs_variables_or_by_number():
    def program(gpu):
        teacher, student = Net().to(gpu.device), Net().to(gpu.device)
        with Training(gpu):
            with torch.no_grad():
                teacher(torch.randn(32, 64, device=gpu.device))
            student(torch.randn(32, 64, device=gpu.device)).sum().backward()
            return trained(gpu, student)

    assert modules_of(reported(program)) >= {"Net (teacher).first", "Net (student).first"}
    unnamed = modules_of(reported(lambda gpu: trained(gpu, *[Net().to(gpu.device) for _ in range(3)])))
    assert unnamed >= {"Net.first", "Net (2).first", "Net (3).first"}


def test_a_variable_that_is_one_model_after_the_other_names_none():
    def program(gpu):
        models = [Net().to(gpu.device) for _ in range(2)]
        with Training(gpu):
            for model in models:
                model(torch.randn(8, 64, device=gpu.device))
            return trained(gpu, *models)

    assert modules_of(reported(program)) >= {"Net.first", "Net (2).first"}


def test_a_copy_that_is_never_called_is_a_model_of_its_own():
    def program(gpu):
        model = Net().to(gpu.device)
        ema = copy.deepcopy(model)
        trained(gpu, model)
        gpu.look_around()
        del ema
        return []

    found = by_name(after_the_last("step", reported(program)))
    assert found["Net.first", "parameters"] == found["Net (2).first", "parameters"] == 65 * 256 * 4
    assert ("Net (2).first", "gradients") not in found


# ---- what wraps and holds them


class Wrapper(nn.Module):
    """As DistributedDataParallel is, without a group of processes."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)


Wrapper.__name__ = "DistributedDataParallel"


def test_a_wrapper_is_what_it_wraps_and_its_inside_alone_is_no_other_model():
    def program(gpu):
        both = Wrapper(Generator().to(gpu.device)), Wrapper(Discriminator().to(gpu.device))
        trained(gpu, *both)
        both[0].module(torch.randn(8, 64, device=gpu.device))
        with Training(gpu):
            both[1].module(torch.randn(8, 64, device=gpu.device))
        return []

    names = {"Generator.first", "Generator.last", "Discriminator.first", "Discriminator.last"}
    assert modules_of(reported(program)) - {"Generator", "Discriminator", "MSELoss"} == names


def test_one_wrapped_model_that_is_also_called_alone_has_one_kind_of_path():
    def program(gpu):
        model = Wrapper(Net().to(gpu.device))
        with Training(gpu):
            with torch.no_grad():
                model.module(torch.randn(8, 64, device=gpu.device))
            return trained(gpu, model)

    assert {"module.first", "module.last"} <= modules_of(reported(program)) <= {"module.first", "module.last", "module"}


def test_models_that_one_module_holds_are_named_by_their_place_there():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.generator, self.discriminator = Net(), Net()

    def program(gpu):
        whole = Both().to(gpu.device)
        with Training(gpu):
            return trained(gpu, whole.generator, whole.discriminator)

    found = modules_of(reported(program))
    assert {"generator.first", "generator.last", "discriminator.first", "discriminator.last"} <= found
    assert not any("Net" in name or "Both" in name for name in found)


def test_what_a_checkpoint_runs_again_is_its_models():
    class Checkpointed(Net):
        def forward(self, x):
            return checkpoint(super().forward, x, use_reentrant=False)

    report = reported(lambda gpu: trained(gpu, Checkpointed().to(gpu.device), Generator().to(gpu.device)))
    made = {report.trace.called(e.module) for e in report.trace.events if e.action == "alloc" and e.phase == "backward"}
    assert {"Checkpointed.first", "Checkpointed.last", "Generator.first"} <= made


GAN = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
    def forward(self, x):
        return self.main(x)
def main():
    netG, netD = Net().to("cuda"), {second}.to("cuda")
    optimizers = [torch.optim.Adam(net.parameters()) for net in (netD, netG)]
    for _ in range(4):
        fake = netG(torch.randn(64, 256, device="cuda"))
        netD(fake.detach()).sum().backward()
        optimizers[0].step()
        netD(fake).sum().backward()
        optimizers[1].step()
main()
"""


@pytest.mark.nightly
def test_the_command_tells_them_apart_and_changes_nothing_by_looking(run):
    """To ask a function for its variables would keep what they hold, and change those that it has asked for itself."""
    alike = run(GAN.format(second="Net()"), "--steps", "0")
    assert "Net (netG).main." in alike.report
    assert "Net (netD).main." in alike.report
    another = "nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))"
    assert "Sequential.0 Linear" in run(GAN.format(second=another), "--steps", "0").report
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        exec(GAN.format(second="Net()"), {})
    assert alike.figures["peak"]["allocated_bytes"] == gpu.max_memory_allocated()
    assert alike.figures["peak"]["by_category"] == Ledger.at_peak(gpu.trace).parts
