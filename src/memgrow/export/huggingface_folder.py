"""A model as a folder for the Hugging Face hub: what `Learner.load` reads, and a model card."""

from dataclasses import replace
from pathlib import Path

from memgrow.checkpoint import FORMAT, REHEARSAL, pack
from memgrow.export.model_card import model_card
from memgrow.export.new_folder import free_place, new_folder
from memgrow.folder_writer import write_file
from memgrow.learner import Learner
from memgrow.manifest import MANIFEST, Manifest
from memgrow.models import PretrainedSettings
from memgrow.models.pretrained.catalogue import public_name
from memgrow.storage import StoredFile, pack_json

CARD = "README.md"


def export_huggingface(learner: Learner, path: str | Path) -> None:
    """Write the model as a new folder that `upload_folder` and `Learner.load` take, earlier versions left out.

    Rows of data that its method keeps are left out too: a model on the hub is for everybody to read.
    The card is no part of the manifest: it is for people to write on.
    """
    place = free_place(path)
    card = model_card(learner, place.name)
    setup = replace(learner.setup, vectors=None)  # how a file of yours is called is nobody's business
    if isinstance(setup.model, PretrainedSettings):  # perhaps by a path, too
        setup = replace(setup, model=replace(setup.model, encoder=public_name(setup.model.encoder)))
    with new_folder(path, learner.folder) as folder:
        sums = {}
        files = pack(setup, learner.learnt)
        if REHEARSAL in files:
            files[REHEARSAL] = pack_json({})  # rows of your data are nobody's business either
        for name, content in files.items():
            assert not isinstance(content, StoredFile)  # as no earlier version was named
            sums[name] = write_file(folder / name, content)
        write_file(folder / MANIFEST, pack_json(Manifest(FORMAT, sums).to_json()))
        write_file(folder / CARD, card.encode())
