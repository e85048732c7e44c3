"""The time of a training step beside transformers' Trainer with peft, on the same batches in one run.

    python -m research.decoder.speed --data DATA --out results/decoder/speed.json [--device cpu]

Both train LoRA of rank 8 on all linear layers of the same model, with fused Adam and bfloat16 where memgrow takes it.
Medians of the time between two steps are compared, of the processor where the device is cpu: other work on the machine
then has less of a part.
"""

import argparse
import json
import resource
import tempfile
import time
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, cast

import torch

from memgrow.data import Stream
from memgrow.data.batches import Batch, collate, encode, shuffled
from memgrow.data.text import Vocabulary
from memgrow.models import CausalModel
from memgrow.models.causal import joined
from memgrow.nn.device import derive
from research.decoder.__main__ import create, stream_of

STEPS = 8


def rows_of(batch: Batch) -> dict[str, torch.Tensor]:
    """What a collator of the Trainer hands on: the same rows, padded likewise, and the loss on replies alone."""
    rows = joined(batch)
    labels = rows.ids.clone()
    labels[:, : -rows.replied.shape[1]] = -100
    labels[:, -rows.replied.shape[1] :][~rows.replied] = -100
    ends = torch.stack(batch.lengths.chunk(2)).sum(0).unsqueeze(1)
    mask = torch.arange(rows.ids.shape[1]) < ends
    return {"input_ids": rows.ids, "attention_mask": mask.long(), "labels": labels}


def ours(data: Path, model: str, device: str, clock: Any) -> tuple[list[float], list[Batch], CausalModel]:
    from memgrow.methods.lora import LoRA

    stream = stream_of(data, 0)
    learner = create("lora", model, 0, device)
    times = [clock()]
    original = LoRA.after_step

    def after_step(self: Any, *given: Any) -> None:
        times.append(clock())
        if len(times) > STEPS + 1:
            raise KeyboardInterrupt

    LoRA.after_step = after_step  # type: ignore
    try:
        learner.learn(Stream(stream[:1]))
    except KeyboardInterrupt:
        pass
    finally:
        LoRA.after_step = original  # type: ignore
    train = learner.config.tokenize(stream[0].train)
    encoded = encode(train, Vocabulary())
    order = shuffled(encoded, learner.training.batch, derive(derive(0, "stage", 0), "order", 0), 0)
    batches = [collate(encoded, indices, torch.device("cpu")) for indices in order[: STEPS + 1]]
    assert learner.encoder is not None
    fresh = CausalModel.create(cast(Any, learner.settings), learner.encoder)
    return [after - before for before, after in pairwise(times[1:])], batches, fresh


def theirs(model: CausalModel, batches: list[Batch], device: str, clock: Any) -> list[float]:
    import peft
    from transformers import Trainer, TrainerCallback, TrainingArguments

    names = sorted({name.rpartition(".")[2] for name in model.encoder.linear_layers()})
    lora = peft.LoraConfig(r=8, lora_alpha=16, target_modules=names, task_type="CAUSAL_LM")
    adapted = peft.get_peft_model(model.encoder.backbone, lora)
    rows, times = [rows_of(batch) for batch in batches], [clock()]

    class Clock(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *given: Any, **named: Any) -> None:
            times.append(clock())

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=1,
            max_steps=len(rows),
            use_cpu=device == "cpu",
            bf16=not isinstance(model.encoder.autocast(), nullcontext),
            optim="adamw_torch_fused",
            learning_rate=5e-4,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            remove_unused_columns=False,
        )
        order = iter(range(len(rows)))
        trainer = Trainer(
            model=adapted,
            args=arguments,
            train_dataset=[{"number": number} for number in range(len(rows))],
            data_collator=lambda some: rows[next(order)],
            callbacks=[Clock()],
        )
        trainer.train()
    return [after - before for before, after in pairwise(times[1:])]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m research.decoder.speed", description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    given = parser.parse_args()
    clock = time.process_time if given.device == "cpu" else time.perf_counter
    own, batches, model = ours(given.data, given.model, given.device, clock)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    other = theirs(model.to(given.device), batches, given.device, clock)
    found = {
        "command": "python -m research.decoder.speed --data DATA --out results/decoder/speed.json",
        "device": given.device,
        "steps": [len(own), len(other)],
        "memgrow_seconds": round(median(own), 4),
        "trainer_peft_seconds": round(median(other), 4),
        "ratio": round(sum(own) / sum(other), 3),
        "peak_gb_of_memgrow": round(peak, 2),
        "threads": torch.get_num_threads(),
    }
    print(found)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
