"""All that is changed in PyTorch while "cuda" means a simulated GPU, and put back after the last such one closes."""

from every_byte.gpu.compiling.following import follow_the_compiler
from every_byte.gpu.patches.replacing import Changes

from .data_parallel import note_data_parallel
from .default_type import default_to_cuda
from .devices import number_devices
from .extensions import flag_extensions
from .factories import make_old_types, make_on_cuda
from .files import keep_holes
from .flex import flag_flex_attention
from .foreign import stand_in_for_libraries
from .forks import note_forks
from .frames import end_tracebacks_at_the_program
from .generation import generate_all
from .generators import draw_on_cuda
from .kernels import follow_triton
from .library_calls import read_numbers
from .overwriting import keep_what_was_there
from .pinned import pin
from .processes import run_own_rank_here
from .profiling import profile_the_host_alone
from .ranks import pretend
from .recursion import go_as_deep
from .safetensors import keep_holes_in_safetensors
from .snapshots import leave_snapshots
from .spawned import open_in_spawned
from .stand_ins import offer_stand_ins
from .storages import hold_storages
from .tensors import move, say_cuda
from .threads import follow_threads
from .torch_cuda import answer_for_cuda

CUDA_GATES = Changes(
    [
        go_as_deep,
        number_devices,
        say_cuda,
        hold_storages,
        move,
        make_on_cuda,
        make_old_types,
        default_to_cuda,
        draw_on_cuda,
        answer_for_cuda,
        keep_holes,
        keep_holes_in_safetensors,
        keep_what_was_there,
        leave_snapshots,
        pretend,
        pin,
        follow_threads,
        note_forks,
        run_own_rank_here,
        open_in_spawned,
        end_tracebacks_at_the_program,
        profile_the_host_alone,
        follow_triton,
        flag_flex_attention,
        flag_extensions,
        stand_in_for_libraries,
        offer_stand_ins,
        generate_all,
        read_numbers,
        note_data_parallel,
        follow_the_compiler,
    ]
)
