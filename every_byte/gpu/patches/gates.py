"""All that is changed in PyTorch while a simulated GPU is open, and put back after the last of them closes."""

import sys

from every_byte.gpu.dispatch.autocast import cast_as_cuda

from .attention_order import answer_which_takes_it, heed_user_order
from .autocast import answer_as_cuda
from .autocast_elsewhere import say_where_nothing_is_cast
from .backward import WATCHING
from .chunked_losses import chunk_as_on_cuda
from .compiling import run_uncompiled
from .conversion import keep_parameters, keep_what_gets_data
from .copying import copy_storages
from .devices import accept_meta_in_fast_paths, accept_meta_in_optimizers
from .files import load_without_complaint, load_zeros
from .initialization import fill_on_meta
from .nested import treat_nested_as_on_cuda
from .old_constructors import make_sparse_of_parts
from .operators import override_operators
from .pools import refuse_pools
from .printing import show_zeros
from .pruning import know_what_is_left
from .randomness import fork_for_meta
from .recurrent import flatten_for_cudnn
from .repeating import compose_where_repeated
from .replacing import Changes, Undo
from .scripting import flag_scripted
from .unseen import pin_without_a_driver, see_resized_storages, see_what_tensor_makes
from .writing_by_index import write_without_reading


def _watch() -> Undo:
    WATCHING.open()
    return WATCHING.close


class _Gates(Changes):
    """Everything that is changed in PyTorch for the whole process; opened by the first GPU, closed by the last."""

    def open(self) -> None:
        if "torch.distributed.fsdp" in sys.modules:
            self.add_fsdp()
        super().open()

    def add_fsdp(self) -> None:
        """FSDP2 has been imported: it, too, is to take a simulated GPU for what it is."""
        from .fsdp import shard_on_meta

        if shard_on_meta not in self.changes:
            self.add(shard_on_meta)


GATES = _Gates(
    [
        override_operators,
        cast_as_cuda,
        answer_as_cuda,
        accept_meta_in_optimizers,
        accept_meta_in_fast_paths,
        keep_parameters,
        keep_what_gets_data,
        copy_storages,
        see_resized_storages,
        see_what_tensor_makes,
        show_zeros,
        load_zeros,
        load_without_complaint,
        pin_without_a_driver,
        flatten_for_cudnn,
        run_uncompiled,
        flag_scripted,
        fork_for_meta,
        fill_on_meta,
        _watch,
        heed_user_order,
        answer_which_takes_it,
        compose_where_repeated,
        say_where_nothing_is_cast,
        refuse_pools,
        chunk_as_on_cuda,
        write_without_reading,
        know_what_is_left,
        make_sparse_of_parts,
        treat_nested_as_on_cuda,
    ]
)
