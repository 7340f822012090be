from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
import torch
import torch.distributed as dist
from torch.nn import functional as F
from musicgen.model import PerformerConfig, PerformerLM
from musicgen.training.loop import shard_model
from musicgen.training.validation import gather_full

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
for pe in ("ape", "sine", "conv"):
    config = PerformerConfig(vocab_size=20, num_layers=2, num_heads=2, d_model=16, d_ff=24, num_features=8,
                             num_realizations=6, kernel_size=8, pe=pe)
    torch.manual_seed(0)
    alone, shared = PerformerLM(config).train(), PerformerLM(config).train()
    shared.load_state_dict(alone.state_dict())
    mesh = dist.device_mesh.init_device_mesh("cpu", (world,))
    shard_model(shared, mesh)
    tokens = torch.randint(20, (4, 31))
    optimizers = [torch.optim.Adam(model.parameters(), lr=1e-2) for model in (alone, shared)]
    for step in range(3):
        draw = alone.draw(step)
        rows = slice(2 * rank, 2 * rank + 2)
        for model, optimizer, part in zip((alone, shared), optimizers, (slice(0, 4), rows)):
            logits = model(tokens[part, :-1], draw, first_row=part.start)
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[part, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    theirs = dict(shared.named_parameters())
    for name, parameter in alone.named_parameters():
        torch.testing.assert_close(gather_full(theirs[name].detach()), parameter.detach(), rtol=1e-4, atol=1e-5)
    held = sum(parameter.to_local().numel() for parameter in shared.parameters())
    assert held < 0.6 * sum(parameter.numel() for parameter in alone.parameters()), held
if rank == 0:
    print("the same")
dist.destroy_process_group()
"""


def test_a_model_in_parts_trains_as_the_whole_model(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(tmp_path / "script.py")]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "the same" in done.stdout
