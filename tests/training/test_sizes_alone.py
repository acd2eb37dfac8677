"""What is built to know its sizes allocates nothing, and does not import torch's compiler."""

import subprocess
import sys

CODE = """
import sys, torch
from djgnn.graph import heterophilic_sbm
from djgnn.training.config import resolve
from djgnn.training.inputs import blank_djgnn
with torch.device("meta"):
    module = blank_djgnn(resolve("full", "g"), heterophilic_sbm(200))
assert all(p.is_meta for p in module.parameters())
print("torch._dynamo" in sys.modules)
"""


def test_sizes_of_all_experts_are_known_without_a_compiler():
    found = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
