"""npu tensors between processes: queues, pipes and arguments of `torch.multiprocessing`."""

from __future__ import annotations

import textwrap
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
from torch.multiprocessing import reductions

from tests.device.npu_process import run_on_npu
from tests.processes import run_python

# A child is forked before its parent opens the device, which takes no time. Both have one end of a pipe.
pytestmark = pytest.mark.slow  # each starts processes

PRELUDE = """
import os, signal
import torch
import torch.multiprocessing as mp

here, there = mp.Pipe()

def start(work):
    process = mp.get_context("fork").Process(target=work, args=(there,))
    process.start()
    return process

def finish(process):
    process.join(60)
    assert process.exitcode == 0, process.exitcode

def memory():
    return torch.npu.memory_allocated(), torch.npu.memory_reserved()
"""


def lines(code: str, **environment: str) -> list[str]:
    """What `code` prints in a process that has not opened the device yet."""
    return run_on_npu(PRELUDE + textwrap.dedent(code), **environment).lines()


class TestContents:
    def test_a_write_of_one_process_is_seen_by_the_other(self):
        code = """
            def work(pipe):
                x = pipe.recv()
                print(x.device, x.tolist(), flush=True)
                x.mul_(10)
                torch.npu.synchronize()
                pipe.send("done")
            child = start(work)
            x = torch.arange(3, device="npu")
            here.send(x)
            here.recv()
            print(x.tolist())
            finish(child)
            """
        assert lines(code) == ["npu:0 [0, 1, 2]", "[0, 10, 20]"]

    def test_work_that_is_queued_when_it_is_sent_is_seen(self):
        code = """
            def work(pipe):
                print(pipe.recv().sum().item(), flush=True)
            child = start(work)
            stream = torch.npu.Stream()
            with torch.npu.stream(stream):
                x = torch.zeros(1 << 20, device="npu")
                for _ in range(5):
                    x.add_(1)
                here.send(x)
            finish(child)
            """
        assert lines(code) == [str(5.0 * 2**20)]

    def test_queues(self):
        code = """
            context = mp.get_context("fork")
            tasks, results = context.Queue(), context.SimpleQueue()
            def work(_):
                for x in iter(tasks.get, None):
                    results.put(x + 1)
                tasks.get()  # results live as long as their process serves them
            child = start(work)
            for value in (1.0, 2.0):
                tasks.put(torch.full((2,), value, device="npu"))
            tasks.put(None)
            print([results.get().tolist() for _ in range(2)])
            tasks.put(None)
            finish(child)
            """
        assert lines(code) == ["[[2.0, 2.0], [3.0, 3.0]]"]

    def test_views_share_their_storage(self):
        code = """
            def work(pipe):
                whole, part = pipe.recv()
                part.fill_(7)
                print(whole.tolist(), part.stride(), part.storage_offset(), flush=True)
                again = pipe.recv()
                print(again.untyped_storage()._cdata == whole.untyped_storage()._cdata, flush=True)
            child = start(work)
            x = torch.zeros(2, 3, device="npu")
            here.send((x, x[:, 1]))
            here.send(x.t())
            finish(child)
            """
        assert lines(code) == ["[[0.0, 7.0, 0.0], [0.0, 7.0, 0.0]] (3,) 1", "True"]

    def test_the_one_who_sent_it_gets_the_same_storage_back(self):
        code = """
            def work(pipe):
                pipe.send(pipe.recv())
                pipe.recv()
            child = start(work)
            x = torch.zeros(3, device="npu")
            here.send(x)
            print(here.recv().data_ptr() == x.data_ptr(), torch.npu.memory_stats()["allocation.all.current"])
            here.send(None)
            finish(child)
            """
        assert lines(code) == ["True 1"]

    def test_parameters_leaves_and_storages(self):
        code = """
            def work(pipe):
                parameter, leaf, plain, storage, empty = pipe.recv()
                print(type(parameter).__name__, parameter.requires_grad, leaf.requires_grad, plain.requires_grad)
                print(type(storage).__name__, storage.device, storage.tolist())
                print(empty.shape, empty.device, flush=True)
            child = start(work)
            make = lambda **options: torch.ones(2, device="npu", **options)
            storage = torch.tensor([1, 2], dtype=torch.uint8, device="npu").untyped_storage()
            here.send((torch.nn.Parameter(make()), make(requires_grad=True), make(), storage, make()[:0].clone()))
            finish(child)
            """
        expected = ["Parameter True True False", "UntypedStorage npu:0 [1, 2]", "torch.Size([0]) npu:0"]
        assert lines(code) == expected

    def test_sparse_and_nested_tensors(self):
        code = """
            def work(pipe):
                coo, csr = pipe.recv()
                print(coo.device, coo.to_dense().tolist(), csr.to_dense().tolist(), flush=True)
            child = start(work)
            x = torch.eye(2, device="npu")
            here.send((x.to_sparse(), x.to_sparse_csr()))
            finish(child)
            """
        assert lines(code) == ["npu:0 [[1.0, 0.0], [0.0, 1.0]] [[1.0, 0.0], [0.0, 1.0]]"]

    def test_a_module_trains_in_the_other_process(self):
        code = """
            def work(pipe):
                model = pipe.recv()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
                model(torch.ones(1, 2, device="npu")).sum().backward()
                optimizer.step()
                torch.npu.synchronize()
            child = start(work)
            model = torch.nn.Linear(2, 1).npu()
            torch.nn.init.zeros_(model.weight)
            here.send(model)
            finish(child)
            print(model.weight.tolist())
            """
        assert lines(code) == ["[[-0.5, -0.5]]"]

    def test_devices_keep_their_number(self):
        code = """
            def work(pipe):
                print(pipe.recv().device, flush=True)
            child = start(work)
            here.send(torch.ones(1, device="npu:1"))
            finish(child)
            """
        assert lines(code, INDUCTOR_NPU_SIM_DEVICES="2") == ["npu:1"]


class TestLifetime:
    def test_it_outlives_the_sender_s_tensor_and_the_sender(self):
        code = """
            def work(pipe):
                x = torch.full((1000,), 3.0, device="npu")
                pipe.send(x)
                pipe.recv()
                del x
                pipe.send(memory()[0])
                pipe.recv()
                os.kill(os.getpid(), signal.SIGKILL)
            child = start(work)
            x = here.recv()
            here.send("got it")
            print(here.recv())
            here.send("die")
            child.join()
            print(child.exitcode, x.sum().item())
            """
        assert lines(code) == ["0", "-9 3000.0"]

    def test_each_process_counts_what_it_has_and_frees_it_at_once(self):
        code = """
            def work(pipe):
                x = pipe.recv()
                pipe.send(memory())
                x.add_(1)
                del x
                torch.npu.synchronize()
                torch.npu.empty_cache()
                pipe.send(memory())
                pipe.recv()
            child = start(work)
            x = torch.empty(5 << 20, dtype=torch.uint8, device="npu")
            here.send(x)
            print(here.recv(), memory()[0])
            print(here.recv(), memory()[0])
            del x
            torch.npu.empty_cache()
            print(memory())
            here.send(None)
            finish(child)
            """
        size = 5 * 2**20
        assert lines(code) == [f"({size}, {size}) {size}", f"(0, 0) {size}", "(0, 0)"]

    def test_the_host_gets_the_memory_back_when_the_last_one_lets_go(self):
        code = """
            def open_descriptors():
                links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
                return sum("memfd:npu" in os.readlink(link) for link in links if os.path.islink(link))
            def mappings():
                return open("/proc/self/maps").read().count("memfd:npu")
            def work(pipe):
                x = pipe.recv()
                pipe.send((open_descriptors(), mappings()))
                del x
                pipe.send((open_descriptors(), mappings()))
            child = start(work)
            x = torch.ones(1000, device="npu")
            here.send(x)
            print(here.recv(), here.recv())
            del x
            finish(child)
            print(open_descriptors(), mappings())
            """
        assert lines(code) == ["(1, 1) (0, 0)", "0 0"]

    def test_a_third_process_gets_it_from_the_second(self):
        code = """
            first, second = mp.Pipe()
            def pass_on(pipe):
                first.send(pipe.recv())
                pipe.recv()
            def work(pipe):
                second.recv().fill_(5)
                torch.npu.synchronize()
                pipe.send("done")
            child = start(pass_on)
            done_here, done_there = mp.Pipe()
            grandchild = mp.get_context("fork").Process(target=work, args=(done_there,))
            grandchild.start()
            x = torch.zeros(2, device="npu")
            here.send(x)
            done_here.recv()
            print(x.tolist())
            here.send(None)
            finish(child)
            finish(grandchild)
            """
        assert lines(code) == ["[5.0, 5.0]"]

    def test_the_limit_holds_for_what_is_received(self):
        code = """
            def work(pipe):
                torch.npu.set_per_process_memory_fraction(0.1)
                try:
                    pipe.recv()
                except torch.OutOfMemoryError as error:
                    print(str(error).partition(". npu")[0], flush=True)
            child = start(work)
            here.send(torch.empty(20 << 20, dtype=torch.uint8, device="npu"))
            finish(child)
            """
        assert lines(code, INDUCTOR_NPU_SIM_MEMORY="100MiB") == ["npu out of memory. Tried to allocate 20.00 MiB"]


class TestRefusals:
    def share(self, x: torch.Tensor) -> None:
        ForkingPickler.dumps(x.untyped_storage())

    def test_results_of_operators_with_gradients(self):
        x = torch.ones(2, device="npu", requires_grad=True) * 2
        with pytest.raises(RuntimeError, match="non-leaf tensor which requires_grad"):
            reductions.reduce_tensor(x)

    def test_memory_of_a_pool_whose_addresses_stay(self):
        with torch.npu.use_mem_pool(torch.npu.MemPool()):
            x = torch.ones(2, device="npu")
        with pytest.raises(RuntimeError, match=r"Send a clone\(\) of it"):
            self.share(x)

    def test_a_shared_storage_is_not_resized(self):
        x = torch.ones(2, device="npu")
        self.share(x)
        with pytest.raises(RuntimeError, match="not resizable"):
            x.resize_(1 << 20)

    def test_a_graph_that_reads_it_says_that_it_has_moved(self):
        x = torch.ones(1000, device="npu")
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            y = x * 2
        self.share(x)
        with pytest.raises(RuntimeError, match="freed"):
            graph.replay()
        assert y.numel() == 1000

    def test_a_device_that_the_other_process_lacks(self):
        code = """
            from inductor_npu.device import build
            def work(pipe):
                os.environ["INDUCTOR_NPU_SIM_DEVICES"] = "1"
                build.load().configure(**build.settings())
                try:
                    pipe.recv()
                except RuntimeError as error:
                    print(error, flush=True)
            child = start(work)
            here.send(torch.ones(1, device="npu:1"))
            finish(child)
            """
        (message,) = lines(code, INDUCTOR_NPU_SIM_DEVICES="2")
        assert message.startswith("npu device index 1 is out of range: there is one npu device")

    def test_events(self):
        with pytest.raises(TypeError, match=r"cannot pickle 'torch\.Event' object"):
            ForkingPickler.dumps(torch.npu.Event())


@pytest.mark.slow
def test_spawned_processes_take_them_as_arguments(tmp_path):
    (tmp_path / "worker.py").write_text(
        "import torch\ndef work(rank, x):\n    x[rank] = rank + 1\n    torch.npu.synchronize()\n"
    )
    finished = run_python(
        """
        import torch, worker
        if __name__ == "__main__":
            x = torch.zeros(2, device="npu")
            torch.multiprocessing.spawn(worker.work, args=(x,), nprocs=2)
            print(x.tolist())
        """,
        path=tmp_path,
        INDUCTOR_NPU_PROVIDER="simulator",
    )
    assert finished.lines() == ["[1.0, 2.0]"]
