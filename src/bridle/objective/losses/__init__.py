"""The losses, one class each, and their registry.

A loss is one class here, and one struct in core/losses.hpp if compiled steps are to know it. What
else solvers need to know of a loss are properties of the class, never its name.
"""

from __future__ import annotations

from bridle.objective.losses.base import VALUE_ROUNDINGS, Loss, inner, weighted_sum
from bridle.objective.losses.hinge import Hinge
from bridle.objective.losses.logistic import Logistic
from bridle.objective.losses.one_class import OneClass
from bridle.objective.losses.perceptron import PerceptronLoss
from bridle.objective.losses.piecewise import (
    EpsilonInsensitive,
    Huber,
    Pinball,
    SmoothedHinge,
    Squared,
    SquaredEpsilonInsensitive,
)
from bridle.objective.losses.squared_hinge import SquaredHinge
from bridle.objective.registry import add_installed, at

__all__ = [
    "LOSSES", "VALUE_ROUNDINGS", "EpsilonInsensitive", "Hinge", "Huber", "Logistic", "Loss",
    "OneClass", "PerceptronLoss", "Pinball", "SmoothedHinge", "Squared",
    "SquaredEpsilonInsensitive", "SquaredHinge", "inner", "loss_from", "weighted_sum",
]  # fmt: skip

LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        Hinge(), SquaredHinge(), PerceptronLoss(), Logistic(), SmoothedHinge(),
        EpsilonInsensitive(), SquaredEpsilonInsensitive(), Pinball(), Squared(), Huber(),
        OneClass(),
    )
}  # fmt: skip


def loss_from(loss: str | Loss) -> Loss:
    """A loss by its name, or the loss itself."""
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str):
        raise TypeError(f"loss must be a name or a Loss, got {type(loss).__name__}")
    if loss not in LOSSES:
        add_installed("bridle.losses", LOSSES, lambda place: at(place)())
    if loss not in LOSSES:
        known = ", ".join(map(repr, LOSSES))
        raise ValueError(
            f"unknown loss {loss!r}; known losses: {known}; one of your own is known by its name "
            f"once it is in bridle.objective.losses.LOSSES"
        )
    return LOSSES[loss]
