"""Model files and checkpoints whose checksums are right and whose content is not."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import bridle
import numpy as np
from bridle.data import read_svmlight
from bridle.models.storage import load_model
from bridle.solving.checkpoint import Checkpoint
from bridle.solving.stopping import Epochs

from fuzz.mutations import mutated_container
from fuzz.outcome import Outcome, refused_by

OLD = Path(__file__).parent.parent / "tests" / "files_of_0_1_0"
WORDS = [["the", "dog", "barks"], ["a", "cat"]]
SEQUENCES = [[{"w": 1.0}, {"v": 1.0, "w": 0.5}], [{"x": 1.0}]]


class Models:
    """Of every kind, as version 0.1.0 wrote them and as this one does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.X, y = read_svmlight(OLD / "three.svm")
        bridle.LinearSVC(sparse_coef=True).fit(self.X, y).save(folder / "sparse.model")
        bridle.SVC(decision_function_shape="ovo").fit(self.X, y).save(folder / "pairs.model")
        bridle.LinearSVC(probability="isotonic").fit(self.X, y).save(folder / "isotonic.model")
        files = [*sorted(OLD.glob("*.model")), *sorted(folder.glob("*.model"))]
        self.seeds = [file.read_bytes() for file in files]

    def make(self, rng: random.Random) -> dict[str, Any]:
        """Mutated."""
        return {"ending": ".model", "content": mutated_container(rng, rng.choice(self.seeds))}

    def use(self, given: dict[str, Any]) -> Outcome:
        """What does not load is refused by its name; what does can be used, or says why not."""
        path = self.folder / "input.model"
        path.write_bytes(given["content"])
        if refused_by(lambda: load_model(path), (bridle.ModelError,), path.name) == "refused":
            return "refused"
        refused_by(lambda: self._used(load_model(path)), (ValueError,))
        return "accepted"

    def _used(self, model: Any) -> None:
        str(model)
        if model.kind == "chain":
            model.predict(SEQUENCES)
        elif model.kind == "tree":
            model.predict(WORDS)
        elif model.kind in ("linear", "kernel", "ranking", "multilabel"):
            X = self.X if model.kind != "multilabel" else self.X.toarray()
            width = getattr(model, "n_features", X.shape[1])
            if width != X.shape[1] and width < 10**6:
                X = np.ones((3, width))
            self._decided(model, X)
        bridle.save_model(self.folder / "again.model", model)

    def _decided(self, model: Any, X: Any) -> None:
        if hasattr(model, "decision_function"):
            model.decision_function(X)
        if hasattr(model, "predict"):
            model.predict(X)
        if "calibrators" in getattr(model, "info", {}):
            model.predict_proba(X)


class Checkpoints:
    """A run goes on from one, for two epochs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        X, y = read_svmlight(OLD / "two.svm")
        self.problem = bridle.LinearProblem(X, y, bias="regularised")
        self.kept = folder / "kept"
        for name, solver in (("a", "dcd"), ("b", "pegasos"), ("c", "newton")):
            point = Checkpoint(folder / name, 1e9, False)
            bridle.solve(self.problem, solver, stop=Epochs(3), checkpoint=point)
        files = [OLD / "two.checkpoint", *(folder / name for name in "abc")]
        self.seeds = [file.read_bytes() for file in files]

    def make(self, rng: random.Random) -> dict[str, Any]:
        """Mutated."""
        content = mutated_container(rng, rng.choice(self.seeds))
        return {
            "content": content,
            "ending": ".checkpoint",
            "solver": rng.choice(["dcd", "pegasos", "newton"]),
        }

    def use(self, given: dict[str, Any]) -> Outcome:
        """Whatever the file says, what is certified is certified from the data."""
        path = self.folder / "input.checkpoint"
        path.write_bytes(given["content"])

        def go_on() -> None:
            found = bridle.solve(
                self.problem, given["solver"], stop=Epochs(2),
                checkpoint=Checkpoint(path, 1e9, True),
            )  # fmt: skip
            primal = self.problem.primal(found.w, found.b)
            assert np.isclose(found.certificate.primal, primal, rtol=1e-9)
            assert found.certificate.dual <= found.certificate.primal
            load_model(path)

        return refused_by(go_on, (ValueError,), path.name)
